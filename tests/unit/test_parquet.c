// Decoders of Parquet's encodings: known bytes, and bytes that lie. integration/test_parquet.py has whole files.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/sizes.h"
#include "block/block_gzip.h"
#include "block/block_parquet.h"
#include "block/block_snappy.h"
#include "parquet/binary.h"
#include "parquet/footer.h"
#include "parquet/values.h"

static struct error error;

static int set_up(void **state) {
    (void)state;
    error = (struct error){0};
    return 0;
}

// ---- Runs and differences ------------------------------------------------------------------------------------

static void runs_and_packed_bits(void **state) {
    (void)state;
    // From Parquet's description: 0 to 7 in 3 bits each; then four times 5.
    static const uint8_t bytes[] = {0x03, 0x88, 0xc6, 0xfa, 0x08, 0x05};
    struct rle rle = rle_open(bytes, sizeof bytes, 3);
    uint32_t values[13];
    assert_int_equal(rle_read(&rle, values, 13), 12);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(values[i], i);
    for (uint32_t i = 8; i < 12; i++)
        assert_int_equal(values[i], 5);
    uint64_t equal = 0;
    rle = rle_open(bytes, sizeof bytes, 3);
    assert_true(rle_count(&rle, 12, 5, &equal));
    assert_int_equal(equal, 5);
    assert_false(rle_count(&rle, 1, 5, &equal));
    uint32_t value = 0;
    rle = rle_open(bytes, sizeof bytes, 3);
    assert_int_equal(rle_run(&rle, &value), 0);
    assert_int_equal(rle_read(&rle, values, 9), 9);
    assert_true(rle_run(&rle, &value) == 3 && value == 5);
    rle_skip(&rle, 2);
    assert_int_equal(rle_read(&rle, values, 9), 1);
    assert_int_equal(rle_run(&rle, &value), 0);
}

static void runs_that_lie(void **state) {
    (void)state;
    static const uint8_t endless[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, cut[] = {0xff, 0x01, 0xaa},
                         none[] = {0x00}, sudden[] = {0x00, 7, 0x04, 7};
    uint32_t values[64];
    struct rle rle = rle_open(endless, sizeof endless, 1);
    assert_int_equal(rle_read(&rle, values, 64), 0);
    rle = rle_open(cut, sizeof cut, 1); // 127 groups, of which one byte is there
    assert_int_equal(rle_read(&rle, values, 64), 8);
    rle = rle_open(none, sizeof none, 8); // a run of no values
    assert_int_equal(rle_read(&rle, values, 1), 0);
    rle = rle_open(sudden, sizeof sudden, 8); // a run of no values, and one of two
    assert_int_equal(rle_run(&rle, values), 0);
    assert_int_equal(rle_read(&rle, values, 1), 0);
    rle = rle_open(cut, sizeof cut, 33);
    assert_int_equal(rle_read(&rle, values, 1), 0);
    rle = rle_open(NULL, 0, 1);
    assert_int_equal(rle_read(&rle, values, 1), 0);
}

static void differences(void **state) {
    (void)state;
    // From Parquet's description: 7, 5, 3, 1, 2, 3, 4, 5, with blocks of 128 in 4 groups.
    static const uint8_t bytes[] = {0x80, 0x01, 0x04, 0x08, 0x0e, 0x03, 2, 0, 0,   0,
                                    0xc0, 0x3f, 0,    0,    0,    0,    0, 0, 0x55};
    static const uint64_t wanted[] = {7, 5, 3, 1, 2, 3, 4, 5};
    uint64_t values[9];
    struct delta delta;
    assert_true(delta_open(&delta, bytes, sizeof bytes));
    assert_int_equal(delta_read(&delta, values, 9), 8);
    assert_memory_equal(values, wanted, sizeof wanted);
    assert_true(delta_open(&delta, bytes, sizeof bytes));
    assert_ptr_equal(delta_finish(&delta), bytes + sizeof bytes - 1);
    for (size_t cut = 0; cut < sizeof bytes - 1; cut++) {
        bool opened = delta_open(&delta, bytes, cut);
        assert_true(!opened || delta_read(&delta, values, 8) < 8);
    }
}

// ---- Values --------------------------------------------------------------------------------------------------

static int read_all(const struct parquet_type *type, int32_t encoding, const uint8_t *bytes, uint64_t count,
                    const struct parquet_dictionary *dictionary, uint8_t *to, uint64_t all) {
    struct parquet_values values;
    int err = parquet_values_open(&values, type, encoding, bytes, count, all, dictionary, &error);
    return err ? err : parquet_values_read(&values, to, all, &error);
}

static void values_of_a_dictionary(void **state) {
    (void)state;
    static const uint8_t words[] = {1, 0, 0, 0, 2, 0, 0, 0}, indices[] = {1, 0x03, 0x0a},
                         wrong[] = {2, 0x03, 0x0a, 0};
    const struct parquet_type type = {PARQUET_INT32, 4, 1};
    const struct parquet_dictionary dictionary = {words, 2}, none = {0};
    uint8_t to[8];
    assert_int_equal(read_all(&type, PARQUET_RLE_DICTIONARY, indices, sizeof indices, &dictionary, to, 4), 0);
    assert_memory_equal(to, "\1\2\1\2", 4);
    assert_int_equal(read_all(&type, PARQUET_RLE_DICTIONARY, wrong, sizeof wrong, &dictionary, to, 4),
                     -EINVAL);
    assert_int_equal(read_all(&type, PARQUET_RLE_DICTIONARY, indices, sizeof indices, &none, to, 4), -EINVAL);
    assert_int_equal(read_all(&type, PARQUET_PLAIN, words, sizeof words, &none, to, 2), 0);
    assert_memory_equal(to, "\1\2", 2);
    assert_int_equal(read_all(&type, PARQUET_PLAIN, words, sizeof words, &none, to, 3), -EINVAL);
    assert_int_equal(read_all(&type, PARQUET_DELTA_LENGTH, words, sizeof words, &none, to, 3), -ENOTSUP);
    assert_int_equal(read_all(&type, PARQUET_BYTE_STREAM_SPLIT, words, sizeof words, &none, to, 3), -EINVAL);
}

static void values_that_share_prefixes(void **state) {
    (void)state;
    // "axis", "axle", "babble", "babyhood": prefixes of 0, 2, 0 and 3, then suffixes of 4, 2, 6 and 5.
    static const uint8_t bytes[] =
        "\x80\x01\x04\x04\x00\x03\x03\x00\x00\x00\x44\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "\x80\x01\x04\x04\x08\x03\x03\x00\x00\x00\x70\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
        "axislebabbleyhood";
    const uint64_t count = sizeof bytes - 1;
    static const char wanted[] = "axisaxlebabblebabyhood";
    for (size_t room = 0; room < 64; room++) {
        // What is touched beyond, a sanitizer sees.
        AUTO_FREE uint8_t *exact = malloc(max_u64(room, 1));
        assert_non_null(exact);
        bool fits = parquet_binary_join(bytes, count, 4, exact, room, &error) == 0;
        assert_int_equal(fits, room == sizeof wanted - 1);
        assert_true(!fits || memcmp(exact, wanted, room) == 0);
    }
    uint8_t to[sizeof wanted];
    assert_true(parquet_binary_join(bytes, count - 1, 4, to, sizeof wanted - 1, &error) < 0);
    assert_true(parquet_binary_join(bytes, count, 5, to, sizeof to, &error) < 0);
}

// ---- Codecs --------------------------------------------------------------------------------------------------

static void snappy_copies_overlap(void **state) {
    (void)state;
    // "ab", then 10 bytes from 2 back, then 4 more from 12 back.
    static const uint8_t stored[] = {16, 1 << 2, 'a', 'b', 9 << 2 | 2, 2, 0, 0 << 2 | 1, 12};
    uint8_t decoded[16];
    assert_int_equal(block_snappy_decode(stored, sizeof stored, decoded, sizeof decoded, &error), 0);
    assert_memory_equal(decoded, "abababababababab", 16);
    assert_int_equal(block_snappy_decode(stored, sizeof stored, decoded, 15, &error), -EBADMSG);
    for (size_t cut = 0; cut < sizeof stored; cut++) {
        // What is touched beyond, a sanitizer sees.
        AUTO_FREE uint8_t *exact = malloc(max_u64(cut, 1));
        assert_non_null(exact);
        memcpy(exact, stored, cut);
        assert_int_equal(block_snappy_decode(exact, cut, decoded, sizeof decoded, &error), -EBADMSG);
    }
}

static void snappy_that_lies(void **state) {
    (void)state;
    static const uint8_t before[] = {4, 0 << 2 | 1, 1}, far[] = {5, 0, 'a', 0 << 2 | 1, 2},
                         same[] = {5, 0, 'a', 0 << 2 | 1, 0};
    static const uint8_t large[] = {4, 63 << 2, 255, 255, 255, 255, 'a'},
                         endless[] = {255, 255, 255, 255, 255, 255};
    uint8_t decoded[8];
    assert_int_equal(block_snappy_decode(before, sizeof before, decoded, 4, &error), -EBADMSG);
    assert_int_equal(block_snappy_decode(far, sizeof far, decoded, 5, &error), -EBADMSG);
    assert_int_equal(block_snappy_decode(same, sizeof same, decoded, 5, &error), -EBADMSG);
    assert_int_equal(block_snappy_decode(large, sizeof large, decoded, 4, &error), -EBADMSG);
    assert_int_equal(block_snappy_decode(endless, sizeof endless, decoded, 4, &error), -EBADMSG);
    assert_int_equal(block_gzip_decode(large, sizeof large, decoded, 4, &error), -EBADMSG);
}

static void gzip_of_several_members(void **state) {
    (void)state;
    uint8_t stored[128], decoded[8];
    z_stream stream = {0};
    uint64_t used = 0;
    for (uint32_t i = 0; i < 3; i++) { // the second one is empty
        assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
        stream.next_in = (uint8_t *)(i ? "efgh" : "abcd");
        stream.avail_in = i == 1 ? 0 : 4;
        stream.next_out = stored + used;
        stream.avail_out = (uInt)(sizeof stored - used);
        assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
        used += stream.total_out;
        deflateEnd(&stream);
    }
    assert_int_equal(block_gzip_decode(stored, used, decoded, sizeof decoded, &error), 0);
    assert_memory_equal(decoded, "abcdefgh", sizeof decoded);
    for (uint64_t cut = 0; cut < used; cut++)
        assert_int_equal(block_gzip_decode(stored, cut, decoded, sizeof decoded, &error), -EBADMSG);
    stored[used] = 1; // no member
    assert_int_equal(block_gzip_decode(stored, used + 1, decoded, sizeof decoded, &error), 0);
    uint8_t more[9];
    assert_int_equal(block_gzip_decode(stored, used + 1, more, sizeof more, &error), -EBADMSG);
}

// ---- Pages ---------------------------------------------------------------------------------------------------

static void only_newer_pages_have_bare_levels(void **state) {
    (void)state;
    // 16 bytes, with the headers of both kinds: levels of 4 and 2 bytes, and the rest not compressed.
    static const uint8_t bytes[] = {0x15, 0,    0x15, 32, 0x15, 32,   0x2c, 0x15, 8, 0x15, 0, 0x15,
                                    6,    0x15, 6,    0,  0x3c, 0x55, 8,    0x15, 4, 0x12, 0, 0},
                         newer[] = {0x15, 6, 0x15, 32, 0x15, 32, 0x5c, 0x55, 8, 0x15, 4, 0x12, 0, 0};
    struct parquet_page page;
    assert_int_equal(parquet_page_read(newer, sizeof newer, &page, &error), 1);
    assert_true(page.kind == PARQUET_DATA_2 && page.def_bytes == 4 && page.rep_bytes == 2 &&
                !page.compressed);
    assert_int_equal(parquet_page_read(bytes, sizeof bytes, &page, &error), 1);
    assert_true(page.kind == PARQUET_DATA && page.values == 4 && page.header == sizeof bytes);
    assert_true(page.def_bytes == 0 && page.rep_bytes == 0 && page.compressed);
}

// ---- Blocks --------------------------------------------------------------------------------------------------

// A page of four values of INT32, without levels: its header is thrift's.
static const uint8_t four[] = {0x15, 0, 0x15, 32, 0x15, 32, 0x2c, 0x15, 8, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0,
                               1,    0, 0,    0,  2,    0,  0,    0,    3, 0,    0, 0,    4, 0,    0, 0};

static int decode(struct index_block block, uint8_t *decoded) {
    struct block_decoder decoder;
    assert_int_equal(block_decoder_open(&decoder, &error), 0);
    block.stored[0].bytes = sizeof four;
    block.codec = BLOCK_PARQUET;
    int err = block_decode(&decoder, &block, four, decoded, NULL, &error);
    block_decoder_close(&decoder);
    return err;
}

static void blocks_of_pages(void **state) {
    (void)state;
    uint8_t decoded[64];
    const struct index_block block = {.decoded = 8, .parameters = {BLOCK_PLAIN, PARQUET_INT32, 4, 2, 0}};
    assert_int_equal(decode(block, decoded), 0);
    assert_memory_equal(decoded, "\1\0\2\0\3\0\4\0", 8);
    // What a kept index may say.
    static const uint32_t wrong[][5] = {
        {BLOCK_PLAIN, PARQUET_INT32, 4, 8, 0},        // wider than it is stored
        {BLOCK_PLAIN, PARQUET_INT32, 8, 2, 0},        // not what an INT32 has
        {BLOCK_PLAIN, 99, 4, 2, 0},                   // no type
        {BLOCK_PLAIN, PARQUET_INT32, 0, 0, 0},        // values that differ in length
        {BLOCK_PLAIN, PARQUET_BOOLEAN, 0, 2, 0},      // wider than a bool
        {BLOCK_PLAIN, PARQUET_INT32, 4, 2, 1},        // with levels
        {BLOCK_PLAIN, PARQUET_INT32, 4, 2, 1u << 31}, // ... of repetition
        {BLOCK_SNAPPY, PARQUET_INT32, 4, 2, 0},       // compressed, without scratch memory
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct index_block lie = {.decoded = 8};
        memcpy(lie.parameters, wrong[i], sizeof wrong[i]);
        assert_true(decode(lie, decoded) < 0);
    }
    for (uint64_t bytes = 1; bytes < sizeof decoded; bytes++) {
        AUTO_FREE uint8_t *exact = malloc(bytes);
        assert_non_null(exact);
        struct index_block lie = block;
        lie.decoded = bytes;
        assert_int_equal(decode(lie, exact) == 0, bytes == 8);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(runs_and_packed_bits, set_up),
        cmocka_unit_test_setup(runs_that_lie, set_up),
        cmocka_unit_test_setup(differences, set_up),
        cmocka_unit_test_setup(values_of_a_dictionary, set_up),
        cmocka_unit_test_setup(values_that_share_prefixes, set_up),
        cmocka_unit_test_setup(snappy_copies_overlap, set_up),
        cmocka_unit_test_setup(snappy_that_lies, set_up),
        cmocka_unit_test_setup(gzip_of_several_members, set_up),
        cmocka_unit_test_setup(only_newer_pages_have_bare_levels, set_up),
        cmocka_unit_test_setup(blocks_of_pages, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

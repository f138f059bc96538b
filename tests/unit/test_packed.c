// Packed shards: what feedctl writes, the daemon opens as it was; and shards that lie, with the hashes that they need.
#include "base/packed.h"

#include <sys/mman.h>
#include <xxhash.h>

#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/pack_shard.h"
#include "daemon/source/build/index_writer.h"
#include "tests/unit/source_fixture.h"

#define KEYS "format = packed\npath = made-*.feed\n"

static const struct packed_field ragged = {.name = "text", .dtype = DTYPE_U16, .dimensions = 1, .ragged = 1};
static const struct packed_field small = {.name = "label", .dtype = DTYPE_I64};
static const struct packed_field large = {
    .name = "box", .dtype = DTYPE_F32, .dimensions = 2, .shape = {5, 2}};

static struct pack_shard start(const struct packed_field *fields, uint32_t count, uint32_t alignment) {
    struct pack_shard shard = {
        .name = "made", .fd = -1, .header = {.field_count = count, .alignment = alignment}};
    memcpy(shard.header.fields, fields, count * sizeof *fields);
    shard.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(shard.folder >= 0);
    assert_int_equal(pack_shard_begin(&shard, 0, 0, NULL), 0);
    return shard;
}

static void end(struct pack_shard *shard) {
    struct error error = {0};
    if (pack_shard_finish(shard, shard->header.samples, true, &error))
        fail_msg("%s", error.text);
    pack_shard_close(shard);
    close(shard->folder);
}

// Sample i has i % 7 values of text.
static void write_mixed(uint32_t samples, uint32_t alignment) {
    const struct packed_field fields[] = {ragged, small, large};
    struct pack_shard shard = start(fields, 3, alignment);
    for (uint32_t i = 0; i < samples; i++) {
        const int64_t label = i;
        uint16_t text[7];
        float box[10];
        for (uint32_t k = 0; k < 7; k++)
            text[k] = (uint16_t)(100 * i + k);
        for (uint32_t k = 0; k < 10; k++)
            box[k] = (float)(i + k);
        const struct pack_value values[] = {{text, i % 7 * 2}, {&label, 8}, {box, 40}};
        assert_int_equal(pack_shard_add(&shard, values, NULL), 0);
    }
    end(&shard);
}

static const struct index_extent *extents_of(const struct dataset *dataset, uint32_t column) {
    return (const struct index_extent *)(const void *)(dataset->index +
                                                       dataset->layout->columns[column].offset);
}

static void test_round_trip(void **state) {
    (void)state;
    for (uint32_t alignment = 1; alignment <= PACKED_MAX_ALIGNMENT; alignment *= 8) {
        write_mixed(50, alignment);
        struct dataset *dataset = open_good(KEYS);
        const struct dataset_layout *layout = dataset->layout;
        assert_int_equal(layout->samples, 50);
        assert_int_equal(layout->field_count, 3);
        assert_string_equal(layout->fields[0].name, "text");
        assert_true(layout->fields[0].ragged);
        assert_int_equal(layout->columns[0].bytes, 12);
        assert_int_equal(layout->fields[2].shape[0], 5);
        assert_int_equal(layout->columns[1].kind, COLUMN_VALUES);
        const int64_t *labels = (const void *)(dataset->index + layout->columns[1].offset);
        for (uint32_t i = 0; i < 50; i++) {
            uint16_t text[7];
            float box[10];
            const struct index_extent in_text = extents_of(dataset, 0)[i], in_box = extents_of(dataset, 2)[i];
            assert_int_equal(labels[i], i);
            assert_int_equal(in_text.bytes, i % 7 * 2);
            assert_int_equal(in_text.offset % alignment, 0);
            assert_int_equal(in_box.offset, in_text.offset + in_text.bytes);
            assert_int_equal(pread(dataset->fds[0], text, in_text.bytes, (off_t)in_text.offset),
                             in_text.bytes);
            for (uint32_t k = 0; k < i % 7; k++)
                assert_int_equal(text[k], (uint16_t)(100 * i + k));
            assert_int_equal(pread(dataset->fds[0], box, in_box.bytes, (off_t)in_box.offset), 40);
            assert_true(box[9] == (float)(i + 9));
        }
        dataset_unref(dataset);
    }
}

static void test_padded(void **state) {
    (void)state;
    write_mixed(50, 1);
    struct dataset *dataset = open_good(KEYS "pad.text = 4 7\n");
    assert_false(dataset->layout->fields[0].ragged);
    assert_int_equal(dataset->layout->fields[0].shape[0], 4);
    assert_int_equal(dataset->layout->columns[0].pad, 0x0007000700070007);
    dataset_unref(dataset);
    expect_refusal(KEYS "pad.label = 4\n", -EINVAL, "found no field of that name");
}

// Nothing is read but the headers, and of ragged fields the tables.
static void test_a_million_samples_open_at_once(void **state) {
    (void)state;
    const uint32_t samples = 1000000;
    uint8_t bytes[16] = {0};
    struct pack_shard shard = start(&ragged, 1, 1);
    for (uint32_t i = 0; i < samples; i++)
        assert_int_equal(pack_shard_add(&shard, &(struct pack_value){bytes, i % 8 * 2}, NULL), 0);
    end(&shard);
    uint64_t started_ns = monotonic_ns();
    struct dataset *dataset = open_good(KEYS);
    uint64_t ragged_ns = monotonic_ns() - started_ns;
    assert_int_equal(dataset->layout->samples, samples);
    assert_int_equal(extents_of(dataset, 0)[samples - 1].offset, PACKED_PAGE + 2 * 28 * (samples / 8) - 14);
    dataset_unref(dataset);

    shard = start(&small, 1, 1);
    for (uint32_t i = 0; i < samples; i++)
        assert_int_equal(pack_shard_add(&shard, &(struct pack_value){bytes, 8}, NULL), 0);
    end(&shard);
    started_ns = monotonic_ns();
    dataset = open_good(KEYS);
    uint64_t fixed_ns = monotonic_ns() - started_ns;
    assert_int_equal(dataset->layout->samples, samples);
    dataset_unref(dataset);
    print_message("opened a million samples in %.1f ms, of fixed size in %.2f ms\n", (double)ragged_ns / 1e6,
                  (double)fixed_ns / 1e6);
    assert_true(fixed_ns < NS_PER_S);
}

// ---- Shards that lie -------------------------------------------------------------------------------------------

static struct {
    struct packed_header header;
    uint8_t rest[4096];
} made;
static uint64_t made_bytes;

// Three samples of a ragged and a small field.
static void make(void) {
    const struct packed_field fields[] = {ragged, small};
    const uint32_t sizes[] = {4, 0, 2};
    struct pack_shard shard = start(fields, 2, 1);
    for (uint32_t i = 0; i < 3; i++) {
        const struct pack_value values[] = {{"abcd", sizes[i]}, {"12345678", 8}};
        assert_int_equal(pack_shard_add(&shard, values, NULL), 0);
    }
    end(&shard);
    AUTO_FCLOSE FILE *file = fopen(path_in_folder("made-00000.feed"), "rb");
    assert_non_null(file);
    made_bytes = fread(&made, 1, sizeof made, file);
    assert_int_equal(made_bytes, PACKED_PAGE + 6 + 16 + 24);
}

static void lie(const char *part) {
    struct packed_header *header = &made.header;
    if (header->table_offset >= PACKED_PAGE && header->table_offset < made_bytes)
        header->table_hash =
            XXH3_64bits((uint8_t *)&made + header->table_offset, made_bytes - header->table_offset);
    header->header_hash = packed_hash(header);
    write_file("made-00000.feed", &made, made_bytes);
    expect_refusal(KEYS, -EINVAL, part);
    make();
}

static void set_size(uint32_t sample, uint32_t bytes) {
    memcpy(made.rest + 6 + 4 * sample, &bytes, sizeof bytes);
}

static void test_tables_that_lie(void **state) {
    (void)state;
    make();
    set_size(1, 2);
    lie("found a table of samples that end at byte 4104, wanted them to end at 4102, where the table begins");
    set_size(2, 0);
    lie("found a table of samples that end at byte 4100, wanted them to end at 4102");
    set_size(0, 3);
    lie("found 3 bytes in field text of sample 0, wanted whole values of u16");
    set_size(0, UINT32_MAX - 1);
    lie("found 4294967294 bytes in field text of sample 0, wanted whole values of u16, 1 GiB at most");
}

static void test_headers_that_lie(void **state) {
    (void)state;
    struct packed_header *header = &made.header;
    make();
    header->samples = 0;
    lie("found 0 samples");
    header->samples = header->end_position = PACKED_SAMPLES + 1;
    lie("found 134217729 samples, wanted 1 to 134217728");
    header->samples = 4;
    lie("found a header that contradicts itself");
    header->samples = 2;
    lie("wanted a table of 24 at offset 4102 and nothing after it");
    header->table_offset = UINT64_MAX - 3;
    lie("wanted a table of 40 at offset 18446744073709551612 and nothing after it");
    header->table_offset = 8;
    lie("wanted a table of 40 at offset 8");
    header->alignment = 3;
    lie("found samples aligned to 3, wanted a power of two up to 4096");
    header->alignment = 0;
    lie("found samples aligned to 0");
    header->alignment = 8192;
    lie("found samples aligned to 8192");
    header->alignment = 4;
    lie("found a table of samples that end at byte 4104");
    header->field_count = 0;
    lie("found 0 fields");
    header->field_count = 17;
    lie("found 17 fields");
    header->field_count = 1;
    lie("found data after its 1 fields");
    header->reserved2[0] = 1;
    lie("found a header that contradicts itself");
}

static void test_fields_that_lie(void **state) {
    (void)state;
    struct packed_field *fields = made.header.fields;
    make();
    memset(fields[0].name, 'x', sizeof fields[0].name);
    lie("found a name that no field can have, for field 0");
    fields[1].name[0] = '/';
    lie("found a name that no field can have, for field 1");
    fields[1].name[20] = 'x';
    lie("found a name that no field can have, for field 1");
    memcpy(fields[1].name, fields[0].name, sizeof fields[0].name);
    lie("found two fields with the name text");
    fields[1].dtype = 16;
    lie("found a type that no field can have, for field label");
    fields[1].dimensions = 9;
    lie("found a type that no field can have, for field label");
    fields[1].ragged = 2;
    lie("found a type that no field can have, for field label");
    fields[1].shape[3] = 1;
    lie("found a type that no field can have, for field label");
    fields[1].dimensions = 1;
    lie("found a shape that no field can have, for field label");
    fields[1].dimensions = 2;
    fields[1].shape[0] = fields[1].shape[1] = 1ull << 33;
    lie("found a shape that no field can have, for field label");
    fields[0].shape[0] = 2;
    lie("found a shape that no field can have, for field text");
    fields[0].dimensions = 2;
    lie("found a shape that no field can have, for field text");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_padded),
        cmocka_unit_test(test_a_million_samples_open_at_once),
        cmocka_unit_test(test_tables_that_lie),
        cmocka_unit_test(test_headers_that_lie),
        cmocka_unit_test(test_fields_that_lie),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

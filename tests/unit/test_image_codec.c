// Encoded images: what the decoder promises besides the pixels, which the integration tests compare with Pillow's.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <malloc.h>

#include "base/sizes.h"
#include "daemon/image/arena.h"
#include "daemon/image/codec.h"
#include "daemon/image/exif.h"
#include "daemon/image/jpeg.h"
#include "daemon/image/jpeg_end.h"
#include "tests/unit/encoded_jpeg.h"

static struct image_decoder *decoder;

static struct image_request request_of(const struct bytes *bytes) {
    struct error error = {0};
    struct image_request request = {.channels = 3};
    assert_int_equal(image_read_header(bytes->at, bytes->count, &request.header, &error), 0);
    request.rect = (struct image_rect){0, 0, request.header.width, request.header.height};
    return request;
}

static int decode(const struct bytes *bytes, const struct image_request *request, struct image *pixels,
                  struct error *error) {
    *error = (struct error){0};
    return image_decode(decoder, bytes->at, bytes->count, request, pixels, NULL, error);
}

static void headers_are_read(void **state) {
    static struct bytes jpeg;
    (void)state;
    encode_sized(&jpeg, WIDTH, HEIGHT, 2, false);
    const struct image_header header = request_of(&jpeg).header;
    assert_int_equal(header.format, IMAGE_JPEG);
    assert_int_equal(header.width, WIDTH);
    assert_int_equal(header.height, HEIGHT);
    assert_int_equal(header.orientation, 1);
}

static void what_is_no_image_is_refused(void **state) {
    static const char text[] = "plain text";
    struct image_header header;
    struct error error;
    (void)state;
    assert_int_equal(image_read_header((const uint8_t *)text, 10, &header, &error), -ENOTSUP);
    assert_string_equal(
        error.text, "its bytes are not a JPEG, PNG or WebP image: they begin with 70 6c 61 69 6e 20 74 65");
    assert_int_equal(image_read_header((const uint8_t *)text, 0, &header, &error), -EBADMSG);
    assert_string_equal(error.text, "its image has no bytes");
}

// Whatever the bytes are cut to, there is an answer.
static void any_beginning_is_tolerated(void **state) {
    static struct bytes jpeg;
    struct image_header header;
    struct error error;
    (void)state;
    encode_sized(&jpeg, WIDTH, HEIGHT, 2, false);
    bool known = false;
    for (size_t count = 0; count < 700; count++) {
        int err = image_read_header(jpeg.at, count, &header, &error);
        assert_true(err == 0 || strncmp(error.text, "its ", 4) == 0);
        assert_false(known && err); // more bytes do not make it worse
        known = err == 0;
    }
    assert_true(known);
}

static uint8_t *frame(struct bytes *jpeg) {
    uint8_t *found = memmem(jpeg->at, jpeg->count, "\xff\xc0\x00\x11\x08", 5);
    assert_non_null(found);
    return found + 5;
}

static void sizes_are_bounded(void **state) {
    static struct bytes jpeg;
    struct image_header header;
    struct error error;
    (void)state;
    encode_sized(&jpeg, WIDTH, HEIGHT, 2, false);
    memcpy(frame(&jpeg), "\xff\x00\x11\x00", 4); // 4352 x 65280
    assert_int_equal(image_read_header(jpeg.at, jpeg.count, &header, &error), -EFBIG);
    assert_non_null(strstr(error.text, "4352 x 65280"));
    memcpy(frame(&jpeg), "\xff\xff\x00\x01", 4); // beyond what libjpeg decodes
    assert_int_equal(image_read_header(jpeg.at, jpeg.count, &header, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "65500"));
}

static void other_bytes_than_the_headers_are_refused(void **state) {
    static struct bytes jpeg;
    struct image pixels;
    struct error error;
    (void)state;
    encode_sized(&jpeg, WIDTH, HEIGHT, 2, false);
    const struct image_request request = request_of(&jpeg);
    encode_sized(&jpeg, WIDTH + 1, HEIGHT, 2, false);
    assert_int_equal(decode(&jpeg, &request, &pixels, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "204 x 101 pixels, wanted 203 x 101"));
    jpeg.at[0] = 0;
    assert_int_equal(decode(&jpeg, &request, &pixels, &error), -EBADMSG);
}

static void rectangles_outside_are_refused(void **state) {
    static const struct image_rect outside[] = {
        {0, 0, 0, 1},     {0, 0, 1, 0},      {WIDTH, 0, 1, 1},      {0, HEIGHT, 1, 1},
        {1, 0, WIDTH, 1}, {0, 1, 1, HEIGHT}, {UINT32_MAX, 0, 2, 1}, {5, 0, UINT32_MAX, 1}};
    static struct bytes jpeg;
    struct image pixels;
    struct error error;
    (void)state;
    encode_sized(&jpeg, WIDTH, HEIGHT, 2, false);
    struct image_request request = request_of(&jpeg);
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        request.rect = outside[i];
        assert_int_equal(decode(&jpeg, &request, &pixels, &error), -EINVAL);
    }
    request.rect = (struct image_rect){0, 0, 1, 1};
    request.channels = 2;
    assert_int_equal(decode(&jpeg, &request, &pixels, &error), -EINVAL);
}

// An image whose last scan comes again and again.
static void scans_are_bounded(void **state) {
    static struct bytes jpeg;
    struct image pixels;
    struct error error;
    (void)state;
    encode_sized(&jpeg, 16, 16, 2, true);
    struct image_request request = request_of(&jpeg);
    assert_int_equal(decode(&jpeg, &request, &pixels, &error), 0);
    size_t last = jpeg.count;
    while (memcmp(jpeg.at + last, "\xff\xda", 2) != 0)
        last--;
    const size_t length = jpeg.count - 2 - last;
    for (uint32_t i = 0; i < IMAGE_JPEG_MAX_SCANS; i++) {
        memmove(jpeg.at + jpeg.count - 2, jpeg.at + last, length);
        jpeg.count += length;
    }
    memcpy(jpeg.at + jpeg.count - 2, "\xff\xd9", 2);
    assert_int_equal(decode(&jpeg, &request, &pixels, &error), -EBADMSG);
    assert_string_equal(error.text, "its JPEG image cannot be decoded: more than 100 scans");
}

// After an error, and after images of other sizes, the decoder is as good as new.
static void a_decoder_is_used_again(void **state) {
    static struct bytes jpeg, broken;
    struct image pixels;
    struct error error;
    uint8_t first[3 * WIDTH];
    (void)state;
    encode_sized(&jpeg, WIDTH, HEIGHT, 2, false);
    encode_sized(&broken, WIDTH, HEIGHT, 2, true);
    struct image_request request = request_of(&jpeg);
    assert_int_equal(decode(&jpeg, &request, &pixels, &error), 0);
    memcpy(first, pixels.pixels, sizeof first);
    broken.count /= 2;
    assert_int_equal(decode(&broken, &request, &pixels, &error), -EBADMSG);
    assert_string_equal(error.text, "its JPEG image cannot be decoded: Premature end of JPEG file");
    const size_t before = mallinfo2().uordblks;
    for (uint32_t i = 0; i < 50; i++) {
        assert_int_equal(decode(&broken, &request, &pixels, &error), -EBADMSG);
        assert_int_equal(decode(&jpeg, &request, &pixels, &error), 0);
        assert_memory_equal(pixels.pixels, first, sizeof first);
    }
    assert_int_equal(mallinfo2().uordblks, before);
}

static bool has_end(const char *bytes, size_t count) {
    return image_jpeg_has_end((const uint8_t *)bytes, count);
}

static void ends_are_found(void **state) {
    (void)state;
    assert_true(has_end("\xff\xd9", 2));
    assert_true(has_end("ab\xff\xd9", 4));
    assert_true(has_end("ab\xff\xd9\xd9\xd9 behind it", 16));
    assert_false(has_end("\xff\xd9", 1));
    assert_false(has_end("\xd9\xd9", 2));
    assert_false(has_end("\xd9 \xff", 3));
    assert_false(has_end("", 0));
}

// Whichever rows are wanted, and wherever the bytes end.
static void missing_bytes_are_found(void **state) {
    static struct bytes jpeg;
    struct image pixels;
    struct error error;
    uint32_t refused = 0;
    (void)state;
    encode_sized(&jpeg, WIDTH, HEIGHT, 2, false);
    struct image_request all = request_of(&jpeg), above = all;
    above.rect = (struct image_rect){5, 0, 20, 3};
    const size_t whole = jpeg.count;
    for (; jpeg.count > 700; jpeg.count -= jpeg.count > whole - 40 ? 1 : 97) {
        const int err = decode(&jpeg, &all, &pixels, &error);
        refused += err == -EBADMSG;
        assert_int_equal(decode(&jpeg, &above, &pixels, &error), err);
        assert_true(err == 0 || jpeg.count < whole);
    }
    assert_true(refused > 30);
}

static uint32_t orientation_in(const uint8_t *exif, size_t count) {
    uint8_t jpeg[128] = {0xff, 0xd8, 0xff, 0xe1, 0, (uint8_t)(count + 2)};
    memcpy(jpeg + 6, exif, count);
    return exif_of_jpeg(jpeg, 6 + count);
}

static void broken_exif_counts_as_none(void **state) {
    static const uint8_t good[] = "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0";
    uint8_t exif[sizeof good];
    (void)state;
    assert_int_equal(orientation_in(good, sizeof good), 6);
    for (size_t count = 0; count < 26; count++)
        assert_int_equal(orientation_in(good, count), 1);
    for (size_t i = 0; i < sizeof good - 2; i++)
        for (uint32_t value = 0; value <= UINT8_MAX; value++) {
            memcpy(exif, good, sizeof good);
            exif[i] = (uint8_t)value;
            uint32_t found = orientation_in(exif, sizeof exif);
            assert_true(found >= 1 && found <= 8);
        }
}

static void an_arena_keeps_one_block(void **state) {
    struct image_arena arena = {0};
    (void)state;
    for (uint32_t round = 0; round < 3; round++) {
        for (size_t size = 1; size < 1000000; size = size * 3 + 1) {
            uint8_t *memory = image_arena_take(&arena, size);
            assert_non_null(memory);
            assert_int_equal((uintptr_t)memory % CACHE_LINE, 0);
            memset(memory, 1, size);
        }
        image_arena_reset(&arena);
    }
    const size_t total = arena.total;
    void *first = image_arena_take(&arena, total);
    assert_int_equal(arena.total, total); // without a new block
    image_arena_return(&arena, first);
    assert_ptr_equal(image_arena_take(&arena, 1), first);
    assert_null(image_arena_take(&arena, SIZE_MAX));
    image_arena_free(&arena);
}

static int open_decoder(void **state) {
    struct error error;
    (void)state;
    return image_decoder_open(&decoder, &error);
}

static int close_decoder(void **state) {
    (void)state;
    image_decoder_close(decoder);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers_are_read),
        cmocka_unit_test(what_is_no_image_is_refused),
        cmocka_unit_test(any_beginning_is_tolerated),
        cmocka_unit_test(sizes_are_bounded),
        cmocka_unit_test(other_bytes_than_the_headers_are_refused),
        cmocka_unit_test(rectangles_outside_are_refused),
        cmocka_unit_test(scans_are_bounded),
        cmocka_unit_test(a_decoder_is_used_again),
        cmocka_unit_test(ends_are_found),
        cmocka_unit_test(missing_bytes_are_found),
        cmocka_unit_test(broken_exif_counts_as_none),
        cmocka_unit_test(an_arena_keeps_one_block),
    };
    return cmocka_run_group_tests(tests, open_decoder, close_decoder);
}

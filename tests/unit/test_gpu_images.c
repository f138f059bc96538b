// Images that a GPU makes: what is believed of a JPEG before an engine gets it, and of a record before pixels are made
// of it.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>
// After stdio.h, which it needs.
#include <jpeglib.h>

#include "base/sizes.h"
#include "daemon/image/gpu_plan.h"
#include "daemon/image/jpeg.h"
#include "daemon/transfer/images.h"
#include "daemon/transfer/plain_jpeg.h"
#include "gpu/finish.h"

#define WIDTH  203u
#define HEIGHT 101u
#define PAGE   4096u

struct bytes {
    uint8_t at[200000];
    size_t count;
};

// `factor`: how many times the luminance is sampled per side; 0: grey.
static void encode(struct bytes *jpeg, int factor, bool progressive) {
    struct jpeg_compress_struct library;
    struct jpeg_error_mgr errors;
    uint8_t row[3 * WIDTH], *line = row, *out = jpeg->at;
    unsigned long count = sizeof jpeg->at;
    library.err = jpeg_std_error(&errors);
    jpeg_create_compress(&library);
    jpeg_mem_dest(&library, &out, &count);
    library.image_width = WIDTH;
    library.image_height = HEIGHT;
    library.input_components = factor ? 3 : 1;
    library.in_color_space = factor ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(&library);
    if (factor)
        library.comp_info[0].h_samp_factor = library.comp_info[0].v_samp_factor = factor;
    if (progressive)
        jpeg_simple_progression(&library);
    jpeg_start_compress(&library, TRUE);
    for (uint32_t y = 0; y < HEIGHT; y++) {
        for (uint32_t i = 0; i < sizeof row; i++)
            row[i] = (uint8_t)(i * 3 + y * y + (i * y >> 4));
        jpeg_write_scanlines(&library, &line, 1);
    }
    jpeg_finish_compress(&library);
    jpeg_destroy_compress(&library);
    assert_ptr_equal(out, jpeg->at);
    jpeg->count = count;
}

static struct image_record record_of(uint32_t sampling) {
    return (struct image_record){.kind = IMAGE_RECORD_JPEG,
                                 .sampling = sampling,
                                 .width = WIDTH,
                                 .height = HEIGHT,
                                 .image_width = WIDTH,
                                 .image_height = HEIGHT};
}

static bool is_plain(const struct bytes *jpeg, const struct image_record *record) {
    return plain_jpeg_is(jpeg->at, jpeg->count, record);
}

// ---- JPEGs -------------------------------------------------------------------------------------------------

static void plain_ones_are_what_their_records_say(void **state) {
    static const struct {
        int factor;
        uint32_t sampling;
    } kinds[] = {{0, IMAGE_SAMPLING_GREY}, {1, IMAGE_SAMPLING_444}, {2, IMAGE_SAMPLING_420}};
    static struct bytes jpeg;
    struct image_jpeg *library = NULL;
    (void)state;
    assert_int_equal(image_jpeg_open(&library, NULL), 0);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        struct image_jpeg_survey survey;
        encode(&jpeg, kinds[i].factor, false);
        assert_int_equal(image_jpeg_look(library, jpeg.at, jpeg.count, &survey, NULL), 0);
        assert_true(survey.plain);
        assert_int_equal(survey.sampling, kinds[i].sampling);
        for (uint32_t sampling = 0; sampling <= IMAGE_SAMPLING_420; sampling++) {
            const struct image_record record = record_of(sampling);
            assert_int_equal(is_plain(&jpeg, &record), sampling == kinds[i].sampling);
        }
    }
    image_jpeg_close(library);
}

static void other_ones_are_not(void **state) {
    static struct bytes jpeg, other;
    struct image_record record = record_of(IMAGE_SAMPLING_420);
    struct image_jpeg_survey survey;
    struct image_jpeg *library = NULL;
    (void)state;
    assert_int_equal(image_jpeg_open(&library, NULL), 0);
    encode(&jpeg, 2, true);
    assert_false(is_plain(&jpeg, &record));
    assert_int_equal(image_jpeg_look(library, jpeg.at, jpeg.count, &survey, NULL), 0);
    assert_false(survey.plain);
    encode(&jpeg, 2, false);
    assert_true(is_plain(&jpeg, &record));
    other = jpeg;
    other.count--; // without its end
    assert_false(is_plain(&other, &record));
    assert_int_equal(image_jpeg_look(library, other.at, other.count, &survey, NULL), 0);
    assert_false(survey.plain);
    other.count = jpeg.count + 1; // with something behind it
    assert_false(is_plain(&other, &record));
    other = jpeg;
    memcpy(other.at + other.count - 40, "\xff\xda", 2); // another scan
    assert_false(is_plain(&other, &record));
    record.image_width--;
    assert_false(is_plain(&jpeg, &record));
    record = record_of(IMAGE_SAMPLING_420);
    record.x = 16; // beyond the edge
    assert_false(is_plain(&jpeg, &record));
    record.width -= 32;
    assert_true(is_plain(&jpeg, &record));
    record.x = 15; // one more column of colours than its planes have
    assert_false(is_plain(&jpeg, &record));
    image_jpeg_close(library);
}

// Whatever the bytes are, nothing is read behind them.
static void nothing_is_read_behind_the_bytes(void **state) {
    static struct bytes jpeg;
    const struct image_record record = record_of(IMAGE_SAMPLING_420);
    const size_t room = align_up(sizeof jpeg.at, PAGE);
    uint8_t *memory = mmap(NULL, room + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t dice = 1;
    (void)state;
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory + room, PAGE, PROT_NONE), 0);
    encode(&jpeg, 2, false);
    for (size_t count = 0; count <= jpeg.count; count += count < 1000 ? 1 : 37) {
        uint8_t *bytes = memory + room - count;
        memcpy(bytes, jpeg.at, count);
        assert_int_equal(plain_jpeg_is(bytes, count, &record), count == jpeg.count);
        for (int i = 0; i < 20 && count; i++) {
            dice = dice * 1664525u + 1013904223u;
            bytes[(dice >> 8) % min_u64(count, 700)] = (uint8_t)dice;
            plain_jpeg_is(bytes, count, &record);
        }
    }
    munmap(memory, room + PAGE);
}

// ---- Batches -----------------------------------------------------------------------------------------------

#define SAMPLES 12u
#define SAMPLE  (IMAGE_RECORD_BYTES + 65536u)

static const struct ring_header ring_of_jpegs = {
    .slot_count = 1,
    .batch_size = SAMPLES,
    .field_count = 1,
    .slot_bytes = SAMPLES * SAMPLE,
    .fields = {{.sample_bytes = SAMPLE}},
};

static void put_image(uint8_t *slot, uint32_t sample, bool progressive, uint32_t image_width) {
    static struct bytes jpeg;
    struct image_record record = record_of(IMAGE_SAMPLING_420);
    encode(&jpeg, 2, progressive);
    assert_true(jpeg.count < SAMPLE - IMAGE_RECORD_BYTES);
    record.bytes = (uint32_t)jpeg.count;
    record.crop_width = record.result_width = record.part_width = record.width = image_width;
    record.crop_height = record.result_height = record.part_height = HEIGHT;
    memcpy(slot + sample * SAMPLE, &record, sizeof record);
    memcpy(slot + sample * SAMPLE + sizeof record, jpeg.at, jpeg.count);
}

static struct {
    uint8_t slot[SAMPLES * SAMPLE];
    struct ring_header pool_header;
    struct ring source, target;
    struct gpu_memory pool;
    struct images *images;
    struct gpu *gpu;
    gpu_stream stream;
    int fd;
} at;

static void open_images(bool tolerant) {
    struct error error = {0};
    at.pool_header = ring_of_jpegs;
    at.pool_header.fields[0].sample_bytes = SAMPLE - 64;
    at.source = (struct ring){.header = &ring_of_jpegs, .data = at.slot};
    at.target = (struct ring){.header = &at.pool_header};
    for (uint32_t i = 0; i < SAMPLES; i++)
        put_image(at.slot, i, false, WIDTH);
    assert_int_equal(gpu_open(&at.gpu, "HOST-0", &error), 0);
    assert_int_equal(gpu_stream_create(at.gpu, &at.stream, &error), 0);
    assert_int_equal(gpu_create(at.gpu, gpu_round_up(at.gpu, SAMPLES * SAMPLE), &at.pool, &at.fd, &error), 0);
    assert_true(images_wanted(&at.source, &at.target));
    assert_int_equal(
        images_open(&at.images, at.gpu, NULL, &at.source, &at.target, at.pool.address, tolerant, &error), 0);
}

static void close_images(void) {
    assert_int_equal(gpu_synchronize(at.gpu, NULL), 0);
    images_close(at.images);
    gpu_stream_destroy(at.gpu, at.stream);
    gpu_free(at.gpu, &at.pool);
    close_fd(&at.fd);
    gpu_close(at.gpu);
}

// A loader that has been taken over: the process, which has other users' pools, and the rest of the batch carry on.
static void what_nobody_can_decode_is_black(void **state) {
    const struct images_batch batch = {.count = SAMPLES};
    struct image_record records[SAMPLES];
    struct error error = {0};
    uint32_t place = 0;
    (void)state;
    open_images(true);
    struct images *images = at.images;
    put_image(at.slot, 1, true, WIDTH);
    put_image(at.slot, 2, false, WIDTH + 1); // more than there is
    assert_int_equal(images_begin(images, at.stream, &batch, &place, &error), 0);
    assert_true(images_are_decoded(images, place));
    assert_int_equal(images_end(images, place, &error), 1); // it does not take all of the process's time
    if (images_end(images, place, &error))
        fail_msg("%s", error.text);
    assert_true(images_have_room(images));
    assert_int_equal(gpu_synchronize(at.gpu, &error), 0);
    assert_int_equal(gpu_copy_out(at.gpu, records, at.pool.address, sizeof records, &error), 0);
    assert_int_equal(records[0].kind, IMAGE_RECORD_PLANES);
    assert_int_equal(records[1].kind, IMAGE_RECORD_NONE);
    assert_int_equal(records[2].kind, IMAGE_RECORD_NONE);
    assert_int_equal(images_count(images).by_library, SAMPLES - 2);
    assert_int_equal(images_count(images).refused, 2);
    close_images();
}

// With on_error = fail, that is the end of the pool, whichever half finds it.
static void a_feed_that_tolerates_nothing_is_told(void **state) {
    const struct images_batch batch = {.count = SAMPLES};
    const uint32_t no_kind = 77;
    uint32_t place = 0;
    int err;
    (void)state;
    for (int first_half = 0; first_half < 2; first_half++) {
        struct error error = {0};
        open_images(false);
        if (first_half)
            memcpy(at.slot + 5 * SAMPLE, &no_kind, sizeof no_kind);
        else
            put_image(at.slot, 5, true, WIDTH);
        err = images_begin(at.images, at.stream, &batch, &place, &error);
        if (!first_half)
            while ((err = images_end(at.images, place, &error)) > 0)
                continue;
        assert_int_equal(err, IMAGES_REFUSED);
        assert_non_null(strstr(error.text, "cannot be decoded for the GPU: "));
        assert_int_equal(images_count(at.images).refused, 1);
        close_images();
    }
}

// ---- Records -----------------------------------------------------------------------------------------------

#define AREA  20000u
#define SIDE  40u
#define TRIES 4000u

static uint32_t draw(uint32_t *dice, uint32_t most) {
    *dice = *dice * 1664525u + 1013904223u;
    return (*dice >> 4) % (most + 1);
}

static uint32_t draw_side(uint32_t *dice) {
    static const uint32_t sides[] = {0, 1, 3, 17, 100, 200, 65535, 65536, UINT32_MAX};
    return draw(dice, 1) ? sides[draw(dice, COUNT_OF(sides) - 1)] : draw(dice, 150);
}

static int32_t draw_offset(uint32_t *dice) {
    const uint32_t back = draw_side(dice);
    return (int32_t)(draw_side(dice) - back);
}

static struct image_record hostile(uint32_t *dice) {
    struct image_record record = {
        .kind = draw(dice, 4) ? IMAGE_RECORD_PLANES : draw(dice, 9),
        .sampling = draw(dice, 4),
        .flags = draw(dice, 15),
        .width = draw_side(dice),
        .height = draw_side(dice),
        .crop_x = draw_offset(dice),
        .crop_y = draw_offset(dice),
        .crop_width = draw_side(dice),
        .crop_height = draw_side(dice),
        .result_width = draw_side(dice),
        .result_height = draw_side(dice),
        .part_x = draw(dice, 3),
        .part_y = draw(dice, 3),
        .part_width = draw_side(dice),
        .part_height = draw_side(dice),
        .left = draw_side(dice),
        .top = draw_side(dice),
    };
    return record;
}

// Pixels lie right before memory that cannot be read, and right behind such memory.
static void no_record_makes_it_read_elsewhere(void **state) {
    const size_t room = align_up(AREA, PAGE);
    uint8_t *memory = mmap(NULL, room + 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static uint8_t table[FINISH_TABLE_BYTES], output[3 * SIDE * SIDE + 1];
    uint32_t dice = 7, made = 0;
    (void)state;
    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(mprotect(memory, PAGE, PROT_NONE), 0);
    assert_int_equal(mprotect(memory + PAGE + room, PAGE, PROT_NONE), 0);
    output[sizeof output - 1] = 0xA5;
    for (uint32_t i = 0; i < TRIES; i++) {
        const struct image_record record = hostile(&dice);
        const bool behind = draw(&dice, 1);
        const struct finish_batch batch = {
            .records = (uint64_t)(uintptr_t)&record,
            .pixels = (uint64_t)(uintptr_t)(behind ? memory + PAGE : memory + PAGE + room - AREA),
            .table = (uint64_t)(uintptr_t)table,
            .output = (uint64_t)(uintptr_t)output,
            .area = AREA,
            .count = 1,
            .width = SIDE,
            .height = SIDE,
            .channels = draw(&dice, 1) ? 3 : 1,
            .element_bytes = 1,
            .planes = draw(&dice, 1),
        };
        made += record.kind == IMAGE_RECORD_PLANES && image_record_fits(&record, AREA);
        finish_on_host(&batch);
    }
    assert_int_equal(output[sizeof output - 1], 0xA5);
    assert_true(made > 20);
    munmap(memory, room + 2 * PAGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_ones_are_what_their_records_say),
        cmocka_unit_test(other_ones_are_not),
        cmocka_unit_test(nothing_is_read_behind_the_bytes),
        cmocka_unit_test(what_nobody_can_decode_is_black),
        cmocka_unit_test(a_feed_that_tolerates_nothing_is_told),
        cmocka_unit_test(no_record_makes_it_read_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Images that a GPU makes: what is believed of a JPEG before an engine gets it, and of a record before pixels are made
// of it.
#include <sys/mman.h>

#include "base/sizes.h"
#include "daemon/image/gpu_plan.h"
#include "daemon/image/jpeg.h"
#include "daemon/transfer/plain_jpeg.h"
#include "gpu/finish.h"
#include "tests/unit/encoded_jpeg.h"

#define PAGE 4096u

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

static void what_an_engine_takes(void **state) {
    struct image_jpeg_survey survey = {
        .width = 4096, .height = 2048, .baseline = true, .regular_colours = true, .plain = true};
    (void)state;
    assert_int_equal(image_gpu_takes(&survey), IMAGE_GPU_FITS);
    survey.height++; // it takes the process too long
    assert_int_equal(image_gpu_takes(&survey), IMAGE_GPU_SIZE);
    survey.height = 15;
    assert_int_equal(image_gpu_takes(&survey), IMAGE_GPU_SIZE);
    survey.height = 16;
    assert_int_equal(image_gpu_takes(&survey), IMAGE_GPU_FITS);
    survey.plain = false;
    assert_int_equal(image_gpu_takes(&survey), IMAGE_GPU_ENDING);
    survey.regular_colours = false;
    assert_int_equal(image_gpu_takes(&survey), IMAGE_GPU_COLOURS);
    survey.baseline = false;
    assert_int_equal(image_gpu_takes(&survey), IMAGE_GPU_CODING);
}

// A record is believed only as far as that bound, and of a JPEG only what its header says.
static void a_small_part_of_a_huge_image_is_not_taken(void **state) {
    static struct bytes jpeg;
    static uint8_t planes[WIDTH * HEIGHT * 3];
    struct image_record record = record_of(IMAGE_SAMPLING_420);
    struct image_jpeg *library = NULL;
    struct error error = {0};
    (void)state;
    record.crop_width = record.result_width = record.part_width = WIDTH;
    record.crop_height = record.result_height = record.part_height = HEIGHT;
    assert_true(image_record_fits(&record, sizeof planes));
    record.image_width = 4096;
    record.image_height = 2048;
    assert_true(image_record_fits(&record, sizeof planes));
    record.image_width++;
    assert_false(image_record_fits(&record, sizeof planes));
    assert_int_equal(image_jpeg_open(&library, NULL), 0);
    encode(&jpeg, 2, false);
    assert_int_equal(image_jpeg_planes(library, jpeg.at, jpeg.count, &record, planes, &error), -EBADMSG);
    assert_non_null(strstr(error.text, "not the one that was planned for"));
    record = record_of(IMAGE_SAMPLING_420);
    assert_int_equal(image_jpeg_planes(library, jpeg.at, jpeg.count, &record, planes, &error), 0);
    image_jpeg_close(library);
}

// Where the coded pixels of a plain JPEG begin.
static size_t scan_of(const struct bytes *jpeg) {
    for (size_t i = 0; i + 3 < jpeg->count; i++)
        if (jpeg->at[i] == 0xFF && jpeg->at[i + 1] == 0xDA)
            return i + 2 + (size_t)(jpeg->at[i + 2] << 8 | jpeg->at[i + 3]);
    return jpeg->count;
}

// Coded pixels are checked many bytes at a time.
static void a_marker_is_found_anywhere_in_the_pixels(void **state) {
    static struct bytes jpeg, other;
    const struct image_record record = record_of(IMAGE_SAMPLING_420);
    (void)state;
    encode(&jpeg, 2, false);
    const size_t scan = scan_of(&jpeg), least = 1000;
    assert_true(scan + least < jpeg.count);
    memset(jpeg.at + scan, 0x11, jpeg.count - 2 - scan);
    assert_true(is_plain(&jpeg, &record));
    for (size_t i = scan; i + 4 <= jpeg.count; i++) {
        other = jpeg;
        memcpy(other.at + i, "\xff\xd3", 2); // a restart
        assert_true(is_plain(&other, &record));
        memcpy(other.at + i, "\xff\xc0", 2); // another frame
        assert_false(is_plain(&other, &record));
        memcpy(other.at + i, "\xff\xd9", 2); // an end
        assert_false(is_plain(&other, &record));
    }
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
        .flags = draw(dice, 127),
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
        cmocka_unit_test(what_an_engine_takes),
        cmocka_unit_test(a_small_part_of_a_huge_image_is_not_taken),
        cmocka_unit_test(a_marker_is_found_anywhere_in_the_pixels),
        cmocka_unit_test(nothing_is_read_behind_the_bytes),
        cmocka_unit_test(no_record_makes_it_read_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

// Batches whose images a transfer process has decoded: what becomes of those that nobody can decode, and of memory.

#include "base/sizes.h"
#include "base/time.h"
#include "daemon/transfer/images.h"
#include "gpu/gpu_host.h"
#include "tests/unit/encoded_jpeg.h"
// After jpeglib.h, which it needs.
#include <jerror.h>

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
    assert_int_equal(gpu_synchronize(at.gpu, &error), 0);
    assert_int_equal(gpu_copy_out(at.gpu, records, at.pool.address, sizeof records, &error), 0);
    assert_int_equal(records[0].kind, IMAGE_RECORD_PLANES);
    assert_int_equal(records[1].kind, IMAGE_RECORD_NONE);
    assert_int_equal(records[2].kind, IMAGE_RECORD_NONE);
    assert_int_equal(images_count(images).by_library, SAMPLES - 2);
    assert_int_equal(images_count(images).refused, 2);
    close_images();
}

// libjpeg finds no memory before this.
static uint64_t no_memory_until_ns;

JDIMENSION __real_jpeg_read_raw_data(j_decompress_ptr image, JSAMPIMAGE rows, JDIMENSION lines);
JDIMENSION __wrap_jpeg_read_raw_data(j_decompress_ptr image, JSAMPIMAGE rows, JDIMENSION lines);

// The linker puts it in place of libjpeg's.
JDIMENSION __wrap_jpeg_read_raw_data(j_decompress_ptr image, JSAMPIMAGE rows, JDIMENSION lines) {
    if (monotonic_ns() < no_memory_until_ns)
        ERREXIT1(image, JERR_OUT_OF_MEMORY, 0);
    return __real_jpeg_read_raw_data(image, rows, lines);
}

// Returns how many images are black.
static uint32_t end_without_memory_for(uint64_t ns) {
    const struct images_batch batch = {.count = SAMPLES};
    struct image_record records[SAMPLES];
    struct error error = {0};
    uint32_t place, black = 0;
    int err;
    assert_int_equal(images_begin(at.images, at.stream, &batch, &place, &error), 0);
    no_memory_until_ns = monotonic_ns() + ns;
    while ((err = images_end(at.images, place, &error)) > 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)NS_PER_MS}, NULL);
    assert_int_equal(err, 0);
    assert_int_equal(gpu_synchronize(at.gpu, &error), 0);
    assert_int_equal(gpu_copy_out(at.gpu, records, at.pool.address, sizeof records, &error), 0);
    for (uint32_t i = 0; i < SAMPLES; i++)
        black += records[i].kind == IMAGE_RECORD_NONE;
    return black;
}

// Others may give some back. A lack that is over does not shorten the patience with the next one.
static void memory_is_waited_for(void **state) {
    (void)state;
    open_images(true);
    assert_int_equal(end_without_memory_for(200 * NS_PER_MS), 0);
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = (long)(100 * NS_PER_MS)}, NULL);
    assert_int_equal(end_without_memory_for(1200 * NS_PER_MS), 0);
    assert_int_equal(images_count(at.images).by_library, 2 * SAMPLES);
    close_images();
}

static void memory_is_not_waited_for_indefinitely(void **state) {
    (void)state;
    open_images(true);
    const uint64_t began = monotonic_ns();
    assert_int_equal(end_without_memory_for(60 * NS_PER_S), SAMPLES);
    assert_in_range(monotonic_ns() - began, 2 * NS_PER_S, 20 * NS_PER_S);
    assert_int_equal(images_count(at.images).refused, SAMPLES);
    no_memory_until_ns = 0;
    close_images();
}

// A batch's copies of JPEGs stay where they are until it has been ended.
static void memory_is_not_used_again_too_early(void **state) {
    const struct images_batch batch = {.count = SAMPLES};
    struct error error = {0};
    uint32_t places[IMAGES_AT_ONCE], again;
    (void)state;
    open_images(true);
    for (uint32_t i = 0; i < IMAGES_AT_ONCE; i++) {
        assert_true(images_have_room(at.images));
        assert_int_equal(images_begin(at.images, at.stream, &batch, &places[i], &error), 0);
        for (uint32_t k = 0; k < i; k++)
            assert_int_not_equal(places[k], places[i]);
    }
    assert_int_equal(images_end(at.images, places[1], &error), 1); // there is more
    assert_false(images_have_room(at.images));
    assert_int_equal(images_end(at.images, places[1], &error), 0);
    assert_true(images_have_room(at.images));
    assert_int_equal(images_begin(at.images, at.stream, &batch, &again, &error), 0);
    assert_int_equal(again, places[1]);
    assert_false(images_have_room(at.images));
    close_images();
}

// Memory for JPEGs grows with the batches.
static void batches_of_any_size_find_memory(void **state) {
    const uint32_t counts[] = {1, SAMPLES, 0, SAMPLES};
    struct image_record records[SAMPLES];
    struct error error = {0};
    uint32_t place;
    (void)state;
    open_images(true);
    const uint64_t pinned = images_pinned_bytes(at.images);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const uint32_t bytes = SAMPLE - IMAGE_RECORD_BYTES; // what follows a JPEG's end does not matter
        memcpy(at.slot + i * SAMPLE + offsetof(struct image_record, bytes), &bytes, sizeof bytes);
    }
    for (uint32_t round = 0; round < COUNT_OF(counts); round++) {
        const struct images_batch batch = {.count = counts[round]};
        assert_int_equal(images_begin(at.images, at.stream, &batch, &place, &error), 0);
        while (images_end(at.images, place, &error) > 0)
            continue;
        assert_int_equal(gpu_synchronize(at.gpu, &error), 0);
        assert_int_equal(gpu_copy_out(at.gpu, records, at.pool.address, sizeof records, &error), 0);
        for (uint32_t i = 0; i < counts[round]; i++)
            assert_int_equal(records[i].kind, IMAGE_RECORD_PLANES);
    }
    assert_int_equal(images_count(at.images).by_library, 1 + 2 * SAMPLES);
    assert_true(images_pinned_bytes(at.images) >= pinned + SAMPLES * (SAMPLE - IMAGE_RECORD_BYTES));
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

// Private copies of JPEGs, larger than all else that is pinned here.
static void a_batch_whose_memory_cannot_be_pinned(void **state) {
    static const char *const faults[] = {"pin_most=600000", "pin_most=600000,pin_lacks=1"};
    const struct images_batch batch = {.count = SAMPLES};
    const uint32_t bytes = 65536;
    uint32_t place;
    (void)state;
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        struct error error = {0};
        assert_int_equal(setenv(GPU_HOST_FAULTS, faults[i], 1), 0);
        open_images(false);
        for (uint32_t k = 0; k < SAMPLES; k++)
            memcpy(at.slot + k * SAMPLE + offsetof(struct image_record, bytes), &bytes, sizeof bytes);
        assert_int_equal(images_begin(at.images, at.stream, &batch, &place, &error),
                         i ? PINNING_LACKS : POOL_REFUSED);
        assert_true(images_have_room(at.images));
        assert_int_equal(error.code, i ? -ENOMEM : -EIO);
        if (i)
            assert_int_equal(images_begin(at.images, at.stream, &batch, &place, &error), 0);
        close_images();
        assert_int_equal(unsetenv(GPU_HOST_FAULTS), 0);
    }
}

// A loader that has been taken over can write to the header of its ring that fields are images. A pool with ragged
// fields has less memory than its slots have bytes: nothing may be put where images of its slots would lie.
static void ragged_fields_are_never_images(void **state) {
    struct ring_header ragged = ring_of_jpegs;
    struct images *images = NULL;
    struct error error = {0};
    (void)state;
    ragged.fields[0].sample_bytes = SAMPLE - 64;
    ragged.ragged_count = 1;
    const struct ring source = {.header = &ring_of_jpegs, .data = at.slot}, target = {.header = &ragged};
    assert_int_equal(gpu_open(&at.gpu, "HOST-0", &error), 0);
    assert_true(images_wanted(&source, &target));
    assert_int_equal(images_open(&images, at.gpu, NULL, &source, &target, 0, true, &error), -EPROTO);
    assert_null(images);
    assert_int_equal(images_open(&images, at.gpu, NULL, &target, &source, 0, true, &error), -EPROTO);
    assert_null(images);
    gpu_close(at.gpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_nobody_can_decode_is_black),
        cmocka_unit_test(memory_is_waited_for),
        cmocka_unit_test(memory_is_not_waited_for_indefinitely),
        cmocka_unit_test(memory_is_not_used_again_too_early),
        cmocka_unit_test(batches_of_any_size_find_memory),
        cmocka_unit_test(a_feed_that_tolerates_nothing_is_told),
        cmocka_unit_test(a_batch_whose_memory_cannot_be_pinned),
        cmocka_unit_test(ragged_fields_are_never_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

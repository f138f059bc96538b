// What a transfer process takes from a loader that lies: records and JPEGs of a batch in a feed's ring (`decode gpu`).
// They are decoded by the simulated engine, and what that does not get or refuses by libjpeg, and then finished as in a
// consumer's process. Neither may write to a sample's neighbours in the pool, or read beyond its pixels.
//
// Input: a byte of flags (1: a process has died with the batch, 2: there is no engine), then for each sample a byte of
// flags (1: the record is not what was planned for the JPEG, 2: its pixels are said to be finished; from 16 on: EXIF's
// orientation), u16: how many bytes its JPEG has, these, and, with 1, a byte that says how many words of the record
// change: a byte for which, and a number.
#include "daemon/image/codec.h"
#include "daemon/image/gpu_plan.h"
#include "daemon/image/steps_fit.h"
#include "daemon/transfer/images.h"
#include "gpu/finish.h"
#include "tests/fuzz/fuzz.h"

#define SAMPLES     3u
#define RING_AREA   4096u
#define POOL_AREA   20480u
#define SIDE        16u // of what is delivered
#define MOST_PIXELS (1u << 20)
#define UNTOUCHED   0xA5

enum {
    AGAIN = 1,
    NO_ENGINE = 2,
    LIE = 1,
    FINISHED = 2
};

struct world {
    struct gpu *gpu;
    struct engine *engine;
    struct images *images[2]; // with the engine and without
    struct gpu_memory pool;
    struct ring_header source_header, pool_header;
    struct ring source, target;
    struct image_jpeg *jpeg;
    struct image_steps steps;
    uint8_t *slot;
};

// Without the thread: the queue is the engine itself.
void __wrap_engine_queue_submit(struct engine_queue *queue, struct engine_job *job);
void __wrap_engine_queue_submit(struct engine_queue *queue, struct engine_job *job) {
    struct engine *engine = (struct engine *)queue;
    job->prepare(job);
    job->err = engine_decode(engine, job->images, job->count, &job->error);
    atomic_store_explicit(&job->done, true, memory_order_relaxed);
}

static struct ring_header header_of(uint64_t area) {
    return (struct ring_header){.slot_count = 1,
                                .batch_size = SAMPLES,
                                .field_count = 1,
                                .slot_bytes = SAMPLES * (IMAGE_RECORD_BYTES + area),
                                .fields = {{.sample_bytes = IMAGE_RECORD_BYTES + area}}};
}

// As a transfer process and a loader keep it from batch to batch.
static void open_world(struct world *world) {
    static const struct image_stored stored = {.encoded = true};
    struct error error = {0};
    const char *rest;
    uint64_t address;
    int fd = -1;
    world->source_header = header_of(RING_AREA);
    world->pool_header = header_of(POOL_AREA);
    const uint64_t slot_bytes = align_up(world->source_header.slot_bytes, RING_PAGE);
    world->slot = mmap(NULL, slot_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FUZZ_CHECK(world->slot != MAP_FAILED && gpu_open(&world->gpu, "HOST-0", &error) == 0);
    FUZZ_CHECK(gpu_host_register(world->gpu, world->slot, slot_bytes, true, &address, &error) == 0);
    FUZZ_CHECK(engine_open(&world->engine, world->gpu, &error) == 0);
    const uint64_t bytes = gpu_round_up(world->gpu, world->pool_header.slot_bytes);
    FUZZ_CHECK(gpu_create(world->gpu, bytes, &world->pool, &fd, &error) == 0);
    close_fd(&fd);
    world->source = (struct ring){.header = &world->source_header, .data = world->slot};
    world->target = (struct ring){.header = &world->pool_header};
    for (uint32_t i = 0; i < 2; i++) {
        struct engine_queue *engine = i ? NULL : (struct engine_queue *)world->engine;
        FUZZ_CHECK(images_open(&world->images[i], world->gpu, engine, &world->source, &world->target,
                               world->pool.address, true, &error) == 0);
    }
    FUZZ_CHECK(image_jpeg_open(&world->jpeg, &error) == 0);
    FUZZ_CHECK(image_steps_parse("random_resized_crop 16, flip", &world->steps, &rest, &error) == 0);
    world->steps.channels = 3;
    FUZZ_CHECK(image_steps_fit(&world->steps, &stored, &error) == 0);
}

// ---- A loader, honest or not ---------------------------------------------------------------------------------

static void plan(struct world *world, const uint8_t *bytes, size_t count, uint64_t position, uint32_t exif,
                 struct image_record *record) {
    static struct image_plan made;
    const struct image_place place = {.position = position};
    struct image_header header = {.orientation = exif};
    struct image_jpeg_survey survey;
    uint32_t width = 0, height = 0;
    int err = image_jpeg_look(world->jpeg, bytes, count, &survey, NULL);
    header.width = survey.width;
    header.height = survey.height;
    image_oriented_size(&header, &width, &height);
    if (err == 0 && image_plan_make(&made, &world->steps, width, height, &place, NULL) == 0 &&
        image_gpu_plan(&made, &survey, *image_orientation(exif), POOL_AREA, record) == IMAGE_GPU_FITS)
        return;
    *record = (struct image_record){.kind = IMAGE_RECORD_JPEG, .width = SIDE, .height = SIDE};
    record->crop_width = record->result_width = record->part_width = record->image_width = SIDE;
    record->crop_height = record->result_height = record->part_height = record->image_height = SIDE;
}

// False: the JPEG is so large that it takes longer than it teaches.
static bool put_sample(struct world *world, struct fuzz_input *input, uint32_t number) {
    uint8_t *sample = world->slot + number * (IMAGE_RECORD_BYTES + RING_AREA);
    const uint8_t flags = fuzz_byte(input), *bytes;
    struct image_record record;
    uint32_t words[IMAGE_RECORD_BYTES / 4], width = 0, height = 0;
    const size_t count = fuzz_bytes(input, &bytes, min_u64(fuzz_u16(input), RING_AREA));
    plan(world, bytes, count, number, 1 + (flags >> 4) % 8, &record);
    record.bytes = (uint32_t)count;
    if (flags & FINISHED)
        record = (struct image_record){.kind = IMAGE_RECORD_PIXELS, .bytes = SIDE * SIDE * 3};
    memcpy(words, &record, sizeof words);
    for (uint32_t i = flags & LIE ? fuzz_byte(input) % 8 : 0; i > 0; i--) {
        const uint32_t word = fuzz_byte(input) % COUNT_OF(words);
        words[word] = (uint32_t)fuzz_number(input);
    }
    memcpy(sample, words, sizeof words);
    memcpy(sample + sizeof words, bytes, count);
    return image_jpeg_header(bytes, count, &width, &height, NULL) < 0 ||
           (uint64_t)width * height <= MOST_PIXELS;
}

// ---- The transfer process ------------------------------------------------------------------------------------

static void run(struct world *world, uint8_t flags) {
    struct images *images = world->images[flags & NO_ENGINE ? 1 : 0];
    const struct images_batch batch = {.count = SAMPLES, .without_engine = flags & AGAIN};
    struct error error = {0};
    uint32_t place = 0;
    int err;
    FUZZ_CHECK(images_have_room(images));
    // On the default stream, which does its work within the call.
    FUZZ_CHECK(images_begin(images, NULL, &batch, &place, &error) == 0 && images_are_decoded(images, place));
    while ((err = images_end(images, place, &error)) > 0)
        continue;
    FUZZ_CHECK(err == 0);
}

// Behind the planes that its record has, a sample's place is as it was.
static void check_places(const uint8_t *pool, const struct image_record *records) {
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const struct image_record *record = &records[i];
        const uint8_t *pixels = pool + SAMPLES * IMAGE_RECORD_BYTES + i * POOL_AREA;
        uint64_t used = POOL_AREA;
        FUZZ_CHECK(record->kind == IMAGE_RECORD_NONE || record->kind == IMAGE_RECORD_PLANES ||
                   record->kind == IMAGE_RECORD_PIXELS);
        if (record->kind == IMAGE_RECORD_PLANES)
            FUZZ_CHECK(image_record_fits(record, POOL_AREA) && image_record_plane_bytes(record) <= POOL_AREA);
        if (record->kind == IMAGE_RECORD_PIXELS)
            used = record->bytes;
        else if (image_record_fits(record, POOL_AREA))
            used = image_record_plane_bytes(record);
        for (uint64_t at = used; at < POOL_AREA; at++)
            FUZZ_CHECK(pixels[at] == UNTOUCHED);
    }
}

// Each sample lies in memory of its own, so that a sanitizer sees what is read beside it.
static void finish(const uint8_t *pool, const struct image_record *records) {
    static uint8_t table[3 * 256];
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint8_t *pixels AUTO_FREE = malloc(POOL_AREA);
        uint8_t *output AUTO_FREE = malloc(SIDE * SIDE * 3);
        FUZZ_CHECK(pixels && output);
        memcpy(pixels, pool + SAMPLES * IMAGE_RECORD_BYTES + i * POOL_AREA, POOL_AREA);
        const struct finish_batch batch = {.records = (uint64_t)(uintptr_t)&records[i],
                                           .pixels = (uint64_t)(uintptr_t)pixels,
                                           .table = (uint64_t)(uintptr_t)table,
                                           .output = (uint64_t)(uintptr_t)output,
                                           .area = POOL_AREA,
                                           .count = 1,
                                           .width = SIDE,
                                           .height = SIDE,
                                           .channels = 3,
                                           .element_bytes = 1};
        finish_on_host(&batch);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct world world;
    struct fuzz_input input = {data, size};
    struct image_record records[SAMPLES];
    bool small = true;
    if (!world.slot)
        open_world(&world);
    const uint8_t flags = fuzz_byte(&input);
    for (uint32_t i = 0; i < SAMPLES; i++)
        small &= put_sample(&world, &input, i);
    if (!small)
        return 0;
    uint8_t *pool = (uint8_t *)(uintptr_t)world.pool.address; // of a simulated GPU
    memset(pool, UNTOUCHED, world.pool_header.slot_bytes);
    run(&world, flags);
    memcpy(records, pool, sizeof records);
    check_places(pool, records);
    finish(pool, records);
    return 0;
}

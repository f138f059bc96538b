// A bare loop over the JPEG engine of a GPU: photographs that are in memory are decoded, batch after batch, with the
// calls that a transfer process makes; then the kernel that finishes images, by itself. Prints one line of JSON.
//
// bench_image_engine FOLDER TRANSFORM BATCH SECONDS [DEVICE]
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "base/time.h"
#include "bench/pinned_file.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/image/gpu_plan.h"
#include "daemon/image/steps_fit.h"
#include "daemon/loader/stage/image_table.h"
#include "daemon/transfer/engine.h"
#include "gpu/finish.h"

#define FILES_MOST 4096u
#define AREA       (GPU_IMAGE_PIXELS / 2 * 3)
#define FINISHES   20u

struct photograph {
    uint8_t *bytes;
    struct image_record record;
};

struct loop {
    struct gpu *gpu;
    struct engine *engine;
    gpu_stream stream;
    struct image_steps steps;
    struct transform transform;
    struct photograph *photographs;
    uint32_t count, batch, left_out;
    struct gpu_memory planes, output;
    uint8_t *host; // registered: the records of a batch, then the table
    uint64_t host_bytes;
    struct engine_image *images;
};

static void fail(const char *what) {
    fprintf(stderr, "bench_image_engine: %s\n", what);
    exit(EXIT_FAILURE);
}

static void check(int err, const struct error *error) {
    if (err)
        fail(error->text);
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void parse_steps(struct loop *loop, const char *text) {
    const struct image_stored stored = {.encoded = true};
    struct error error = {0};
    const char *rest;
    check(image_steps_parse(text, &loop->steps, &rest, &error), &error);
    check(image_steps_fit(&loop->steps, &stored, &error), &error);
    check(transform_parse(rest, &loop->transform, &error), &error);
    check(transform_fit_image(&loop->transform, loop->steps.height, loop->steps.width, loop->steps.channels,
                              &error),
          &error);
}

// What the engine cannot take is left out.
static void load(struct loop *loop, const char *folder, const char *name, struct image_jpeg *jpeg) {
    struct photograph *photograph = &loop->photographs[loop->count];
    struct image_jpeg_survey survey;
    struct image_plan plan;
    struct error error = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    size_t count = 0;
    check(pinned_file_read(loop->gpu, path, &photograph->bytes, &count, &error), &error);
    const struct image_place place = {.seed = 1, .position = loop->count};
    check(image_jpeg_look(jpeg, photograph->bytes, count, &survey, &error), &error);
    check(image_plan_make(&plan, &loop->steps, survey.width, survey.height, &place, &error), &error);
    if (image_gpu_plan(&plan, &survey, *image_orientation(1), AREA, &photograph->record) != IMAGE_GPU_FITS) {
        loop->left_out++;
        return;
    }
    photograph->record.bytes = (uint32_t)count;
    loop->count++;
}

static void load_all(struct loop *loop, const char *folder) {
    struct dirent **names;
    struct error error = {0};
    struct image_jpeg *jpeg = NULL;
    int files = scandir(folder, &names, NULL, alphasort);
    check(image_jpeg_open(&jpeg, &error), &error);
    loop->photographs = calloc(FILES_MOST, sizeof *loop->photographs);
    for (int i = 0; i < files && loop->photographs && loop->count < FILES_MOST; i++)
        if (names[i]->d_name[0] != '.')
            load(loop, folder, names[i]->d_name, jpeg);
    image_jpeg_close(jpeg);
    if (!loop->count)
        fail("wanted a folder with photographs");
}

static uint64_t output_bytes(const struct loop *loop) {
    return loop->transform.elements * dtype_bytes(loop->transform.target);
}

static void open_gpu(struct loop *loop, const char *device) {
    struct error error = {0};
    char uuid[GPU_UUID_BYTES];
    int fd;
    uint64_t address;
    engine_use_connections();
    check(gpu_resolve(device, uuid, &error), &error);
    check(gpu_open(&loop->gpu, uuid, &error), &error);
    check(engine_open(&loop->engine, loop->gpu, &error), &error);
    check(gpu_stream_create(loop->gpu, &loop->stream, &error), &error);
    check(gpu_create(loop->gpu, gpu_round_up(loop->gpu, (uint64_t)loop->batch * AREA), &loop->planes, &fd,
                     &error),
          &error);
    loop->host_bytes = align_up((uint64_t)loop->batch * IMAGE_RECORD_BYTES + FINISH_TABLE_BYTES, 4096);
    const uint64_t output = align_up(output_bytes(loop) * loop->batch, 4096);
    check(
        gpu_create(loop->gpu, gpu_round_up(loop->gpu, output + loop->host_bytes), &loop->output, &fd, &error),
        &error);
    loop->host = mmap(NULL, loop->host_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (loop->host == MAP_FAILED)
        fail("no memory");
    check(gpu_host_register(loop->gpu, loop->host, loop->host_bytes, false, &address, &error), &error);
    loop->images = calloc(loop->batch, sizeof *loop->images);
    if (!loop->images)
        fail("no memory");
}

static uint32_t decode(struct loop *loop, uint32_t first) {
    struct error error = {0};
    uint32_t decoded = 0;
    for (uint32_t i = 0; i < loop->batch; i++) {
        struct photograph *photograph = &loop->photographs[(first + i) % loop->count];
        loop->images[i] = (struct engine_image){.bytes = photograph->bytes,
                                                .record = &photograph->record,
                                                .to = loop->planes.address + (uint64_t)i * AREA};
    }
    check(engine_decode(loop->engine, loop->images, loop->batch, &error), &error);
    for (uint32_t i = 0; i < loop->batch; i++)
        decoded += loop->images[i].decoded;
    return decoded;
}

// Of what was decoded last, several times in a row: its share of a batch, in seconds.
static double finish(struct loop *loop, uint32_t first) {
    struct error error = {0};
    struct image_record *records = (struct image_record *)(void *)loop->host;
    uint64_t bytes = align_up(output_bytes(loop) * loop->batch, 4096), began = 0;
    for (uint32_t i = 0; i < loop->batch; i++) {
        records[i] = loop->photographs[(first + i) % loop->count].record;
        records[i].kind = IMAGE_RECORD_PLANES;
    }
    image_table_make(&loop->transform, loop->steps.channels, loop->host + loop->batch * sizeof *records);
    check(gpu_copy_in(loop->gpu, loop->stream, loop->output.address + bytes, loop->host, loop->host_bytes,
                      &error),
          &error);
    const struct finish_batch batch = {
        .records = loop->output.address + bytes,
        .pixels = loop->planes.address,
        .table = loop->output.address + bytes + loop->batch * sizeof *records,
        .output = loop->output.address,
        .area = AREA,
        .count = loop->batch,
        .width = loop->steps.width,
        .height = loop->steps.height,
        .channels = loop->steps.channels,
        .element_bytes = dtype_bytes(loop->transform.target),
        .planes = loop->transform.planes,
    };
    for (uint32_t i = 0; i <= FINISHES; i++) {
        check(gpu_finish(loop->gpu, loop->stream, &batch, &error), &error);
        if (i == 0 || i == FINISHES)
            check(gpu_synchronize(loop->gpu, &error), &error);
        if (i == 0)
            began = monotonic_ns();
    }
    return (double)(monotonic_ns() - began) / (double)NS_PER_S / FINISHES;
}

int main(int count, char **arguments) {
    struct loop loop = {0};
    uint64_t images = 0, rounds = 0;
    if (count < 5 || count > 6)
        fail("wanted FOLDER TRANSFORM BATCH SECONDS [DEVICE]");
    loop.batch = (uint32_t)strtoul(arguments[3], NULL, 10);
    parse_steps(&loop, arguments[2]);
    open_gpu(&loop, count == 6 ? arguments[5] : "cuda:0");
    load_all(&loop, arguments[1]);
    decode(&loop, 0);
    const double cpu = cpu_seconds(), seconds = strtod(arguments[4], NULL);
    const uint64_t begin = monotonic_ns(), end = begin + (uint64_t)(seconds * (double)NS_PER_S);
    uint64_t now = begin;
    for (; now < end; rounds++, now = monotonic_ns())
        images += decode(&loop, (uint32_t)(rounds * loop.batch % loop.count));
    const double used = cpu_seconds() - cpu, took = (double)(now - begin) / (double)NS_PER_S;
    const double kernel = finish(&loop, (uint32_t)((rounds - 1) * loop.batch % loop.count));
    printf("{\"images\":%" PRIu64 ",\"refused\":%" PRIu64
           ",\"left_out\":%u,\"images_per_second\":%.1f,\"cores\":%.3f,\"finish_ms\":%.4f}\n",
           images, rounds * loop.batch - images, loop.left_out, (double)images / took, used / took,
           kernel * 1e3);
    return EXIT_SUCCESS;
}

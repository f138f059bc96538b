// Compares what the JPEG engine of a GPU decodes with libjpeg-turbo: every plain JPEG of a folder, whole and in random
// parts as loaders choose them, all in one batch and then one by one. Prints each part that differs or is refused, and
// one line of JSON.
//
// bench_image_compare FOLDER [DEVICE [PARTS]]
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "bench/pinned_file.h"
#include "daemon/image/jpeg.h"
#include "daemon/transfer/engine.h"

#define GRID  16u
#define SHOWN 60u

struct part {
    char name[64];
    uint8_t *bytes; // the file's
    struct image_record record;
    uint64_t place;
};

struct comparison {
    struct gpu *gpu;
    struct engine *engine;
    struct image_jpeg *jpeg;
    struct part *parts;
    uint32_t count, parts_each;
    uint64_t bytes; // of all planes
    struct gpu_memory planes;
    struct engine_image *images;
    uint8_t *got, *wanted;
    uint64_t values, differ, sum, refused, shown;
    uint32_t most;
};

static void fail(const char *what) {
    fprintf(stderr, "bench_image_compare: %s\n", what);
    exit(EXIT_FAILURE);
}

static void check(int err, const struct error *error) {
    if (err)
        fail(error->text);
}

static uint32_t below(uint32_t count) {
    static uint32_t dice = 1;
    dice = dice * 1664525u + 1013904223u;
    return (dice >> 8) % count;
}

// From a multiple of GRID to another one, or to the end.
static void choose(uint32_t whole, uint32_t *begin, uint32_t *length) {
    const uint32_t first = below((uint32_t)divide_up(whole, GRID));
    const uint32_t blocks = 1 + below((uint32_t)divide_up(whole, GRID) - first);
    *begin = first * GRID;
    *length = (uint32_t)min_u64((first + blocks) * GRID, whole) - *begin;
}

static void add_parts(struct comparison *comparison, const char *name, uint8_t *bytes, size_t count) {
    struct image_jpeg_survey survey;
    struct error error = {0};
    check(image_jpeg_look(comparison->jpeg, bytes, count, &survey, &error), &error);
    for (uint32_t i = 0; survey.plain && i <= comparison->parts_each; i++) {
        struct part *part = &comparison->parts[comparison->count++];
        snprintf(part->name, sizeof part->name, "%.63s", name);
        part->bytes = bytes;
        part->record = (struct image_record){.kind = IMAGE_RECORD_JPEG,
                                             .bytes = (uint32_t)count,
                                             .sampling = survey.sampling,
                                             .width = survey.width,
                                             .height = survey.height,
                                             .image_width = survey.width,
                                             .image_height = survey.height};
        if (i) {
            choose(survey.width, &part->record.x, &part->record.width);
            choose(survey.height, &part->record.y, &part->record.height);
        }
        part->place = comparison->bytes;
        comparison->bytes += align_up(image_record_plane_bytes(&part->record), 256);
    }
}

static void load_all(struct comparison *comparison, const char *folder) {
    struct dirent **names;
    struct error error = {0};
    int files = scandir(folder, &names, NULL, alphasort);
    if (files < 3)
        fail("wanted a folder with JPEGs");
    comparison->parts = calloc((size_t)files * (comparison->parts_each + 1), sizeof *comparison->parts);
    for (int i = 0; i < files && comparison->parts; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        uint8_t *bytes = NULL;
        size_t count = 0;
        if (names[i]->d_name[0] == '.')
            continue;
        check(pinned_file_read(comparison->gpu, path, &bytes, &count, &error), &error);
        add_parts(comparison, names[i]->d_name, bytes, count);
    }
}

static void show(struct comparison *comparison, const struct part *part, const char *way, const char *what) {
    const struct image_record *record = &part->record;
    if (comparison->shown++ >= SHOWN)
        return;
    printf("%s, %s: sampling %u, %u x %u at %u, %u of %u x %u: %s\n", part->name, way, record->sampling,
           record->width, record->height, record->x, record->y, record->image_width, record->image_height,
           what);
}

static void compare(struct comparison *comparison, const struct part *part, const char *way) {
    const struct image_record *record = &part->record;
    struct error error = {0};
    const uint64_t bytes = image_record_plane_bytes(record);
    check(gpu_copy_out(comparison->gpu, comparison->got, comparison->planes.address + part->place, bytes,
                       &error),
          &error);
    check(image_jpeg_planes(comparison->jpeg, part->bytes, record->bytes, record, comparison->wanted, &error),
          &error);
    for (uint32_t i = 0; i < (record->sampling == IMAGE_SAMPLING_GREY ? 1 : 3); i++) {
        const struct image_plane plane = image_record_plane(record, i);
        uint32_t most = 0, differ = 0, first = UINT32_MAX;
        for (uint32_t k = 0; k < plane.width * plane.height; k++) {
            const int difference = comparison->got[plane.offset + k] - comparison->wanted[plane.offset + k];
            const uint32_t size = (uint32_t)abs(difference);
            most = size > most ? size : most;
            differ += size != 0;
            first = size && first == UINT32_MAX ? k : first;
            comparison->sum += size;
        }
        comparison->values += (uint64_t)plane.width * plane.height;
        comparison->differ += differ;
        comparison->most = most > comparison->most ? most : comparison->most;
        char text[128];
        snprintf(text, sizeof text, "plane %u differs by up to %u at %u places, the first %u, %u", i, most,
                 differ, first % plane.width, first / plane.width);
        if (differ)
            show(comparison, part, way, text);
    }
}

// A few parts at a time.
static void run(struct comparison *comparison, uint32_t batch, const char *way) {
    struct error error = {0};
    for (uint32_t first = 0; first < comparison->count; first += batch) {
        const uint32_t count = (uint32_t)min_u64(batch, comparison->count - first);
        for (uint32_t i = 0; i < count; i++)
            comparison->images[i] =
                (struct engine_image){.bytes = comparison->parts[first + i].bytes,
                                      .record = &comparison->parts[first + i].record,
                                      .to = comparison->planes.address + comparison->parts[first + i].place};
        check(engine_decode(comparison->engine, comparison->images, count, &error), &error);
        for (uint32_t i = 0; i < count; i++) {
            if (comparison->images[i].decoded) {
                compare(comparison, &comparison->parts[first + i], way);
                continue;
            }
            comparison->refused++;
            show(comparison, &comparison->parts[first + i], way, "refused");
        }
    }
}

int main(int count, char **arguments) {
    struct comparison comparison = {.parts_each = count > 3 ? (uint32_t)strtoul(arguments[3], NULL, 10) : 8};
    struct error error = {0};
    char uuid[GPU_UUID_BYTES];
    int fd;
    if (count < 2)
        fail("wanted FOLDER [DEVICE [PARTS]]");
    check(image_jpeg_open(&comparison.jpeg, &error), &error);
    check(gpu_resolve(count > 2 ? arguments[2] : "cuda:0", uuid, &error), &error);
    check(gpu_open(&comparison.gpu, uuid, &error), &error);
    check(engine_open(&comparison.engine, comparison.gpu, &error), &error);
    load_all(&comparison, arguments[1]);
    check(gpu_create(comparison.gpu, gpu_round_up(comparison.gpu, comparison.bytes), &comparison.planes, &fd,
                     &error),
          &error);
    comparison.images = calloc(comparison.count, sizeof *comparison.images);
    comparison.got = malloc(comparison.bytes);
    comparison.wanted = malloc(comparison.bytes);
    if (!comparison.images || !comparison.got || !comparison.wanted)
        fail("no memory");
    run(&comparison, 1, "alone");
    run(&comparison, comparison.count, "in a batch");
    printf("{\"parts\":%u,\"refused\":%" PRIu64 ",\"values\":%" PRIu64 ",\"differ\":%" PRIu64
           ",\"max_difference\":%u,\"mean_difference\":%.6f}\n",
           comparison.count, comparison.refused, comparison.values, comparison.differ, comparison.most,
           (double)comparison.sum / (double)max_u64(comparison.values, 1));
    return comparison.differ ? EXIT_FAILURE : EXIT_SUCCESS;
}

// A bare loop over encoded images: each file of a folder is opened, read and made into what a transform delivers, with
// the calls that a loader makes, in one thread. Prints one line of JSON.
//
// bench_image_limit FOLDER TRANSFORM SECONDS [FIRST]: begins with file number FIRST, the folder having been sorted
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/scope.h"
#include "base/time.h"
#include "daemon/loader/stage/image_stage.h"

#define FILE_MOST (16u << 20)

struct counts {
    uint64_t images, refused;
};

static void fail(const char *what) {
    fprintf(stderr, "bench_image_limit: %s\n", what);
    exit(EXIT_FAILURE);
}

static void refused(void *context, uint32_t i, const struct error *error) {
    (void)i;
    ((struct counts *)context)->refused++;
    fprintf(stderr, "bench_image_limit: %s\n", error->text);
}

static struct stage *open_stage(const char *text, struct dataset_image *image, struct transform *transform,
                                uint64_t *bytes) {
    struct error error = {0};
    struct stage *stage = NULL;
    const char *rest;
    *image = (struct dataset_image){.used = 1, .stored.encoded = true};
    int err = image_steps_parse(text, &image->steps, &rest, &error);
    if (!err)
        err = image_steps_fit(&image->steps, &image->stored, &error);
    if (!err)
        err = transform_parse(rest, transform, &error);
    const struct image_steps *steps = &image->steps;
    if (!err)
        err = transform_fit_image(transform, steps->height, steps->width, steps->channels, &error);
    *bytes = err ? 0 : transform->elements * dtype_bytes(transform->target);
    if (!err)
        err = image_stage_open(image, transform, *bytes, &stage, &error);
    if (err)
        fail(error.text);
    return stage;
}

static size_t read_file(const char *folder, const char *name, uint8_t *to) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd < 0 ? -1 : read(fd, to, FILE_MOST);
    if (bytes < 0)
        fail("cannot read a file");
    return (size_t)bytes;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

int main(int count, char **arguments) {
    struct dataset_image image;
    struct transform transform;
    struct dirent **names;
    uint64_t bytes;
    if (count != 4 && count != 5)
        fail("wanted FOLDER TRANSFORM SECONDS [FIRST]");
    int files = scandir(arguments[1], &names, NULL, alphasort);
    if (files < 3)
        fail("wanted a folder with files");
    struct stage *stage = open_stage(arguments[2], &image, &transform, &bytes);
    uint8_t *stored = malloc(FILE_MOST), *delivered = malloc(bytes);
    if (!stored || !delivered)
        fail("no memory");
    struct counts counts = {0};
    const double cpu = cpu_seconds();
    const uint64_t begin = monotonic_ns(),
                   end = begin + (uint64_t)(strtod(arguments[3], NULL) * (double)NS_PER_S);
    uint64_t now = begin;
    const int first = count == 5 ? (int)(strtoul(arguments[4], NULL, 10) % (unsigned)files) : 0;
    for (int i = first; now < end; i = (i + 1) % files, now = monotonic_ns()) {
        if (names[i]->d_name[0] == '.')
            continue;
        struct stage_run run = {.stored = stored,
                                .delivered = delivered,
                                .stored_bytes = read_file(arguments[1], names[i]->d_name, stored),
                                .delivered_bytes = bytes,
                                .count = 1,
                                .first_position = counts.images,
                                .refused = refused,
                                .context = &counts};
        stage->ops->run(stage, &run);
        counts.images++;
    }
    printf("{\"images\":%" PRIu64 ",\"refused\":%" PRIu64
           ",\"images_per_second\":%.1f,\"cpu_seconds\":%.4f}\n",
           counts.images, counts.refused, (double)counts.images * 1e9 / (double)(now - begin),
           cpu_seconds() - cpu);
    return EXIT_SUCCESS;
}

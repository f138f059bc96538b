// How long one core takes to resize an image, and to finish it: median microseconds for each instruction set, as JSON,
// one object per line. CPU time is measured, so that a busy machine matters less.
#include <time.h>

#include "bench/bench.h"
#include "daemon/image/finish.h"
#include "daemon/image/resize.h"

#define ROUNDS 9

struct settings {
    uint32_t from[2], to[2], filter, images;
    uint32_t
        kept; // the same box for all images, whose weights are made once; else another box for each image
};

struct work {
    const struct settings *settings;
    struct image_resizer *resizer;
    struct image source, result;
};

static double thread_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_size(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static struct image image_of(uint32_t width, uint32_t height) {
    struct image image = {.width = width, .height = height, .channels = 3, .stride = (size_t)width * 3};
    uint64_t state = 1;
    image.pixels = malloc(image.stride * height);
    if (!image.pixels)
        bench_die("memory", ENOMEM);
    for (size_t i = 0; i < image.stride * height; i++)
        image.pixels[i] = (uint8_t)bench_mix(&state);
    return image;
}

static void resize(struct work *work, uint32_t number) {
    const struct settings *settings = work->settings;
    // Boxes that differ by so little that the work is the same.
    double inset = settings->kept ? 0 : (1 + number % 1000) / 4096.0;
    struct image_resize resize = {
        .source_width = settings->from[0],
        .source_height = settings->from[1],
        .box = {inset, inset, settings->from[0], settings->from[1]},
        .width = settings->to[0],
        .height = settings->to[1],
        .filter = settings->filter,
        .part = {0, 0, settings->to[0], settings->to[1]},
    };
    struct image_rect all = {0, 0, settings->from[0], settings->from[1]};
    struct error error;
    if (image_resize_run(work->resizer, &resize, &work->source, all, &work->result, &error))
        bench_die(error.text, EINVAL);
}

static double resize_us(struct work *work) {
    double us[ROUNDS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const double begin = thread_us();
        for (uint32_t i = 0; i < work->settings->images; i++)
            resize(work, round * work->settings->images + i);
        us[round] = (thread_us() - begin) / work->settings->images;
    }
    qsort(us, ROUNDS, sizeof *us, by_size);
    return us[ROUNDS / 2];
}

static double finish_us(const struct work *work, uint32_t set, const struct image_finish *finish,
                        void *slot) {
    double us[ROUNDS];
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const double begin = thread_us();
        for (uint32_t i = 0; i < work->settings->images; i++)
            image_finish_run_with(set, finish, &work->result, slot);
        us[round] = (thread_us() - begin) / work->settings->images;
    }
    qsort(us, ROUNDS, sizeof *us, by_size);
    return us[ROUNDS / 2];
}

static void measure_finish(const struct work *work, uint32_t set) {
    static uint8_t table[3 * IMAGE_TABLE_VALUES * 4];
    AUTO_FREE void *slot = malloc(work->result.stride * work->result.height * 4);
    uint64_t state = 7;
    if (!slot)
        bench_die("memory", ENOMEM);
    for (size_t i = 0; i < sizeof table; i++)
        table[i] = (uint8_t)bench_mix(&state);
    for (uint32_t element = 1; element <= 4; element *= 2)
        for (uint32_t way = 0; way < 4; way++) {
            struct image_finish finish = {element == 1 ? NULL : table, element, way < 2, way & 1};
            const char *name = image_finish_run_with(set, &finish, &work->result, slot);
            if (name)
                printf("{\"finish\": \"%s\", \"element_bytes\": %u, \"planes\": %d, \"mirror\": %d, \"us\": "
                       "%.1f}\n",
                       name, element, finish.planes, finish.mirror, finish_us(work, set, &finish, slot));
        }
}

static _Noreturn void explain(void) {
    fprintf(
        stderr,
        "usage: %s [--from WIDTH HEIGHT] [--to WIDTH HEIGHT] [--filter 0|1|2] [--images N] [--kept 0|1]\n",
        program_invocation_short_name);
    exit(2);
}

static void parse(int argc, char **argv, struct settings *settings) {
    static const struct option options[] = {
        {"from", required_argument, NULL, 'f'},   {"to", required_argument, NULL, 't'},
        {"filter", required_argument, NULL, 'k'}, {"images", required_argument, NULL, 'n'},
        {"kept", required_argument, NULL, 'c'},   {0}};
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == '?')
            explain();
        uint32_t value = (uint32_t)bench_number(options[0].name, optarg);
        uint32_t *pair = option == 'f' ? settings->from : settings->to;
        if (option == 'k') {
            settings->filter = value;
        } else if (option == 'n') {
            settings->images = value;
        } else if (option == 'c') {
            settings->kept = value;
        } else {
            if (optind >= argc)
                explain();
            pair[0] = value;
            pair[1] = (uint32_t)bench_number("height", argv[optind++]);
        }
    }
    if (optind != argc || !settings->images)
        explain();
}

int main(int argc, char **argv) {
    struct settings settings = {
        .from = {500, 375}, .to = {224, 224}, .filter = IMAGE_BILINEAR, .images = 100};
    struct work work = {.settings = &settings};
    struct error error;
    const char *name;
    parse(argc, argv, &settings);
    if (image_resizer_open(&work.resizer, &error))
        bench_die(error.text, ENOMEM);
    work.source = image_of(settings.from[0], settings.from[1]);
    work.result = image_of(settings.to[0], settings.to[1]);
    for (uint32_t set = 0; (name = image_resizer_use(work.resizer, set)); set++) {
        printf("{\"resize\": \"%s\", \"us\": %.1f}\n", name, resize_us(&work));
        measure_finish(&work, set);
    }
    free(work.source.pixels);
    free(work.result.pixels);
    image_resizer_close(work.resizer);
    return 0;
}

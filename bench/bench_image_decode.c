// How fast photographs are decoded, in one thread: bench_image_decode [--rounds 5] [--most 512] FOLDER. For the whole
// image, for random crops as RandomResizedCrop takes them (8 to 100 % of the area), and for the same crops with
// `decode fast` for 224 x 224, it prints a line of JSON: images per CPU second by daemon/image/codec.h, and by a bare
// loop of the same calls of libjpeg-turbo, alternately; medians of the rounds.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
// After stdio.h, which it needs.
#include <jpeglib.h>
#include <math.h>
#include <sys/stat.h>

#include "base/sizes.h"
#include "bench/bench.h"
#include "daemon/image/codec.h"

#define MARGIN 16u
#define FAST   224u

enum way {
    WHOLE,
    CROP,
    QUICK,
    WAYS
};

struct photograph {
    uint8_t *bytes;
    size_t count;
    struct image_request request;
};

struct set {
    struct photograph *all;
    size_t count, room;
};

static double thread_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static _Noreturn void fail(const char *what, const char *why) {
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
    exit(1);
}

static void add(struct set *set, const char *folder, const char *name) {
    char path[4096];
    struct stat status;
    struct error error = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || set->count == set->room)
        return;
    struct photograph *photograph = &set->all[set->count];
    photograph->bytes = malloc((size_t)status.st_size + 1);
    photograph->count = (size_t)status.st_size;
    if (!photograph->bytes || read(fd, photograph->bytes, photograph->count) != status.st_size)
        fail(path, "cannot be read");
    if (image_read_header(photograph->bytes, photograph->count, &photograph->request.header, &error))
        fail(path, error.text);
    set->count++;
}

static double draw(uint64_t *state) {
    return (double)(bench_mix(state) >> 11) * 0x1p-53;
}

// RandomResizedCrop's, without its fallback: what does not fit is cut off.
static struct image_rect draw_rect(const struct image_header *header, uint64_t *state) {
    double area = header->width * (double)header->height * (0.08 + 0.92 * draw(state));
    double ratio = exp(log(3 / 4.) + draw(state) * (log(4 / 3.) - log(3 / 4.)));
    struct image_rect rect;
    rect.width = (uint32_t)max_u64(1, min_u64((uint64_t)sqrt(area * ratio), header->width));
    rect.height = (uint32_t)max_u64(1, min_u64((uint64_t)sqrt(area / ratio), header->height));
    rect.x = (uint32_t)(draw(state) * (header->width - rect.width + 1));
    rect.y = (uint32_t)(draw(state) * (header->height - rect.height + 1));
    return rect;
}

static void choose(struct set *set, enum way way, uint64_t seed) {
    uint64_t state = seed + 1;
    for (size_t i = 0; i < set->count; i++) {
        struct image_request *request = &set->all[i].request;
        const struct image_header *header = &request->header;
        request->channels = 3;
        request->rect = way == WHOLE ? (struct image_rect){0, 0, header->width, header->height}
                                     : draw_rect(header, &state);
        request->fast_width = request->fast_height = way == QUICK ? FAST : 0;
    }
}

static double measure_codec(const struct set *set, struct image_decoder *decoder) {
    const double begin = thread_seconds();
    for (size_t i = 0; i < set->count; i++) {
        const struct photograph *photograph = &set->all[i];
        struct image pixels;
        struct error error;
        if (image_decode(decoder, photograph->bytes, photograph->count, &photograph->request, &pixels, NULL,
                         &error))
            fail("codec", error.text);
    }
    return (double)set->count / (thread_seconds() - begin);
}

static uint32_t eighths(const struct image_request *request) {
    uint32_t n = request->fast_width ? 1 : 8;
    while (n < 8 && (request->rect.width * n < request->fast_width * 8 ||
                     request->rect.height * n < request->fast_height * 8))
        n *= 2;
    return n;
}

static void decode_bare(j_decompress_ptr library, const struct photograph *photograph, uint8_t *row) {
    const struct image_rect *rect = &photograph->request.rect;
    const uint32_t n = eighths(&photograph->request);
    jpeg_mem_src(library, photograph->bytes, photograph->count);
    jpeg_read_header(library, TRUE);
    library->out_color_space = JCS_RGB;
    library->scale_num = n;
    library->scale_denom = 8;
    jpeg_start_decompress(library);
    uint32_t first = rect->x * n / 8, above = rect->y * n / 8;
    const uint32_t end =
        (uint32_t)min_u64(((rect->x + rect->width) * n + 7) / 8 + MARGIN, library->output_width);
    const uint32_t below = (uint32_t)min_u64(((rect->y + rect->height) * n + 7) / 8, library->output_height);
    first = first > MARGIN ? first - MARGIN : 0;
    above = above > MARGIN ? above - MARGIN : 0;
    JDIMENSION width = end - first;
    if (width < library->output_width)
        jpeg_crop_scanline(library, &first, &width);
    if (above)
        jpeg_skip_scanlines(library, above);
    while (library->output_scanline < below)
        jpeg_read_scanlines(library, &row, 1);
    jpeg_abort_decompress(library);
}

static double measure_bare(const struct set *set) {
    static uint8_t row[3 * (IMAGE_MAX_SIDE + 1)];
    struct jpeg_decompress_struct library;
    struct jpeg_error_mgr errors;
    library.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&library);
    const double begin = thread_seconds();
    for (size_t i = 0; i < set->count; i++)
        decode_bare(&library, &set->all[i], row);
    const double seconds = thread_seconds() - begin;
    jpeg_destroy_decompress(&library);
    return (double)set->count / seconds;
}

static int by_size(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void measure(struct set *set, struct image_decoder *decoder, enum way way, uint64_t rounds) {
    static const char *const names[] = {"whole", "crop", "fast"};
    double codec[64], bare[64];
    for (uint64_t round = 0; round < rounds; round++) {
        choose(set, way, round);
        codec[round] = measure_codec(set, decoder);
        bare[round] = measure_bare(set);
    }
    qsort(codec, rounds, sizeof *codec, by_size);
    qsort(bare, rounds, sizeof *bare, by_size);
    printf(
        "{\"figure\": \"host.decode\", \"way\": \"%s\", \"images\": %zu, \"value\": %.0f, \"limit\": %.0f, "
        "\"ratio\": %.3f, \"unit\": \"images per CPU second\"}\n",
        names[way], set->count, codec[rounds / 2], bare[rounds / 2], codec[rounds / 2] / bare[rounds / 2]);
    fflush(stdout);
}

static _Noreturn void explain(void) {
    fprintf(stderr, "usage: %s [--rounds N] [--most N] FOLDER\n", program_invocation_short_name);
    exit(2);
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"rounds", required_argument, NULL, 'r'}, {"most", required_argument, NULL, 'm'}, {0}};
    uint64_t rounds = 5, most = 512;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;)
        if (option == 'r')
            rounds = bench_number("rounds", optarg);
        else if (option == 'm')
            most = bench_number("most", optarg);
        else
            explain();
    if (optind + 1 != argc || !rounds || rounds > 64 || !most)
        explain();
    struct set set = {.all = calloc(most, sizeof *set.all), .room = most};
    struct dirent **names;
    const int count = scandir(argv[optind], &names, NULL, alphasort);
    for (int i = 0; i < count && set.all; i++)
        add(&set, argv[optind], names[i]->d_name);
    struct image_decoder *decoder;
    struct error error;
    if (!set.count || image_decoder_open(&decoder, &error))
        fail(argv[optind], "no photographs");
    for (enum way way = WHOLE; way < WAYS; way++)
        measure(&set, decoder, way, rounds);
    image_decoder_close(decoder);
    return 0;
}

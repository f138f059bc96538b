// A bare loop over images that are decoded already: at random places of images in memory, in random order, 224 x 224
// pixels are copied into a small ring, as they are. One thread. Prints one line of JSON.
//
// bench_cache_limit [--images 2048] [--width 341] [--height 256] [--seconds 2]
#include <inttypes.h>
#include <sys/mman.h>

#include "bench/bench.h"

#define CROP     224u
#define CHANNELS 3u
#define SLOTS    128u // 19 MB, as a ring has

struct set {
    uint64_t images, width, height, bytes;
    double seconds;
    uint8_t *pixels;
    uint8_t *slots;
};

static void make(const struct set *set, uint64_t *state, uint8_t *to) {
    const uint8_t *image = set->pixels + bench_mix(state) % set->images * set->bytes;
    const uint64_t y = bench_mix(state) % (set->height - CROP + 1),
                   x = bench_mix(state) % (set->width - CROP + 1);
    const uint64_t stride = set->width * CHANNELS;
    const uint8_t *row = image + y * stride + x * CHANNELS;
    for (uint32_t i = 0; i < CROP; i++, row += stride, to += CROP * CHANNELS)
        memcpy(to, row, CROP * CHANNELS);
}

static uint8_t *memory(uint64_t bytes) {
    void *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
        bench_die("no memory", errno);
    memset(made, 1, bytes);
    return made;
}

static void parse(int count, char **arguments, struct set *set) {
    static const struct option options[] = {{"images", required_argument, NULL, 'i'},
                                            {"width", required_argument, NULL, 'w'},
                                            {"height", required_argument, NULL, 'h'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {0}};
    for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
        if (option == 'i')
            set->images = bench_number("images", optarg);
        else if (option == 'w')
            set->width = bench_number("width", optarg);
        else if (option == 'h')
            set->height = bench_number("height", optarg);
        else if (option == 's')
            set->seconds = strtod(optarg, NULL);
        else
            exit(2);
    }
    if (!set->images || set->width < CROP || set->height < CROP)
        bench_die("images are too small", EINVAL);
}

int main(int count, char **arguments) {
    struct set set = {.images = 2048, .width = 341, .height = 256, .seconds = 2};
    uint64_t state = 1, images = 0;
    parse(count, arguments, &set);
    set.bytes = set.width * set.height * CHANNELS;
    set.pixels = memory(set.images * set.bytes);
    set.slots = memory((uint64_t)SLOTS * CROP * CROP * CHANNELS);
    const double cpu = bench_cpu_seconds(RUSAGE_SELF);
    const uint64_t begin = bench_ns();
    uint64_t now = begin;
    for (; (double)(now - begin) < set.seconds * 1e9; now = bench_ns(), images++)
        make(&set, &state, set.slots + images % SLOTS * CROP * CROP * CHANNELS);
    printf("{\"images\":%" PRIu64 ",\"images_per_second\":%.1f,\"cpu_seconds\":%.4f}\n", images,
           (double)images * 1e9 / (double)(now - begin), bench_cpu_seconds(RUSAGE_SELF) - cpu);
    return 0;
}

// The file of a cache of decoded samples: whatever is written there, loaders take nothing from it that is not whole,
// read and write within the data, and write over nothing that they have taken.
//
// Input: how many places of a valid file are changed, those places, and then entries that are looked for or stored.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "shm/sample_cache.h"
#include "tests/fuzz/fuzz.h"

#define ENTRIES 6u
#define BYTES   (64u << 10)
#define SIDE    20u

static const struct sample_cache_key key = {1, 2};
static struct sample_cache_plan plan;
static uint8_t *whole; // a file with records of some entries

struct taken {
    struct sample_cached cached;
    uint32_t channels;
    uint64_t hash;
};

static void fill(uint8_t *pixels, uint32_t seed) {
    for (uint32_t i = 0; i < SIDE * SIDE * 3; i++)
        pixels[i] = (uint8_t)(i * 7 + seed);
}

static int make_file(void) {
    const int fd = fuzz_memory_file();
    FUZZ_CHECK(ftruncate(fd, BYTES) == 0);
    return fd;
}

static void open_cache(struct sample_cache *cache, int memory, int file) {
    struct error error = {0};
    FUZZ_CHECK(sample_cache_open(cache, ENTRIES, memory, file, &error) == 0);
}

static void make_whole(void) {
    struct error error = {0};
    struct sample_cache cache;
    uint8_t pixels[SIDE * SIDE * 3];
    int memory;
    FUZZ_CHECK(sample_cache_plan(&plan, ENTRIES, BYTES, true));
    FUZZ_CHECK(sample_cache_create(&plan, &memory, &error) == 0);
    const int file = make_file();
    FUZZ_CHECK(sample_cache_write_head(file, &plan, &key) == 0);
    open_cache(&cache, memory, file);
    for (uint32_t entry = 0; entry < ENTRIES - 2; entry++) {
        fill(pixels, entry);
        sample_cache_store(&cache, entry, pixels, (uint64_t)SIDE * 3, SIDE, SIDE - entry, 3);
    }
    FUZZ_CHECK(cache.counts.stored == ENTRIES - 2);
    whole = malloc(BYTES);
    FUZZ_CHECK(whole);
    memcpy(whole, cache.file, BYTES);
    sample_cache_close(&cache);
    close(memory);
    close(file);
}

static uint64_t hash_of(const struct sample_cached *cached, uint32_t channels) {
    return XXH3_64bits(cached->pixels, (size_t)cached->width * cached->height * channels);
}

static void take(const struct sample_cache *cache, uint32_t entry, uint32_t channels, struct taken *taken) {
    sample_cache_expect(cache, entry, channels);
    const struct sample_cached cached = sample_cache_find(cache, entry, channels);
    if (!cached.pixels)
        return;
    const uint64_t bytes = (uint64_t)cached.width * cached.height * channels;
    FUZZ_CHECK(bytes && cached.pixels >= cache->data &&
               cached.pixels + bytes <= cache->data + cache->data_bytes);
    taken[entry] = (struct taken){cached, channels, hash_of(&cached, channels)};
}

static void store(struct sample_cache *cache, uint32_t entry, uint32_t channels, struct fuzz_input *input) {
    uint8_t pixels[SIDE * SIDE * 3];
    const uint32_t width = 1 + fuzz_byte(input) % SIDE, height = 1 + fuzz_byte(input) % SIDE;
    fill(pixels, entry);
    const uint64_t stored = cache->counts.stored;
    sample_cache_store(cache, entry, pixels, (uint64_t)SIDE * channels, width, height, channels);
    const struct sample_cached cached = sample_cache_find(cache, entry, channels);
    if (cache->counts.stored == stored)
        return;
    FUZZ_CHECK(cached.pixels && cached.width == width && cached.height == height);
    for (uint32_t y = 0; y < height; y++)
        FUZZ_CHECK(memcmp(cached.pixels + (size_t)y * width * channels, pixels + (size_t)y * SIDE * channels,
                          (size_t)width * channels) == 0);
}

static void use(struct sample_cache *cache, struct fuzz_input *input) {
    struct taken taken[ENTRIES] = {0};
    while (input->left) {
        const uint32_t entry = fuzz_byte(input) % ENTRIES, what = fuzz_byte(input) % 4;
        const uint32_t channels = entry == ENTRIES - 1 ? 1 : 3; // which an entry always has
        if (what < 2)
            take(cache, entry, channels, taken);
        else
            store(cache, entry, channels, input);
    }
    for (uint32_t entry = 0; entry < ENTRIES; entry++)
        if (taken[entry].cached.pixels)
            FUZZ_CHECK(taken[entry].hash == hash_of(&taken[entry].cached, taken[entry].channels));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint16_t pages[] = {0, 1, 2};
    struct fuzz_input input = {data, size};
    struct error error = {0};
    struct sample_cache cache;
    AUTO_CLOSE int memory = -1;
    if (!whole)
        make_whole();
    AUTO_CLOSE int file = make_file();
    uint8_t *changed = malloc(BYTES);
    FUZZ_CHECK(changed);
    memcpy(changed, whole, BYTES);
    fuzz_patch(&input, changed, BYTES, pages, COUNT_OF(pages), fuzz_byte(&input) % 16);
    fuzz_write(file, changed, BYTES);
    // What the daemon asks first; a file whose head does not fit is made anew, but that is not what keeps loaders safe.
    const bool same = memcmp(changed, whole, 40) == 0;
    FUZZ_CHECK(sample_cache_head_fits(file, &plan, &key) == same);
    FUZZ_CHECK(sample_cache_create(&plan, &memory, &error) == 0);
    FUZZ_CHECK(sample_cache_continue(&plan, memory, file, &error) == 0);
    open_cache(&cache, memory, file);
    use(&cache, &input);
    sample_cache_close(&cache);
    free(changed);
    return 0;
}

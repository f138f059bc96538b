// A cache of decoded images of one size, in memory or with a file: what an entry's pixels are, stored and found.
#ifndef FEEDD_TESTS_UNIT_SAMPLE_CACHE_FIXTURE_H
#define FEEDD_TESTS_UNIT_SAMPLE_CACHE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "shm/sample_cache.h"

#define ENTRIES 16u
#define SIDE    32u
#define BYTES   (12288u + 8 * 3328) // the head, the words, and a record of SIDE x SIDE for each of eight

static const struct sample_cache_key key = {3, 4};
static struct sample_cache_plan plan;
static int memory = -1, file = -1;

static void make_memory(void) {
    struct error error = {0};
    close_fd(&memory);
    assert_int_equal(sample_cache_create(&plan, &memory, &error), 0);
}

static void make(bool in_file) {
    assert_true(sample_cache_plan(&plan, ENTRIES, BYTES, in_file));
    make_memory();
    close_fd(&file);
    if (!in_file)
        return;
    file = memfd_create("file", MFD_CLOEXEC);
    assert_true(file >= 0 && ftruncate(file, (off_t)plan.file_bytes) == 0);
    assert_int_equal(sample_cache_write_head(file, &plan, &key), 0);
}

static struct sample_cache opened(void) {
    struct sample_cache cache;
    struct error error = {0};
    assert_int_equal(sample_cache_open(&cache, ENTRIES, memory, file, &error), 0);
    return cache;
}

static void fill(uint8_t *pixels, uint32_t seed) {
    for (uint32_t i = 0; i < SIDE * SIDE * 3; i++)
        pixels[i] = (uint8_t)(i * 31 + i / 7 + seed);
}

static void store(struct sample_cache *cache, uint32_t entry) {
    uint8_t pixels[SIDE * SIDE * 3];
    fill(pixels, entry);
    sample_cache_store(cache, entry, pixels, (uint64_t)SIDE * 3, SIDE, SIDE, 3);
}

static bool has(const struct sample_cache *cache, uint32_t entry) {
    uint8_t pixels[SIDE * SIDE * 3];
    const struct sample_cached cached = sample_cache_find(cache, entry, 3);
    if (!cached.pixels)
        return false;
    fill(pixels, entry);
    assert_int_equal(cached.width, SIDE);
    assert_int_equal(cached.height, SIDE);
    assert_memory_equal(cached.pixels, pixels, sizeof pixels);
    return true;
}

#endif

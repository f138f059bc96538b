#include "daemon/image/finish.h"

#include <string.h>

#include "base/sizes.h"
#include "daemon/image/finish_kernels.h"

// Values that are put in order, in the first-level cache, before they are looked up together: several rows as a rule.
#define BLOCK 6144u

_Static_assert(BLOCK % 3 == 0, "whole pixels");

struct run {
    const struct finish_kernels *kernels;
    const struct image_finish *finish;
    const struct image *from;
    uint8_t *to;
    bool same_tables; // of all channels
    size_t held;      // values, in order, that are not looked up yet
    uint8_t values[BLOCK] __attribute__((aligned(CACHE_LINE)));
};

static const uint8_t *table_of(const struct run *run, uint32_t channel) {
    const uint8_t *tables = run->finish->table;
    return tables + (size_t)channel * IMAGE_TABLE_VALUES * run->finish->element_bytes;
}

// Where a block of `count` pixels from `x` on of a row lies before it is mirrored.
static const uint8_t *block_at(const struct run *run, uint32_t y, uint32_t x, size_t count) {
    uint32_t place = run->finish->mirror ? run->from->width - x - (uint32_t)count : x;
    return run->from->pixels + y * run->from->stride + (size_t)place * run->from->channels;
}

// Looks up what is held, in the table of a channel.
static void put_values(struct run *run, uint32_t channel) {
    uint32_t element = run->finish->element_bytes;
    if (run->finish->table)
        run->kernels->look_up(table_of(run, channel), element, run->values, run->held, run->to);
    else
        memcpy(run->to, run->values, run->held);
    run->to += run->held * element;
    run->held = 0;
}

// Looks up whole pixels, each value in the table of its channel.
static void put_pixels(struct run *run) {
    uint32_t element = run->finish->element_bytes;
    if (!run->finish->table || run->same_tables) {
        put_values(run, 0);
        return;
    }
    run->kernels->look_up_colours(run->finish->table, element, run->values, run->held, run->to);
    run->to += run->held * element;
    run->held = 0;
}

static void run_plane(struct run *run, uint32_t channel) {
    const struct image *from = run->from;
    for (uint32_t y = 0; y < from->height; y++)
        for (uint32_t x = 0, count; x < from->width; x += count) {
            count = (uint32_t)min_u64(BLOCK - run->held, from->width - x);
            run->kernels->split(block_at(run, y, x, count) + channel, from->channels, run->finish->mirror,
                                count, run->values + run->held);
            run->held += count;
            if (run->held == BLOCK)
                put_values(run, channel);
        }
    put_values(run, channel);
}

static void run_interleaved(struct run *run) {
    const struct image *from = run->from;
    for (uint32_t y = 0; y < from->height; y++)
        for (uint32_t x = 0, count; x < from->width; x += count) {
            count = (uint32_t)min_u64((BLOCK - run->held) / from->channels, from->width - x);
            const uint8_t *pixels = block_at(run, y, x, count);
            if (run->finish->mirror)
                run->kernels->mirror(pixels, from->channels, count, run->values + run->held);
            else
                memcpy(run->values + run->held, pixels, (size_t)count * from->channels);
            run->held += (size_t)count * from->channels;
            if (run->held == BLOCK)
                put_pixels(run);
        }
    put_pixels(run);
}

// Interleaved, and as they are: straight into the slot.
static void copy_rows(const struct finish_kernels *kernels, const struct image_finish *finish,
                      const struct image *from, uint8_t *to) {
    const size_t row = (size_t)from->width * from->channels;
    for (uint32_t y = 0; y < from->height; y++, to += row) {
        const uint8_t *pixels = from->pixels + y * from->stride;
        if (finish->mirror)
            kernels->mirror(pixels, from->channels, from->width, to);
        else
            memcpy(to, pixels, row);
    }
}

static bool tables_same(const struct image_finish *finish, uint32_t channels) {
    size_t bytes = (size_t)IMAGE_TABLE_VALUES * finish->element_bytes;
    const uint8_t *tables = finish->table;
    for (uint32_t channel = 1; tables && channel < channels; channel++)
        if (memcmp(tables, tables + channel * bytes, bytes) != 0)
            return false;
    return true;
}

const char *image_finish_run_with(uint32_t number, const struct image_finish *finish,
                                  const struct image *from, void *slot) {
    struct run run; // without its values, which need not be zero
    run.kernels = finish_kernels(number);
    if (!run.kernels)
        return NULL;
    if (!finish->table && !finish->planes) {
        copy_rows(run.kernels, finish, from, slot);
        return run.kernels->name;
    }
    run.finish = finish;
    run.from = from;
    run.to = slot;
    run.held = 0;
    run.same_tables = tables_same(finish, from->channels);
    if (finish->planes)
        for (uint32_t channel = 0; channel < from->channels; channel++)
            run_plane(&run, channel);
    else
        run_interleaved(&run);
    return run.kernels->name;
}

void image_finish_run(const struct image_finish *finish, const struct image *from, void *slot) {
    image_finish_run_with(0, finish, from, slot);
}

void image_mirror_row(const uint8_t *pixels, uint32_t channels, size_t count, uint8_t *to) {
    finish_kernels(0)->mirror(pixels, channels, count, to);
}

// What a consumer of the storm compares: the place of a batch in the order, the samples that it says it holds, and
// their bytes.
#ifndef FEEDD_TESTS_STORM_STORM_CHECK_H
#define FEEDD_TESTS_STORM_STORM_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/feed.h"
#include "tests/storm/storm_image.h"
#include "tests/storm/storm_ledger.h"
#include "tests/storm/storm_mix.h"
#include "tests/storm/storm_order.h"
#include "tests/storm/storm_window.h"

#define HELD_MOST 64

struct field {
    const char *name;
    uint64_t bytes; // per sample; unused if it is ragged
    bool ragged;
    uint32_t side; // of an image that is cropped at random, or of its mask; else 0
    bool mask;
    const uint8_t *truth;
    // Of a ragged field and of images: u64 per sample and one more, where it begins in the truth; not aligned.
    const uint8_t *begins;
};

struct consumer {
    struct feed_options options;
    const char *view_text; // of a view that it brings; NULL: it brings none
    struct feed_view view;
    const char *ledger_path, *truth_path;
    const char *sums_path;   // of a view that draws by weight: its sums of shares; NULL for others
    const char *mix_path;    // of a mix: its schedule; NULL for others
    const char *groups_path; // of a dataset with shuffle_window: its groups; NULL for others
    uint64_t samples, hold, pause_us, batches, long_wait_us;
    bool skips;    // samples may be missing, as long as that is said
    bool replaces; // others may be in their places
    struct field field[FEED_MAX_FIELDS];
    uint32_t field_count;

    const uint64_t *sums;
    const struct storm_mix *mix;
    uint64_t stored; // samples of the truth
    struct storm_order order;
    struct storm_windows windows; // its groups are NULL if it has none
    struct storm_position at;
    struct storm_ledger *ledger;
    struct feed *feed;
    uint64_t replaced;                 // samples of the batch that was compared last
    struct feed_batch held[HELD_MOST]; // oldest first
    uint64_t held_count, taken;
    uint64_t sequence; // of the last batch
    uint32_t generation;
    uint8_t made[3 * STORM_SIDE_MOST * STORM_SIDE_MOST]; // an image as it must be
    uint8_t *fetched;                                    // of a batch on a GPU
    uint64_t fetched_bytes;                              // it has room for
};

// Adds to a counter of the ledger. The first finding of a lane is kept in words.
void check_find(struct consumer *consumer, uint64_t *counter, uint64_t samples, const char *what,
                const struct feed_batch *batch);

// How many samples of a batch, or how many of their fields, are not those of the files.
uint64_t check_bytes(struct consumer *consumer, const struct feed_batch *batch);

// Each batch is the one that follows the one before; the consumer then stands after it.
void check_place(struct consumer *consumer, const struct feed_batch *batch);

#endif

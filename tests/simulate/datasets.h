// The datasets and views of simulated scenarios: what the configuration declares, and what clients bring.
#ifndef FEEDD_TESTS_SIMULATE_DATASETS_H
#define FEEDD_TESTS_SIMULATE_DATASETS_H

#include "client/feed.h"
#include "tests/simulate/reference.h"

enum dataset_kind {
    DATASET_SMALL,    // a batch is one chunk
    DATASET_LARGE,    // a batch has several chunks; on_error = skip, and some samples cannot be read
    DATASET_STRICT,   // a sample that cannot be read is the end of its feed
    DATASET_RAGGED,   // samples of any size, so slots grow; a batch has several chunks
    DATASET_REPLACED, // on_error = replace, and some samples cannot be read
    DATASET_SPLIT,    // a view of large
    DATASET_LISTED,   // of ragged; some samples come more than once
    DATASET_DRAWN,    // of replaced, by weight
    DATASET_UNEVEN,   // as large, with samples of any size: a batch is closed up where some cannot be read
    DATASET_PATCHED,  // as replaced, with samples of any size: what replaces one has another size
    DATASET_WINDOWED, // as ragged, in several files, with shuffle windows
    DATASET_STRETCH,  // a range of large, with shuffle windows, that begins and ends within files
    // A mix of small and strict. Its samples are named by position here, and all of them can be read: what matters is
    // that its runs and tokens hold through all that happens.
    DATASET_MIXED,
};
#define DATASETS     13u
#define DATASET_MOST 64u // samples that any of them has, as it is delivered

extern const struct dataset_plan {
    const char *name;
    enum dataset_kind of;       // what the samples are stored in: itself, unless it is a view
    uint64_t samples;           // stored there
    uint64_t sample_bytes;      // 0: it is ragged
    struct reference_view view; // zeros: all of them, without shuffle windows
    const uint8_t *files;       // samples of each, then 0; NULL: there is one
} dataset_plans[DATASETS];

// Of a stored sample.
uint64_t dataset_bytes_of(enum dataset_kind stored, uint64_t sample);

// The sections of feedd.conf for all of them, written to `fd`.
void datasets_write(int fd);

// ---- Views that clients bring ------------------------------------------------------------------------------

// One of a dataset, by its number.
#define VIEWS_TO_BRING 12u
struct reference_view view_to_bring(enum dataset_kind of, uint64_t number);

// The same as libfeed wants it, with its numbers in `memory`.
struct view_numbers {
    uint16_t indices[DATASET_MOST];
    float weights[DATASET_MOST];
    struct feed_view part; // which draws are from
};
struct feed_view view_brought(const struct reference_view *view, struct view_numbers *memory);

#endif

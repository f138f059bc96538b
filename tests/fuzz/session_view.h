// Views that clients of fuzz_session.c bring: as the input says, and mostly what a daemon can accept.
#ifndef FEEDD_TESTS_FUZZ_SESSION_VIEW_H
#define FEEDD_TESTS_FUZZ_SESSION_VIEW_H

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/sizes.h"
#include "order/selection.h"
#include "proto/codec.h"
#include "tests/fuzz/fuzz.h"

#define VIEW_WORDS_MOST (3u * PROTO_PIECE_WORDS)

enum {
    VIEW_LIES = 1,     // the hash, and all numbers, are what the input says
    VIEW_IS_TORN = 2,  // not all pieces follow, or pieces of other sizes
    VIEW_CHOOSES = 16, // weights: draws are from a part of the samples
};

struct fuzz_view {
    Feedd__Bring bring;
    bool may_fail;
    uint8_t flags;
    uint64_t words[VIEW_WORDS_MOST]; // those that are sent, at most
};

// As many as are to be sent for that announcement.
static inline uint64_t fuzz_view_words(const struct fuzz_view *view) {
    const uint64_t count = min_u64(view->bring.count, VIEW_WORDS_MOST);
    return min_u64(count + (view->bring.chooses ? PROTO_TIMES_WORDS(count) : 0), VIEW_WORDS_MOST);
}

// `samples` are those of the dataset.
static inline void fuzz_view_read(struct fuzz_input *input, char *dataset, uint64_t samples,
                                  struct fuzz_view *view) {
    uint8_t how = fuzz_byte(input), stride = fuzz_byte(input);
    Feedd__Bring *bring = &view->bring;
    view->flags = how & 3;
    feedd__bring__init(bring);
    bring->dataset = dataset;
    bring->kind = view->flags & VIEW_LIES ? (uint32_t)fuzz_number(input) : 1u + (how >> 2) % 4;
    bring->begin = (uint32_t)fuzz_number(input) * 10000;
    bring->end = (uint32_t)fuzz_number(input) * 20000;
    bring->seed = bring->kind == SELECTION_SPLIT_1 ? stride : 0;
    bring->dtype = view->flags & VIEW_LIES ? (uint32_t)fuzz_number(input) : 8; // u64
    bring->epoch_samples = bring->kind == SELECTION_WEIGHTED_1 ? how >> 5 : 0;
    uint64_t count = bring->kind == SELECTION_WEIGHTED_1 ? samples : 1 + fuzz_number(input) % VIEW_WORDS_MOST;
    bring->chooses = bring->kind == SELECTION_WEIGHTED_1 && how & VIEW_CHOOSES;
    const uint64_t words = count + (bring->chooses ? PROTO_TIMES_WORDS(count) : 0);
    for (uint64_t i = 0; i < words; i++)
        view->words[i] =
            (i * stride + (view->flags & VIEW_LIES ? stride : 0)) % (samples + (view->flags & VIEW_LIES));
    bool numbers = bring->kind == SELECTION_LIST || bring->kind == SELECTION_WEIGHTED_1;
    bring->count = view->flags & VIEW_LIES ? fuzz_number(input) : numbers ? count : 0;
    bring->hash = XXH3_64bits(view->words, words * sizeof view->words[0]);
}

#endif

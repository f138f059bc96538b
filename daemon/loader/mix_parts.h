// The parts of a mix in one loader: what is mapped of them, their stages, and which of their samples stands where.
#ifndef FEEDD_DAEMON_LOADER_MIX_PARTS_H
#define FEEDD_DAEMON_LOADER_MIX_PARTS_H

#include "base/error.h"
#include "daemon/dataset/folder_file.h"
#include "daemon/heritage.h"
#include "daemon/loader/chunk.h"
#include "order/mix_samples.h"

struct mix_parts {
    uint32_t count;
    uint64_t stored_samples;
    struct chunk_part *parts;
    struct stage_set *stages;
    struct sampler *samplers;
    struct folder_files *folders; // of those parts that are folders with files to read
    uint32_t folder_count;
    struct mix_samples *samples;
};

// Maps what the supervisor has passed of the parts, and closes the descriptors of their lists, indices and caches.
// `header` is the ring's. On failure nothing has to be closed.
int mix_parts_open(struct mix_parts **mix, const struct loader_settings *settings,
                   const struct ring_header *header, struct error *error);

// NULL is fine.
void mix_parts_close(struct mix_parts *mix);

// The stored samples of a claim, as the mix numbers them; UINT64_MAX for a position that no run reaches.
void mix_parts_samples(const struct mix_parts *mix, uint64_t epoch_samples, const struct ring_claim *claim,
                       uint64_t *samples);

// What takes the place of the first of them, in this attempt (order/replace.h).
uint64_t mix_parts_replacement(const struct mix_parts *mix, uint64_t epoch_samples,
                               const struct ring_claim *claim, uint32_t attempt);

#endif

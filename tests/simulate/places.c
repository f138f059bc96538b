#include "tests/simulate/places.h"

#include <string.h>

#include "base/error.h"
#include "daemon/loader/chunk.h"
#include "tests/simulate/sim.h"

struct places {
    struct chunk_plan chunk;
};

struct places *places_open(const struct dataset *dataset, const struct ring *ring) {
    struct error error = {0};
    if (!ring->header->ragged_count)
        return NULL;
    struct places *places = calloc(1, sizeof *places);
    SIM_MUST(places);
    if (chunk_plan_init(&places->chunk, dataset->layout, ring, NULL, &error) < 0)
        sim_violated("no loader can plan its reads: %s", error.text);
    places->chunk.index = dataset->index;
    return places;
}

void places_close(struct places *places) {
    if (places)
        chunk_plan_free(&places->chunk);
    free(places);
}

void places_find(struct places *places, const struct ring_claim *claim, const uint64_t *samples,
                 uint64_t *found) {
    struct chunk_plan *chunk = &places->chunk;
    memcpy(chunk->samples, samples, claim->count * sizeof *samples);
    if (chunk_plan_fill(chunk, claim, 0) < 0)
        sim_violated("chunk %u of slot %u has another place than its samples need", claim->chunk,
                     claim->slot);
    memcpy(found, chunk->extents[0].places, claim->count * sizeof *found);
}

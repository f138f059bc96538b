#include "daemon/supervisor/feeds/batch_places.h"

#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/supervisor/feeds/batch_samples.h"
#include "order/replace.h"
#include "shm/ring_lacking.h"
#include "shm/ring_supervisor.h"

struct batch_places {
    struct batch_samples *samples;
    // With on_error = replace: attempts of a batch that is being mended.
    uint8_t *attempts;
    uint64_t *skips; // of a batch that is being mended
};

static int allocate(struct batch_places *places, const struct ring_header *header, struct error *error) {
    places->skips = calloc(header->skip_words, sizeof *places->skips);
    if (header->attempts_offset)
        places->attempts = calloc(header->batch_size, sizeof *places->attempts);
    bool complete = places->skips && (!header->attempts_offset || places->attempts);
    return complete ? 0 : error_set(error, -ENOMEM, "out of memory");
}

int batch_places_open(const struct feed_shape *shape, const struct ring *ring, struct batch_places **made,
                      struct error *error) {
    const struct ring_header *header = ring->header;
    struct batch_places *places;
    *made = NULL;
    if (!header->ragged_count)
        return 0;
    places = calloc(1, sizeof *places);
    if (!places)
        return error_set(error, -ENOMEM, "out of memory");
    int err = allocate(places, header, error);
    if (!err)
        err = batch_samples_open(shape, header, &places->samples, error);
    if (err)
        batch_places_close(places);
    else
        *made = places;
    return err;
}

void batch_places_close(struct batch_places *places) {
    if (!places)
        return;
    batch_samples_close(places->samples);
    free(places->attempts);
    free(places->skips);
    free(places);
}

// ---- Samples of a chunk ------------------------------------------------------------------------------------

static uint32_t chunk_count(const struct ring_header *header, const struct batch_place *place,
                            uint32_t first) {
    return (uint32_t)min_u64(header->chunk_samples, place->count - first);
}

// Those that the order puts there, and in the places of bad ones, of the chunk, what `attempts` say.
static void find(struct batch_places *places, const struct batch_place *place, uint32_t first, uint32_t count,
                 const uint8_t *attempts) {
    batch_samples_find(places->samples, place, first, count);
    for (uint32_t i = 0; attempts && i < count; i++)
        if (attempts[i])
            batch_samples_replace(places->samples, i, attempts[i]);
}

// Makes further attempts where a sample is known to be bad.
static void replace_bad(struct batch_places *places, uint32_t count, uint8_t *attempts) {
    for (uint32_t i = 0; i < count; i++)
        while (attempts[i] < REPLACE_ATTEMPTS && batch_samples_is_bad(places->samples, i))
            batch_samples_replace(places->samples, i, ++attempts[i]);
}

// How many bytes a chunk has in each field. `attempts`, of the batch, are NULL unless bad samples are replaced.
static void measure_chunk(struct batch_places *places, const struct ring_header *header,
                          const struct batch_place *place, uint32_t chunk, uint8_t *attempts,
                          uint64_t *bytes) {
    uint32_t first = chunk * header->chunk_samples, count = chunk_count(header, place, first);
    find(places, place, first, count, attempts ? attempts + first : NULL);
    if (attempts)
        replace_bad(places, count, attempts + first);
    for (uint32_t i = 0; i < header->ragged_count; i++)
        bytes[i] = batch_samples_sum(places->samples, i, count);
}

static uint64_t compute(struct batch_places *places, struct ring *ring, uint32_t slot,
                        const struct batch_place *place, uint8_t *attempts) {
    const struct ring_header *header = ring->header;
    uint32_t chunks = (uint32_t)divide_up(place->count, header->chunk_samples), ragged = header->ragged_count;
    uint64_t *own = ring_own_places(ring, slot), at = header->values_offset;
    for (uint32_t chunk = 0; chunk < chunks; chunk++) // the bytes of each chunk where its place will be
        measure_chunk(places, header, place, chunk, attempts, &own[chunk * ragged]);
    for (uint32_t i = 0; i < ragged; i++) {
        at = align_up(at, RING_VALUES_ALIGN);
        for (uint32_t chunk = 0; chunk < chunks; chunk++) {
            uint64_t bytes = own[chunk * ragged + i];
            own[chunk * ragged + i] = at;
            at += bytes;
        }
        own[chunks * ragged + i] = own[(chunks + 1) * ragged + i] = at;
    }
    return at;
}

uint64_t batch_places_compute(struct batch_places *places, struct ring *ring, uint32_t slot,
                              const struct batch_place *place) {
    uint8_t *attempts = places->attempts ? ring_own_attempts(ring, slot) : NULL;
    if (attempts)
        memset(attempts, 0, place->count);
    return compute(places, ring, slot, place, attempts);
}

void batch_places_take(struct ring *ring, uint32_t from, uint32_t to) {
    memcpy(ring_own_places(ring, to), ring_own_places(ring, from),
           ring_slot_places(ring->header) * sizeof(uint64_t));
    if (ring->attempts)
        memcpy(ring_own_attempts(ring, to), ring_own_attempts(ring, from), ring->header->batch_size);
}

// ---- Samples that could not be read ------------------------------------------------------------------------

static bool is_skipped(const struct batch_places *places, uint32_t sample) {
    return places->skips[sample / 64] >> (sample % 64) & 1;
}

// Takes the bytes of what is left out of a chunk from where the values end.
static void leave_out(struct batch_places *places, uint32_t first, uint32_t count, uint32_t ragged,
                      uint64_t *end) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t field = 0; is_skipped(places, first + i) && field < ragged; field++)
            end[field] -= batch_samples_bytes(places->samples, field, i);
}

int batch_places_close_up(struct batch_places *places, struct ring *ring, uint32_t slot,
                          const struct batch_place *place) {
    const struct ring_header *header = ring->header;
    uint32_t chunks = (uint32_t)divide_up(place->count, header->chunk_samples), ragged = header->ragged_count;
    uint32_t skipped = ring_take_skips(ring, slot, places->skips);
    uint64_t *end = ring_own_places(ring, slot) + chunks * ragged;
    if (!skipped)
        return -EBADMSG;
    memcpy(end + ragged, end, ragged * sizeof *end);
    for (uint32_t first = 0; first < place->count; first += header->chunk_samples) {
        uint32_t count = chunk_count(header, place, first);
        find(places, place, first, count, NULL);
        leave_out(places, first, count, ragged, end + ragged);
    }
    ring_close_up(ring, slot, skipped);
    return 0;
}

// What loaders could not read of a chunk takes another attempt.
static bool try_others(struct batch_places *places, uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (!is_skipped(places, first + i))
            continue;
        if (places->attempts[first + i] == REPLACE_ATTEMPTS)
            return false; // then the loader fails
        places->attempts[first + i]++;
        batch_samples_mark_bad(places->samples, i);
    }
    return true;
}

int batch_places_replace(struct batch_places *places, struct ring *ring, uint32_t slot,
                         const struct batch_place *place, uint64_t *bytes) {
    const struct ring_header *header = ring->header;
    if (!places->attempts || !ring_take_skips(ring, slot, places->skips))
        return -EBADMSG;
    memcpy(places->attempts, ring_own_attempts(ring, slot), place->count);
    for (uint32_t first = 0; first < place->count; first += header->chunk_samples) {
        uint32_t count = chunk_count(header, place, first);
        find(places, place, first, count, places->attempts + first);
        if (!try_others(places, first, count))
            return -EBADMSG;
    }
    *bytes = compute(places, ring, slot, place, places->attempts);
    return 0;
}

void batch_places_commit(struct batch_places *places, struct ring *ring, uint32_t slot,
                         const struct batch_place *place) {
    memcpy(ring_own_attempts(ring, slot), places->attempts, place->count);
}

#include "daemon/supervisor/feeds/batch_places.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sizes.h"
#include "daemon/dataset/column_size.h"
#include "daemon/supervisor/feeds/mix_order.h"
#include "order/replace.h"
#include "shm/ring_lacking.h"
#include "shm/ring_supervisor.h"

#define AHEAD 16u    // samples whose index entries are on their way from memory
#define KNOWN 16384u // bad samples that are remembered; a power of two

// The ragged fields of the dataset or, of a mix, of a source, in their order.
struct columns {
    const uint8_t *index;
    const struct dataset_column *of[RING_MAX_FIELDS];
};

struct batch_places {
    const struct dataset *dataset;
    struct columns *columns; // one for each source
    const void *list;        // the view's, mapped
    size_t list_bytes;
    struct sampler sampler;
    struct mix_order *mix; // NULL: the dataset is not a mix
    // With on_error = replace: attempts of a batch that is being mended.
    uint8_t *attempts;
    // Samples that loaders of this feed could not read, plus 1, so that later batches do without them from the start.
    // One that is forgotten, because another has taken its place here, is found out again. No stage refuses a sample in
    // one epoch or position and not in another.
    uint64_t *known;
    uint64_t *skips;    // of a batch that is being mended
    uint64_t samples[]; // of one chunk
};

static int map_list(struct batch_places *places, struct error *error) {
    size_t bytes = dataset_list_bytes(places->dataset->layout);
    if (!bytes)
        return 0;
    places->list_bytes = bytes + sizeof(struct dataset_list);
    void *map = mmap(NULL, places->list_bytes, PROT_READ, MAP_PRIVATE, places->dataset->list_fd, 0);
    if (map == MAP_FAILED)
        return error_set(error, -errno, "cannot map the list of the dataset: %m");
    places->list = map;
    return 0;
}

static void find_columns(const struct dataset *dataset, struct columns *columns) {
    const struct dataset_layout *layout = dataset->layout;
    uint32_t count = 0;
    columns->index = dataset->index;
    for (uint32_t i = 0; i < layout->field_count; i++)
        for (uint32_t k = 0; layout->fields[i].ragged && k < layout->column_count; k++)
            if (layout->columns[k].field == i)
                columns->of[count++] = &layout->columns[k];
}

static int open_mix(struct batch_places *places, const struct feed_shape *shape, uint32_t most,
                    struct error *error) {
    for (uint32_t i = 0; i < shape->dataset->layout->part_count; i++)
        find_columns(shape->dataset->sources[i], &places->columns[i]);
    return mix_order_open(shape, most, &places->mix, error);
}

static int open_sampler(struct batch_places *places, const struct ring_header *header, struct error *error) {
    const struct dataset *dataset = places->dataset;
    find_columns(dataset, places->columns);
    int err = map_list(places, error);
    if (err)
        return err;
    const struct dataset_list *list = places->list;
    return sampler_open(&places->sampler, (enum order_version)header->order_version, header->samples,
                        header->seed, &dataset->layout->selection, list ? list->words : NULL,
                        dataset_list_bytes(dataset->layout), error);
}

static int allocate(struct batch_places *places, const struct ring_header *header, struct error *error) {
    places->skips = calloc(header->skip_words, sizeof *places->skips);
    if (header->attempts_offset) {
        places->attempts = calloc(header->batch_size, sizeof *places->attempts);
        places->known = calloc(KNOWN, sizeof *places->known);
    }
    bool complete = places->skips && (!header->attempts_offset || (places->attempts && places->known));
    return complete ? 0 : error_set(error, -ENOMEM, "out of memory");
}

int batch_places_open(const struct feed_shape *shape, const struct ring *ring, struct batch_places **made,
                      struct error *error) {
    const struct ring_header *header = ring->header;
    const uint32_t parts = shape->dataset->layout->part_count;
    struct batch_places *places;
    *made = NULL;
    if (!header->ragged_count)
        return 0;
    places = calloc(1, sizeof *places + header->chunk_samples * sizeof places->samples[0]);
    if (!places)
        return error_set(error, -ENOMEM, "out of memory");
    places->dataset = shape->dataset;
    places->columns = calloc(parts ? parts : 1, sizeof *places->columns);
    int err = allocate(places, header, error);
    if (!err)
        err = !places->columns ? error_set(error, -ENOMEM, "out of memory")
              : parts          ? open_mix(places, shape, header->chunk_samples, error)
                               : open_sampler(places, header, error);
    if (err)
        batch_places_close(places);
    else
        *made = places;
    return err;
}

void batch_places_close(struct batch_places *places) {
    if (!places)
        return;
    sampler_close(&places->sampler);
    if (places->list)
        munmap((void *)places->list, places->list_bytes);
    mix_order_close(places->mix);
    free(places->columns);
    free(places->attempts);
    free(places->known);
    free(places->skips);
    free(places);
}

// ---- Samples -----------------------------------------------------------------------------------------------

static uint64_t *known_place(const struct batch_places *places, uint64_t sample) {
    return &places->known[sample * 0x9e3779b97f4a7c15u >> 32 & (KNOWN - 1)];
}

static bool is_bad(const struct batch_places *places, uint64_t sample) {
    return *known_place(places, sample) == sample + 1 ||
           dataset_is_incomplete(places->dataset->layout, places->dataset->index, sample);
}

// With on_error = replace: puts the samples that stand there into places->samples, and makes attempts beyond
// `attempts`, of the chunk, where those are known to be bad.
static void replace(struct batch_places *places, const struct batch_place *place, uint32_t first,
                    uint32_t count, uint8_t *attempts) {
    for (uint32_t i = 0; i < count; i++) {
        uint64_t *sample = &places->samples[i], position = place->first_position + first + i;
        if (attempts[i])
            *sample = sampler_replacement(&places->sampler, place->epoch, position, attempts[i]);
        while (is_bad(places, *sample) && attempts[i] < REPLACE_ATTEMPTS)
            *sample = sampler_replacement(&places->sampler, place->epoch, position, ++attempts[i]);
    }
}

// The samples that were dispatched there.
static void find_dispatched(struct batch_places *places, const struct batch_place *place, uint32_t first,
                            uint32_t count) {
    sampler_samples(&places->sampler, place->epoch, place->first_position + first, count, places->samples);
    for (uint32_t i = 0; i < count; i++)
        if (places->attempts[first + i])
            places->samples[i] =
                sampler_replacement(&places->sampler, place->epoch, place->first_position + first + i,
                                    places->attempts[first + i]);
}

// ---- Sizes -------------------------------------------------------------------------------------------------

static uint64_t sum_up(const struct batch_places *places, uint32_t field, uint32_t count) {
    const struct dataset_column *column = places->columns->of[field];
    const uint8_t *index = places->columns->index;
    const uint64_t *samples = places->samples;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            column_prefetch(column, index, samples[i + AHEAD]);
        bytes += column_sample_bytes(column, index, samples[i]);
    }
    return bytes;
}

// Beyond the end of a run there is nothing.
static uint64_t sum_up_mix(const struct batch_places *places, const struct mix_draw *draws, uint32_t field,
                           uint32_t count) {
    const uint64_t *samples = places->samples;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count && samples[i] != UINT64_MAX; i++) {
        const struct columns *columns = &places->columns[draws[i].source];
        if (i + AHEAD < count && samples[i + AHEAD] != UINT64_MAX)
            column_prefetch(places->columns[draws[i + AHEAD].source].of[field],
                            places->columns[draws[i + AHEAD].source].index, samples[i + AHEAD]);
        bytes += column_sample_bytes(columns->of[field], columns->index, samples[i]);
    }
    return bytes;
}

// The samples of a chunk, and how many bytes they have in each field. `attempts`, of the batch, are NULL unless bad
// samples are replaced, which a mix does not do with ragged fields.
static void measure_chunk(struct batch_places *places, const struct ring_header *header,
                          const struct batch_place *place, uint32_t chunk, uint8_t *attempts,
                          uint64_t *bytes) {
    uint32_t first = chunk * header->chunk_samples;
    uint32_t count = (uint32_t)min_u64(header->chunk_samples, place->count - first);
    uint64_t position = place->first_position + first;
    if (places->mix) {
        const struct mix_draw *draws =
            mix_order_samples(places->mix, place->epoch, position, count, places->samples);
        for (uint32_t i = 0; i < header->ragged_count; i++)
            bytes[i] = sum_up_mix(places, draws, i, count);
        return;
    }
    sampler_samples(&places->sampler, place->epoch, position, count, places->samples);
    if (attempts)
        replace(places, place, first, count, attempts + first);
    for (uint32_t i = 0; i < header->ragged_count; i++)
        bytes[i] = sum_up(places, i, count);
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

// The sample at that place of the chunk is left out: takes its bytes from where the values end.
static void leave_out(const struct batch_places *places, uint64_t sample, uint32_t ragged, uint64_t *end) {
    for (uint32_t i = 0; i < ragged; i++)
        end[i] -= column_sample_bytes(places->columns->of[i], places->columns->index, sample);
}

int batch_places_close_up(struct batch_places *places, struct ring *ring, uint32_t slot,
                          const struct batch_place *place) {
    const struct ring_header *header = ring->header;
    uint32_t chunks = (uint32_t)divide_up(place->count, header->chunk_samples), ragged = header->ragged_count;
    // A mix with ragged fields fails at a sample that cannot be read.
    uint32_t skipped = places->mix ? 0 : ring_take_skips(ring, slot, places->skips);
    uint64_t *end = ring_own_places(ring, slot) + chunks * ragged;
    if (!skipped)
        return -EBADMSG;
    memcpy(end + ragged, end, ragged * sizeof *end);
    for (uint32_t chunk = 0; chunk < chunks; chunk++) {
        uint32_t first = chunk * header->chunk_samples;
        uint32_t count = (uint32_t)min_u64(header->chunk_samples, place->count - first);
        sampler_samples(&places->sampler, place->epoch, place->first_position + first, count,
                        places->samples);
        for (uint32_t i = 0; i < count; i++)
            if (is_skipped(places, first + i))
                leave_out(places, places->samples[i], ragged, end + ragged);
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
        *known_place(places, places->samples[i]) = places->samples[i] + 1;
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
        uint32_t count = (uint32_t)min_u64(header->chunk_samples, place->count - first);
        find_dispatched(places, place, first, count);
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

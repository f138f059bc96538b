#include "daemon/supervisor/feeds/batch_samples.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sizes.h"
#include "daemon/dataset/column_size.h"
#include "daemon/dataset/size_table.h"
#include "daemon/supervisor/feeds/mix_order.h"
#include "order/sampler.h"

#define AHEAD  64u    // samples whose sizes are on their way from memory
#define KNOWN  16384u // bad samples that are remembered; a power of two
#define WINDOW 1024u  // positions that are looked up at once; or a chunk, if that has more

// A dataset or view, or a source of a mix.
struct source {
    const struct dataset *dataset;
    uint64_t first_sample; // is added to the numbers of its samples, which so differ between sources
    // Of the ragged fields, in their order.
    const struct dataset_column *columns[RING_MAX_FIELDS];
    const struct size_table *sizes[RING_MAX_FIELDS]; // NULL: the index is used
};

// Positions of an epoch, one after another.
struct window {
    uint64_t epoch, first;
    uint32_t count, most;
    uint64_t *samples;   // as the source numbers them; of a mix, UINT64_MAX beyond the run's end
    uint16_t *source_of; // of each sample
};

struct batch_samples {
    const struct dataset *dataset;
    struct source *sources;
    const void *list; // the view's, mapped
    size_t list_bytes;
    struct sampler sampler;
    struct mix_order *mix; // NULL: the dataset is not a mix
    // With on_error = replace: samples that were marked as bad, plus 1, so that later batches do without them from the
    // start. Not those of a dataset with images, whose stages may refuse a sample at one place but not at another:
    // which sample takes a place must not depend on what was found out before.
    uint64_t *known;
    bool forgets;
    uint64_t epoch_samples;
    struct window window;
    uint64_t in_turn; // positions that were asked for one after another, up to and with what was found last
    // What was found last; others take the places of bad ones here.
    uint64_t epoch, first_position;
    uint32_t count;
    uint64_t *samples;
    const uint16_t *source_of; // in the window
};

// ---- Opening -----------------------------------------------------------------------------------------------

static int map_list(struct batch_samples *samples, struct error *error) {
    size_t bytes = dataset_list_bytes(samples->dataset->layout);
    if (!bytes)
        return 0;
    samples->list_bytes = bytes + sizeof(struct dataset_list);
    void *map = mmap(NULL, samples->list_bytes, PROT_READ, MAP_PRIVATE, samples->dataset->list_fd, 0);
    if (map == MAP_FAILED)
        return error_set(error, -errno, "cannot map the list of the dataset: %m");
    samples->list = map;
    return 0;
}

static void open_source(struct batch_samples *samples, const struct dataset *dataset, uint64_t first_sample,
                        struct source *source) {
    const struct dataset_layout *layout = dataset->layout;
    uint32_t count = 0;
    source->dataset = dataset;
    source->first_sample = first_sample;
    for (uint32_t i = 0; i < layout->field_count; i++)
        samples->forgets |= layout->images[i].used != 0;
    for (uint32_t i = 0; i < layout->field_count; i++)
        for (uint32_t k = 0; layout->fields[i].ragged && k < layout->column_count; k++)
            if (layout->columns[k].field == i) {
                source->sizes[count] = dataset->size_tables[i];
                source->columns[count++] = &layout->columns[k];
            }
}

static int open_mix(struct batch_samples *samples, const struct feed_shape *shape, struct error *error) {
    uint64_t first = 0;
    for (uint32_t i = 0; i < shape->dataset->layout->part_count; i++) {
        open_source(samples, shape->dataset->sources[i], first, &samples->sources[i]);
        first += dataset_stored_samples(shape->dataset->sources[i]->layout);
    }
    return mix_order_open(shape, samples->window.most, &samples->mix, error);
}

static int open_sampler(struct batch_samples *samples, const struct ring_header *header,
                        struct error *error) {
    const struct dataset *dataset = samples->dataset;
    open_source(samples, dataset, 0, samples->sources);
    int err = map_list(samples, error);
    if (err)
        return err;
    const struct dataset_list *list = samples->list;
    return sampler_open(&samples->sampler, (enum order_version)header->order_version, header->samples,
                        header->seed, &dataset->layout->selection, list ? list->words : NULL,
                        dataset_list_bytes(dataset->layout), error);
}

static int allocate(struct batch_samples *samples, const struct ring_header *header, struct error *error) {
    const uint32_t parts = samples->dataset->layout->part_count;
    samples->sources = calloc(parts ? parts : 1, sizeof *samples->sources);
    samples->samples = calloc(header->chunk_samples, sizeof *samples->samples);
    samples->epoch_samples = header->samples;
    struct window *window = &samples->window;
    window->most = (uint32_t)max_u64(WINDOW, header->chunk_samples);
    window->samples = calloc(window->most, sizeof *window->samples);
    window->source_of = calloc(window->most, sizeof *window->source_of);
    if (header->attempts_offset)
        samples->known = calloc(KNOWN, sizeof *samples->known);
    bool complete = samples->sources && samples->samples && window->samples && window->source_of &&
                    (!header->attempts_offset || samples->known);
    return complete ? 0 : error_set(error, -ENOMEM, "out of memory");
}

int batch_samples_open(const struct feed_shape *shape, const struct ring_header *header,
                       struct batch_samples **made, struct error *error) {
    struct batch_samples *samples = calloc(1, sizeof *samples);
    *made = NULL;
    if (!samples)
        return error_set(error, -ENOMEM, "out of memory");
    samples->dataset = shape->dataset;
    int err = allocate(samples, header, error);
    if (!err)
        err = shape->dataset->layout->part_count ? open_mix(samples, shape, error)
                                                 : open_sampler(samples, header, error);
    if (err)
        batch_samples_close(samples);
    else
        *made = samples;
    return err;
}

void batch_samples_close(struct batch_samples *samples) {
    if (!samples)
        return;
    sampler_close(&samples->sampler);
    if (samples->list)
        munmap((void *)samples->list, samples->list_bytes);
    mix_order_close(samples->mix);
    free(samples->sources);
    free(samples->samples);
    free(samples->window.samples);
    free(samples->window.source_of);
    free(samples->known);
    free(samples);
}

// ---- Which ones --------------------------------------------------------------------------------------------

static bool window_has(const struct window *window, uint64_t epoch, uint64_t first, uint32_t count) {
    return epoch == window->epoch && first >= window->first && first - window->first <= window->count &&
           count <= window->count - (first - window->first);
}

static void move_window(struct batch_samples *samples, uint64_t epoch, uint64_t first, uint32_t count) {
    struct window *window = &samples->window;
    window->epoch = epoch;
    window->first = first;
    window->count = count;
    if (!samples->mix) {
        sampler_samples(&samples->sampler, epoch, first, count, window->samples);
        return;
    }
    const struct mix_draw *draws = mix_order_samples(samples->mix, epoch, first, count, window->samples);
    for (uint32_t i = 0; i < count; i++)
        window->source_of[i] = window->samples[i] == UINT64_MAX ? 0 : (uint16_t)draws[i].source;
}

// As many as were asked for one after another, so that little is looked up in vain if batches lie here and there, as
// those of one of many ranks do. `rest`: of the batch.
static uint32_t look_ahead(const struct batch_samples *samples, uint64_t first, uint32_t count,
                           uint64_t rest) {
    const uint64_t left = first < samples->epoch_samples ? samples->epoch_samples - first : 0;
    const uint64_t wanted = min_u64(max_u64(rest, samples->in_turn), left);
    return (uint32_t)max_u64(min_u64(wanted, samples->window.most), count);
}

void batch_samples_find(struct batch_samples *samples, const struct batch_place *place, uint32_t first,
                        uint32_t count) {
    const uint64_t position = place->first_position + first;
    const bool follows =
        place->epoch == samples->epoch && position == samples->first_position + samples->count;
    struct window *window = &samples->window;
    if (!follows)
        samples->in_turn = 0;
    if (!window_has(window, place->epoch, position, count))
        move_window(samples, place->epoch, position,
                    look_ahead(samples, position, count, place->count - first));
    const uint64_t offset = position - window->first;
    samples->in_turn += count;
    samples->epoch = place->epoch;
    samples->first_position = position;
    samples->count = count;
    samples->source_of = window->source_of + offset;
    memcpy(samples->samples, window->samples + offset, count * sizeof *samples->samples);
}

void batch_samples_replace(struct batch_samples *samples, uint32_t i, uint32_t attempt) {
    const uint64_t position = samples->first_position + i;
    samples->samples[i] = samples->mix
                              ? mix_order_replacement(samples->mix, samples->epoch, position, attempt)
                              : sampler_replacement(&samples->sampler, samples->epoch, position, attempt);
}

static uint64_t *known_place(const struct batch_samples *samples, uint64_t number) {
    return &samples->known[number * 0x9e3779b97f4a7c15u >> 32 & (KNOWN - 1)];
}

bool batch_samples_is_bad(const struct batch_samples *samples, uint32_t i) {
    const struct source *source = &samples->sources[samples->source_of[i]];
    const uint64_t sample = samples->samples[i], number = source->first_sample + sample;
    if (sample == UINT64_MAX)
        return false;
    return *known_place(samples, number) == number + 1 ||
           dataset_is_incomplete(source->dataset->layout, source->dataset->index, sample);
}

void batch_samples_mark_bad(struct batch_samples *samples, uint32_t i) {
    if (samples->forgets || samples->samples[i] == UINT64_MAX)
        return;
    const uint64_t number = samples->sources[samples->source_of[i]].first_sample + samples->samples[i];
    *known_place(samples, number) = number + 1;
}

// ---- How many bytes ----------------------------------------------------------------------------------------

static inline uint64_t sample_bytes(const struct source *source, uint32_t field, uint64_t sample) {
    if (sample == UINT64_MAX)
        return 0;
    return source->sizes[field] ? size_table_get(source->sizes[field], sample)
                                : column_sample_bytes(source->columns[field], source->dataset->index, sample);
}

uint64_t batch_samples_bytes(const struct batch_samples *samples, uint32_t field, uint32_t i) {
    return sample_bytes(&samples->sources[samples->source_of[i]], field, samples->samples[i]);
}

static void prefetch_one(const struct batch_samples *samples, uint32_t field, uint64_t at) {
    const struct source *source = &samples->sources[samples->window.source_of[at]];
    const uint64_t *sample = &samples->window.samples[at];
    if (source->sizes[field])
        size_table_prefetch(source->sizes[field], sample, 1);
    else if (*sample != UINT64_MAX)
        column_prefetch(source->columns[field], source->dataset->index, *sample);
}

// What sums of later samples will need: of those that are probably asked for next.
static void prefetch(const struct batch_samples *samples, uint32_t field, uint32_t count) {
    const struct window *window = &samples->window;
    const struct size_table *only = samples->mix ? NULL : samples->sources[0].sizes[field];
    const uint64_t from = samples->first_position - window->first + AHEAD;
    const uint64_t to = min_u64(from + count, window->count);
    if (only && from < to)
        size_table_prefetch(only, window->samples + from, (uint32_t)(to - from));
    for (uint64_t at = from; !only && at < to; at++)
        prefetch_one(samples, field, at);
}

uint64_t batch_samples_sum(const struct batch_samples *samples, uint32_t field, uint32_t count) {
    const struct size_table *only = samples->mix ? NULL : samples->sources[0].sizes[field];
    uint64_t bytes = 0;
    prefetch(samples, field, count);
    if (only)
        return size_table_sum(only, samples->samples, count);
    for (uint32_t i = 0; i < count; i++)
        bytes += sample_bytes(&samples->sources[samples->source_of[i]], field, samples->samples[i]);
    return bytes;
}

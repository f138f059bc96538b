#include "daemon/supervisor/feeds/batch_samples.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "daemon/dataset/column_size.h"
#include "daemon/supervisor/feeds/mix_order.h"
#include "order/sampler.h"

#define AHEAD 16u    // samples whose index entries are on their way from memory
#define KNOWN 16384u // bad samples that are remembered; a power of two

// A dataset or view, or a source of a mix.
struct source {
    const struct dataset *dataset;
    uint64_t first_sample; // is added to the numbers of its samples, which so differ between sources
    const struct dataset_column *columns[RING_MAX_FIELDS]; // the ragged fields, in their order
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
    uint64_t epoch, first_position; // of what was found last
    uint64_t *samples;              // as the source numbers them; of a mix, UINT64_MAX beyond the run's end
    uint16_t *source_of;            // of each sample
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
            if (layout->columns[k].field == i)
                source->columns[count++] = &layout->columns[k];
}

static int open_mix(struct batch_samples *samples, const struct feed_shape *shape, uint32_t most,
                    struct error *error) {
    uint64_t first = 0;
    for (uint32_t i = 0; i < shape->dataset->layout->part_count; i++) {
        open_source(samples, shape->dataset->sources[i], first, &samples->sources[i]);
        first += dataset_stored_samples(shape->dataset->sources[i]->layout);
    }
    return mix_order_open(shape, most, &samples->mix, error);
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
    samples->source_of = calloc(header->chunk_samples, sizeof *samples->source_of);
    if (header->attempts_offset)
        samples->known = calloc(KNOWN, sizeof *samples->known);
    bool complete = samples->sources && samples->samples && samples->source_of &&
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
        err = shape->dataset->layout->part_count ? open_mix(samples, shape, header->chunk_samples, error)
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
    free(samples->source_of);
    free(samples->known);
    free(samples);
}

// ---- Which ones --------------------------------------------------------------------------------------------

void batch_samples_find(struct batch_samples *samples, uint64_t epoch, uint64_t first_position,
                        uint32_t count) {
    samples->epoch = epoch;
    samples->first_position = first_position;
    if (!samples->mix) {
        sampler_samples(&samples->sampler, epoch, first_position, count, samples->samples);
        return;
    }
    const struct mix_draw *draws =
        mix_order_samples(samples->mix, epoch, first_position, count, samples->samples);
    for (uint32_t i = 0; i < count; i++)
        samples->source_of[i] = samples->samples[i] == UINT64_MAX ? 0 : (uint16_t)draws[i].source;
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

uint64_t batch_samples_bytes(const struct batch_samples *samples, uint32_t field, uint32_t i) {
    const struct source *source = &samples->sources[samples->source_of[i]];
    if (samples->samples[i] == UINT64_MAX)
        return 0;
    return column_sample_bytes(source->columns[field], source->dataset->index, samples->samples[i]);
}

static void prefetch(const struct batch_samples *samples, uint32_t field, uint32_t i) {
    const struct source *source = &samples->sources[samples->source_of[i]];
    if (samples->samples[i] != UINT64_MAX)
        column_prefetch(source->columns[field], source->dataset->index, samples->samples[i]);
}

uint64_t batch_samples_sum(const struct batch_samples *samples, uint32_t field, uint32_t count) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (i + AHEAD < count)
            prefetch(samples, field, i + AHEAD);
        bytes += batch_samples_bytes(samples, field, i);
    }
    return bytes;
}

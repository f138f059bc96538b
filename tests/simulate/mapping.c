#include "tests/simulate/mapping.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/error.h"
#include "daemon/supervisor/datasets.h"
#include "order/replace.h"
#include "tests/simulate/defects.h"
#include "tests/simulate/growing.h"

static LIST_HEAD(, mapping) mappings;

void mappings_begin(void) {
    LIST_INIT(&mappings);
}

static enum dataset_kind kind_of(const char *name) {
    uint32_t kind = 0;
    while (strcmp(dataset_plans[kind].name, name) != 0)
        SIM_MUST(++kind < DATASETS);
    return (enum dataset_kind)kind;
}

static size_t list_bytes(const struct dataset *dataset) {
    size_t bytes = dataset_list_bytes(dataset->layout);
    return bytes ? bytes + sizeof(struct dataset_list) : 0;
}

static void know_dataset(struct mapping *mapping, struct dataset *dataset) {
    const struct ring_header *header = mapping->ring.header;
    const size_t bytes = list_bytes(dataset);
    mapping->dataset = dataset_ref(dataset);
    mapping->brought = dataset->brought;
    mapping->stored = dataset_plans[kind_of(dataset->brought ? dataset->of : dataset->name)].of;
    if (bytes) {
        mapping->list = mmap(NULL, bytes, PROT_READ, MAP_SHARED, dataset->list_fd, 0);
        SIM_MUST(mapping->list != MAP_FAILED);
    }
    SIM_MUST(sampler_open(&mapping->sampler, (enum order_version)header->order_version, header->samples,
                          header->seed, &dataset->layout->selection,
                          mapping->list ? mapping->list->words : NULL, dataset_list_bytes(dataset->layout),
                          NULL) == 0);
    mapping->places = places_open(dataset, &mapping->ring);
}

struct mapping *mapping_get(const struct served_feed *feed, int fd) {
    struct mapping *mapping;
    struct error error = {0};
    LIST_FOREACH(mapping, &mappings, link)
        if (mapping->control == feed->ring.control)
            break;
    if (!mapping) {
        mapping = calloc(1, sizeof *mapping);
        SIM_MUST(mapping && ring_map(&mapping->ring, fd, RING_FILL, &error) == 0);
        struct stat status;
        SIM_MUST(fstat(fd, &status) == 0);
        mapping->file = status.st_ino;
        mapping->control = feed->ring.control;
        know_dataset(mapping, feed->dataset);
        LIST_INSERT_HEAD(&mappings, mapping, link);
    }
    mapping->references++;
    return mapping;
}

void mapping_put(struct mapping *mapping) {
    if (--mapping->references)
        return;
    LIST_REMOVE(mapping, link);
    sampler_close(&mapping->sampler);
    if (mapping->list)
        munmap(mapping->list, list_bytes(mapping->dataset));
    places_close(mapping->places);
    ring_unmap(&mapping->ring);
    datasets_release(mapping->dataset, NULL);
    free(mapping);
}

// ---- Samples -----------------------------------------------------------------------------------------------

static void find_ragged(struct mapping *mapping, struct claimed *claimed) {
    const struct ring_claim *claim = &claimed->claim;
    places_find(mapping->places, claim, claimed->samples, claimed->places);
    const uint32_t last = claim->count - 1;
    growing_check(mapping->file, mapping->ring.header, claim->slot,
                  claimed->places[last] + dataset_bytes_of(mapping->stored, claimed->samples[last]));
}

static uint64_t epoch_to_draw(struct mapping *mapping, const struct ring_claim *claim) {
    if (!mapping->claimed)
        mapping->first_epoch = claim->epoch;
    mapping->claimed = true;
    bool restarts =
        defect_is(DEFECT_DRAWS_RESTART) && mapping->sampler.selector.selection.kind == SELECTION_WEIGHTED_1;
    return restarts ? claim->epoch - min_u64(mapping->first_epoch, claim->epoch) : claim->epoch;
}

uint32_t mapping_attempt(const struct mapping *mapping, const struct ring_claim *claim, uint32_t i) {
    if (!mapping->ring.header->attempts_offset)
        return 0;
    return atomic_load_explicit(&ring_attempts(&mapping->ring, claim->slot)[claim->first_sample + i],
                                memory_order_relaxed);
}

void mapping_find(struct mapping *mapping, struct claimed *claimed) {
    const struct ring_claim *claim = &claimed->claim;
    const struct ring_field *field = &mapping->ring.header->fields[0];
    SIM_MUST(claim->count && claim->count <= CLAIM_MOST);
    sampler_samples(&mapping->sampler, epoch_to_draw(mapping, claim), claim->first_position, claim->count,
                    claimed->samples);
    for (uint32_t i = 0; i < claim->count; i++) {
        const uint32_t attempt = mapping_attempt(mapping, claim, i);
        if (attempt)
            mapping_replace(mapping, claimed, i, attempt);
    }
    if (field->ragged) {
        find_ragged(mapping, claimed);
        return;
    }
    for (uint32_t i = 0; i < claim->count; i++)
        claimed->places[i] = field->slot_offset + (claim->first_sample + i) * field->sample_bytes;
}

void mapping_replace(const struct mapping *mapping, struct claimed *claimed, uint32_t i, uint32_t attempt) {
    const struct sampler *sampler = &mapping->sampler;
    const struct ring_claim *claim = &claimed->claim;
    claimed->samples[i] =
        replace_number(sampler->seed, claim->epoch, claim->first_position + i, attempt, sampler->samples);
    selector_map(&sampler->selector, sampler->seed, claim->epoch, &claimed->samples[i], 1);
}

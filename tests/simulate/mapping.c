#include "tests/simulate/mapping.h"

#include <string.h>

static LIST_HEAD(, mapping) mappings;

void mappings_begin(void) {
    LIST_INIT(&mappings);
}

static enum dataset_kind kind_of(const struct dataset *dataset) {
    uint32_t kind = 0;
    while (strcmp(dataset_plans[kind].name, dataset->name) != 0)
        SIM_MUST(++kind < DATASETS);
    return (enum dataset_kind)kind;
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
        mapping->control = feed->ring.control;
        mapping->dataset = kind_of(feed->dataset);
        LIST_INSERT_HEAD(&mappings, mapping, link);
    }
    mapping->references++;
    return mapping;
}

void mapping_put(struct mapping *mapping) {
    if (--mapping->references)
        return;
    LIST_REMOVE(mapping, link);
    ring_unmap(&mapping->ring);
    free(mapping);
}

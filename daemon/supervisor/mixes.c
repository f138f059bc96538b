#include "daemon/supervisor/mixes.h"

#include "daemon/source/mixture.h"
#include "daemon/supervisor/indexing.h"

bool mixes_is_settled(const struct supervisor *supervisor, size_t place) {
    const struct dataset_config *config = &supervisor->config->datasets[place];
    bool settled = true;
    for (size_t i = 0; i < config->source_count; i++) {
        size_t source = config->source_places[i];
        settled &= supervisor->datasets[source] || indexing_state(supervisor, source) == INDEX_FAILED;
    }
    return settled;
}

bool mixes_uses(const struct supervisor *supervisor, size_t place, size_t source) {
    const struct dataset_config *config = &supervisor->config->datasets[place];
    bool uses = false;
    for (size_t i = 0; i < config->source_count; i++)
        uses |= config->source_places[i] == source;
    return uses;
}

int mixes_open(struct supervisor *supervisor, size_t place, struct error *error) {
    struct dataset **served = &supervisor->datasets[place];
    if (*served)
        return 0;
    const struct dataset_config *config = &supervisor->config->datasets[place];
    for (size_t i = 0; i < config->source_count; i++)
        if (!supervisor->datasets[config->source_places[i]])
            return indexing_failure(supervisor, config->source_places[i], error);
    return mixture_open(&supervisor->config->datasets[place], supervisor->datasets, served, error);
}

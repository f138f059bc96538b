#include "daemon/supervisor/made_of.h"

#include "daemon/source/mixture.h"
#include "daemon/supervisor/indexing.h"

size_t made_of_count(const struct supervisor *supervisor, size_t number) {
    const struct dataset_config *config = &supervisor->config->datasets[number];
    return config->view ? 1 : config->source_count;
}

size_t made_of_number(const struct supervisor *supervisor, size_t number, size_t i) {
    const struct dataset_config *config = &supervisor->config->datasets[number];
    return config->view ? config->of_number : config->source_numbers[i];
}

bool made_of_is_settled(const struct supervisor *supervisor, size_t number) {
    bool settled = true;
    for (size_t i = 0; i < made_of_count(supervisor, number); i++) {
        const size_t of = made_of_number(supervisor, number, i);
        settled &= supervisor->datasets[of] || indexing_state(supervisor, of) == INDEX_FAILED;
    }
    return settled;
}

bool made_of_uses(const struct supervisor *supervisor, size_t number, size_t of) {
    bool uses = false;
    for (size_t i = 0; i < made_of_count(supervisor, number); i++)
        uses |= made_of_number(supervisor, number, i) == of;
    return uses;
}

int made_of_missing(const struct supervisor *supervisor, size_t number, struct error *error) {
    for (size_t i = 0; i < made_of_count(supervisor, number); i++) {
        const size_t of = made_of_number(supervisor, number, i);
        if (!supervisor->datasets[of])
            return indexing_failure(supervisor, of, error);
    }
    return 0;
}

int made_of_open_mix(struct supervisor *supervisor, size_t number, struct error *error) {
    struct dataset **served = &supervisor->datasets[number];
    if (*served)
        return 0;
    return mixture_open(&supervisor->config->datasets[number], supervisor->datasets, served, error);
}

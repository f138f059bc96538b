#include "daemon/supervisor/clients/query_confinement.h"

// Of several processes: what any wanted, and what all achieved.
struct sum {
    uint32_t processes, wanted, achieved;
};

static void take(struct sum *sum, uint64_t word) {
    if (!word)
        return;
    sum->achieved = (sum->processes ? sum->achieved : UINT32_MAX) & confinement_achieved(word);
    sum->wanted |= confinement_wanted(word);
    sum->processes++;
}

static uint64_t read_word(const _Atomic uint64_t *word) {
    return atomic_load_explicit(word, memory_order_relaxed);
}

static struct sum sum_loaders(const struct stats_region *stats) {
    struct sum sum = {0};
    for (uint32_t i = 0; i < STATS_MAX_LOADERS; i++)
        if (read_word(&stats->owners.feed[i]))
            take(&sum, read_word(&stats->loaders[i].confined));
    return sum;
}

static struct sum sum_transfers(const struct stats_region *stats) {
    struct sum sum = {0};
    for (uint32_t i = 0; i < STATS_MAX_GPUS; i++)
        if (stats->gpus[i].used && read_word(&stats->gpus[i].pid))
            take(&sum, read_word(&stats->gpus[i].confined));
    return sum;
}

static size_t name_parts(uint32_t parts, char **names) {
    size_t count = 0;
    for (uint32_t i = 0; i < CONFINEMENT_PARTS; i++)
        if (parts & 1u << i)
            names[count++] = (char *)confinement_name((enum confinement_part)i);
    return count;
}

static void add(struct query_confinement *confinement, const char *role, const struct sum *sum) {
    if (!sum->processes)
        return;
    size_t place = confinement->count++;
    Feedd__Confinement *row = confinement->list[place] = &confinement->rows[place];
    feedd__confinement__init(row);
    row->role = (char *)role;
    row->processes = sum->processes;
    row->active = confinement->active[place];
    row->n_active = name_parts(sum->achieved & sum->wanted, row->active);
    row->missing = confinement->missing[place];
    row->n_missing = name_parts(sum->wanted & ~sum->achieved, row->missing);
}

void query_list_confinement(const struct supervisor *supervisor, struct query_confinement *confinement) {
    struct sum own = {0};
    struct sum loaders = sum_loaders(supervisor->stats), transfers = sum_transfers(supervisor->stats);
    take(&own, supervisor->confined);
    confinement->count = 0;
    add(confinement, "supervisor", &own);
    add(confinement, "loader", &loaders);
    add(confinement, "transfer", &transfers);
}

#include "tests/simulate/plan.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/simulate/chaos.h"

struct plan plan;

// One of them.
#define CHOOSE(...)                                                                                          \
    ({                                                                                                       \
        const uint64_t choices_[] = {__VA_ARGS__};                                                           \
        choices_[sim_below(COUNT_OF(choices_))];                                                             \
    })

// All on GPUs, or some; mostly on the same.
static void choose_devices(struct group *group) {
    if (!sim_chance(350))
        return;
    uint32_t here = (uint32_t)CHOOSE(500, 1000), elsewhere = (uint32_t)CHOOSE(0, 0, 500);
    for (uint32_t i = 0; i < group->clients; i++)
        if (sim_chance(here))
            group->devices[i] = sim_chance(elsewhere) ? "host:1" : "host:0";
}

// The dataset or view of a group: some much more often than others.
static void choose_dataset(struct group *group) {
    static const uint16_t shares[DATASETS] = {
        [DATASET_SMALL] = 210,   [DATASET_LARGE] = 150,  [DATASET_STRICT] = 50,   [DATASET_RAGGED] = 90,
        [DATASET_REPLACED] = 80, [DATASET_SPLIT] = 40,   [DATASET_LISTED] = 60,   [DATASET_DRAWN] = 50,
        [DATASET_UNEVEN] = 60,   [DATASET_PATCHED] = 60, [DATASET_WINDOWED] = 70, [DATASET_STRETCH] = 40,
        [DATASET_MIXED] = 40,
    };
    uint64_t point = sim_below(1000);
    uint32_t kind = 0;
    while (point >= shares[kind])
        point -= shares[kind++];
    group->dataset = (enum dataset_kind)kind;
    group->run.view = dataset_plans[kind].view;
    if (dataset_plans[kind].of != kind || kind == DATASET_STRICT || kind == DATASET_MIXED || !sim_chance(200))
        return;
    group->brings = true;
    group->run.view = view_to_bring(group->dataset, sim_below(VIEWS_TO_BRING));
}

// As another group that brings one, but perhaps another view of the same kind.
static void bring_another(struct group *group, const struct group *as) {
    group->dataset = as->dataset;
    group->brings = true;
    group->user = as->user;
    do
        group->run.view = view_to_bring(group->dataset, sim_below(VIEWS_TO_BRING));
    while (group->run.view.kind != as->run.view.kind);
}

static bool is_ragged(const struct group *group) {
    return !dataset_plans[group->dataset].sample_bytes;
}

static bool is_large(const struct group *group) {
    return is_ragged(group) || dataset_plans[group->dataset].of == DATASET_LARGE;
}

static void make_group(struct group *group, uint32_t number) {
    const uid_t users[] = {geteuid(), 1001, 1002};
    bool shared = sim_chance(600);
    group->user = users[sim_below(COUNT_OF(users))];
    if (number && plan.groups[0].brings && sim_chance(500))
        bring_another(group, &plan.groups[0]);
    else
        choose_dataset(group);
    const struct reference_view view = group->run.view;
    group->clients = (uint32_t)sim_between(1, shared ? 3 : 2);
    group->world_size = sim_chance(400) ? group->clients : (uint32_t)sim_between(1, 2);
    group->wait_for = shared && sim_chance(400) ? group->clients : 1;
    group->prefetch = (uint32_t)CHOOSE(0, 0, 1, 2, 3, 6);
    group->epochs = sim_between(1, 2);
    group->ring_bytes = CHOOSE(0, 0, 32u << 10, 128u << 10);
    group->pace_us = (uint32_t)CHOOSE(20, 200, 2000, 30000);
    group->pauses = (uint32_t)CHOOSE(0, 0, 0, 5, 30);
    group->leaves = (uint32_t)CHOOSE(0, 0, 10, 40);
    group->wanders = (uint32_t)CHOOSE(0, 0, 0, 500);
    group->stays_lost = sim_chance(60);
    choose_devices(group);
    if (shared)
        snprintf(group->share, sizeof group->share, "s%u", number);
    group->run = (struct reference_run){
        .view = view,
        .samples = view.kind ? view.count : dataset_plans[group->dataset].samples,
        .seed = sim_below(4),
        .by_position = group->dataset == DATASET_MIXED,
        .batch_size = is_large(group) ? sim_between(1, 6) : sim_between(2, 9),
        .world_size = group->world_size,
        .shuffle = sim_chance(700),
        .drop_last = sim_chance(300),
    };
}

// For the largest ring and pool of each group, alone, within what its user may have.
static void make_room(void) {
    for (uint32_t i = 0; i < plan.group_count; i++) {
        if (!is_ragged(&plan.groups[i]))
            continue;
        plan.ring_memory = max_u64(plan.ring_memory, 12u << 20);
        plan.device_memory = max_u64(plan.device_memory, 24u << 20);
    }
}

static void make_configuration(void) {
    plan.loaders = sim_between(1, 3);
    plan.ring = CHOOSE(32u << 10, 64u << 10, 256u << 10);
    plan.linger_s = CHOOSE(0, 1, 5);
    plan.max_lag_s = CHOOSE(2, 4, 8);
    plan.loader_timeout_s = CHOOSE(2, 4);
    plan.ring_memory = 1ull << 30;
    plan.device_pool = CHOOSE(16u << 10, 128u << 10, 512u << 10);
    plan.device_memory = 1ull << 30;
    plan.device_linger_s = CHOOSE(0, 1, 5);
    plan.scarce = sim_chance(100);
    if (plan.scarce) {
        plan.user_feeds = CHOOSE(0, 1, 2);
        plan.ring_memory =
            CHOOSE(8u << 20, 16u << 20); // at least the largest ring, with what users may have of it
        plan.device_memory = CHOOSE(10u << 20, 16u << 20);
    }
    plan.prepares = sim_chance(700);
}

static void make_storage(void) {
    plan.read_us_least = (uint32_t)CHOOSE(5, 50, 2000);
    plan.read_us_most = plan.read_us_least * (uint32_t)CHOOSE(2, 10, 50);
    plan.hiccups = (uint32_t)CHOOSE(0, 0, 5, 50);
    plan.stucks = (uint32_t)CHOOSE(0, 0, 0, 2, 20);
    plan.hangs = (uint32_t)CHOOSE(0, 500, 1000);
    plan.bad = (uint32_t)CHOOSE(0, 0, 30, 200);
    plan.flaky = (uint32_t)CHOOSE(0, 0, 100, 400);
}

static void make_surroundings(void) {
    plan.delay_us = (uint32_t)CHOOSE(2, 20, 200, 3000);
    plan.torn = (uint32_t)CHOOSE(0, 0, 20, 300);
    plan.full = (uint32_t)CHOOSE(0, 0, 20, 200);
    plan.socket_bytes = sim_chance(100) ? 4608 : 0;
    plan.no_memory = (uint32_t)CHOOSE(0, 0, 0, 100);
    plan.no_growth = (uint32_t)CHOOSE(0, 0, 100, 500);
    plan.thread_us = (uint32_t)CHOOSE(10, 1000, 200000);
    plan.unspawned = (uint32_t)CHOOSE(0, 0, 0, 100);
    plan.stillborn = (uint32_t)CHOOSE(0, 0, 0, 200);
    plan.deaths = (uint32_t)CHOOSE(0, 0, 0, 4, 30, 100);
}

static void make_gpus(void) {
    plan.copy_us = (uint32_t)CHOOSE(2, 50, 1000);
    plan.transfer_deaths = (uint32_t)CHOOSE(0, 0, 1, 5, 20);
    plan.driver_hangs = (uint32_t)CHOOSE(0, 0, 0, 500);
    plan.driver_delays = (uint32_t)CHOOSE(0, 0, 5, 50);
    plan.lies = (uint32_t)CHOOSE(0, 0, 0, 0, 10);
}

// One consumer of a shared feed is detached while it holds batches, and others begin a new run in the same ring.
static void make_relay(void) {
    struct group *group = &plan.groups[0];
    plan.group_count = 1;
    plan.scarce = false;
    plan.user_feeds = 0;
    plan.deaths = plan.stillborn = plan.unspawned = plan.no_memory = plan.stucks = 0;
    plan.max_lag_s = 2;
    plan.linger_s = 5;
    plan.gap_us = 400000;
    plan.faults = 60;
    for (uint32_t i = 0; i < CHAOS_KINDS; i++)
        plan.weights[i] = i == CHAOS_STOP_CLIENT || i == CHAOS_STOP_LOADER;
    *group = (struct group){.dataset = DATASET_SMALL,
                            .user = geteuid(),
                            .share = "relay",
                            .epochs = 4,
                            .clients = 3,
                            .world_size = 1,
                            .wait_for = 1,
                            .prefetch = (uint32_t)sim_between(2, 4),
                            .ring_bytes = 32 << 10,
                            .pace_us = 2000,
                            .pauses = 60,
                            .wanders = 900};
    choose_devices(group);
    group->run = (struct reference_run){
        .samples = dataset_plans[DATASET_SMALL].samples, .batch_size = 9, .world_size = 1, .shuffle = true};
}

// Two feeds whose slots cannot all grow within the memory for rings.
static void make_tight(void) {
    plan.group_count = 2;
    plan.scarce = true;
    plan.user_feeds = 0;
    plan.ring = 32 << 10;
    plan.ring_memory = sim_between(10, 13) << 18;
    for (uint32_t i = 0; i < plan.group_count; i++) {
        struct group *group = &plan.groups[i];
        *group = (struct group){.dataset = (enum dataset_kind)CHOOSE(DATASET_RAGGED, DATASET_LISTED,
                                                                     DATASET_PATCHED, DATASET_WINDOWED),
                                .user = geteuid(),
                                .epochs = 2,
                                .clients = 1,
                                .world_size = 1,
                                .wait_for = 1,
                                .prefetch = (uint32_t)sim_between(1, 3),
                                .pace_us = 2000,
                                .leaves = 20};
        group->run = (struct reference_run){.view = dataset_plans[group->dataset].view,
                                            .samples = dataset_plans[group->dataset].samples,
                                            .batch_size = 6,
                                            .world_size = 1,
                                            .seed = sim_below(4),
                                            .shuffle = true};
        if (group->run.view.kind)
            group->run.samples = group->run.view.count;
    }
}

void plan_make(void) {
    plan = (struct plan){.group_count = (uint32_t)CHOOSE(1, 1, 2, 2, 3)};
    make_configuration();
    make_storage();
    make_surroundings();
    make_gpus();
    plan.faults = (uint32_t)CHOOSE(0, 2, 6, 20);
    plan.gap_us = (uint32_t)CHOOSE(500, 5000, 50000, 400000);
    for (uint32_t i = 0; i < CHAOS_KINDS; i++)
        plan.weights[i] = (uint32_t)CHOOSE(0, 1, 1, 4);
    for (uint32_t i = 0; i < plan.group_count; i++)
        make_group(&plan.groups[i], i);
    if (plan.scarce)
        make_room();
    if (sim_chance(60))
        make_relay();
    else if (sim_chance(40))
        make_tight();
}

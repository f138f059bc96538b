#include "tests/simulate/plan.h"

#include <stdio.h>
#include <unistd.h>

#include "tests/simulate/chaos.h"

const struct dataset_plan dataset_plans[DATASETS] = {
    [DATASET_SMALL] = {"small", 57, 16},
    [DATASET_LARGE] = {"large", 33, 44 << 10},
    [DATASET_STRICT] = {"strict", 40, 16},
};

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

static void make_group(struct group *group, uint32_t number) {
    const uid_t users[] = {geteuid(), 1001, 1002};
    bool shared = sim_chance(600);
    group->dataset = (enum dataset_kind)(sim_chance(80) ? DATASET_STRICT : sim_below(2));
    group->user = users[sim_below(COUNT_OF(users))];
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
        .samples = dataset_plans[group->dataset].samples,
        .seed = sim_below(4),
        .batch_size = group->dataset == DATASET_LARGE ? sim_between(1, 6) : sim_between(2, 9),
        .world_size = group->world_size,
        .shuffle = sim_chance(700),
        .drop_last = sim_chance(300),
    };
}

static void make_configuration(void) {
    plan.loaders = sim_between(1, 3);
    plan.ring = CHOOSE(32u << 10, 64u << 10, 512u << 10);
    plan.linger_s = CHOOSE(0, 1, 5);
    plan.max_lag_s = CHOOSE(2, 4, 8);
    plan.loader_timeout_s = CHOOSE(2, 4);
    plan.ring_memory = 1ull << 30;
    plan.device_pool = CHOOSE(16u << 10, 256u << 10, 1u << 20);
    plan.device_memory = 1ull << 30;
    plan.device_linger_s = CHOOSE(0, 1, 5);
    plan.scarce = sim_chance(100);
    if (plan.scarce) {
        plan.user_feeds = CHOOSE(0, 1, 2);
        plan.ring_memory =
            CHOOSE(8u << 20, 16u << 20); // at least the largest ring, with what users may have of it
        plan.device_memory = CHOOSE(10u << 20, 16u << 20);
    }
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
    plan.thread_us = (uint32_t)CHOOSE(10, 1000, 200000);
    plan.unspawned = (uint32_t)CHOOSE(0, 0, 0, 100);
    plan.stillborn = (uint32_t)CHOOSE(0, 0, 0, 200);
    plan.deaths = (uint32_t)CHOOSE(0, 0, 0, 4, 30, 100);
}

static void make_gpus(void) {
    plan.copy_us = (uint32_t)CHOOSE(2, 50, 1000);
    plan.transfer_deaths = (uint32_t)CHOOSE(0, 0, 1, 5, 20);
    plan.driver_hangs = (uint32_t)CHOOSE(0, 0, 0, 500);
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
    if (sim_chance(60))
        make_relay();
}

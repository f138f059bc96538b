// What the schedules check about memory orders: whether an actor that goes by a word could also see what shm/README.md
// ("Which ordering pairs with which") says the word makes visible.
#ifndef FEEDD_TESTS_UNIT_RING_ORDERS_H
#define FEEDD_TESTS_UNIT_RING_ORDERS_H

#include "tests/unit/ring_schedule.h"

#define SLOTS_MOST  2u
#define CHUNKS_MOST 2u

static struct ring stage; // what the actors map

// The job that a chunk word stands for: when it was last offered to loaders, and when it ended.
struct job_events {
    struct event offered, ended;
};

// A place in the queue: when it was written, and when loaders read it that then moved the cursor on.
struct entry_events {
    struct event written;
    struct event passed[ACTORS];
};

static struct job_events events[SLOTS_MOST][CHUNKS_MOST + 1]; // the repair last
static struct entry_events entries[4 * SLOTS_MOST];
static struct event urgent_counted; // the last change of urgent_wanted
static struct event sleepers_taken; // the supervisor's last exchange of loaders_asleep
static struct event failure_written;
static bool polling;        // the supervisor looks whether a batch is complete, and may sleep if it is not
static bool ending[ACTORS]; // a loader has ended a job, and looks whether it was the batch's last

static void orders_reset(void) {
    memset(events, 0, sizeof events);
    memset(entries, 0, sizeof entries);
    memset(ending, 0, sizeof ending);
    failure_written = urgent_counted = sleepers_taken = (struct event){0};
    polling = false;
}

static struct job_events *job_of(const void *word) {
    const uint8_t *at = word, *chunks = (const uint8_t *)ring_chunks(&stage, 0);
    const uint8_t *end = (const uint8_t *)stage.control + stage.header->skips_offset;
    for (uint32_t slot = 0; slot < stage.header->slot_count; slot++)
        if (word == &ring_slot(&stage, slot)->repair)
            return &events[slot][CHUNKS_MOST];
    if (at < chunks || at >= end)
        return NULL;
    uint64_t number = (uint64_t)(at - chunks) / sizeof(uint64_t);
    return &events[number / stage.header->chunks_per_slot][number % stage.header->chunks_per_slot];
}

static bool is_repair(const struct job_events *job) {
    return (size_t)(job - &events[0][0]) % (CHUNKS_MOST + 1) == CHUNKS_MOST;
}

static struct job_events *claimed_job(const struct ring_claim *claim) {
    return &events[claim->slot][claim->chunk == RING_REPAIR_CHUNK ? CHUNKS_MOST : claim->chunk];
}

static struct entry_events *entry_of(const void *word) {
    const uint8_t *queue = (const uint8_t *)ring_queue_entry(&stage, 0), *at = word;
    if (at < queue || at >= queue + sizeof(uint32_t) * stage.header->queue_entries)
        return NULL;
    return &entries[(size_t)(at - queue) / sizeof(uint32_t)];
}

static void note_job_change(struct job_events *job, enum chunk_state state, memory_order order) {
    if (state == CHUNK_FREE || state == CHUNK_RECOVERED)
        job->offered = event_now(world.current);
    if (state != CHUNK_DONE && state != CHUNK_FAILED)
        return;
    job->ended = event_now(world.current);
    if (order != memory_order_seq_cst)
        complain("a job ends with a store that may come after the look at supervisor_asleep");
}

static void note_entry_change(struct entry_events *entry) {
    for (int i = 0; i < ACTORS; i++)
        if (!event_known(world.current, entry->passed[i]))
            complain("a queue entry is replaced, and a loader that has passed it may see the new one");
    *entry = (struct entry_events){.written = event_now(world.current)};
}

// Whoever moves the cursor has read the entry under it: had it been replaced meanwhile, the cursor would have moved.
static void note_passed(uint64_t number) {
    const void *word = ring_queue_entry(&stage, number);
    uint32_t read = clock_of(word)->read.of[world.current];
    if (!event_known(world.current, entry_of(word)->written))
        complain("a queue entry is read that may not be there yet");
    entry_of(word)->passed[world.current] = (struct event){world.current, read};
}

static void note_failure(memory_order order) {
    failure_written = event_now(world.current);
    if (order != memory_order_seq_cst)
        complain("a failure is complete with a store that may come after the look at supervisor_asleep");
}

static void check_change_order(void *word, uint64_t from, uint64_t to, memory_order order) {
    const struct ring_control *control = stage.control;
    struct job_events *job = job_of(word);
    if (job)
        note_job_change(job, chunk_state(to), order);
    if (entry_of(word))
        note_entry_change(entry_of(word));
    if (word == &control->claim_cursor)
        note_passed(from / stage.header->chunks_per_slot);
    if (word == &control->urgent_wanted && from != to)
        urgent_counted = event_now(world.current);
    if (word == &control->loaders_asleep && world.current == 0 && to == 0)
        sleepers_taken = event_now(world.current);
    if (word == &control->failure.state && to == RING_FAILURE_COMPLETE)
        note_failure(order);
    if (word == &control->supervisor_asleep && order != memory_order_seq_cst)
        complain("supervisor_asleep is changed in an order that others need not see");
}

static void check_read(const void *word, memory_order order) {
    const struct ring_control *control = stage.control;
    bool decides = job_of(word) || word == &control->failure.state;
    if (world.current == 0) {
        if (polling && decides && order != memory_order_seq_cst)
            complain("a word that decides whether the supervisor sleeps may be read before it is armed");
        return;
    }
    if (ending[world.current] && job_of(word) && order != memory_order_seq_cst)
        complain("a loader may look at the other chunks before its own has ended");
    if (word == &control->supervisor_asleep && order != memory_order_seq_cst)
        complain("a loader may look at supervisor_asleep before its job has ended");
    if (word == &control->loaders_asleep && !event_known(world.current, sleepers_taken))
        complain("a loader goes to sleep, and may not see what was queued before its flag was taken back");
}

// After a claim, or the lack of one: what a loader has seen as counted it will not look for again.
static void check_urgent_seen(const struct ring *ring) {
    bool is_latest = ring->urgent_seen == raw_load(&stage.control->urgent_wanted, sizeof(uint32_t));
    if (is_latest && !event_known(world.current, urgent_counted))
        complain("an urgent job is counted as seen, and its word may not have been visible");
}

#endif

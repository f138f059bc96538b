// What child processes of the supervisor do, as the input says: loaders fill chunks, fail and die; a transfer process
// answers requests and copies batches, or reports anything.
#ifndef FEEDD_TESTS_FUZZ_WORLD_CHILDREN_H
#define FEEDD_TESTS_FUZZ_WORLD_CHILDREN_H

#include "daemon/supervisor/feeds/pool.h"
#include "shm/ring_loader.h"
#include "tests/fuzz/supervisor_world.h"

// ---- Loaders -----------------------------------------------------------------------------------------------

static inline struct loader_process *some_loader(struct served_feed **feed) {
    uint8_t choice = fuzz_byte(&world.input);
    struct loader_process *loader;
    LIST_FOREACH(*feed, &world.supervisor.feeds, link)
        LIST_FOREACH(loader, &(*feed)->loaders, link)
            if (loader->process.state == PROCESS_RUNNING && choice-- == 0)
                return loader;
    return NULL;
}

static inline bool report_chunk(struct ring *ring, const struct ring_claim *claim, uint8_t outcome) {
    if (claim->chunk == RING_REPAIR_CHUNK)
        return ring_chunk_done(ring, claim, 0);
    if (outcome % 16 == 15)
        return ring_chunk_failed(ring, claim, -EIO, outcome >> 6, 0, claim->first_sample);
    uint32_t skipped = outcome % 16 == 14 && claim->count ? 1 : 0;
    if (skipped)
        ring_skip_sample(ring, claim, claim->first_sample);
    return ring_chunk_done(ring, claim, skipped);
}

static inline void fill_chunks(struct served_feed *feed, struct loader_process *loader, uint32_t chunks,
                               uint8_t outcome) {
    struct ring_claim claim;
    const uint64_t one = 1;
    struct ring ring = feed->ring;
    ring.urgent_seen = 0;
    if (loader->record->read_file)
        return; // it waits for a read, silently, until it is killed
    loader->record->heartbeat_ns = world.now_ns;
    while (chunks-- && ring_claim(&ring, loader->serial, &claim)) {
        stats_add(&loader->record->counters[LOADER_samples], claim.count);
        if (outcome % 16 == 13 && !chunks) {
            loader->record->read_file = world.reads_hang;
            if (!world.reads_hang)
                end_process(&loader->process, 9);
        } else if (report_chunk(&ring, &claim, outcome))
            FUZZ_CHECK(write(feed->event_fd, &one, sizeof one) == sizeof one);
        outcome >>= outcome % 16 >= 13 ? 4 : 0;
    }
}

// A loader fills some chunks; of the last one it may die before it is done, or wait for a read that does not end.
static inline void work(void) {
    struct served_feed *feed;
    struct loader_process *loader = some_loader(&feed);
    uint8_t outcome = fuzz_byte(&world.input), chunks = fuzz_byte(&world.input) % 32;
    if (loader && feed->ring.header)
        fill_chunks(feed, loader, chunks, outcome);
}

// All loaders do all that there is to do.
static inline void work_well(void) {
    struct served_feed *feed;
    struct loader_process *loader;
    LIST_FOREACH(feed, &world.supervisor.feeds, link)
        LIST_FOREACH(loader, &feed->loaders, link)
            if (loader->process.state == PROCESS_RUNNING && feed->ring.header)
                fill_chunks(feed, loader, UINT32_MAX, 0);
}

static inline void die(void) {
    struct served_feed *feed;
    struct loader_process *loader = some_loader(&feed);
    if (loader)
        end_process(&loader->process, 9);
    else if (world.far_ends[0].process && !process_is_reaped(world.far_ends[0].process))
        end_process(world.far_ends[0].process, 9);
}

#define HOLDS_ON 0xe0 // quarters of a second from which on it is the time of a read that hangs

// From time to time, the kernel begins to hold on to processes that are killed, or lets them go.
static inline void wait_long(void) {
    uint8_t quarters = fuzz_byte(&world.input);
    if (quarters >= HOLDS_ON)
        world.reads_hang = !world.reads_hang;
    world_wait((1 + quarters) * (250 * NS_PER_MS));
}

// ---- Transfer processes --------------------------------------------------------------------------------------

static inline void send_report(const struct far_end *end, struct transfer_report *report, bool with_memory) {
    int fd = with_memory ? fuzz_memory_file() : -1;
    snprintf(report->text, sizeof report->text, "a sentence");
    control_send(end->fd, report, sizeof *report, &fd, with_memory);
    close_fd(&fd);
}

// Answers one request as a transfer process would.
static inline void answer_request(const struct far_end *end) {
    static const uint32_t answers[] = {[TRANSFER_OPEN_POOL] = TRANSFER_POOL_OPEN,
                                       [TRANSFER_CLOSE_POOL] = TRANSFER_POOL_CLOSED,
                                       [TRANSFER_REMOVE_CONSUMER] = TRANSFER_CONSUMER_REMOVED,
                                       [TRANSFER_GROW_SLOT] = TRANSFER_SLOT_GROWN};
    struct transfer_request request;
    int fds[CONTROL_MAX_DESCRIPTORS];
    struct received_fds received = receive_into(fds, CONTROL_MAX_DESCRIPTORS);
    if (control_receive(end->fd, &request, sizeof request, &received) != 1)
        return;
    struct transfer_report report = {.pool = request.pool,
                                     .consumer = request.consumer,
                                     .slot = request.slot,
                                     .memory_bytes = max_u64(request.memory_bytes, 4096)};
    FUZZ_CHECK(request.kind >= TRANSFER_OPEN_POOL && request.kind <= TRANSFER_GROW_SLOT);
    report.kind = answers[request.kind];
    const bool allocates =
        (request.kind == TRANSFER_OPEN_POOL && received.count == 3) || request.kind == TRANSFER_GROW_SLOT;
    if (report.kind)
        send_report(end, &report, allocates);
    received_fds_close(&received);
}

static inline void copy_batches(void) {
    struct served_feed *feed;
    struct pool *pool;
    struct ring_claim claim;
    const uint64_t one = 1;
    LIST_FOREACH(feed, &world.supervisor.feeds, link)
        LIST_FOREACH(pool, &feed->pools, link) {
            struct ring ring = pool->ring;
            ring.urgent_seen = 0;
            while (pool->state == POOL_OPEN && ring_claim(&ring, pool->owner, &claim))
                if (ring_chunk_done(&ring, &claim, 0))
                    FUZZ_CHECK(write(feed->event_fd, &one, sizeof one) == sizeof one);
        }
}

// What a transfer process does, or anything that one could report.
static inline void transfer(void) {
    const struct far_end *end = &world.far_ends[0];
    uint8_t what = fuzz_byte(&world.input);
    if (!end->process || process_is_reaped(end->process))
        return;
    transfer_process_of(end->process)->record->heartbeat_ns = world.now_ns;
    struct transfer_report report = {.kind = TRANSFER_READY};
    if (what < 64) {
        send_report(end, &report, false);
    } else if (what < 160) {
        for (uint32_t i = 0; i < 8; i++)
            answer_request(end);
        copy_batches();
    } else if (what < 250) {
        report.kind = fuzz_byte(&world.input) % (TRANSFER_LOST + 2);
        report.pool = (uint32_t)fuzz_number(&world.input);
        report.code = (int32_t) - (uint32_t)fuzz_number(&world.input);
        report.consumer = (uint32_t)fuzz_number(&world.input);
        report.memory_bytes = fuzz_number(&world.input);
        report.slot = (uint32_t)fuzz_number(&world.input);
        report.waited_ns = fuzz_number(&world.input) * NS_PER_MS;
        send_report(end, &report,
                    report.kind == TRANSFER_POOL_OPEN || report.kind == TRANSFER_SLOT_GROWN ? what % 2
                                                                                            : what % 16 == 1);
    } else {
        control_send(end->fd, &report, what - 240u, NULL, 0);
    }
}

#endif

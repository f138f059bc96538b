#include "tests/simulate/transfer_work.h"

#include <inttypes.h>

#include "base/error.h"
#include "tests/simulate/daemon.h"
#include "tests/simulate/lies.h"
#include "tests/simulate/network.h"

#define LAG_REPORT_NS  (1 * NS_PER_S)
#define NAP_RELEASE_NS (20 * NS_PER_US)
#define NAP_MOST_NS    (20 * NS_PER_MS)

bool __real_ring_claim(struct ring *ring, uint32_t owner, struct ring_claim *claim);
bool __wrap_ring_claim(struct ring *ring, uint32_t owner, struct ring_claim *claim);
bool __real_ring_chunk_done(struct ring *ring, const struct ring_claim *claim, uint32_t skipped);
bool __wrap_ring_chunk_done(struct ring *ring, const struct ring_claim *claim, uint32_t skipped);
int __real_gpu_copy_in(struct gpu *gpu, gpu_stream stream, uint64_t to, const void *from, uint64_t bytes,
                       struct error *error);
int __wrap_gpu_copy_in(struct gpu *gpu, gpu_stream stream, uint64_t to, const void *from, uint64_t bytes,
                       struct error *error);
int __real_gpu_write_words(struct gpu *gpu, gpu_stream stream, const struct gpu_word *words, uint32_t count,
                           struct error *error);
int __wrap_gpu_write_words(struct gpu *gpu, gpu_stream stream, const struct gpu_word *words, uint32_t count,
                           struct error *error);
// ---- Dying ------------------------------------------------------------------------------------------------

// Here a process can be killed: between any two things that others see.
static void may_die(void) {
    struct transfer *transfer = transfer_running;
    if (transfer && sim_fault(plan.transfer_deaths))
        _longjmp(transfer->dying, 9);
}

bool __wrap_ring_claim(struct ring *ring, uint32_t owner, struct ring_claim *claim) {
    may_die();
    return __real_ring_claim(ring, owner, claim);
}

bool __wrap_ring_chunk_done(struct ring *ring, const struct ring_claim *claim, uint32_t skipped) {
    may_die();
    bool wake = __real_ring_chunk_done(ring, claim, skipped);
    may_die();
    return wake;
}

int __wrap_gpu_copy_in(struct gpu *gpu, gpu_stream stream, uint64_t to, const void *from, uint64_t bytes,
                       struct error *error) {
    may_die();
    return __real_gpu_copy_in(gpu, stream, to, from, bytes, error);
}

int __wrap_gpu_write_words(struct gpu *gpu, gpu_stream stream, const struct gpu_word *words, uint32_t count,
                           struct error *error) {
    may_die();
    return __real_gpu_write_words(gpu, stream, words, count, error);
}

// ---- Talking to the supervisor: as in daemon/transfer/transfer.c -------------------------------------------

static void report(struct transfer *transfer, uint32_t kind, uint32_t pool, const struct error *error,
                   struct transfer_report *more, int fd) {
    struct transfer_report message = {0};
    may_die();
    if (more)
        message = *more;
    message.kind = kind;
    message.pool = pool;
    if (error) {
        message.code = error->code;
        snprintf(message.text, sizeof message.text, "%.*s", (int)sizeof message.text - 1, error->text);
    }
    if (control_send(transfer->control_fd, &message, sizeof message, &fd, fd >= 0) < 0)
        _longjmp(transfer->dying, 1);
    may_die();
}

static struct device_ring *find_pool(const struct transfer *transfer, uint32_t id) {
    struct device_ring *pool;
    LIST_FOREACH(pool, &transfer->pools, link)
        if (pool->id == id)
            break;
    return pool;
}

static void drop_pool(struct device_ring *pool) {
    LIST_REMOVE(pool, link);
    device_ring_end(pool);
}

static void open_pool(struct transfer *transfer, const struct transfer_request *request, int *fds,
                      uint32_t count) {
    struct device_ring *pool = NULL;
    struct error error = {0};
    if (device_ring_begin(transfer->gpu, NULL, request, fds, count, &pool, &error) < 0)
        report(transfer, TRANSFER_POOL_REFUSED, request->pool, &error, NULL, -1);
    else
        LIST_INSERT_HEAD(&transfer->pools, pool, link);
}

static void give_memory(struct transfer *transfer, struct device_ring *pool,
                        const struct transfer_request *request, int fd) {
    struct error error = {0};
    if (device_ring_give_memory(pool, request->slot, request->memory_bytes, fd, &error) == 0)
        return;
    report(transfer, TRANSFER_POOL_REFUSED, pool->id, &error, NULL, -1);
    drop_pool(pool);
}

static void grow_slot(struct transfer *transfer, struct device_ring *pool,
                      const struct transfer_request *request) {
    struct transfer_report answer = {.slot = request->slot};
    struct error error = {0};
    if (sim_fault(plan.no_growth)) {
        error_set(&error, -ENOMEM, "there is no memory in this scenario");
        report(transfer, TRANSFER_GROWTH_REFUSED, pool->id, &error, &answer, -1);
        return;
    }
    sim_trace("slot %u of pool %u grows to %" PRIu64 " bytes", request->slot, pool->id,
              request->memory_bytes);
    if (device_ring_grow_slot(pool, request->slot, request->memory_bytes, &answer.memory_bytes,
                              &pool->memory_fd, &error) < 0)
        report(transfer, TRANSFER_GROWTH_REFUSED, pool->id, &error, &answer, -1);
    else
        report(transfer, TRANSFER_SLOT_GROWN, pool->id, NULL, &answer, pool->memory_fd);
    close_fd(&pool->memory_fd);
}

static void handle(struct transfer *transfer, const struct transfer_request *request, int *fds,
                   uint32_t count) {
    struct device_ring *pool = find_pool(transfer, request->pool);
    struct transfer_report answer = {.consumer = request->consumer};
    struct error error = {0};
    switch (request->kind) {
    case TRANSFER_OPEN_POOL:
        open_pool(transfer, request, fds, count);
        return;
    case TRANSFER_CLOSE_POOL:
        if (pool)
            drop_pool(pool);
        report(transfer, TRANSFER_POOL_CLOSED, request->pool, NULL, NULL, -1);
        return;
    case TRANSFER_ADD_CONSUMER:
        SIM_MUST(count == 1);
        if (!pool)
            close(fds[0]);
        else if (device_ring_add_consumer(pool, request->consumer, fds[0], &error) < 0)
            report(transfer, TRANSFER_CONSUMER_REFUSED, pool->id, &error, &answer, -1);
        return;
    case TRANSFER_REMOVE_CONSUMER:
        if (pool)
            device_ring_remove_consumer(pool, request->consumer);
        report(transfer, TRANSFER_CONSUMER_REMOVED, request->pool, NULL, &answer, -1);
        return;
    case TRANSFER_GIVE_MEMORY:
        SIM_MUST(count == 1);
        if (pool)
            give_memory(transfer, pool, request, fds[0]);
        else
            close(fds[0]);
        return;
    case TRANSFER_GROW_SLOT:
        if (pool)
            grow_slot(transfer, pool, request);
        return;
    default:
        sim_violated("the supervisor asks a transfer process for %u", request->kind);
    }
}

static void listen_to_supervisor(struct transfer *transfer) {
    struct transfer_request request;
    int fds[CONTROL_MAX_DESCRIPTORS];
    struct received_fds received = receive_into(fds, CONTROL_MAX_DESCRIPTORS);
    int got;
    while ((got = control_receive(transfer->control_fd, &request, sizeof request, &received)) == 1) {
        handle(transfer, &request, fds, received.count);
        received.count = 0;
    }
    received_fds_close(&received);
    if (got < 0)
        _longjmp(transfer->dying, 1);
}

static void report_lag(struct transfer *transfer, struct device_ring *pool) {
    uint64_t since[RING_MAX_CONSUMERS];
    if (!pool->copies.waiting_count || sim.now_ns < pool->reported_lag_ns + LAG_REPORT_NS)
        return;
    pool->reported_lag_ns = sim.now_ns;
    uint64_t rest = copies_held_up(&pool->copies, sim.now_ns - LAG_REPORT_NS, since);
    for (; rest; rest &= rest - 1) {
        struct transfer_report more = {.consumer = (uint32_t)__builtin_ctzll(rest)};
        more.waited_ns = sim.now_ns - since[more.consumer];
        report(transfer, TRANSFER_LAGGING, pool->id, NULL, &more, -1);
    }
}

// ---- Working -----------------------------------------------------------------------------------------------

static void step_pool(struct transfer *transfer, struct device_ring *pool) {
    struct error error = {0};
    const uint64_t one = 1;
    bool wake = false;
    SIM_MUST(copies_step(&pool->copies, sim.now_ns, &wake, &error) == 0);
    may_die();
    if (wake) {
        SIM_MUST(write(pool->event_fd, &one, sizeof one) == sizeof one);
        daemon_wake(network_delay());
    }
    report_lag(transfer, pool);
}

// True: there was something to prepare.
static bool prepare_one(struct transfer *transfer) {
    struct device_ring *pool;
    struct error error = {0};
    LIST_FOREACH(pool, &transfer->pools, link)
        if (!pool->open && !pool->memory_due)
            break;
    if (!pool)
        return false;
    int left = device_ring_prepare(pool, &error);
    SIM_MUST(left >= 0);
    if (left)
        return true;
    struct transfer_report more = {.memory_bytes = pool->slots.first.bytes};
    report(transfer, TRANSFER_POOL_OPEN, pool->id, NULL, &more, pool->memory_fd);
    close_fd(&pool->memory_fd);
    return true;
}

static void driver_begins(struct gpu_watch *watch) {
    CONTAINER_OF(watch, struct transfer, watch)->has_called = true;
}

static void driver_ended(struct gpu_watch *watch) {
    (void)watch;
}

// True: it is in the driver from now on, for longer than loader_timeout, and shows that. What it does there has been
// done in an earlier round, as a process here cannot wait in the midst of one.
static bool waits_for_driver(struct transfer *transfer) {
    const bool waits = transfer->has_called && transfer->record && sim_fault(plan.driver_delays);
    transfer->has_called = false;
    if (transfer->record) {
        atomic_store(&transfer->record->heartbeat_ns, sim.now_ns);
        atomic_store(&transfer->record->in_driver, waits);
    }
    if (!waits)
        return false;
    transfer->in_driver_ns = sim.now_ns;
    transfer->driver_until_ns = transfer->stands_still_ns = sim.now_ns + sim_between(1, 8) * NS_PER_S;
    sim_trace("transfer process of %s: in the driver until %" PRIu64, transfer->uuid,
              transfer->driver_until_ns);
    actor_wake(&transfer->actor, transfer->driver_until_ns - sim.now_ns);
    return true;
}

static void open_gpu(struct transfer *transfer) {
    struct error error = {.text = "simulated"};
    SIM_MUST(gpu_open(&transfer->gpu, transfer->uuid, &error) == 0);
    transfer->watch = (struct gpu_watch){driver_begins, driver_ended};
    transfer->gpu->watch = &transfer->watch;
    report(transfer, TRANSFER_READY, 0, &error, NULL, -1);
}

// Copies in progress wake it; it looks again and again at what consumers release.
static void rest(struct transfer *transfer) {
    struct device_ring *pool;
    uint32_t under_way = 0, waiting = 0;
    bool work = false;
    LIST_FOREACH(pool, &transfer->pools, link) {
        under_way += pool->copies.under_way_count;
        waiting += pool->copies.waiting_count;
    }
    transfer->asleep = false;
    if (waiting) {
        transfer->nap_ns = transfer->nap_ns ? min_u64(transfer->nap_ns * 3 / 2, NAP_MOST_NS) : NAP_RELEASE_NS;
        actor_wake(&transfer->actor, transfer->nap_ns);
        return;
    }
    transfer->nap_ns = 0;
    if (under_way)
        return;
    LIST_FOREACH(pool, &transfer->pools, link)
        work |= pool->open && ring_announce_sleep(&pool->ring);
    if (work)
        actor_wake(&transfer->actor, sim_below(2 * NS_PER_US));
    transfer->asleep = !work; // nothing but a wake-up helps
}

void transfer_serve(struct transfer *transfer) {
    struct device_ring *pool;
    may_die();
    if (transfer->process && transfer->process->state == PROCESS_STOPPING)
        _longjmp(transfer->dying, TRANSFER_EXITS);
    if (waits_for_driver(transfer))
        return;
    if (!transfer->gpu)
        open_gpu(transfer);
    listen_to_supervisor(transfer);
    if (transfer->process)
        lies_tell(transfer);
    LIST_FOREACH(pool, &transfer->pools, link)
        if (pool->open)
            step_pool(transfer, pool);
    if (prepare_one(transfer))
        actor_wake(&transfer->actor, sim_below(1 + plan.copy_us * NS_PER_US));
    rest(transfer);
}

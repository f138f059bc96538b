#include "tests/simulate/transfer.h"

#include <fcntl.h>

#include "base/error.h"
#include "daemon/heritage.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/processes/transfer_process.h"
#include "tests/simulate/daemon.h"
#include "tests/simulate/network.h"
#include "tests/simulate/transfer_work.h"

struct transfers transfers;
struct transfer *transfer_running;

void __wrap_device_wake(const struct device *device);

void transfers_begin(void) {
    LIST_INIT(&transfers);
}

void transfers_describe(void) {
    const struct transfer *transfer;
    LIST_FOREACH(transfer, &transfers, link)
        fprintf(stderr, "  transfer process of %s %s%s, process %s\n", transfer->uuid,
                transfer->runs ? "runs" : "has ended", transfer->asleep ? " and sleeps" : "",
                transfer->process ? process_state_name(transfer->process->state) : "unknown");
}

// ---- Dying -------------------------------------------------------------------------------------------------

// Its memory and its descriptors go.
static void clean_up(struct transfer *transfer) {
    struct device_ring *pool;
    while ((pool = LIST_FIRST(&transfer->pools))) {
        LIST_REMOVE(pool, link);
        device_ring_end(pool);
    }
    if (transfer->gpu)
        gpu_close(transfer->gpu);
    transfer->gpu = NULL;
    close_fd(&transfer->control_fd);
}

// Until it is reaped, the GPU may continue with what was queued.
static void die(struct transfer *transfer, int signal) {
    uint64_t until_reaped = sim_below(sim_chance(500) ? NS_PER_MS : 50 * NS_PER_MS);
    sim_trace("transfer process of %s: ends with signal %d", transfer->uuid, signal);
    if (transfer->process && sim_fault(plan.driver_hangs))
        until_reaped = sim_between(1, 20) * NS_PER_S;
    transfer->runs = transfer->asleep = false;
    transfer->signal = signal;
    transfer->record = NULL;
    transfer->actor.due_ns = sim.now_ns + until_reaped;
}

static void reap(struct transfer *transfer) {
    struct process *process = transfer->process;
    clean_up(transfer);
    if (!process) {
        transfer_free(transfer);
        return;
    }
    process->state = PROCESS_GONE;
    process->exit_signal = transfer->signal;
    process->ended_ns = sim.now_ns;
    process->changed(process);
    daemon_wake(network_delay());
}

void transfer_free(struct transfer *transfer) {
    actor_remove(&transfer->actor);
    LIST_REMOVE(transfer, link);
    network_unwatched(transfer->channel_fd, &transfer->actor);
    close_fd(&transfer->control_fd);
    free(transfer);
}

static void act(struct actor *actor) {
    struct transfer *transfer = CONTAINER_OF(actor, struct transfer, actor);
    bool killed = transfer->process && transfer->process->state == PROCESS_KILLED;
    bool orphan_ends = !transfer->process && sim.now_ns >= transfer->orphan_until_ns;
    if (!transfer->runs) {
        if (!transfer->process || transfer->process->state != PROCESS_GONE)
            reap(transfer);
        return;
    }
    if (killed && !transfer->process->asked && !plan.lies &&
        transfer->process->signalled_ns > transfer->in_driver_ns &&
        transfer->process->signalled_ns <= transfer->driver_until_ns)
        sim_violated("the transfer process of %s is killed while it waits for its driver", transfer->uuid);
    if (killed || orphan_ends) {
        die(transfer, 9);
        return;
    }
    if (sim.now_ns < transfer->stands_still_ns) {
        actor_wake(actor, transfer->stands_still_ns - sim.now_ns);
        return;
    }
    transfer->asleep = false;
    transfer_running = transfer;
    int signal = _setjmp(transfer->dying);
    if (signal == 0)
        transfer_serve(transfer);
    transfer_running = NULL;
    if (signal)
        die(transfer, signal == TRANSFER_EXITS ? 0 : signal);
    else if (!transfer->process)
        actor_wake(actor, transfer->orphan_until_ns - sim.now_ns);
}

// ---- As the supervisor sees it -----------------------------------------------------------------------------

struct transfer *transfer_find(const struct process *process) {
    struct transfer *transfer;
    LIST_FOREACH(transfer, &transfers, link)
        if (transfer->process == process)
            break;
    return transfer;
}

void transfer_start(struct process *process, const struct process_start *start) {
    const struct device *device = start->owner;
    struct transfer *transfer = calloc(1, sizeof *transfer);
    SIM_MUST(transfer);
    transfer->process = process;
    transfer->record = transfer_process_of(process)->record;
    transfer->uuid = device->uuid[5] == '0' ? "HOST-0" : "HOST-1";
    transfer->control_fd = fcntl(start->fds[HERITAGE_CONTROL], F_DUPFD_CLOEXEC, 0);
    SIM_MUST(fcntl(transfer->control_fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
    transfer->channel_fd = process->channel_fd;
    transfer->runs = true;
    LIST_INSERT_HEAD(&transfers, transfer, link);
    actor_add(&transfer->actor, "transfer", act, sim_below(1 + plan.thread_us * NS_PER_US));
    network_watched(process->channel_fd, &transfer->actor);
}

void __wrap_device_wake(const struct device *device) {
    struct transfer *transfer = device->transfer ? transfer_find(&device->transfer->process) : NULL;
    if (transfer && transfer->runs)
        actor_wake(&transfer->actor, network_delay());
}

void transfer_orphaned(struct transfer *transfer) {
    uint64_t survives_ns = sim_below(50 * NS_PER_MS);
    network_unwatched(transfer->channel_fd, &transfer->actor);
    transfer->process = NULL;
    transfer->record = NULL;
    transfer->orphan_until_ns = sim.now_ns + survives_ns;
    transfer->stands_still_ns = 0;
    actor_wake(&transfer->actor, survives_ns);
}

// ---- What happens to them ----------------------------------------------------------------------------------

static struct transfer *any_running(void) {
    struct transfer *transfer, *found = NULL;
    uint64_t seen = 0;
    LIST_FOREACH(transfer, &transfers, link)
        if (transfer->runs && transfer->process && sim_below(++seen) == 0)
            found = transfer;
    return found;
}

void transfers_kill_one(void) {
    struct transfer *transfer = any_running();
    if (transfer)
        die(transfer, 9);
}

void transfers_stop_one(uint64_t for_ns) {
    struct transfer *transfer = any_running();
    if (transfer && sim.now_ns >= transfer->driver_until_ns)
        transfer->stands_still_ns = sim.now_ns + for_ns;
}

void transfers_beat(void) {
    struct transfer *transfer;
    LIST_FOREACH(transfer, &transfers, link)
        if (transfer->runs && transfer->record && sim.now_ns >= transfer->stands_still_ns)
            atomic_store(&transfer->record->heartbeat_ns, sim.now_ns);
}

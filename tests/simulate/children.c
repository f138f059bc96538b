#include "tests/simulate/children.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "daemon/heritage.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "tests/simulate/defects.h"
#include "tests/simulate/loader_feed.h"
#include "tests/simulate/network.h"
#include "tests/simulate/transfer.h"

int __wrap_process_start(struct process *process, const struct process_start *start, struct error *error);
void __real_process_hand_over(struct process *process, void *owner, void (*changed)(struct process *process));
void __wrap_process_hand_over(struct process *process, void *owner, void (*changed)(struct process *process));
void __wrap_process_stop(struct process *process);
void __wrap_process_kill(struct process *process);
void __wrap_process_watch(struct process *process, uint64_t now, uint64_t stop_timeout_ns);
void __wrap_process_release(struct process *process);
long __wrap_syscall(long number, ...);

// ---- What the supervisor calls -----------------------------------------------------------------------------

static struct loader *find(const struct process *process) {
    struct loader *loader;
    LIST_FOREACH(loader, &loaders, link)
        if (loader->process == process)
            break;
    return loader;
}

static void wake(const struct process *process) {
    struct loader *loader = find(process);
    actor_wake(loader ? &loader->actor : &transfer_find(process)->actor, network_delay());
}

static int own_descriptor(int fd) {
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

// With a feed, or prepared for one.
static void start_loader(struct process *process, const struct process_start *start) {
    const struct loader_process *known = loader_process_of(process);
    struct loader *loader = calloc(1, sizeof *loader);
    SIM_MUST(loader);
    loader->process = process;
    loader->event_fd = loader->assignment_fd = loader->far_fd = -1;
    if (known->assignment_fd >= 0)
        loader_wait_for_feed(loader, own_descriptor(start->fds[HERITAGE_ASSIGNMENT]), known->assignment_fd);
    else
        loader_take_feed(loader, start->fds[HERITAGE_RING], own_descriptor(start->fds[HERITAGE_EVENT]));
    loader->runs = true;
    LIST_INSERT_HEAD(&loaders, loader, link);
    actor_add(&loader->actor, "loader", loader_act, sim_below(500 * NS_PER_US));
}

static void on_channel(struct poll_entry *entry, uint32_t events) {
    struct process *process = CONTAINER_OF(entry, struct process, channel);
    process->channel_ready(process, events);
}

int __wrap_process_start(struct process *process, const struct process_start *start, struct error *error) {
    process->state = PROCESS_RUNNING;
    process->owner = start->owner;
    process->changed = start->changed;
    process->closed = start->closed;
    process->channel_fd = start->channel;
    process->channel_ready = start->channel_ready;
    process->started_ns = sim.now_ns;
    if (sim_fault(plan.unspawned)) {
        close_fd(&process->channel_fd);
        process->closed(process);
        return error_set(error, -EAGAIN, "no %s can be started", start->what);
    }
    if (!process->channel_ready) {
        start_loader(process, start);
    } else { // what comes on the channel of a loader is of no interest
        SIM_MUST(fcntl(process->channel_fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
        SIM_MUST(poll_set_add(start->poll_set, &process->channel, process->channel_fd, EPOLLIN, on_channel) ==
                 0);
        transfer_start(process, start);
    }
    if (sim_fault(plan.stillborn)) { // somebody else kills it
        process->state = PROCESS_KILLED;
        process->signalled_ns = sim.now_ns;
    }
    return 0;
}

// What was sent to it wakes it.
void __wrap_process_hand_over(struct process *process, void *owner,
                              void (*changed)(struct process *process)) {
    __real_process_hand_over(process, owner, changed);
    loader_far_end_closes(find(process));
}

void __wrap_process_stop(struct process *process) {
    struct loader *loader = find(process);
    if (loader)
        loader_far_end_closes(loader);
    if (process_is_reaped(process))
        return;
    process->asked = true;
    if (process->state != PROCESS_RUNNING)
        return;
    process->state = PROCESS_STOPPING;
    process->signalled_ns = sim.now_ns;
    wake(process);
}

void __wrap_process_kill(struct process *process) {
    if (process->state != PROCESS_RUNNING && process->state != PROCESS_STOPPING)
        return;
    process->state = PROCESS_KILLED;
    process->signalled_ns = sim.now_ns;
    wake(process);
}

void __wrap_process_watch(struct process *process, uint64_t now, uint64_t stop_timeout_ns) {
    if (process->state == PROCESS_STOPPING && now >= process->signalled_ns + stop_timeout_ns)
        __wrap_process_kill(process);
}

void __wrap_process_release(struct process *process) {
    struct loader *loader = find(process);
    struct transfer *transfer = transfer_find(process);
    SIM_MUST(process->state == PROCESS_GONE);
    if (loader) {
        loader_far_end_closes(loader);
        SIM_MUST(!loader_reads(loader) || defect_is(DEFECT_EARLY_RECOVERY));
        loader->process = NULL;
        if (!loader_reads(loader))
            loader_free(loader);
    }
    if (transfer)
        transfer_free(transfer);
    poll_set_remove(&process->channel);
    close_fd(&process->channel_fd);
    process->closed(process);
}

// Whoever sleeps on this futex is woken, at most as many as wanted. Only rings use any.
static long wake_sleepers(const uint32_t *word, int most) {
    struct loader *loader;
    long woken = 0;
    LIST_FOREACH(loader, &loaders, link) {
        if (woken == most)
            break;
        if (!loader->asleep || !loader->mapping || !loader->mapping->control ||
            (const void *)&loader->mapping->control->work != (const void *)word)
            continue;
        loader->asleep = false;
        actor_wake(&loader->actor, network_delay());
        woken++;
    }
    return woken;
}

long __wrap_syscall(long number, ...) {
    va_list arguments;
    SIM_MUST(number == SYS_futex);
    va_start(arguments, number);
    const uint32_t *word = va_arg(arguments, const uint32_t *);
    int operation = va_arg(arguments, int), most = va_arg(arguments, int);
    va_end(arguments);
    SIM_MUST(operation == FUTEX_WAKE);
    return wake_sleepers(word, most);
}

// ---- What happens to them ----------------------------------------------------------------------------------

void children_beat(void) {
    struct loader *loader;
    LIST_FOREACH(loader, &loaders, link) {
        bool stuck = sim.now_ns < loader->stands_still_ns || (loader_reads(loader) && !loader->moved);
        if (loader->runs && loader->record && !stuck)
            atomic_store(&loader->record->heartbeat_ns, sim.now_ns);
        loader->moved = false;
    }
    transfers_beat();
}

static struct loader *any_running(void) {
    struct loader *loader, *found = NULL;
    uint64_t seen = 0;
    LIST_FOREACH(loader, &loaders, link)
        if (loader->runs && loader->process && sim_below(++seen) == 0)
            found = loader;
    return found;
}

void children_kill_one(void) {
    struct loader *loader = any_running();
    if (loader)
        loader_end(loader, 9);
}

void children_stop_one(uint64_t for_ns) {
    struct loader *loader = any_running();
    if (!loader)
        return;
    loader->stands_still_ns = sim.now_ns + for_ns;
    if (loader->mapping)
        hangs[loader->mapping->stored].stuck++;
}

void child_orphaned(const struct process *process) {
    struct loader *loader = find(process);
    struct transfer *transfer = transfer_find(process);
    if (transfer)
        transfer_orphaned(transfer);
    if (!loader)
        return;
    loader->process = NULL;
    loader->record = NULL;
    loader_far_end_closes(loader);
    if (loader->mapping)
        loader->mapping->control = NULL;
    uint64_t survives_ns = sim_below(50 * NS_PER_MS);
    loader->orphan_until_ns = sim.now_ns + survives_ns;
    loader->stands_still_ns = 0;
    actor_wake(&loader->actor, survives_ns);
}

// The supervisor without a loop, processes, threads or a clock of its own: everything from the sessions' sockets down
// to the rings is the product's. Child processes are a socket or pipe with nobody at the other end, and the target does
// their work; what would run in a thread runs at the next turn. So an input always does the same.
#ifndef FEEDD_TESTS_FUZZ_SUPERVISOR_WORLD_H
#define FEEDD_TESTS_FUZZ_SUPERVISOR_WORLD_H

#include <stdarg.h>
#include <sys/socket.h>

#include "base/error.h"
#include "daemon/heritage.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "daemon/supervisor/processes/transfer_process.h"
#include "daemon/supervisor/task.h"
#include "daemon/supervisor/turn.h"
#include "daemon/supervisor/watch.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/wrapped.h"
#include "tests/world/closing.h"
#include "tests/world/tasks.h"

#define PENDING_MOST 512u
#define TURNS_MOST   64u

struct far_end {
    struct process *process; // NULL: unused
    int fd;
};

static struct world {
    struct fuzz_input input;
    struct supervisor supervisor;
    uint64_t now_ns;
    bool threads_stall; // what runs in threads does not end
    bool spawns_fail;   // no process can be started
    bool reads_hang;    // the kernel does not end loaders that are killed
    struct {
        uv_work_t *work;
        uv_work_cb run;
        uv_after_work_cb after;
    } pending[PENDING_MOST];
    uint32_t pending_count;
    struct far_end far_ends[8]; // of transfer processes
} world;

// ---- What is replaced --------------------------------------------------------------------------------------

int __wrap_process_start(struct process *process, const struct process_start *start, struct error *error);
void __wrap_process_stop(struct process *process);
void __wrap_process_kill(struct process *process);
void __wrap_process_watch(struct process *process, uint64_t now, uint64_t stop_timeout_ns);
void __wrap_process_release(struct process *process);
void __wrap_closer_take_socket(struct closer *closer, uid_t user, int *socket);
void __wrap_log_write(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);

uint64_t __wrap_monotonic_ns(void) {
    return world.now_ns;
}

int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *work, uv_work_cb run, uv_after_work_cb after) {
    (void)loop;
    FUZZ_CHECK(world.pending_count < PENDING_MOST);
    world.pending[world.pending_count].work = work;
    world.pending[world.pending_count].run = run;
    world.pending[world.pending_count++].after = after;
    return 0;
}

static void on_channel(struct poll_entry *entry, uint32_t events) {
    struct process *process = CONTAINER_OF(entry, struct process, channel);
    if (process->channel_ready)
        process->channel_ready(process, events);
}

static void release_process(struct process *process) {
    poll_set_remove(&process->channel);
    close_fd(&process->channel_fd);
    process->closed(process);
}

// A transfer process's end of its channel is kept.
int __wrap_process_start(struct process *process, const struct process_start *start, struct error *error) {
    struct far_end *end = world.far_ends;
    process->state = PROCESS_RUNNING;
    process->owner = start->owner;
    process->changed = start->changed;
    process->channel_fd = start->channel;
    process->channel_ready = start->channel_ready;
    process->closed = start->closed;
    process->started_ns = world.now_ns;
    FUZZ_CHECK(fcntl(start->channel, F_SETFL, fcntl(start->channel, F_GETFL) | O_NONBLOCK) == 0);
    FUZZ_CHECK(poll_set_add(start->poll_set, &process->channel, start->channel, EPOLLIN, on_channel) == 0);
    if (world.spawns_fail) {
        release_process(process);
        return error_set(error, -EAGAIN, "no %s can be started", start->what);
    }
    if (!start->channel_ready)
        return 0;
    while (end->process)
        FUZZ_CHECK(++end < world.far_ends + COUNT_OF(world.far_ends));
    *end = (struct far_end){process, fcntl(start->fds[HERITAGE_CONTROL], F_DUPFD_CLOEXEC, 0)};
    FUZZ_CHECK(end->fd >= 0);
    return 0;
}

void __wrap_process_stop(struct process *process) {
    if (process_is_reaped(process))
        return;
    process->asked = true;
    if (process->state == PROCESS_RUNNING)
        process->state = PROCESS_STOPPING;
}

void __wrap_process_kill(struct process *process) {
    if (process_is_reaped(process))
        return;
    process->state = PROCESS_KILLED;
    process->signalled_ns = world.now_ns;
}

void __wrap_process_watch(struct process *process, uint64_t now, uint64_t stop_timeout_ns) {
    (void)process;
    (void)now;
    (void)stop_timeout_ns;
}

void __wrap_process_release(struct process *process) {
    FUZZ_CHECK(process->state == PROCESS_GONE);
    for (size_t i = 0; i < COUNT_OF(world.far_ends); i++) {
        if (world.far_ends[i].process != process)
            continue;
        close(world.far_ends[i].fd);
        world.far_ends[i] = (struct far_end){0};
    }
    release_process(process);
}

void __wrap_closer_take_socket(struct closer *closer, uid_t user, int *socket) {
    (void)closer;
    (void)user;
    close_fd(socket);
}

// Made into text, so that the sanitizers see what it is made of.
void __wrap_log_write(enum log_level level, const char *format, ...) {
    static char text[4096];
    va_list arguments;
    (void)level;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
}

// ---- Turns -------------------------------------------------------------------------------------------------

static inline void end_process(struct process *process, int signal) {
    process->state = PROCESS_GONE;
    process->exit_signal = signal;
    process->ended_ns = world.now_ns;
    process->changed(process);
}

// Those that were asked to end, or killed, do.
static inline void end_if_asked(struct process *process) {
    if (process->state == PROCESS_STOPPING || process->state == PROCESS_KILLED)
        end_process(process, process->state == PROCESS_KILLED ? 9 : 0);
}

static inline void end_processes(void) {
    struct served_feed *feed;
    struct loader_process *loader;
    LIST_FOREACH(feed, &world.supervisor.feeds, link)
        LIST_FOREACH(loader, &feed->loaders, link)
            if (loader->process.state != PROCESS_KILLED || !world.reads_hang)
                end_if_asked(&loader->process);
    for (size_t i = 0; i < COUNT_OF(world.far_ends); i++)
        if (world.far_ends[i].process)
            end_if_asked(world.far_ends[i].process);
}

static inline void run_threads(void) {
    uint32_t count = world.threads_stall ? 0 : world.pending_count;
    for (uint32_t i = 0; i < count; i++)
        world.pending[i].run(world.pending[i].work);
    for (uint32_t i = 0; i < count; i++)
        world.pending[i].after(world.pending[i].work, 0);
    world.pending_count -= count;
    memmove(world.pending, world.pending + count, world.pending_count * sizeof world.pending[0]);
}

// Until nothing is left to do. That it always comes to an end is one of the things that must hold.
static inline void world_turn(void) {
    for (uint32_t turns = 0;; turns++) {
        FUZZ_CHECK(turns < TURNS_MOST);
        end_processes();
        run_threads();
        uv_run(&world.supervisor.loop, UV_RUN_NOWAIT);
        turn_run(&world.supervisor);
        if (!world.supervisor.again && (world.threads_stall || !world.pending_count))
            return;
    }
}

// More than a second at once is a standstill, which does not count towards most limits.
static inline void world_wait(uint64_t ns) {
    world.now_ns += ns;
    watch_tick(&world.supervisor, world.now_ns);
    world_turn();
}

#define SETTLE_MOST_S 1000u

// ---- Beginning and end -------------------------------------------------------------------------------------

// Loads a configuration with two datasets and a mix.
static inline void load_config(struct supervisor *supervisor) {
    static const char text[] =
        "[feedd]\nring_memory = 1M\nring = 64K\nloaders = 2\nlinger = 1s\nmax_lag = 2s\n"
        "view_memory = 1M\nuser_view_memory = 400K\n"
        "simulated_gpus = 1\nuser_feeds = 4\ndevice_pool = 64K\ndevice_linger = 1s\n"
        "[dataset numbers]\nformat = records\nrecord_bytes = 8\nfield.value = u64 @ 0\n"
        "path = /proc/self/fd/%d\n"
        "[dataset few]\nformat = records\nrecord_bytes = 800\nfield.value = u8[800] @ 0\n"
        "on_error = skip\npath = /proc/self/fd/%d\n"
        "[view odd]\nof = numbers\nsamples = ..300\nsplit_seed = 1\n"
        "[mix both]\nsource.numbers = 2\nsource.odd = 3\nepoch_samples = 700\n";
    char config[1024], path[32];
    struct error error = {0};
    int config_fd = fuzz_memory_file(), data_fd = fuzz_memory_file();
    snprintf(config, sizeof config, text, data_fd, data_fd);
    fuzz_write(config_fd, config, strlen(config));
    FUZZ_CHECK(ftruncate(data_fd, 8000) == 0);
    FUZZ_CHECK(config_load(fuzz_path(config_fd, path), &supervisor->config, &error) == 0);
    FUZZ_CHECK(datasets_open(supervisor->config, &supervisor->datasets, NULL, &error) == 0);
    supervisor->dataset_count = supervisor->config->dataset_count;
}

static inline void world_open(void) {
    struct supervisor *supervisor = &world.supervisor;
    world.now_ns = 1000 * NS_PER_S;
    supervisor_init(supervisor, NULL);
    supervisor->stats = aligned_alloc(RING_PAGE, sizeof *supervisor->stats);
    FUZZ_CHECK(supervisor->stats);
    memset(supervisor->stats, 0, sizeof *supervisor->stats);
    FUZZ_CHECK(uv_loop_init(&supervisor->loop) == 0);
    FUZZ_CHECK(poll_set_open(&supervisor->poll_set, &supervisor->loop) == 0);
    load_config(supervisor);
}

static inline bool world_is_busy(void) {
    const struct supervisor *supervisor = &world.supervisor;
    return supervisor->session_count || supervisor->feed_count || !LIST_EMPTY(&supervisor->devices) ||
           !TAILQ_EMPTY(&supervisor->brought);
}

// The clients have gone: nothing may be left of them. Then the next input finds a supervisor that has just started.
static inline void world_settle(void) {
    struct supervisor *supervisor = &world.supervisor;
    world.threads_stall = world.spawns_fail = world.reads_hang = false;
    world_turn();
    for (uint32_t i = 0; i < SETTLE_MOST_S && world_is_busy(); i++)
        world_wait(NS_PER_S);
    world_wait(1000 * NS_PER_S); // what the last feed left is given back
    FUZZ_CHECK(LIST_EMPTY(&supervisor->kept_rings) && TAILQ_EMPTY(&supervisor->brought));
    users_forget(supervisor, UINT64_MAX);
    FUZZ_CHECK(TAILQ_EMPTY(&supervisor->sessions) && !supervisor->session_count);
    FUZZ_CHECK(LIST_EMPTY(&supervisor->feeds) && !supervisor->feed_count);
    FUZZ_CHECK(LIST_EMPTY(&supervisor->devices) && LIST_EMPTY(&supervisor->users));
    FUZZ_CHECK(!supervisor->reload && !supervisor->reload_wanted && !world.pending_count);
    for (uint32_t i = 0; i < STATS_MAX_LOADERS; i++)
        FUZZ_CHECK(!supervisor->stats->owners.feed[i]);
    supervisor->state = SUPERVISOR_RUNNING;
    supervisor->next_session = supervisor->next_feed = 0;
    supervisor->next_pool = 0;
    supervisor->error_count = 0;
    world.now_ns = 1000 * NS_PER_S;
}

#endif

#include "tests/simulate/daemon.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "base/error.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/bad_samples.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/feed_loaders.h"
#include "daemon/supervisor/feeds/feed_loaders_count.h"
#include "daemon/supervisor/feeds/prepared_loaders.h"
#include "daemon/supervisor/feeds/prepared_ring.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/turn.h"
#include "daemon/supervisor/watch.h"
#include "tests/simulate/children.h"
#include "tests/simulate/coroutine.h"
#include "tests/simulate/network.h"
#include "tests/simulate/surroundings.h"
#include "tests/simulate/teardown.h"
#include "tests/simulate/threads.h"
#include "tests/simulate/transfer.h"

#define WORLD_MUST SIM_MUST
#include "tests/world/check.h"

#define EVENTS_MOST 64
#define PROCESSORS  2
#define TICK_NS     (250 * NS_PER_MS)
#define LATE_NS     (1 * NS_PER_S)
#define END_MOST_NS (60 * NS_PER_S) // when everybody has gone, nothing is left by then

struct sim_daemon daemon_;

// What survives a seed.
static struct stats_region *stats;
static struct config *config;
static struct dataset **datasets;

static uint64_t ending_since_ns;

int __real_config_load(const char *path, struct config **loaded, struct error *error);
int __wrap_config_load(const char *path, struct config **loaded, struct error *error);

// ---- Configuration -----------------------------------------------------------------------------------------

static void configure(struct config *settings) {
    settings->loaders = plan.loaders;
    settings->prepare_loaders = plan.prepares;
    settings->ring = plan.ring;
    settings->ring_memory = plan.ring_memory;
    settings->linger_s = plan.linger_s;
    settings->max_lag_s = plan.max_lag_s;
    settings->loader_timeout_s = plan.loader_timeout_s;
    settings->user_feeds = plan.user_feeds;
    settings->device_pool = plan.device_pool;
    settings->device_memory = plan.device_memory;
    settings->device_linger_s = plan.device_linger_s;
}

// A reload finds the settings of the seed.
int __wrap_config_load(const char *path, struct config **loaded, struct error *error) {
    int err = __real_config_load(path, loaded, error);
    if (!err)
        configure(*loaded);
    return err;
}

void daemon_prepare(void) {
    char path[32];
    struct error error = {0};
    coroutines_prepare();
    surroundings_prepare();
    int fd = memfd_create("simulate", MFD_CLOEXEC);
    SIM_MUST(fd >= 0 && dprintf(fd, "[feedd]\nstop_timeout = 3s\nsimulated_gpus = 2\n") > 0);
    datasets_write(fd);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (__real_config_load(path, &config, &error) < 0 || datasets_open(config, &datasets, NULL, &error) < 0)
        sim_violated("cannot be prepared: %s", error.text);
    stats = aligned_alloc(RING_PAGE, sizeof *stats);
    SIM_MUST(stats);
    memset(stats, 0, sizeof *stats);
}

uint64_t daemon_fingerprint(const char *dataset) {
    struct dataset **known = daemon_.up ? daemon_.supervisor.datasets : datasets;
    uint32_t i = 0;
    while (strcmp(known[i]->name, dataset) != 0)
        SIM_MUST(++i < DATASETS);
    return known[i]->layout->fingerprint;
}

// ---- Life --------------------------------------------------------------------------------------------------

static void start(struct actor *actor) {
    struct supervisor *supervisor = &daemon_.supervisor;
    (void)actor;
    *supervisor = (struct supervisor){0};
    supervisor_init(supervisor, config);
    configure(config);
    supervisor->datasets = datasets;
    supervisor->dataset_count = config->dataset_count;
    supervisor->stats = stats;
    supervisor->moderation.processors = PROCESSORS;
    supervisor->poll_set.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    SIM_MUST(supervisor->poll_set.epoll_fd >= 0);
    daemon_.up = true;
    daemon_.started_ns = daemon_.disturbed_ns = sim.now_ns;
    daemon_.stands_still_ns = 0;
    memset(loaders_reported, 0, sizeof loaders_reported);
    for (uint64_t ticks = sim_below(3); ticks; ticks--) { // before the first feed is asked for
        prepared_ring_tick(supervisor, sim.now_ns);
        prepared_loaders_tick(supervisor, sim.now_ns);
    }
    actor_wake(&daemon_.tick, TICK_NS);
    sim_trace("daemon: started");
}

static void end(uint64_t pause_ns) {
    struct supervisor *supervisor = &daemon_.supervisor;
    config = supervisor->config;
    datasets = supervisor->datasets;
    daemon_.up = false;
    daemon_.disturbed_ns = sim.now_ns;
    daemon_.tick.due_ns = daemon_.events.due_ns = NEVER;
    teardown(supervisor);
    if (pause_ns != NEVER)
        actor_wake(&daemon_.start, pause_ns);
}

void daemon_die(uint64_t pause_ns) {
    if (!daemon_.up || daemon_.supervisor.reload)
        return; // while a reload is under way, teardown does not know what it has
    sim_trace("daemon: killed");
    threads_die();
    end(pause_ns);
}

// As begin_stop() of the daemon's loop.
void daemon_stop(void) {
    struct supervisor *supervisor = &daemon_.supervisor;
    struct session *session;
    struct served_feed *feed;
    struct device *device;
    if (!daemon_.up || supervisor->state >= SUPERVISOR_STOPPING)
        return;
    sim_trace("daemon: stops");
    supervisor_set_state(supervisor, SUPERVISOR_STOPPING);
    supervisor->stop_deadline_ns = sim.now_ns + supervisor->config->stop_timeout_s * NS_PER_S;
    TAILQ_FOREACH(session, &supervisor->sessions, link)
        session_fail(session, -ESHUTDOWN, "feedd is stopping");
    LIST_FOREACH(feed, &supervisor->feeds, link)
        served_feed_close(feed);
    LIST_FOREACH(device, &supervisor->devices, link)
        device_stop(device, false);
    prepared_loaders_end(supervisor, false);
    prepared_ring_give_up(supervisor);
    daemon_.disturbed_ns = sim.now_ns;
    daemon_wake(0);
}

void daemon_drain(void) {
    if (!daemon_.up)
        return;
    sim_trace("daemon: drains");
    supervisor_drain(&daemon_.supervisor);
    daemon_wake(0);
}

// As feedctl loaders does, of some feed.
void daemon_count_loaders(void) {
    struct served_feed *feed;
    struct error error;
    uint64_t skip = sim_below(4), count = sim_below(5);
    if (!daemon_.up)
        return;
    LIST_FOREACH(feed, &daemon_.supervisor.feeds, link)
        if (feed->state != FEED_CLOSING && skip-- == 0) {
            sim_trace("daemon: feed %" PRIu64 " is given %" PRIu64 " loaders", feed->id, count);
            SIM_MUST(feed_loaders_set(feed, (uint32_t)count, &error) == 0);
            daemon_wake(0);
            return;
        }
}

static bool is_in_use(void) {
    const struct served_feed *feed;
    LIST_FOREACH(feed, &daemon_.supervisor.feeds, link)
        if (served_feed_in_use(feed))
            return true;
    return false;
}

// As enforce_stop() of the daemon's loop.
static void enforce_stop(void) {
    struct supervisor *supervisor = &daemon_.supervisor;
    struct served_feed *feed;
    struct device *device;
    if (supervisor->state != SUPERVISOR_STOPPING || sim.now_ns < supervisor->stop_deadline_ns)
        return;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        feed_loaders_end(feed, true);
    LIST_FOREACH(device, &supervisor->devices, link)
        device_stop(device, true);
    prepared_loaders_end(supervisor, true);
    if (sim.now_ns < supervisor->stop_deadline_ns + supervisor->config->stop_timeout_s * NS_PER_S ||
        supervisor->reload)
        return;
    sim_trace("daemon: ends without children that do not end");
    threads_die();
    end(sim_below(1000 * NS_PER_MS));
}

// As stop_if_due() of the daemon's loop.
static void stop_if_due(void) {
    struct supervisor *supervisor = &daemon_.supervisor;
    if (supervisor->state != SUPERVISOR_RUNNING)
        daemon_.disturbed_ns = sim.now_ns;
    if (supervisor->state == SUPERVISOR_DRAINING && !is_in_use())
        daemon_stop();
    if (supervisor->state == SUPERVISOR_STOPPING && LIST_EMPTY(&supervisor->feeds) &&
        TAILQ_EMPTY(&supervisor->sessions) && LIST_EMPTY(&supervisor->devices) &&
        LIST_EMPTY(&supervisor->prepared.list) && !supervisor->prepared.ring && !supervisor->reload)
        end(sim_below(1000 * NS_PER_MS));
}

// ---- Turns -------------------------------------------------------------------------------------------------

void daemon_wake(uint64_t delay_ns) {
    if (daemon_.up)
        actor_wake(&daemon_.events, delay_ns);
}

static void turn(void) {
    turn_run(&daemon_.supervisor);
    world_check(&daemon_.supervisor);
    stop_if_due();
    if (daemon_.up && daemon_.supervisor.again)
        daemon_wake(200 + sim_below(20 * NS_PER_US));
}

// True: it does nothing now, and looks again when it can.
static bool stands_still(struct actor *actor) {
    if (sim.now_ns >= daemon_.stands_still_ns)
        return false;
    daemon_.disturbed_ns = sim.now_ns;
    actor_wake(actor, daemon_.stands_still_ns - sim.now_ns);
    return true;
}

// In any order; some are only seen in the next turn.
static void on_events(struct actor *actor) {
    struct epoll_event ready[EVENTS_MOST];
    if (!daemon_.up || stands_still(actor))
        return;
    int count = epoll_wait(daemon_.supervisor.poll_set.epoll_fd, ready, EVENTS_MOST, 0);
    if (count)
        daemon_wake(network_delay()); // what is not read to its end is reported again
    for (int i = 0; i < count; i++) {
        int other = i + (int)sim_below((uint64_t)(count - i));
        struct epoll_event event = ready[other];
        struct poll_entry *entry = event.data.ptr;
        ready[other] = ready[i];
        if (!sim_chance(100))
            entry->ready(entry, event.events);
    }
    turn();
}

static void on_tick(struct actor *actor) {
    if (!daemon_.up || stands_still(actor))
        return;
    if (sim.now_ns < daemon_.supervisor.ticked_ns + LATE_NS) // else it may be the first to run again
        children_beat();
    watch_tick(&daemon_.supervisor, sim.now_ns);
    enforce_stop();
    if (!daemon_.up)
        return;
    actor_wake(actor, TICK_NS);
    turn();
}

// ---- Clients -----------------------------------------------------------------------------------------------

void daemon_accept(int fd, uid_t user) {
    const struct ucred peer = {.pid = 1, .uid = user};
    struct session *session = session_open(&daemon_.supervisor, fd, &peer);
    SIM_MUST(session);
    if (daemon_.supervisor.state >=
        SUPERVISOR_STOPPING) // it does not accept any more: as if the queue is lost
        session_close(session);
}

// ---- Beginning and end -------------------------------------------------------------------------------------

void daemon_begin(void) {
    threads_begin();
    transfers_begin();
    actor_add(&daemon_.events, "events", on_events, NEVER);
    actor_add(&daemon_.tick, "tick", on_tick, NEVER);
    actor_add(&daemon_.start, "start", start, NEVER);
    daemon_.up = false;
    start(NULL);
}

void daemon_describe(void) {
    const struct supervisor *supervisor = &daemon_.supervisor;
    const struct served_feed *feed;
    fprintf(stderr, "  the daemon is %s, in state %d, with %u sessions\n", daemon_.up ? "up" : "down",
            (int)supervisor->state, supervisor->session_count);
    LIST_FOREACH(feed, &supervisor->feeds, link)
        fprintf(stderr, "  feed %" PRIu64 " is %s, with %u members, %u loaders\n", feed->id,
                served_feed_state_name(feed->state), feed->member_count, feed->loaders_running);
    loaders_describe();
    transfers_describe();
}

static bool is_settled(void) {
    const struct supervisor *supervisor = &daemon_.supervisor;
    if (sim.now_ns > ending_since_ns + END_MOST_NS) {
        daemon_describe();
        sim_violated("something is left when all clients have gone");
    }
    return daemon_.up && TAILQ_EMPTY(&supervisor->sessions) && LIST_EMPTY(&supervisor->feeds) &&
           LIST_EMPTY(&supervisor->devices) && TAILQ_EMPTY(&supervisor->brought) && !supervisor->reload &&
           !supervisor->reload_wanted && !supervisor->prepared.ring && threads_idle() && loaders_gone() &&
           LIST_EMPTY(&transfers);
}

// What loaders reported was counted, once.
static void check_bad_samples(void) {
    const struct bad_samples *bad;
    uint64_t heard[BAD_FATES] = {0};
    LIST_FOREACH(bad, &daemon_.supervisor.bad_samples, link)
        for (uint32_t i = 0; i < BAD_FATES && !strchr(bad->dataset, ':'); i++)
            heard[i] += bad->total[i];
    for (uint32_t i = 0; i < BAD_FATES; i++)
        if (heard[i] != loaders_reported[i])
            sim_violated("loaders reported %" PRIu64 " samples as %s, and the daemon counted %" PRIu64,
                         loaders_reported[i], bad_fate_name(i), heard[i]);
}

// One under way has read the settings of before already.
static bool no_reload(void) {
    const struct supervisor *supervisor = &daemon_.supervisor;
    return !supervisor->reload && !supervisor->reload_wanted;
}

void daemon_end(void) {
    struct supervisor *supervisor = &daemon_.supervisor;
    sim_run(no_reload);
    ending_since_ns = sim.now_ns;
    plan.prepares = supervisor->config->prepare_loaders = false;
    loaders_release();
    sim_run(is_settled);
    check_bad_samples();
    users_forget(supervisor, UINT64_MAX);
    SIM_MUST(LIST_EMPTY(&supervisor->users));
    SIM_MUST(!supervisor->session_count && !supervisor->feed_count);
    SIM_MUST(!supervisor->marked_sessions.count && !supervisor->marked_feeds.count);
    for (uint32_t i = 0; i < STATS_MAX_GPUS; i++)
        SIM_MUST(!stats->gpus[i].used);
    SIM_MUST(!stats->owners.feed[0] && !stats->owners.feed[1] && !stats->feeds[0].id);
    end(NEVER);
}

// Making a feed: the size of its ring, the memory, the loaders.
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/delivery/fill_loaders.h"
#include "daemon/supervisor/feeds/budget.h"
#include "daemon/supervisor/feeds/cache.h"
#include "daemon/supervisor/feeds/pool.h"
#include "order/order.h"
#include "order/partition.h"
#include "shm/ring_supervisor.h"
#include "shm/stats.h"

#define RING_LEAST     (8ull << 20)
#define RING_MOST      (32ull << 20)
#define DIRECT_MOST    (128ull << 20)
#define SLOTS_LEAST    4u
#define SLOTS_MOST     1024u // by itself; enough that one-sample batches do not wait for a round trip each
#define SLOTS_PER_LANE 3u

// While the ring stays in the last-level cache, bytes reach the bus without a trip to memory; half of it
// leaves room for what passes through.
static uint64_t cached_ring_bytes(void) {
    return max_u64(RING_LEAST, min_u64(RING_MOST, cache_last_level_bytes() / 2));
}

// What is read past the page cache comes at the speed of the storage, for which the cache of the processor is no
// matter, but how many reads are under way is: all that the loaders may have in flight fit in.
static uint64_t direct_ring_bytes(const struct config *config, const struct dataset_layout *layout) {
    uint64_t most = min_u64(DIRECT_MOST, config->ring_memory / 8);
    if (config->user_ring_memory)
        most = min_u64(most, config->user_ring_memory / 8);
    most = min_u64(most, ring_free_bytes() / 4);
    uint64_t reads = config->loaders * config->queue_depth;
    return min_u64(most, reads * min_u64(ring_sample_bytes(layout->fields, layout->field_count), most));
}

static uint64_t default_ring_bytes(const struct config *config, const struct dataset *dataset) {
    uint64_t cached = cached_ring_bytes();
    return dataset->io_direct ? max_u64(cached, direct_ring_bytes(config, dataset->layout)) : cached;
}

static void describe_plan(const struct attach_request *request, struct ring_plan *plan) {
    const struct dataset_layout *layout = request->shape.dataset->layout;
    *plan = (struct ring_plan){
        .slot_count = 1,
        .batch_size = request->shape.batch_size,
        .field_count = layout->field_count,
        .samples = layout->samples,
        .seed = request->shape.seed,
        .fingerprint = layout->fingerprint,
        .world_size = request->shape.world_size,
        .order_version = request->shape.shuffle ? ORDER_FEISTEL_1 : ORDER_SEQUENTIAL,
    };
    memcpy(plan->fields, layout->fields, sizeof plan->fields);
}

int feed_plan_batch(const struct attach_request *request, struct ring_plan *plan, struct error *error) {
    describe_plan(request, plan);
    int err = ring_plan(plan, error);
    if (!err && *request->device && plan->slot_bytes > GPU_REGISTER_MOST)
        err = error_set(error, -EOVERFLOW,
                        "a batch of %" PRIu64
                        " MiB is too large for a GPU: at most %u MiB; ask for smaller batches",
                        divide_up(plan->slot_bytes, 1u << 20), GPU_REGISTER_MOST >> 20);
    return err;
}

// `request->prefetch` batches each, and one more that is being filled.
static int refuse_lanes(const struct attach_request *request, struct error *error) {
    uint64_t ranks = request->local_world_size, most = RING_MAX_SLOTS / ranks;
    if (most < SLOTS_PER_LANE)
        return error_set(error, -EINVAL,
                         "local_world_size %" PRIu64
                         " is too much: a ring has at most %u batches, and each rank"
                         " needs %u",
                         ranks, RING_MAX_SLOTS, SLOTS_PER_LANE);
    return error_set(
        error, -EINVAL,
        "prefetch %" PRIu32 " is too much: at most %" PRIu64 " with %" PRIu64
        " rank%s here, as a ring has at most %u batches and each rank needs one more than it holds",
        request->prefetch, most - 1, ranks, ranks == 1 ? "" : "s", RING_MAX_SLOTS);
}

static int size_ring(const struct config *config, const struct attach_request *request,
                     struct ring_plan *plan, struct error *error) {
    int err = feed_plan_batch(request, plan, error);
    if (err)
        return err;
    uint64_t target = request->ring_bytes ? request->ring_bytes : config->ring;
    if (!target)
        target = default_ring_bytes(config, request->shape.dataset);
    uint64_t per_lane = max_u64(SLOTS_PER_LANE, request->prefetch ? request->prefetch + 1ull : 0);
    uint64_t least = max_u64(SLOTS_LEAST, per_lane * request->local_world_size);
    if (least > RING_MAX_SLOTS)
        return refuse_lanes(request, error);
    uint64_t slots = min_u64(target / plan->slot_bytes, SLOTS_MOST);
    plan->slot_count = (uint32_t)max_u64(slots, least);
    return ring_plan(plan, error);
}

static struct stats_feed *find_stats(const struct supervisor *supervisor, struct error *error) {
    for (uint32_t i = 0; i < STATS_MAX_FEEDS; i++)
        if (supervisor->stats->feeds[i].id == 0)
            return &supervisor->stats->feeds[i];
    error_set(error, -EBUSY, "this daemon serves %u feeds already, the most it can", STATS_MAX_FEEDS);
    return NULL;
}

static void publish_stats(struct served_feed *feed, const struct ring_plan *plan) {
    struct stats_feed *stats = feed->stats;
    stats_feed_write_begin(stats);
    for (int i = 0; i < FEED_COUNTERS; i++)
        atomic_store_explicit(&stats->counters[i], 0, memory_order_relaxed);
    for (int i = 0; i < LOADER_COUNTERS; i++)
        atomic_store_explicit(&stats->retired[i], 0, memory_order_relaxed);
    stats->id = feed->id;
    snprintf(stats->name, sizeof stats->name, "%s", feed->name);
    snprintf(stats->dataset, sizeof stats->dataset, "%s", feed->dataset->name);
    stats->started_ns = monotonic_ns();
    stats->batch_size = feed->shape.batch_size;
    stats->world_size = feed->shape.world_size;
    stats->slot_count = plan->slot_count;
    stats->ring_bytes = plan->total_bytes;
    stats_feed_write_end(stats);
}

static void on_event(uv_poll_t *poll, int status, int events) {
    struct served_feed *feed = poll->data;
    uint64_t count;
    (void)status;
    (void)events;
    if (read(feed->event_fd, &count, sizeof count) < 0 && errno != EAGAIN)
        log_warning("cannot read the eventfd of feed %" PRIu64 ": %m", feed->id);
    if (feed->state == FEED_CLOSING)
        return;
    // Armed before looking: whatever is finished after this look wakes us again.
    ring_supervisor_arm(&feed->ring);
    const struct pool *pool;
    LIST_FOREACH(pool, &feed->pools, feed_link)
        ring_supervisor_arm((struct ring *)&pool->ring);
    feed_pump(feed);
}

static struct served_feed *describe_feed(struct supervisor *supervisor, uid_t user,
                                         const struct attach_request *request, const struct ring_plan *plan) {
    struct served_feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        return NULL;
    feed->supervisor = supervisor;
    feed->user = user;
    feed->shape = request->shape;
    feed->dataset = dataset_ref((struct dataset *)request->shape.dataset);
    feed->wait_for = request->wait_for;
    feed->max_lag_ns = request->max_lag_s * NS_PER_S;
    feed->ring_bytes = plan->total_bytes;
    feed->asked_ring_bytes = request->ring_bytes;
    feed->asked_prefetch = request->prefetch;
    feed->asked_lanes = request->local_world_size;
    feed->ring_fd = feed->ring_read_fd = feed->event_fd = -1;
    feed->next_serial = 1;
    respawn_init(&feed->respawn, &loader_respawn_policy, monotonic_ns());
    feed->loaders_wanted = (uint32_t)supervisor->config->loaders;
    TAILQ_INIT(&feed->awaiting);
    LIST_INIT(&feed->pools);
    memcpy(feed->name, request->name, sizeof feed->name);
    return feed;
}

// ---- Off the loop ------------------------------------------------------------------------------------------

struct feed_making {
    uv_work_t work;
    struct served_feed *feed;
    struct ring_plan plan;
    struct partition partition;
    int failed;
    struct error error;
};

static void allocate(uv_work_t *work) {
    struct feed_making *making = work->data;
    making->failed = ring_allocate(&making->plan, making->feed->ring_fd, &making->error);
}

// What comes after the memory is there.
static int open_feed(struct served_feed *feed, const struct feed_making *making, struct error *error) {
    int err =
        delivery_open(&feed->delivery, &feed->ring, &making->partition, feed->asked_lanes, &loaders_filler);
    if (err)
        return error_set(error, err, "out of memory");
    feed->delivery.shared = feed->name[0] != 0;
    err = uv_poll_init(&feed->supervisor->loop, &feed->event, feed->event_fd);
    if (err)
        return error_set(error, err, "cannot watch an eventfd: %s", uv_strerror(err));
    feed->event.data = feed;
    feed->event_open = true;
    uv_poll_start(&feed->event, UV_READABLE, on_event);
    ring_supervisor_arm(&feed->ring);
    feed_set_state(feed, FEED_GATHERING);
    feed->idle_since_ns = monotonic_ns();
    feed_start_loaders(feed);
    if (!feed->loaders_running && !feed->respawn.failures) // else they are started again, up to a limit
        return error_set(error, -EAGAIN, "no loader process could be started; see the daemon's log");
    return 0;
}

static void finish(uv_work_t *work, int status) {
    struct feed_making *making = work->data;
    struct served_feed *feed = making->feed;
    int err = status < 0 ? error_set(&making->error, status, "the feed was given up") : making->failed;
    feed->making = NULL;
    if (!err && feed->state == FEED_CLOSING)
        err = error_set(&making->error, -ESHUTDOWN, "the feed was closed while it was being made");
    if (!err)
        err = open_feed(feed, making, &making->error);
    if (err)
        feed_close(feed);
    else
        log_info("feed %" PRIu64 "%s%s: dataset %s, batches of %" PRIu32 ", ring of %" PRIu32
                 " batches (%" PRIu64 " KiB)",
                 feed->id, *feed->name ? " " : "", feed->name, feed->dataset->name, feed->shape.batch_size,
                 making->plan.slot_count, making->plan.total_bytes >> 10);
    if (err)
        feed_refuse(feed, NULL, err, making->error.text);
    else
        feed_admit(feed);
    free(making);
    feed_free_if_over(feed);
}

void feed_await(struct served_feed *feed, struct session *session) {
    session->awaited = feed;
    TAILQ_INSERT_TAIL(&feed->awaiting, session, awaited_link);
    if (session->state != SESSION_ATTACHING)
        session_set_state(session, SESSION_ATTACHING);
}

void feed_admit(struct served_feed *feed) {
    struct session *session;
    uint32_t count = 0;
    TAILQ_FOREACH(session, &feed->awaiting, awaited_link)
        count++;
    // Each once: one that has to wait for something else goes to the end.
    while (count-- && (session = TAILQ_FIRST(&feed->awaiting))) {
        feed_forget(session);
        // One that joined before may have found a sample that cannot be read.
        if (feed->state == FEED_CLOSING)
            session_fail(session, -EIO, "the feed has failed; see the daemon's log");
        else
            attach_join(session, feed);
        session_flush(session);
    }
}

void feed_refuse(struct served_feed *feed, const char *device, int code, const char *text) {
    struct session *session, *next;
    for (session = TAILQ_FIRST(&feed->awaiting); session; session = next) {
        next = TAILQ_NEXT(session, awaited_link);
        if (device && strcmp(session->request.device, device) != 0)
            continue;
        session_fail(session, code, "%s", text); // which takes it off the list
        session_flush(session);
    }
}

void feed_forget(struct session *session) {
    if (!session->awaited)
        return;
    TAILQ_REMOVE(&session->awaited->awaiting, session, awaited_link);
    session->awaited = NULL;
}

// ---- On it -------------------------------------------------------------------------------------------------

// What loaders need to start, which they do while the ring is being allocated.
static int make_ring(struct served_feed *feed, const struct ring_plan *plan, struct error *error) {
    int err = ring_create(plan, &feed->ring_fd, &feed->ring_read_fd, error);
    if (!err)
        err = ring_map(&feed->ring, feed->ring_fd, RING_CONTROL, error);
    if (err)
        return err;
    feed->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return feed->event_fd < 0 ? error_set(error, -errno, "cannot make an eventfd: %m") : 0;
}

static int start_making(struct served_feed *feed, const struct attach_request *request,
                        const struct ring_plan *plan, struct error *error) {
    int err = make_ring(feed, plan, error);
    if (err)
        return err;
    struct feed_making *making = calloc(1, sizeof *making);
    if (!making)
        return error_set(error, -ENOMEM, "out of memory");
    making->work.data = making;
    making->feed = feed;
    making->plan = *plan;
    making->partition = feed_run(&feed->shape, request);
    feed->making = making;
    uv_queue_work(&feed->supervisor->loop, &making->work, allocate, finish);
    return 0;
}

static void discard(struct served_feed *feed) {
    ring_unmap(&feed->ring);
    close_fd(&feed->ring_fd);
    close_fd(&feed->ring_read_fd);
    close_fd(&feed->event_fd);
    dataset_unref(feed->dataset);
    free(feed);
}

int feed_create(struct supervisor *supervisor, uid_t user, const struct attach_request *request,
                struct served_feed **made, struct error *error) {
    struct ring_plan plan;
    int err = size_ring(supervisor->config, request, &plan, error);
    if (!err)
        err = budget_make_room(supervisor, user, plan.total_bytes, error);
    if (err)
        return err;
    struct served_feed *feed = describe_feed(supervisor, user, request, &plan);
    if (!feed)
        return error_set(error, -ENOMEM, "out of memory");
    feed->stats = find_stats(supervisor, error);
    err = feed->stats ? start_making(feed, request, &plan, error) : -EBUSY;
    if (err) {
        discard(feed);
        return err;
    }
    feed->id = ++supervisor->next_feed;
    publish_stats(feed, &plan);
    LIST_INSERT_HEAD(&supervisor->feeds, feed, link);
    supervisor->feed_count++;
    supervisor->ring_bytes += feed->ring_bytes;
    feed_start_loaders(feed);
    *made = feed;
    return 0;
}

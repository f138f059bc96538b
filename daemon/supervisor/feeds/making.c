#include "daemon/supervisor/feeds/making.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/states.h"
#include "base/time.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/delivery/fill_loaders.h"
#include "daemon/supervisor/feeds/batch_places.h"
#include "daemon/supervisor/feeds/budget.h"
#include "daemon/supervisor/feeds/feed_event.h"
#include "daemon/supervisor/feeds/feed_loaders.h"
#include "daemon/supervisor/feeds/growth.h"
#include "daemon/supervisor/feeds/prepared_ring.h"
#include "daemon/supervisor/feeds/ring_size.h"
#include "daemon/supervisor/feeds/room.h"
#include "daemon/supervisor/feeds/sample_caches.h"
#include "daemon/supervisor/feeds/shared_blocks.h"
#include "shm/ring_make.h"
#include "shm/ring_room.h"
#include "shm/ring_supervisor.h"

// A MiB takes 0.3 ms in small pages.
#define FIRST_LEAST  (256u << 10)
#define PORTION_MOST (32u << 20)
#define FIRST_NS     (100 * NS_PER_MS) // most that the others wait for the first batch, and then until the tick
#define AGAIN_NS     (100 * NS_PER_MS) // between two tries where memory lacks, unless some is given back
#define LOOK_NS      (20 * NS_PER_MS)  // how long room that was found counts as still there

// ---- In a thread -------------------------------------------------------------------------------------------

enum job_state {
    JOB_NONE,
    JOB_RUNNING, // in a thread
    JOB_DONE,    // its outcome is to be acted on
};

static const struct state job_states[] = {
    [JOB_NONE] = {"none", STATE(JOB_RUNNING)},
    [JOB_RUNNING] = {"running", STATE(JOB_DONE)},
    [JOB_DONE] = {"done", STATE(JOB_NONE)},
};
static const struct state_table job_table = STATE_TABLE("job that allocates a ring", job_states);

// Jobs, one after another: the control part, after which loaders can start; the first slots, after which the feed is
// open; and the others while it is being filled, each time as many as there are already. A job that finds no memory is
// repeated when other feeds have made way.
struct making {
    uv_work_t work;
    struct served_feed *feed;
    struct ring_plan plan;
    struct partition partition;
    enum job_state job;
    uint64_t prepared;           // bytes at the beginning of the ring that were allocated in advance
    struct batch_places *places; // made by the job that allocates the first slots, if there are ragged fields
    bool mapped;                 // the control part exists: the job is slots
    uint32_t allocated, portion; // slots that there are, and those that the job allocates
    uint64_t opened_ns;          // when there were the first ones; 0: there are none
    uint64_t found_ns;           // when room for the ring was found
    uint64_t lacked_ns;          // when a job last found no memory; 0: the last one found some
    bool freeing; // others gave memory back when the job began: it may have come too late for the job
    int err;      // of the job that has ended
    struct error error;
};

static void set_job(struct making *making, enum job_state state) {
    making->job = (enum job_state)state_next(&job_table, making->job, state);
}

// Clients are told that they are attached once there are some slots, so that is when a lack of memory is looked for.
// What others take within LOOK_NS is missed later: then the feed fails.
static int before_opening(struct making *making) {
    const struct ring_plan *plan = &making->plan;
    const struct served_feed *feed = making->feed;
    const uint64_t missing = (plan->slot_count - making->portion) * plan->slot_allocated_bytes;
    const bool is_news = monotonic_ns() > making->found_ns + LOOK_NS;
    if (missing && is_news && ring_free_bytes() < missing)
        return ring_no_room(plan->allocated_bytes, -ENOSPC, &making->error);
    return making->places ? 0 : batch_places_open(&feed->shape, &feed->ring, &making->places, &making->error);
}

// Whether the next slots are.
static bool is_prepared(const struct making *making) {
    return making->allocated + making->portion <= ring_prepared_slots(&making->plan, making->prepared);
}

static void work(uv_work_t *job) {
    struct making *making = job->data;
    const struct served_feed *feed = making->feed;
    struct error *error = &making->error;
    if (!making->mapped) {
        making->err = making->prepared >= making->plan.data_offset
                          ? ring_write_header(&making->plan, feed->ring_fd, error)
                          : ring_allocate_control(&making->plan, feed->ring_fd, error);
        return;
    }
    // Others may have taken what was free when the feed was opened. Whoever exceeds a group's limit may be killed.
    const uint64_t wanted = is_prepared(making) ? 0 : making->portion * making->plan.slot_allocated_bytes;
    if (making->allocated && wanted && ring_free_bytes() < wanted)
        making->err = ring_no_room(wanted, -ENOSPC, error);
    else if (wanted)
        making->err = ring_allocate(&making->plan, feed->ring_fd, making->allocated, making->portion, error);
    if (!making->err && !making->allocated)
        making->err = before_opening(making);
}

static void on_worked(uv_work_t *job, int status) {
    struct making *making = job->data;
    if (status < 0)
        making->err = error_set(&making->error, status, "the feed was given up");
    set_job(making, JOB_DONE);
    served_feed_mark(making->feed);
}

// Of the first slots, each lane wants one. The next batch is ready to be filled when one has been, if half of the slots
// are allocated while the other half is filled, which takes as long.
static uint32_t next_portion(const struct making *making) {
    const struct ring_plan *plan = &making->plan;
    const uint64_t bytes = plan->slot_allocated_bytes;
    uint64_t slots = making->allocated ? min_u64(making->allocated, PORTION_MOST / bytes)
                                       : max_u64(making->feed->asked_lanes, FIRST_LEAST / bytes);
    return (uint32_t)min_u64(max_u64(slots, 1), plan->slot_count - making->allocated);
}

// A control part of a few pages is not worth the wait for a thread, nor is what is there already.
static bool is_quick(const struct making *making) {
    const struct ring_plan *plan = &making->plan;
    if (making->mapped)
        return is_prepared(making);
    return making->prepared >= plan->data_offset || ring_control_is_quick(plan);
}

static int work_at_once(struct making *making) {
    set_job(making, JOB_RUNNING);
    work(&making->work);
    on_worked(&making->work, 0);
    return 0;
}

static int queue_work(struct making *making, struct error *error) {
    making->freeing = room_is_being_made(making->feed->supervisor);
    if (making->mapped)
        making->portion = next_portion(making);
    if (is_quick(making))
        return work_at_once(making);
    int err = uv_queue_work(&making->feed->supervisor->loop, &making->work, work, on_worked);
    if (err)
        return error_set(error, err, "cannot allocate the ring: %s", uv_strerror(err));
    set_job(making, JOB_RUNNING);
    return 0;
}

// ---- On the loop -------------------------------------------------------------------------------------------

static int map_control(struct served_feed *feed, struct making *making) {
    struct error *error = &making->error;
    int err = ring_map(&feed->ring, feed->ring_fd, RING_CONTROL, error);
    if (!err)
        err = ring_supervise(&feed->ring, error);
    if (err)
        return err;
    making->mapped = true;
    err = queue_work(making, error); // first, since it takes as long as starting a loader
    if (!err)
        feed_loaders_start(feed);
    return err;
}

static int open_feed(struct served_feed *feed, struct making *making) {
    struct error *error = &making->error;
    int err = growth_open(feed, making->plan.slot_allocated_bytes, making->places, error);
    making->places = NULL;
    if (err)
        return err;
    err = delivery_open(&feed->delivery, &feed->ring, &making->partition, feed->asked_lanes,
                        &feed->fill.filler, making->portion);
    if (err)
        return error_set(error, err, "out of memory");
    feed->delivery.shared = feed->name[0] != 0;
    err = feed_event_watch(feed, error);
    if (err)
        return err;
    served_feed_set_state(feed, FEED_GATHERING);
    feed->idle_since_ns = monotonic_ns();
    feed->admit = true;
    feed_loaders_start(feed);
    // Those that have died are replaced, and those that may not start in this turn follow in the next.
    if (feed->next_serial == 1 && feed->supervisor->starts_left)
        return error_set(error, -EAGAIN, "no loader process could be started; see the daemon's log");
    log_info("feed %" PRIu64 "%s%s: dataset %s, batches of %" PRIu32 ", ring of %" PRIu32 " batches (%" PRIu64
             " KiB)",
             feed->id, *feed->name ? " " : "", feed->name, feed->dataset->name, feed->shape.batch_size,
             making->plan.slot_count, making->plan.allocated_bytes >> 10);
    return 0;
}

// 1: all of them are there.
static int take_slots(struct served_feed *feed, struct making *making) {
    int err = 0;
    if (making->allocated)
        delivery_add_slots(&feed->delivery, making->portion);
    else
        err = open_feed(feed, making);
    if (!making->opened_ns)
        making->opened_ns = monotonic_ns();
    making->allocated += making->portion;
    if (err)
        return err;
    if (making->allocated < making->plan.slot_count)
        return making->allocated > making->portion ? queue_work(making, &making->error) : 0;
    feed->admit = true; // GPUs want all of them
    return 1;
}

// For memory, or for the first batch: on a machine with few processors, allocating the others would delay it.
static bool must_wait(const struct served_feed *feed, const struct making *making) {
    const uint64_t now = monotonic_ns();
    if (making->lacked_ns && now < making->lacked_ns + AGAIN_NS)
        return true;
    return making->opened_ns && !feed->delivery.completed && !LIST_EMPTY(&feed->members) &&
           now < making->opened_ns + FIRST_NS;
}

// ---- The beginning -----------------------------------------------------------------------------------------

static int open_descriptors(struct served_feed *feed, struct making *making, struct error *error) {
    making->prepared =
        prepared_ring_take(feed->supervisor, &making->plan, &feed->ring_fd, &feed->ring_read_fd);
    int err = making->prepared ? 0 : ring_create(&making->plan, &feed->ring_fd, &feed->ring_read_fd, error);
    if (!err)
        err = feed_event_open(feed, error);
    if (err) {
        close_fd(&feed->ring_fd);
        close_fd(&feed->ring_read_fd);
    }
    return err;
}

static int begin_if_there_is_room(struct served_feed *feed, struct making *making) {
    struct supervisor *supervisor = feed->supervisor;
    struct error *error = &making->error;
    int found = room_find(feed, error);
    if (found)
        return found < 0 ? found : 0;
    making->found_ns = monotonic_ns();
    struct stats_feed *stats = stats_find_unused(supervisor->stats->feeds, id);
    if (!stats)
        return error_set(error, -EBUSY, "there is no free statistics record for another feed");
    int err = open_descriptors(feed, making, error);
    if (err)
        return error_is_lack(err) && room_make_way(supervisor) ? 0 : err;
    shared_blocks_open(feed);
    sample_caches_begin(feed);
    served_feed_publish(feed, stats, making->plan.slot_count);
    served_feed_set_state(feed, FEED_MAKING);
    return queue_work(making, error);
}

// ---- The turn ----------------------------------------------------------------------------------------------

// The next step, unless it has to wait: 1 the feed has all that it needs, 0 it will have it, or why it will not.
static int step(struct served_feed *feed, struct making *making) {
    struct error *error = &making->error;
    if (feed->state == FEED_CLOSING)
        return error_set(error, -ESHUTDOWN, "the feed was closed while it was being created");
    if (making->job == JOB_NONE && !making->allocated && !served_feed_in_use(feed))
        return error_set(error, -ECANCELED, "nobody waits for the feed any more");
    if (feed->state == FEED_QUEUED)
        return begin_if_there_is_room(feed, making);
    if (making->job == JOB_NONE)
        return must_wait(feed, making) ? 0 : queue_work(making, error);
    if (!making->mapped && !sample_caches_are_ready(feed, monotonic_ns()))
        return 0; // its loaders start next
    set_job(making, JOB_NONE);
    making->lacked_ns = error_is_lack(making->err) ? monotonic_ns() : 0;
    if (making->lacked_ns && (making->freeing || room_make_way(feed->supervisor)))
        return 0;
    if (making->err)
        return making->err;
    return making->mapped ? take_slots(feed, making) : map_control(feed, making);
}

bool making_may_continue(const struct served_feed *feed) {
    const struct making *making = feed->making;
    return making && making->job == JOB_NONE && making->opened_ns && !must_wait(feed, making);
}

bool making_lacks_memory(const struct served_feed *feed) {
    return feed->making && feed->making->lacked_ns;
}

void making_try_again(struct served_feed *feed) {
    if (!feed->making)
        return;
    feed->making->lacked_ns = 0;
    served_feed_mark(feed);
}

void making_free(struct served_feed *feed) {
    if (feed->making)
        batch_places_close(feed->making->places);
    free(feed->making);
    feed->making = NULL;
}

void making_act(struct served_feed *feed) {
    struct making *making = feed->making;
    if (!making || making->job == JOB_RUNNING)
        return;
    int done = step(feed, making);
    if (done == 0)
        return;
    if (done < 0 && served_feed_is_open(feed)) {
        served_feed_fail(feed, done, "%s", making->error.text);
    } else if (done < 0) {
        served_feed_refuse(feed, NULL, done, making->error.text);
        served_feed_close(feed);
    }
    making_free(feed);
}

// ---- Asking for one ----------------------------------------------------------------------------------------

static int describe_making(struct served_feed *feed, const struct attach_request *request,
                           const struct ring_plan *plan) {
    struct making *making = feed->making = calloc(1, sizeof *making);
    if (!making)
        return -ENOMEM;
    making->work.data = making;
    making->feed = feed;
    making->plan = *plan;
    making->partition = served_feed_run(&feed->shape, request);
    return 0;
}

static struct served_feed *describe(struct supervisor *supervisor, uid_t user,
                                    const struct attach_request *request, const struct ring_plan *plan) {
    struct served_feed *feed = calloc(1, sizeof *feed);
    if (!feed)
        return NULL;
    feed->supervisor = supervisor;
    feed->user = user;
    feed->shape = request->shape;
    feed->dataset = dataset_ref((struct dataset *)request->shape.dataset);
    feed->max_lag_ns = request->max_lag_s * NS_PER_S;
    feed->idle_since_ns = monotonic_ns();
    feed->ring_bytes = plan->allocated_bytes;
    feed->asked_ring_bytes = request->ring_bytes;
    feed->asked_prefetch = request->prefetch;
    feed->asked_lanes = request->local_world_size;
    feed->ring_fd = feed->ring_read_fd = feed->event_fd = feed->share_fd = -1;
    LIST_INIT(&feed->members);
    TAILQ_INIT(&feed->awaiting);
    LIST_INIT(&feed->pools);
    feed_loaders_init(feed);
    memcpy(feed->name, request->name, sizeof feed->name);
    return feed;
}

static int plan_ring(struct supervisor *supervisor, uid_t user, const struct attach_request *request,
                     struct ring_plan *plan, struct error *error) {
    const uint64_t room = min_u64(room_ring_bytes(supervisor), budget_left(supervisor, user));
    int err = ring_size_plan(supervisor->config, request, room, plan, error);
    return err ? err : budget_make_room(supervisor, user, plan->allocated_bytes, error);
}

int making_start(struct supervisor *supervisor, uid_t user, const struct attach_request *request,
                 struct served_feed **made, struct error *error) {
    struct ring_plan plan;
    int err = plan_ring(supervisor, user, request, &plan, error);
    if (err && request->ring_slots) { // a configuration with smaller limits: as a new feed then
        struct attach_request modest = *request;
        modest.ring_slots = 0;
        err = plan_ring(supervisor, user, &modest, &plan, error);
    }
    if (err)
        return err;
    struct served_feed *feed = describe(supervisor, user, request, &plan);
    if (!feed)
        return error_set(error, -ENOMEM, "out of memory");
    if (describe_making(feed, request, &plan) < 0) {
        datasets_release(feed->dataset, supervisor->own_closer);
        free(feed);
        return error_set(error, -ENOMEM, "out of memory");
    }
    feed->id = ++supervisor->next_feed;
    LIST_INSERT_HEAD(&supervisor->feeds, feed, link);
    supervisor->feed_count++;
    served_feed_mark(feed);
    *made = feed;
    return 0;
}

#include "daemon/supervisor/clients/attach.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/names.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/clients/admission.h"
#include "daemon/supervisor/clients/attach_answer.h"
#include "daemon/supervisor/clients/attach_images.h"
#include "daemon/supervisor/clients/attach_resume.h"
#include "daemon/supervisor/clients/bring.h"
#include "daemon/supervisor/clients/index_command.h"
#include "daemon/supervisor/feeds/making.h"
#include "daemon/supervisor/feeds/places.h"
#include "daemon/supervisor/feeds/pool_open.h"
#include "daemon/supervisor/feeds/ring_size.h"
#include "order/partition.h"
#include "shm/ring_make.h"
#include "shm/ring_supervisor.h"

#define LOCAL_RANKS_BY_DEFAULT 16u
#define WORLD_MOST             (1u << 24)

// An invalid name is not repeated, neither to the client nor in the log.
static int check_names(const Feedd__Attach *attach, struct error *error) {
    if (!name_is_valid(attach->dataset) || !name_is_valid(attach->share))
        return error_set(error, -EINVAL,
                         "the name of a dataset or share has at most %u letters, digits, '.', '_' and '-'",
                         PROTO_MAX_NAME);
    if (attach->wait_for > 1 && !*attach->share)
        return error_set(error, -EINVAL,
                         "wait_for %" PRIu32
                         " needs a share name: without one, nobody else can join the feed, whatever the rank",
                         attach->wait_for);
    return 0;
}

static int check_ranks(const Feedd__Attach *attach, struct attach_request *request, struct error *error) {
    uint32_t world = attach->world_size ? attach->world_size : 1;
    uint32_t local = attach->local_world_size;
    if (world > WORLD_MOST)
        return error_set(error, -EINVAL, "world_size %" PRIu32 " is more than the maximum, %u", world,
                         WORLD_MOST);
    if (attach->rank >= world)
        return error_set(error, -EINVAL, "rank %" PRIu32 " is not below world_size %" PRIu32, attach->rank,
                         world);
    if (local > world)
        return error_set(error, -EINVAL, "local_world_size %" PRIu32 " is more than world_size %" PRIu32,
                         local, world);
    request->shape.world_size = world;
    request->device_world_size = attach->device_world_size ? attach->device_world_size : 1;
    if (request->device_world_size > world)
        return error_set(error, -EINVAL, "device_world_size %" PRIu32 " is more than world_size %" PRIu32,
                         request->device_world_size, world);
    request->local_world_size = local ? local : (uint32_t)min_u64(world, LOCAL_RANKS_BY_DEFAULT);
    return 0;
}

static int check_batches(const struct feed_shape *shape, struct error *error) {
    const struct dataset *dataset = shape->dataset;
    if (shape->batch_size < 1 || shape->batch_size > CHUNK_MAX_SAMPLES)
        return error_set(error, -EINVAL, "batch_size %" PRIu32 " is not from 1 to %u", shape->batch_size,
                         CHUNK_MAX_SAMPLES);
    struct partition partition = served_feed_partition(shape, 0, 0);
    if (partition_batches(&partition, 0) == 0)
        return error_set(
            error, -EINVAL,
            "dataset %s has %" PRIu64 " samples, less than one global batch of %" PRIu64
            " (batch_size %" PRIu32 " x world_size %" PRIu32 "), and drop_last would drop them all",
            dataset->name, dataset->layout->samples, (uint64_t)shape->batch_size * shape->world_size,
            shape->batch_size, shape->world_size);
    return 0;
}

// A name that belongs to no GPU must not start a process. Whether an existing GPU works is for its transfer process to
// find out.
static int check_device(const struct supervisor *supervisor, const char *device,
                        struct attach_request *request, struct error *error) {
    int simulated;
    *request->device = 0;
    if (!*device || strcmp(device, "cpu") == 0)
        return 0;
    if (!name_is_valid(device) || strlen(device) >= sizeof request->device)
        return error_set(error, -EINVAL, "a device is \"cpu\" or the UUID of a GPU");
    int err = gpu_expect(device, &simulated, error);
    if (err)
        return err;
    if (simulated >= (int)supervisor->config->simulated_gpus) {
        char have[64];
        gpu_simulated((uint32_t)supervisor->config->simulated_gpus, have, sizeof have);
        return error_set(
            error, -ENODEV,
            "there is no host:%d: this daemon has %s; simulated_gpus in its configuration sets that",
            simulated, have);
    }
    snprintf(request->device, sizeof request->device, "%s", device);
    return 0;
}

static void read_return(const Feedd__Attach *attach, struct attach_request *request) {
    request->reconnect = attach->reconnect;
    if (!attach->reconnect)
        return;
    request->run_epoch = attach->run_epoch;
    request->run_consumed = attach->run_consumed;
    request->unbegun = attach->unbegun;
    request->leases = attach->leases;
    request->ring_slots = attach->ring_slots;
    request->pool_slots = attach->pool_slots;
}

static int check_attach(struct session *session, const Feedd__Attach *attach, struct attach_request *request,
                        struct error *error) {
    struct ring_plan plan;
    const struct supervisor *supervisor = session->supervisor;
    if (supervisor->state != SUPERVISOR_RUNNING)
        return error_set(error, -ESHUTDOWN, "feedd is stopping and accepts no new consumers");
    int refused = check_names(attach, error);
    if (refused)
        return refused;
    refused = admission_find(session, attach->dataset, &request->shape.dataset, error);
    if (!refused && session->brought)
        refused = bring_find(session, attach->dataset, &request->shape.dataset, error);
    if (refused)
        return refused;
    refused = check_device(supervisor, attach->device, request, error);
    if (refused)
        return refused;
    request->shape.batch_size = attach->batch_size;
    read_return(attach, request);
    request->finishes_images =
        attach->finishes_images || (attach->accepts_images && attach_images_are_made(session, attach->share));
    refused = attach_images_choose(session->supervisor, request, error);
    if (refused)
        return refused;
    const struct dataset *dataset = request->shape.dataset;
    request->shape.shuffle = attach->shuffle && !dataset_is_drawn(dataset); // draws are in random order
    request->shape.drop_last = attach->drop_last;
    request->shape.seed = dataset_needs_seed(dataset, attach->shuffle) ? attach->seed : 0;
    attach_resume_begin(request);
    snprintf(request->name, sizeof request->name, "%s", attach->share);
    request->rank = attach->rank;
    request->epochs = attach->epochs;
    request->resume = *attach->resume != 0;
    request->prefetch = attach->prefetch;
    request->wait_for = attach->wait_for ? attach->wait_for : 1;
    request->confirms = attach->confirms && !attach->reconnect; // one that returns has a place already
    request->max_lag_s = attach->max_lag_s ? attach->max_lag_s : supervisor->config->max_lag_s;
    request->ring_bytes = attach->ring_bytes;
    int err = check_ranks(attach, request, error);
    if (!err)
        err = check_batches(&request->shape, error);
    if (!err && *request->device) // before creating a ring from which its GPU cannot copy
        err = ring_size_check_batch(request, &plan, error);
    if (!err)
        err = pool_check_lanes(request, error);
    if (!err && *attach->resume)
        err = attach_resume_check(attach->resume, request, error);
    return err;
}

// ---- Finding the feed --------------------------------------------------------------------------------------

static int disagree(struct error *error, const char *name, const char *option, uint64_t have, uint64_t want) {
    return error_set(error, -EEXIST,
                     "feed \"%s\" runs with %s = %" PRIu64 ", not %" PRIu64
                     "; all its consumers must agree, or use another name",
                     name, option, have, want);
}

static int disagree_mix(struct error *error, const char *name, const struct feed_shape *have) {
    return error_set(
        error, -EEXIST,
        "feed \"%s\" runs over mix %s with other weights, or with weights that changed at another"
        " place; use another name",
        name, have->dataset->name);
}

static int check_agreement(const struct served_feed *feed, const struct feed_shape *want,
                           struct error *error) {
    const struct feed_shape *have = &feed->shape;
    if (strcmp(have->dataset->name, want->dataset->name) != 0)
        return error_set(error, -EEXIST, "feed \"%s\" runs over dataset %s, not %s; use another name",
                         feed->name, have->dataset->name, want->dataset->name);
    const struct dataset_layout *runs = have->dataset->layout, *wanted = want->dataset->layout;
    // The fingerprint leaves out what the weights are.
    bool same = runs->fingerprint == wanted->fingerprint && runs->selection.seed == wanted->selection.seed;
    if (!same && want->dataset->brought)
        return error_set(
            error, -EEXIST,
            "feed \"%s\" runs over other samples of dataset %s; all its consumers must bring the same"
            " view, or use another name",
            feed->name, want->dataset->of);
    if (!same)
        return error_set(
            error, -EEXIST,
            "feed \"%s\" runs over dataset %s as it was before its files changed; use another name",
            feed->name, have->dataset->name);
    if (have->batch_size != want->batch_size)
        return disagree(error, feed->name, "batch_size", have->batch_size, want->batch_size);
    if (have->shuffle != want->shuffle)
        return disagree(error, feed->name, "shuffle", have->shuffle, want->shuffle);
    if (have->drop_last != want->drop_last)
        return disagree(error, feed->name, "drop_last", have->drop_last, want->drop_last);
    if (have->seed != want->seed)
        return disagree(error, feed->name, "seed", have->seed, want->seed);
    if (have->world_size != want->world_size)
        return disagree(error, feed->name, "world_size", have->world_size, want->world_size);
    if (have->gpu_images != want->gpu_images)
        return error_set(
            error, -EEXIST,
            "a GPU decodes the images of feed \"%s\" (decode gpu): all its consumers must be on GPUs that can"
            " do this, or use another name",
            feed->name);
    return mix_run_same(&have->mix, &want->mix) ? 0 : disagree_mix(error, feed->name, have);
}

// The feed of that name; or, without a name, a matching feed of this user that nobody uses any more: a job that is
// started again finds it warm.
static struct served_feed *find_feed(const struct supervisor *supervisor, uid_t user,
                                     const struct attach_request *request) {
    struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link) {
        if (feed->state == FEED_CLOSING || feed->user != user || strcmp(feed->name, request->name) != 0)
            continue;
        if (*request->name)
            return feed;
        if (!served_feed_in_use(feed) && feed->dataset == request->shape.dataset &&
            feed->asked_ring_bytes == request->ring_bytes && feed->asked_prefetch == request->prefetch &&
            feed->asked_lanes == request->local_world_size &&
            check_agreement(feed, &request->shape, NULL) == 0)
            return feed;
    }
    return NULL;
}

// A named feed that nobody uses makes way for a feed of the same name with another shape, more ranks, or a dataset that
// was reconfigured.
static int settle_disagreement(struct served_feed **feed, struct attach_request *request,
                               struct error *error) {
    struct feed_shape *shape = &request->shape;
    const struct mix_run *runs = &(*feed)->shape.mix;
    // Whoever can take images that a GPU makes can take others, too.
    if (served_feed_in_use(*feed))
        shape->gpu_images &= (*feed)->shape.gpu_images;
    // Who brings no token joins where the feed is, wherever that got its weights.
    if (served_feed_in_use(*feed) && !request->resume && runs->sources == shape->mix.sources &&
        memcmp(runs->weights, shape->mix.weights, sizeof runs->weights) == 0)
        shape->mix = *runs;
    int err = check_agreement(*feed, shape, error);
    bool fits = !err && request->local_world_size <= (*feed)->asked_lanes &&
                (*feed)->dataset == request->shape.dataset;
    if (fits || served_feed_in_use(*feed))
        return err;
    served_feed_close(*feed);
    *feed = NULL;
    return 0;
}

// ---- Answering ---------------------------------------------------------------------------------------------

static void on_joined(struct member *member) {
    struct session *session = session_of(member);
    struct attach_answer answer;
    Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
    attach_answer_describe(member, &answer);
    member->company_told = answer.attached.wait_for;
    frame.body_case = FEEDD__SERVER_MESSAGE__BODY_ATTACHED;
    frame.attached = &answer.attached;
    session_set_state(session, SESSION_ATTACHED);
    if (attach_answer_descriptors(member, &answer, &session->writer) < 0) {
        frame_drop_fds(&session->writer);
        session_fail(session, -EMFILE, "feedd is out of file descriptors: raise its limit (ulimit -n)");
        return;
    }
    session_send(session, &frame.base);
    log_debug("session %" PRIu64 " (%s, process %d) is rank %" PRIu32 " of feed %" PRIu64, session->id,
              session->name, (int)session->peer.pid, member->request.rank, member->feed->id);
}

// Descriptors of one message at a time wait to be sent, so a client that does not read keeps few open here.
static bool on_slot_grown(struct member *member, uint32_t slot, uint64_t bytes, int fd) {
    struct session *session = session_of(member);
    Feedd__SlotMemory memory = FEEDD__SLOT_MEMORY__INIT;
    Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
    int err = frame_attach_fd(&session->writer, fd);
    if (err == -EBUSY) {
        session_flush(session);
        err = frame_attach_fd(&session->writer, fd);
    }
    if (err == -EBUSY || session->hung_up)
        return false;
    if (err) {
        session_fail(session, -EMFILE, "feedd is out of file descriptors: raise its limit (ulimit -n)");
        return false;
    }
    memory.slot = slot;
    memory.bytes = bytes;
    frame.body_case = FEEDD__SERVER_MESSAGE__BODY_SLOT_MEMORY;
    frame.slot_memory = &memory;
    session_send(session, &frame.base);
    return true;
}

static void on_granted(struct member *member, uint64_t sequence, const uint32_t *slots, uint32_t count,
                       uint32_t company) {
    Feedd__Grant grant = FEEDD__GRANT__INIT;
    Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
    uint64_t fills[PROTO_MAX_GRANTS];
    for (uint32_t i = 0; i < count; i++)
        fills[i] = ring_dispatched(member_delivery(member)->ring, slots[i])->fill;
    grant.sequence = sequence;
    grant.slots = (uint32_t *)slots;
    grant.n_slots = count;
    grant.fills = fills;
    grant.n_fills = count;
    grant.wait_for = company;
    frame.body_case = FEEDD__SERVER_MESSAGE__BODY_GRANT;
    frame.grant = &grant;
    session_send(session_of(member), &frame.base);
}

// Nothing that the client does bounds how many of these there are, so they do not pile up. But the first one says that
// the feed has begun: a client that has not heard that would wait for all others again after a loss of the daemon, also
// for those that have finished by then.
static bool on_accompanied(struct member *member, uint32_t company) {
    if (member->company_told && frame_pending(&session_of(member)->writer))
        return false;
    on_granted(member, member->consumer.cursor, NULL, 0, company);
    return true;
}

static void on_ended(struct member *member) {
    Feedd__End end = FEEDD__END__INIT;
    Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
    frame.body_case = FEEDD__SERVER_MESSAGE__BODY_END;
    frame.end = &end;
    session_send(session_of(member), &frame.base);
}

static void on_failed(struct member *member, int code, const char *text) {
    session_fail(session_of(member), code, "%s", text);
}

static const struct member_events events = {
    .joined = on_joined,
    .slot_grown = on_slot_grown,
    .granted = on_granted,
    .accompanied = on_accompanied,
    .ended = on_ended,
    .failed = on_failed,
};

// ---- Attaching ---------------------------------------------------------------------------------------------

static bool may_make_feed(struct session *session) {
    return user_may_make_feed(session->user, &session->feed_wait, monotonic_ns());
}

bool attach_session(struct session *session, const Feedd__Attach *attach) {
    struct supervisor *supervisor = session->supervisor;
    struct attach_request *request = &session->member.request;
    struct error error = {0};
    int err = check_attach(session, attach, request, &error);
    if (err == -EAGAIN && index_is_awaited(session, attach->patience_ms)) { // its index is being built
        user_stop_waiting(session->user, &session->feed_wait);
        return false;
    }
    bool changes = !err && request->mix_changes;
    if (changes && !may_make_feed(session))
        return false;
    if (changes)
        err = attach_resume_change(request, &error);
    struct served_feed *feed = err ? NULL : find_feed(supervisor, session->peer.uid, request);
    if (feed)
        err = settle_disagreement(&feed, request, &error);
    if (!err && !feed && !changes && !may_make_feed(session))
        return false;
    if (!err && !feed)
        err = making_start(supervisor, session->peer.uid, request, &feed, &error);
    if (err) {
        session_fail(session, err, "%s", error.text);
        return true;
    }
    session->member.events = &events;
    attach_images_keep(feed, request);
    session_set_state(session, SESSION_ATTACHING);
    places_await(feed, &session->member);
    return true;
}

#include "client/lib/attachment.h"

#include <string.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "client/lib/leases.h"
#include "order/order.h"
#include "order/token.h"

// For the message that follows the emptying of a ring.
#define REASON_NS (5 * NS_PER_S)
// For a driver that is slow to initialise the GPU, or to pin the ring.
#define GPU_NS (120 * NS_PER_S)

// ---- The conversation ---------------------------------------------------------------------------

// What a consumer says that returns after the daemon was lost; `token` keeps the text.
static int continue_from(Feedd__Attach *attach, const struct attachment *before, char token[FEED_TOKEN_BYTES],
                         struct error *error) {
    int err = attachment_token(before, before->epoch, before->consumed, token);
    if (err)
        return error_set(error, err, "the last batch ended at sample %llu, which the dataset does not have",
                         (unsigned long long)before->consumed);
    attach->resume = token;
    attach->reconnect = true;
    attach->run_epoch = before->run_epoch;
    attach->run_consumed = before->run_consumed;
    attach->unbegun = before->request->share && !before->wait_for; // wait for as many as at first
    if (!attach->unbegun)
        attach->wait_for = before->request->share ? before->wait_for : 1;
    attach->leases = before->promised.leases;
    attach->ring_slots = before->promised.ring_slots;
    attach->pool_slots = before->promised.pool_slots;
    return 0;
}

// For Attach; 0: without end.
static uint32_t patience_ms(uint64_t deadline) {
    uint64_t now = monotonic_ns();
    return deadline == DEADLINE_NONE
               ? 0
               : (uint32_t)min_u64(max_u64((deadline - min_u64(now, deadline)) / NS_PER_MS, 1), UINT32_MAX);
}

// Whether others wait until this one knows its place. One that returns has known it since it first attached.
static bool confirms(const struct attachment *fresh, const struct attachment *before) {
    return !before && fresh->request->options.wait_for > 1;
}

// If loaders decoded the images of a shared feed, since the GPU of one consumer has no engine, they are to do that
// again after a loss of the daemon, whichever consumer returns first. If the engine already decodes for a newcomer,
// this one joins it (accepts_images).
static bool finishes_images(const struct gpu *gpu, const struct attachment *before) {
    return gpu && gpu_finishes(gpu) && (!before || !before->request->share || before->finisher.gpu);
}

static int send_attach(struct attachment *fresh, struct gpu *gpu, const struct attachment *before,
                       uint64_t deadline, struct error *error) {
    const struct feed_options *options = &fresh->request->options;
    char token[FEED_TOKEN_BYTES];
    Feedd__Attach attach = FEEDD__ATTACH__INIT;
    attach.dataset = fresh->request->dataset;
    attach.batch_size = options->batch_size;
    attach.shuffle = options->shuffle;
    attach.drop_last = options->drop_last;
    attach.seed = options->seed;
    attach.rank = options->rank;
    attach.world_size = options->world_size;
    attach.local_world_size = options->local_world_size;
    attach.device_world_size = options->device_world_size;
    attach.epochs = options->epochs;
    attach.wait_for = options->wait_for;
    attach.prefetch = options->prefetch;
    attach.max_lag_s = options->max_lag_s;
    attach.ring_bytes = options->ring_bytes;
    attach.patience_ms = patience_ms(deadline);
    attach.confirms = confirms(fresh, before);
    if (fresh->request->share)
        attach.share = fresh->request->share;
    if (gpu)
        attach.device = gpu->uuid;
    attach.finishes_images = finishes_images(gpu, before);
    attach.accepts_images = before && gpu && gpu_finishes(gpu);
    if (fresh->request->resume)
        attach.resume = fresh->request->resume;
    int err = before ? continue_from(&attach, before, token, error) : 0;
    if (err)
        return err;
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_ATTACH;
    message.attach = &attach;
    err = connection_send(&fresh->connection, &message);
    return err ? error_set(error, err, "cannot ask feedd to attach: %s", strerror(-err)) : 0;
}

// The daemon has said hello, so it is there. Unless the application has set a limit, opening the GPU may take its time.
static uint64_t answer_deadline(const struct attachment *fresh, const struct gpu *gpu,
                                const struct attachment *before, uint64_t deadline) {
    return gpu && !before && !fresh->request->options.connect_timeout_ms ? deadline + GPU_NS : deadline;
}

static int await_attached(struct attachment *fresh, uint64_t deadline, Feedd__Attached *attached,
                          struct error *error) {
    const char *socket = fresh->request->socket;
    const Feedd__ServerMessage *answer;
    int got = connection_receive(&fresh->connection, &answer, deadline, error);
    if (got < 0)
        return got;
    if (got == 0)
        return error_set(error, -ETIMEDOUT, "feedd on %s did not answer the request for dataset %s in time",
                         socket, fresh->request->dataset);
    if (answer->body_case == FEEDD__SERVER_MESSAGE__BODY_ERROR)
        return connection_refusal(answer->error, error);
    if (answer->body_case != FEEDD__SERVER_MESSAGE__BODY_ATTACHED)
        return error_set(error, -EPROTO, "feedd on %s answered a request to attach with message %d", socket,
                         answer->body_case);
    *attached = *answer->attached;
    return 0;
}

// ---- What comes with the answer -----------------------------------------------------------------

static int check_ring(const struct attachment *fresh, const struct gpu *gpu, const Feedd__Attached *attached,
                      struct error *error) {
    const struct ring_header *header = fresh->ring.header;
    const struct feed_options *options = &fresh->request->options;
    bool agreed = (gpu != NULL) == (header->on_device != 0) && header->batch_size == options->batch_size &&
                  header->world_size == options->world_size && header->slot_count >= 1 &&
                  header->field_count >= 1 && header->field_count <= FEED_MAX_FIELDS &&
                  header->samples >= 1 && header->order_version <= ORDER_WINDOW_1 && attached->prefetch >= 1;
    return agreed ? 0
                  : error_set(error, -EPROTO, "feedd on %s gave a ring that is not the one asked for",
                              fresh->request->socket);
}

// The daemon empties the ring of a feed that has failed or was closed, perhaps before it was mapped here.
static bool is_emptied(const struct attachment *fresh) {
    uint64_t magic;
    return pread(fresh->ring_fd, &magic, sizeof magic, offsetof(struct ring_header, magic)) == sizeof magic &&
           magic == 0;
}

// The daemon says why, after what it had granted. `error` stays as it is if it says nothing.
static int await_reason(struct attachment *fresh, int code, uint64_t deadline, struct error *error) {
    const Feedd__ServerMessage *message;
    struct error lost;
    int got;
    deadline = min_u64(deadline, monotonic_ns() + REASON_NS);
    while ((got = connection_receive(&fresh->connection, &message, deadline, &lost)) > 0) {
        if (message->body_case == FEEDD__SERVER_MESSAGE__BODY_ERROR)
            return connection_refusal(message->error, error);
        // A descriptor that waits after any other message belongs to a later one.
        if (message->body_case == FEEDD__SERVER_MESSAGE__BODY_SLOT_MEMORY)
            close_fd(&(int){frame_take_fd(&fresh->connection.reader)});
    }
    if (got == 0)
        return code;
    *error = lost;
    return got;
}

static int map_ring(struct attachment *fresh, struct gpu *gpu, const Feedd__Attached *attached,
                    uint64_t deadline, struct error *error) {
    struct frame_reader *reader = &fresh->connection.reader;
    int fd = fresh->ring_fd = frame_take_fd(reader);
    int memory_fd AUTO_CLOSE = gpu ? frame_take_fd(reader) : -1;
    int words_fd AUTO_CLOSE = gpu ? frame_take_fd(reader) : -1;
    int window_fd AUTO_CLOSE = attached->window ? frame_take_fd(reader) : -1;
    int err = ring_map(&fresh->ring, fd, RING_READ, error);
    if (err == -EPROTO && is_emptied(fresh))
        return await_reason(fresh, err, deadline, error);
    if (!err)
        err = check_ring(fresh, gpu, attached, error);
    if (!err && gpu)
        err = mapped_pool_open(&fresh->pool, gpu, &fresh->ring, memory_fd, attached->pool_bytes, words_fd,
                               error);
    if (!err)
        err = finisher_open(&fresh->finisher, gpu, &fresh->ring, attached, error);
    if (!err && fresh->ring.header->order_version == ORDER_WINDOW_1)
        err = own_window_open(&fresh->window, fresh->ring.header->samples, fresh->ring.header->seed,
                              attached->window, window_fd, error);
    return err;
}

static int take_mix(struct attachment *fresh, const Feedd__Mix *mix, struct error *error) {
    struct error cause = {0};
    struct mix_run *run = &fresh->mix;
    if (!mix)
        return 0;
    run->version = mix->version;
    run->sources = (uint32_t)min_u64(mix->n_weights, MIX_MAX_SOURCES + 1);
    run->base.start = mix->start;
    fresh->mix_order = mix->order_version;
    bool fits = run->sources <= MIX_MAX_SOURCES && mix->n_drawn == mix->n_weights &&
                mix->order_version <= ORDER_FEISTEL_1 &&
                fresh->ring.header->order_version == ORDER_SEQUENTIAL;
    for (uint32_t i = 0; i < run->sources && fits; i++) {
        run->weights[i] = mix->weights[i];
        run->base.drawn[i] = mix->drawn[i];
    }
    if (fits && mix_run_check(run, &cause) == 0)
        return 0;
    return error_set(error, -EPROTO, "feedd on %s describes an invalid mix%s%s", fresh->request->socket,
                     *cause.text ? ": " : "", cause.text);
}

static int same_data(const struct attachment *fresh, const struct attachment *before, struct error *error) {
    if (!before || fresh->ring.header->fingerprint == before->ring.header->fingerprint)
        return 0;
    return error_set(error, -ESTALE, "feedd came back with other data in dataset %s",
                     fresh->request->dataset);
}

static int set_up_leases(struct attachment *fresh, const Feedd__Attached *attached, struct error *error) {
    uint32_t slots = fresh->ring.header->slot_count;
    // More credits than slots cannot be used: a slot is ours at most once.
    fresh->prefetch = (uint32_t)max_u64(1, min_u64(attached->prefetch, slots));
    fresh->leases = calloc(slots, sizeof *fresh->leases);
    fresh->queue = calloc(fresh->prefetch, sizeof *fresh->queue);
    fresh->returned = calloc(fresh->prefetch, sizeof *fresh->returned);
    fresh->run = attached->run;
    fresh->next_sequence = attached->sequence;
    fresh->start_epoch = fresh->epoch = attached->epoch;
    fresh->start_consumed = fresh->consumed = attached->consumed;
    fresh->run_epoch = attached->run_epoch;
    fresh->run_consumed = attached->run_consumed;
    fresh->pool_bytes = attached->pool_bytes;
    if (attached->wait_for)
        fresh->wait_for = attached->wait_for;
    bool complete = fresh->leases && fresh->queue && fresh->returned;
    return complete ? 0 : error_set(error, -ENOMEM, "out of memory");
}

static struct promise promise_of(const struct attachment *fresh, const Feedd__Attached *attached,
                                 const struct attachment *before) {
    if (before)
        return before->promised;
    uint32_t slots = fresh->ring.header->slot_count;
    return (struct promise){.leases = fresh->prefetch,
                            .ring_slots = attached->ring_slots,
                            .pool_slots = attached->pool_bytes ? slots : 0};
}

// ---- The life of an attachment ------------------------------------------------------------------

int attachment_open(struct attachment **out, const struct open_request *request, struct gpu *gpu,
                    const struct attachment *before, uint64_t deadline, struct error *error) {
    struct attachment *fresh = *out = calloc(1, sizeof *fresh);
    if (!fresh)
        return error_set(error, -ENOMEM, "out of memory");
    fresh->request = request;
    fresh->generation = before ? before->generation + 1 : 0;
    fresh->wait_for = before ? before->wait_for : 0;
    fresh->connection.socket = fresh->ring_fd = -1;
    Feedd__Attached attached = FEEDD__ATTACHED__INIT;
    int err = connection_open(&fresh->connection, request->socket, request->client_name,
                              open_request_interrupt(request), deadline, error);
    // Others would not wait for one that takes its place and then gives up because it was held up until now.
    if (!err && monotonic_ns() >= deadline)
        err = error_set(error, -ETIMEDOUT, "feedd on %s was not reached in time", request->socket);
    if (!err && request->view.what.kind)
        err = own_view_bring(&request->view, &fresh->connection, request->dataset,
                             before ? deadline - monotonic_ns() : 0, &deadline, error);
    if (!err)
        err = send_attach(fresh, gpu, before, deadline, error);
    if (!err)
        err = await_attached(fresh, answer_deadline(fresh, gpu, before, deadline), &attached, error);
    if (!err)
        err = map_ring(fresh, gpu, &attached, deadline, error);
    if (!err)
        err = take_mix(fresh, attached.mix, error);
    if (!err)
        err = same_data(fresh, before, error);
    if (!err)
        err = set_up_leases(fresh, &attached, error);
    if (!err)
        fresh->promised = promise_of(fresh, &attached, before);
    // If it cannot be sent now, feed_next() says the same when it waits.
    if (!err && confirms(fresh, before))
        leases_confirm(fresh);
    fresh->connection.interrupt = (struct interrupt){0}; // from here on feed_next() has a timeout of its own
    if (err) {
        *out = NULL;
        attachment_close(fresh);
    }
    return err;
}

void attachment_close(struct attachment *attachment) {
    if (!attachment)
        return;
    // Before the connection: the daemon does not wait for the streams of a consumer that has left.
    finisher_close(&attachment->finisher);
    leases_end_ranges(attachment);
    mapped_pool_close(&attachment->pool);
    own_window_close(&attachment->window);
    if (attachment->ring.header)
        ring_unmap(&attachment->ring);
    close_fd(&attachment->ring_fd);
    connection_close(&attachment->connection);
    free(attachment->leases);
    free(attachment->queue);
    free(attachment->returned);
    free(attachment);
}

// ---- Questions ----------------------------------------------------------------------------------

int attachment_token(const struct attachment *attachment, uint64_t epoch, uint64_t consumed,
                     char text[FEED_TOKEN_BYTES]) {
    _Static_assert(FEED_TOKEN_BYTES >= RESUME_TOKEN_BYTES, "the public size has room for every token");
    const struct ring_header *header = attachment->ring.header;
    if (consumed >= header->samples)
        return -ERANGE;
    bool mixed = attachment->mix.version != 0;
    struct resume_token token = {
        .version = (enum order_version)(mixed ? attachment->mix_order : header->order_version),
        .fingerprint = header->fingerprint,
        .seed = header->seed,
        .epoch = epoch,
        .consumed = consumed,
        .mix = attachment->mix};
    resume_token_format(&token, text);
    return 0;
}

struct attachment **attachment_of(struct attachment **newest, const struct feed_batch *batch) {
    struct attachment **place = newest;
    while (*place && (*place)->generation != batch->generation)
        place = &(*place)->past;
    const struct attachment *found = *place;
    bool held = found && batch->slot < found->ring.header->slot_count &&
                found->leases[batch->slot].state == LEASE_HELD &&
                found->leases[batch->slot].sequence == batch->sequence;
    return held ? place : NULL;
}

// Opening a handle: checking the options, asking the daemon, mapping the ring, setting up the leases.
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "client/lib/handle.h"
#include "order/order.h"
#include "order/partition.h"
#include "order/token.h"

#define DEFAULT_CONNECT_MS 30000
#define MAX_BATCH          16777215u

int feed_fail(struct feed *feed, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(feed->error.text, sizeof feed->error.text, format, arguments);
    va_end(arguments);
    feed->error.code = code;
    return feed->failed = code;
}

// ---- Options ------------------------------------------------------------------------------------

static int refuse(struct feed *feed, const char *what) {
    return error_set(&feed->error, -EINVAL, "%s", what);
}

static int check_options(struct feed *feed, const struct feed_options *options) {
    uint32_t world_size = options->world_size ? options->world_size : 1;
    if (!options->dataset || !*options->dataset)
        return refuse(feed, "no dataset is named: set feed_options.dataset");
    if (strlen(options->dataset) > PROTO_MAX_NAME ||
        (options->share && strlen(options->share) > PROTO_MAX_NAME))
        return error_set(&feed->error, -EINVAL, "the name of a dataset or share has at most %u bytes",
                         PROTO_MAX_NAME);
    if (options->wait_for > 1 && (!options->share || !*options->share))
        return error_set(
            &feed->error, -EINVAL,
            "wait_for %u needs a share name: nobody else, of whatever rank, can join a feed without"
            " one",
            options->wait_for);
    if (options->resume && strlen(options->resume) >= RESUME_TOKEN_BYTES)
        return refuse(feed, "that is no resume token: too long");
    if (options->batch_size < 1 || options->batch_size > MAX_BATCH)
        return error_set(&feed->error, -EINVAL, "batch_size %u: 1 to %u are possible", options->batch_size,
                         MAX_BATCH);
    if (options->rank >= world_size)
        return error_set(&feed->error, -EINVAL, "rank %u of world size %u: ranks count from 0", options->rank,
                         world_size);
    if (options->local_world_size > world_size)
        return error_set(&feed->error, -EINVAL, "local_world_size %u is more than world_size %u",
                         options->local_world_size, world_size);
    return 0;
}

// Before the daemon is asked: what is wrong with a GPU here is this process's own affair.
static int open_device(struct feed *feed, const char *device) {
    char uuid[GPU_UUID_BYTES];
    if (!device || !*device || strcmp(device, "cpu") == 0)
        return 0;
    int err = gpu_resolve(device, uuid, &feed->error);
    return err ? err : gpu_open(&feed->gpu, uuid, &feed->error);
}

// A copy of `text`; `*complete` becomes false when memory is out. NULL stays NULL.
static char *copy_text(const char *text, bool *complete) {
    char *copy = text ? strdup(text) : NULL;
    *complete = *complete && (copy || !text);
    return copy;
}

static int copy_request(struct feed *feed, const struct feed_options *options) {
    struct open_request *request = &feed->request;
    bool complete = true;
    const char *name = options->client_name ? options->client_name : program_invocation_short_name;
    request->socket = copy_text(connection_socket_path(options->socket), &complete);
    request->dataset = copy_text(options->dataset, &complete);
    request->share = copy_text(options->share, &complete);
    request->resume = copy_text(options->resume, &complete);
    request->client_name = copy_text(name, &complete);
    request->options = *options;
    request->options.socket = request->socket;
    request->options.dataset = request->dataset;
    request->options.share = request->share;
    request->options.resume = request->resume;
    request->options.client_name = request->client_name;
    request->options.device = NULL;
    if (!options->world_size)
        request->options.world_size = 1;
    return complete ? 0 : error_set(&feed->error, -ENOMEM, "out of memory");
}

// ---- Attaching ----------------------------------------------------------------------------------

static int send_attach(struct feed *feed) {
    const struct feed_options *options = &feed->request.options;
    Feedd__Attach attach = FEEDD__ATTACH__INIT;
    attach.dataset = feed->request.dataset;
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
    if (feed->request.share)
        attach.share = feed->request.share;
    if (feed->gpu)
        attach.device = feed->gpu->uuid;
    char token[FEED_TOKEN_BYTES];
    if (feed->request.resume)
        attach.resume = feed->request.resume;
    if (feed->lost_until_ns && feed_token(feed, token) == 0) {
        attach.resume = token;
        attach.reconnect = true;
        attach.run_epoch = feed->run_epoch;
        attach.run_consumed = feed->run_consumed;
        attach.wait_for = feed->request.share ? feed->wait_for : 1;
    }
    Feedd__ClientMessage message = FEEDD__CLIENT_MESSAGE__INIT;
    message.body_case = FEEDD__CLIENT_MESSAGE__BODY_ATTACH;
    message.attach = &attach;
    int sent = connection_send(&feed->connection, &message);
    return sent < 0 ? error_set(&feed->error, sent, "cannot ask feedd to attach: %s", strerror(-sent)) : 0;
}

static int await_attached(struct feed *feed, uint64_t deadline, Feedd__Attached *attached) {
    const Feedd__ServerMessage *answer;
    int got = connection_receive(&feed->connection, &answer, deadline, &feed->error);
    if (got < 0)
        return got;
    if (got == 0)
        return error_set(&feed->error, -ETIMEDOUT,
                         "feedd on %s did not answer in time to the request for dataset %s",
                         feed->request.socket, feed->request.dataset);
    if (answer->body_case == FEEDD__SERVER_MESSAGE__BODY_ERROR)
        return connection_refusal(answer->error, &feed->error);
    if (answer->body_case != FEEDD__SERVER_MESSAGE__BODY_ATTACHED)
        return error_set(&feed->error, -EPROTO, "feedd on %s answered a request to attach with message %d",
                         feed->request.socket, answer->body_case);
    *attached = *answer->attached;
    return 0;
}

static int check_ring(struct feed *feed, const Feedd__Attached *attached) {
    const struct ring_header *header = feed->ring.header;
    const struct feed_options *options = &feed->request.options;
    bool agreed = (feed->gpu != NULL) == (header->on_device != 0) &&
                  header->batch_size == options->batch_size && header->world_size == options->world_size &&
                  header->slot_count >= 1 && header->field_count >= 1 &&
                  header->field_count <= FEED_MAX_FIELDS && header->samples >= 1 &&
                  header->order_version <= ORDER_FEISTEL_1 && attached->prefetch >= 1;
    return agreed ? 0
                  : error_set(&feed->error, -EPROTO, "feedd on %s gave a ring that is not the one asked for",
                              feed->request.socket);
}

static int map_ring(struct feed *feed, const Feedd__Attached *attached) {
    int fd AUTO_CLOSE = frame_take_fd(&feed->connection.reader);
    int memory_fd AUTO_CLOSE = frame_take_fd(&feed->connection.reader); // -1 without a device, like the next
    int words_fd AUTO_CLOSE = frame_take_fd(&feed->connection.reader);
    int err = ring_map(&feed->ring, fd, RING_READ, &feed->error);
    if (!err)
        err = check_ring(feed, attached);
    if (!err && feed->gpu)
        err = mapped_pool_open(&feed->pool, feed->gpu, &feed->ring, memory_fd, attached->pool_bytes, words_fd,
                               &feed->error);
    return err;
}

static int set_up_leases(struct feed *feed, const Feedd__Attached *attached) {
    // More credits than slots cannot be used: a slot is ours at most once.
    uint32_t prefetch = (uint32_t)max_u64(1, min_u64(attached->prefetch, feed->ring.header->slot_count));
    feed->leases = calloc(feed->ring.header->slot_count, sizeof *feed->leases);
    feed->queue = calloc(prefetch, sizeof *feed->queue);
    feed->returned = calloc(prefetch, sizeof *feed->returned);
    feed->description.prefetch = prefetch;
    feed->next_sequence = attached->sequence;
    feed->epoch = attached->epoch;
    feed->consumed = attached->consumed;
    feed->run_epoch = attached->run_epoch;
    feed->run_consumed = attached->run_consumed;
    return feed->leases && feed->queue && feed->returned ? 0
                                                         : error_set(&feed->error, -ENOMEM, "out of memory");
}

static void describe_fields(struct feed *feed) {
    const struct ring_header *header = feed->ring.header;
    feed->description.field_count = header->field_count;
    for (uint32_t i = 0; i < header->field_count; i++) {
        const struct ring_field *field = &header->fields[i];
        struct feed_array *array = &feed->description.field[i];
        snprintf(feed->field_names[i], sizeof feed->field_names[i], "%.*s", (int)sizeof field->name - 1,
                 field->name);
        array->name = feed->field_names[i];
        array->dtype = (enum feed_dtype)field->dtype;
        array->dimensions = field->dimensions + 1;
        array->shape[0] = header->batch_size;
        for (uint32_t k = 0; k < field->dimensions; k++)
            array->shape[k + 1] = field->shape[k];
        array->bytes = header->batch_size * field->sample_bytes;
    }
}

static void describe(struct feed *feed, const Feedd__Attached *attached) {
    const struct ring_header *header = feed->ring.header;
    struct partition partition = {.samples = header->samples,
                                  .batch_size = header->batch_size,
                                  .world_size = header->world_size,
                                  .drop_last = feed->request.options.drop_last};
    struct feed_description *description = &feed->description;
    description->dataset = feed->request.dataset;
    description->samples = header->samples;
    description->batches_per_epoch = partition_batches(&partition, 0);
    description->fingerprint = header->fingerprint;
    description->start_epoch = attached->epoch;
    description->start_consumed = attached->consumed;
    description->slots = header->slot_count;
    description->ring_bytes = header->total_bytes;
    description->device = feed->gpu ? feed->gpu->uuid : "cpu";
    description->device_number = feed->gpu ? feed->gpu->number : -1;
    description->pool_bytes = attached->pool_bytes;
    describe_fields(feed);
}

int feed_attach(struct feed *feed, uint64_t deadline) {
    int err = connection_open(&feed->connection, feed->request.socket, feed->request.client_name,
                              feed_interrupt(feed), deadline, &feed->error);
    if (err == 0)
        err = send_attach(feed);
    Feedd__Attached attached = FEEDD__ATTACHED__INIT;
    if (err == 0)
        err = await_attached(feed, deadline, &attached);
    if (err == 0)
        err = map_ring(feed, &attached);
    if (err == 0)
        err = set_up_leases(feed, &attached);
    if (err == 0)
        describe(feed, &attached);
    feed->connection.interrupt = (struct interrupt){0}; // from here on feed_next() has a timeout of its own
    return err;
}

// ---- The handle ---------------------------------------------------------------------------------

FEED_API int feed_open(struct feed **out, const struct feed_options *options) {
    struct feed *feed = *out = calloc(1, sizeof *feed);
    if (!feed)
        return -ENOMEM;
    feed->connection.socket = -1;
    int timeout_ms = options->connect_timeout_ms ? options->connect_timeout_ms : DEFAULT_CONNECT_MS;
    int err = check_options(feed, options);
    if (err == 0)
        err = copy_request(feed, options);
    if (err == 0)
        err = open_device(feed, options->device);
    if (err == 0)
        err = feed_attach(feed, deadline_after_ms(timeout_ms));
    feed->failed = err;
    return err;
}

void feed_drop_ring(struct ring *ring, struct mapped_pool *pool, struct lease *leases) {
    mapped_pool_close(pool);
    if (ring->header)
        ring_unmap(ring);
    free(leases);
}

FEED_API void feed_close(struct feed *feed) {
    if (!feed)
        return;
    feed_drop_past(feed);
    // Before the session: the daemon does not wait for the streams of one who has left.
    feed_drop_ring(&feed->ring, &feed->pool, feed->leases);
    connection_close(&feed->connection);
    if (feed->gpu)
        gpu_close(feed->gpu);
    free(feed->queue);
    free(feed->returned);
    free(feed->request.socket);
    free(feed->request.dataset);
    free(feed->request.share);
    free(feed->request.resume);
    free(feed->request.client_name);
    free(feed);
}

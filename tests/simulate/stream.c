#include "tests/simulate/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tests/simulate/client.h"
#include "tests/simulate/kernel.h"
#include "tests/simulate/transfer.h"

// Samples have bytes only where they begin: of large ones, only that is copied.
#define LARGE_BYTES (dataset_plans[DATASET_LARGE].sample_bytes)
#define BEGIN_BYTES 64u

struct host_stream {
    struct actor actor;
    STAILQ_HEAD(host_queue, host_work) queue;
    struct client *client;     // whose it is, or
    struct transfer *transfer; // whose
    uint32_t pieces;           // of the first entry, that are done
};

int __wrap_host_stream_start(struct host_stream **stream, struct error *error);
void __wrap_host_stream_queue(struct host_stream *stream, struct host_work *work);
void __wrap_host_stream_drain(struct host_stream *stream);
void __wrap_host_stream_end(struct host_stream *stream);

// ---- Work --------------------------------------------------------------------------------------------------

static uint64_t a_piece(void) {
    return 100 + sim_below(1 + plan.copy_us * NS_PER_US);
}

static void copy_bytes(const struct host_work *work, uint64_t from, uint64_t to) {
    if (work->bytes % LARGE_BYTES) {
        memcpy((uint8_t *)work->to + from, (const uint8_t *)work->from + from, to - from);
        return;
    }
    for (uint64_t at = from - from % LARGE_BYTES; at < to; at += LARGE_BYTES)
        memcpy((uint8_t *)work->to + at, (const uint8_t *)work->from + at, BEGIN_BYTES);
}

// One piece of it. True: that was the last.
static bool do_piece(struct host_stream *stream, struct host_work *work) {
    const struct gpu_word *word = &work->words[stream->pieces];
    switch (work->kind) {
    case HOST_COPY:
        copy_bytes(work, stream->pieces ? work->bytes / 2 : 0,
                   stream->pieces ? work->bytes : work->bytes / 2);
        return stream->pieces++ == 1;
    case HOST_WRITE:
        __atomic_store_n((uint64_t *)(uintptr_t)word->address, word->value, __ATOMIC_RELEASE);
        return ++stream->pieces == work->word_count;
    case HOST_WAIT: // a batch is granted when its copy is done
        SIM_MUST(*(const uint64_t *)(uintptr_t)word->address >= word->value);
        return true;
    case HOST_CALL:
        if (work->call != kernel_run)
            work->call(work->argument);
        else if (!kernel_step(work->argument))
            return false;
        return true;
    default:
        sim_violated("a stream has work of kind %d", (int)work->kind);
    }
}

static void remove_first(struct host_stream *stream) {
    struct host_work *work = STAILQ_FIRST(&stream->queue);
    STAILQ_REMOVE_HEAD(&stream->queue, link);
    stream->pieces = 0;
    free(work);
}

static uint64_t piece_ns(const struct host_work *work) {
    return work->kind == HOST_CALL && work->call == kernel_run ? kernel_ns(work->argument) : a_piece();
}

static void act(struct actor *actor) {
    struct host_stream *stream = CONTAINER_OF(actor, struct host_stream, actor);
    struct host_work *work = STAILQ_FIRST(&stream->queue);
    if (!work)
        return;
    if (do_piece(stream, work))
        remove_first(stream);
    work = STAILQ_FIRST(&stream->queue);
    if (work)
        actor_wake(actor, piece_ns(work));
    else if (stream->client)
        actor_wake(&stream->client->actor, 100);
    if (stream->transfer && (!work || work->kind == HOST_COPY))
        actor_wake(&stream->transfer->actor, a_piece());
}

// Its process was killed. What only counts other streams is not left behind.
static void drop_all(struct host_stream *stream) {
    struct host_work *work;
    while ((work = STAILQ_FIRST(&stream->queue))) {
        if (work->kind == HOST_CALL && work->call == kernel_run)
            kernel_drop(work->argument);
        else if (work->kind == HOST_CALL)
            work->call(work->argument);
        remove_first(stream);
    }
}

static void finish(struct host_stream *stream) {
    struct host_work *work;
    while ((work = STAILQ_FIRST(&stream->queue)))
        if (do_piece(stream, work))
            remove_first(stream);
}

static bool is_dead(const struct host_stream *stream) {
    return stream->client ? stream->client->dead : !stream->transfer->runs;
}

bool stream_is_idle(const struct host_stream *stream) {
    return STAILQ_EMPTY(&stream->queue);
}

// ---- What the simulated GPU calls --------------------------------------------------------------------------

int __wrap_host_stream_start(struct host_stream **stream, struct error *error) {
    struct host_stream *made = calloc(1, sizeof *made);
    (void)error;
    SIM_MUST(client_running || transfer_running);
    if (!made)
        abort();
    STAILQ_INIT(&made->queue);
    made->client = client_running;
    made->transfer = transfer_running;
    actor_add(&made->actor, "stream", act, NEVER);
    *stream = made;
    return 0;
}

void __wrap_host_stream_queue(struct host_stream *stream, struct host_work *work) {
    bool idle = STAILQ_EMPTY(&stream->queue);
    STAILQ_INSERT_TAIL(&stream->queue, work, link);
    if (idle)
        actor_wake(&stream->actor, piece_ns(work));
}

void __wrap_host_stream_drain(struct host_stream *stream) {
    while (stream->client && !is_dead(stream) && !STAILQ_EMPTY(&stream->queue)) {
        stream->client->actor.due_ns = NEVER;
        client_yield(stream->client);
    }
    if (is_dead(stream))
        drop_all(stream);
    else
        finish(stream);
}

void __wrap_host_stream_end(struct host_stream *stream) {
    if (is_dead(stream))
        drop_all(stream);
    SIM_MUST(STAILQ_EMPTY(&stream->queue)); // whoever ends it has waited for it
    actor_remove(&stream->actor);
    free(stream);
}

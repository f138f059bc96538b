// Going on after the daemon was lost: connect again, attach at the place where the application stands, and
// keep what it still holds of the old ring readable.
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "client/lib/handle.h"

#define DEFAULT_RECONNECT_MS 60000
#define TRY_EVERY_NS         (50 * NS_PER_MS)
#define ATTEMPT_NS           (2 * NS_PER_S)  // for one connection and attachment
#define ATTEMPT_GPU_NS       (10 * NS_PER_S) // the daemon may have to start the GPU's transfer process first

// How long to look for it; negative: not at all.
static int reconnect_ms(const struct feed *feed) {
    int timeout_ms = feed->request.options.reconnect_timeout_ms;
    return timeout_ms ? timeout_ms : DEFAULT_RECONNECT_MS;
}

bool feed_lost(struct feed *feed, int code) {
    int timeout_ms = reconnect_ms(feed);
    if ((code != -ECONNRESET && code != -ESHUTDOWN) || timeout_ms < 0 || !feed->leases || feed->failed)
        return false;
    if (!feed->lost_until_ns) {
        feed->lost_until_ns = deadline_after_ms(timeout_ms);
        feed->next_try_ns = 0;
    }
    connection_close(&feed->connection);
    // What was granted and not handed out comes again, from the token.
    feed->queue_count = 0;
    return true;
}

// ---- Attaching again ---------------------------------------------------------------------------------------

// What an attachment consists of, set aside while another is tried.
struct attachment {
    struct ring ring;
    struct mapped_pool pool;
    struct lease *leases;
    uint32_t *queue, *returned;
    struct feed_description description;
    uint64_t next_sequence, epoch, consumed, run_epoch, run_consumed;
};

static struct attachment set_aside(struct feed *feed) {
    struct attachment kept = {
        .ring = feed->ring,
        .pool = feed->pool,
        .leases = feed->leases,
        .queue = feed->queue,
        .returned = feed->returned,
        .description = feed->description,
        .next_sequence = feed->next_sequence,
        .epoch = feed->epoch,
        .consumed = feed->consumed,
        .run_epoch = feed->run_epoch,
        .run_consumed = feed->run_consumed,
    };
    return kept;
}

static void put_back(struct feed *feed, const struct attachment *kept) {
    feed->ring = kept->ring;
    feed->pool = kept->pool;
    feed->leases = kept->leases;
    feed->queue = kept->queue;
    feed->returned = kept->returned;
    feed->description = kept->description;
    feed->next_sequence = kept->next_sequence;
    feed->epoch = kept->epoch;
    feed->consumed = kept->consumed;
    feed->run_epoch = kept->run_epoch;
    feed->run_consumed = kept->run_consumed;
}

// The old ring goes at once when nothing of it is held, else with the last release.
static void retire(struct feed *feed, struct attachment *old, struct past_ring *place) {
    free(old->queue);
    free(old->returned);
    if (!feed->held) {
        feed_drop_ring(&old->ring, &old->pool, old->leases);
        free(place);
    } else {
        *place = (struct past_ring){
            .next = feed->past,
            .ring = old->ring,
            .pool = old->pool,
            .leases = old->leases,
            .held = feed->held,
            .generation = feed->generation,
        };
        feed->past = place;
    }
    feed->held = feed->returned_count = 0;
    feed->queue_first = feed->queue_count = 0;
    feed->waiting = false;
    feed->generation++;
}

static int same_data(struct feed *feed, const struct attachment *old) {
    if (feed->ring.header->fingerprint == old->ring.header->fingerprint)
        return 0;
    return error_set(&feed->error, -ESTALE, "feedd came back with other data in dataset %s",
                     feed->request.dataset);
}

static int attach_again(struct feed *feed, uint64_t deadline) {
    struct attachment old = set_aside(feed);
    struct past_ring *place = calloc(1, sizeof *place);
    if (!place)
        return error_set(&feed->error, -ENOMEM, "out of memory");
    // Two pools may be more than the GPU has room for.
    if (!feed->held) {
        mapped_pool_close(&feed->pool);
        old.pool = (struct mapped_pool){0};
    }
    // feed_token() needs the old ring until the request is sent, so it is replaced only by feed_attach itself.
    int err = feed_attach(feed, deadline);
    if (err == 0)
        err = same_data(feed, &old);
    if (err == 0) {
        retire(feed, &old, place);
        return 0;
    }
    free(place);
    if (feed->ring.header && feed->ring.header != old.ring.header)
        ring_unmap(&feed->ring);
    if (feed->pool.memory.address != old.pool.memory.address)
        mapped_pool_close(&feed->pool);
    if (feed->leases != old.leases)
        free(feed->leases);
    if (feed->queue != old.queue)
        free(feed->queue);
    if (feed->returned != old.returned)
        free(feed->returned);
    put_back(feed, &old);
    connection_close(&feed->connection);
    return err;
}

// What a daemon that is being restarted looks like from here.
static bool worth_another_try(int code) {
    switch (code) {
    case -ENOENT:
    case -ECONNREFUSED:
    case -ECONNRESET:
    case -ESHUTDOWN:
    case -EPIPE:
    case -ETIMEDOUT:
    case -EAGAIN:
    case -ENOMEM: // of the GPU, or of the machine: what the last one had may not all be free yet
    case -EBUSY:
        return true;
    default:
        return false;
    }
}

// Not for longer than TRY_EVERY_NS. 0 or -EINTR; a signal by itself is none.
static int sleep_until(struct feed *feed, uint64_t when) {
    struct timespec until = timespec_of_ns(when);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
    if (!interrupt_wanted(feed_interrupt(feed)))
        return 0;
    return error_set(&feed->error, -EINTR, "looking for feedd on %s was interrupted", feed->request.socket);
}

int feed_reconnect(struct feed *feed, uint64_t deadline) {
    for (;;) {
        uint64_t now = monotonic_ns();
        if (now < feed->next_try_ns && deadline != DEADLINE_NOW) {
            int interrupted = sleep_until(feed, min_u64(feed->next_try_ns, deadline));
            if (interrupted)
                return interrupted;
            now = monotonic_ns();
        }
        if (now < feed->next_try_ns)
            return 0;
        int err = attach_again(feed, now + (feed->gpu ? ATTEMPT_GPU_NS : ATTEMPT_NS));
        if (err == 0) {
            feed->lost_until_ns = 0;
            feed->error = (struct error){0};
            return 1;
        }
        if (err == -EINTR)
            return err;
        if (!worth_another_try(err))
            return feed->failed = err;
        now = monotonic_ns();
        feed->next_try_ns = now + TRY_EVERY_NS;
        if (now >= feed->lost_until_ns)
            return feed_fail(feed, -ECONNRESET, "feedd on %s was lost and did not come back within %d s",
                             feed->request.socket, reconnect_ms(feed) / 1000);
        if (now >= deadline)
            return 0;
    }
}

// ---- Batches of rings that are past ------------------------------------------------------------------------

static struct past_ring **find_past(struct feed *feed, uint32_t generation) {
    struct past_ring **place = &feed->past;
    while (*place && (*place)->generation != generation)
        place = &(*place)->next;
    return place;
}

static bool holds(const struct ring *ring, const struct lease *leases, const struct feed_batch *batch) {
    return batch->slot < ring->header->slot_count && leases[batch->slot].state == LEASE_HELD &&
           leases[batch->slot].sequence == batch->sequence;
}

const struct ring *feed_ring_of(const struct feed *feed, const struct feed_batch *batch,
                                const struct mapped_pool **pool) {
    const struct past_ring *past = NULL;
    if (batch->generation != feed->generation)
        past = *find_past((struct feed *)feed, batch->generation);
    if (!feed->leases || (!past && batch->generation != feed->generation))
        return NULL;
    if (pool)
        *pool = past ? &past->pool : &feed->pool;
    const struct ring *ring = past ? &past->ring : &feed->ring;
    return holds(ring, past ? past->leases : feed->leases, batch) ? ring : NULL;
}

int feed_release_past(struct feed *feed, const struct feed_batch *batch) {
    struct past_ring **place = find_past(feed, batch->generation);
    struct past_ring *past = *place;
    if (!past || !holds(&past->ring, past->leases, batch))
        return error_set(&feed->error, -EINVAL, "batch %llu in slot %u is not held: released twice?",
                         (unsigned long long)batch->sequence, batch->slot);
    past->leases[batch->slot].state = LEASE_NONE;
    if (--past->held > 0)
        return 0;
    *place = past->next;
    feed_drop_ring(&past->ring, &past->pool, past->leases);
    free(past);
    return 0;
}

void feed_drop_past(struct feed *feed) {
    while (feed->past) {
        struct past_ring *past = feed->past;
        feed->past = past->next;
        feed_drop_ring(&past->ring, &past->pool, past->leases);
        free(past);
    }
}

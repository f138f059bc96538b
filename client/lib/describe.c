// What a handle can tell without the daemon: description, place in the order, errors.
#include "base/dtype.h"
#include "client/lib/handle.h"
#include "order/order.h"
#include "order/token.h"
#include "shm/holes.h"

FEED_API const struct feed_description *feed_describe(const struct feed *feed) {
    return &feed->description;
}

FEED_API int feed_token_at(const struct feed *feed, uint64_t epoch, uint64_t consumed,
                           char text[FEED_TOKEN_BYTES]) {
    _Static_assert(FEED_TOKEN_BYTES >= RESUME_TOKEN_BYTES, "the public size has room for every token");
    if (!feed->leases)
        return -ENOTCONN; // never attached: there is no place in the order to speak of
    const struct ring_header *header = feed->ring.header;
    if (consumed >= header->samples)
        return -ERANGE;
    struct resume_token token = {.version = (enum order_version)header->order_version,
                                 .fingerprint = header->fingerprint,
                                 .seed = header->seed,
                                 .epoch = epoch,
                                 .consumed = consumed};
    resume_token_format(&token, text);
    return 0;
}

FEED_API int feed_token(const struct feed *feed, char text[FEED_TOKEN_BYTES]) {
    return feed_token_at(feed, feed->epoch, feed->consumed, text);
}

// Where sample `i` of a batch with skipped samples stood before the repair.
static int64_t original_place(const struct ring *ring, const struct feed_batch *batch, uint64_t i) {
    uint64_t dispatched = batch->count + batch->skipped;
    uint32_t place =
        hole_source(ring_skips(ring, batch->slot), (uint32_t)batch->count, (uint32_t)dispatched, (uint32_t)i);
    return place == UINT32_MAX ? -EPROTO : (int64_t)place;
}

static int64_t sample_at(struct feed *feed, uint64_t epoch, uint64_t position) {
    const struct ring_header *header = feed->ring.header;
    if (position >= header->samples)
        return -ERANGE;
    if (!feed->order_known || feed->order_epoch != epoch) {
        order_init(&feed->order, (enum order_version)header->order_version, header->samples, header->seed,
                   epoch);
        feed->order_epoch = epoch;
        feed->order_known = true;
    }
    return (int64_t)order_sample(&feed->order, position);
}

FEED_API int64_t feed_batch_sample(const struct feed *feed, const struct feed_batch *batch, uint64_t i) {
    if (!feed->leases || i >= batch->count)
        return -ERANGE;
    int64_t place = (int64_t)i;
    if (batch->skipped > 0) {
        const struct ring *ring = feed_ring_of(feed, batch, NULL);
        if (!ring)
            return -EINVAL; // which samples are missing stands in the slot, and that is gone
        place = original_place(ring, batch, i);
    }
    // The cached epoch is not part of what the handle means, so the const of the contract holds.
    return place < 0 ? place
                     : sample_at((struct feed *)feed, batch->epoch, batch->first_position + (uint64_t)place);
}

FEED_API const char *feed_strerror(const struct feed *feed) {
    return feed ? feed->error.text : "out of memory";
}
FEED_API const char *feed_dtype_name(enum feed_dtype dtype) {
    return dtype_name(dtype);
}
FEED_API size_t feed_dtype_bytes(enum feed_dtype dtype) {
    return dtype_bytes(dtype);
}
FEED_API const char *feed_version(void) {
    return FEEDD_VERSION;
}

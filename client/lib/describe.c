#include "client/lib/describe.h"

#include "base/dtype.h"
#include "client/lib/handle.h"
#include "client/lib/leases.h"
#include "order/partition.h"
#include "shm/holes.h"

// ---- Description ---------------------------------------------------------------------------------

// It is made in this process; the ring has something else.
static void describe_finished(const struct finished_field *finished, struct feed_array *array) {
    array->dtype = (enum feed_dtype)finished->dtype;
    array->dimensions = finished->dimensions + 1;
    for (uint32_t k = 0; k < finished->dimensions; k++)
        array->shape[k + 1] = finished->shape[k];
    array->bytes = array->shape[0] * finished->sample_bytes;
}

static void describe_fields(struct described *described, const struct attachment *attachment) {
    const struct ring_header *header = attachment->ring.header;
    described->about.field_count = header->field_count;
    for (uint32_t i = 0; i < header->field_count; i++) {
        const struct ring_field *field = &header->fields[i];
        struct feed_array *array = &described->about.field[i];
        snprintf(described->names[i], sizeof described->names[i], "%.*s", (int)sizeof field->name - 1,
                 field->name);
        array->name = described->names[i];
        array->dtype = (enum feed_dtype)field->dtype;
        array->ragged = field->ragged != 0;
        array->dimensions = array->ragged ? 1 : field->dimensions + 1;
        array->shape[0] = header->batch_size;
        for (uint32_t k = 0; k + 1 < array->dimensions; k++)
            array->shape[k + 1] = field->shape[k];
        array->bytes = header->batch_size * field->sample_bytes;
        const struct finished_field *finished = finisher_field(&attachment->finisher, i);
        if (finished)
            describe_finished(finished, array);
    }
}

void describe(struct described *described, const struct attachment *attachment, const struct gpu *gpu) {
    const struct ring_header *header = attachment->ring.header;
    struct partition partition = {.samples = header->samples,
                                  .batch_size = header->batch_size,
                                  .world_size = header->world_size,
                                  .drop_last = attachment->request->options.drop_last};
    struct feed_description *about = &described->about;
    about->dataset = attachment->request->dataset;
    about->samples = header->samples;
    about->batches_per_epoch = partition_batches(&partition, 0);
    about->fingerprint = header->fingerprint;
    about->start_epoch = attachment->start_epoch;
    about->start_consumed = attachment->start_consumed;
    about->prefetch = attachment->prefetch;
    about->slots = header->slot_count;
    about->ring_bytes = header->total_bytes;
    about->device = gpu ? gpu->uuid : "cpu";
    about->device_number = gpu ? gpu->number : -1;
    about->pool_bytes = attachment->pool_bytes;
    describe_fields(described, attachment);
}

FEED_API const struct feed_description *feed_describe(const struct feed *feed) {
    return &feed->described.about;
}

// ---- Place in the order --------------------------------------------------------------------------

FEED_API int feed_token_at(const struct feed *feed, uint64_t epoch, uint64_t consumed,
                           char text[FEED_TOKEN_BYTES]) {
    if (!feed->now)
        return -ENOTCONN; // never attached: there is no order to have a place in
    return attachment_token(feed->now, epoch, consumed, text);
}

FEED_API int feed_token(const struct feed *feed, char text[FEED_TOKEN_BYTES]) {
    if (!feed->now)
        return -ENOTCONN;
    return attachment_token(feed->now, feed->now->epoch, feed->now->consumed, text);
}

// Where sample `i` of a batch with skipped samples stood before the repair.
static int64_t original_place(const struct attachment *attachment, const struct feed_batch *batch,
                              uint64_t i) {
    uint64_t dispatched = batch->count + batch->skipped;
    uint64_t *copy AUTO_FREE = calloc(attachment->ring.header->skip_words, sizeof *copy);
    if (!copy)
        return -ENOMEM;
    const _Atomic uint64_t *skips = leases_skips(attachment, batch->slot, copy);
    uint32_t place = (attachment->ring.header->ragged_count ? hole_source_in_order : hole_source)(
        skips, (uint32_t)batch->count, (uint32_t)dispatched, (uint32_t)i);
    if (!leases_still_ours(attachment, batch->slot))
        return -ETIME; // what was read may be of another batch
    return place == UINT32_MAX ? -EPROTO : (int64_t)place;
}

static int64_t sample_at(struct feed *feed, uint64_t epoch, uint64_t position) {
    const struct ring_header *header = feed->now->ring.header;
    if (position >= header->samples)
        return -ERANGE;
    // Not as the header says, which loaders could write to.
    if (feed->now->window.order) {
        uint64_t sample;
        window_order_samples(feed->now->window.order, epoch, position, 1, &sample);
        return sample == UINT64_MAX ? -ERANGE : (int64_t)sample;
    }
    if (!feed->order_known || feed->order_epoch != epoch) {
        order_init(&feed->order, (enum order_version)header->order_version, header->samples, header->seed,
                   epoch);
        feed->order_epoch = epoch;
        feed->order_known = true;
    }
    return (int64_t)order_sample(&feed->order, position);
}

FEED_API int64_t feed_batch_sample(const struct feed *feed, const struct feed_batch *batch, uint64_t i) {
    if (!feed->now || i >= batch->count)
        return -ERANGE;
    // The const of the contract holds: neither the list nor the epoch that is cached is part of what the handle means.
    struct feed *cache = (struct feed *)feed;
    int64_t place = (int64_t)i;
    if (batch->skipped > 0) {
        struct attachment **holder = attachment_of(&cache->now, batch);
        if (!holder)
            return -EINVAL; // the slot says which samples were skipped, and the slot is gone
        place = original_place(*holder, batch, i);
    }
    return place < 0 ? place : sample_at(cache, batch->epoch, batch->first_position + (uint64_t)place);
}

// ---- Constants -----------------------------------------------------------------------------------

FEED_API const char *feed_dtype_name(enum feed_dtype dtype) {
    return dtype_name(dtype);
}
FEED_API size_t feed_dtype_bytes(enum feed_dtype dtype) {
    return dtype_bytes(dtype);
}
FEED_API const char *feed_version(void) {
    return FEEDD_VERSION;
}

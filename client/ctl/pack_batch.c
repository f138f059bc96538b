#include "client/ctl/pack_batch.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(PACKED_MAX_FIELDS == FEED_MAX_FIELDS && PACKED_MAX_DIMS == FEED_MAX_DIMS,
               "what a feed delivers, a shard can hold");

static int find_value(const struct feed_array *array, uint64_t count, uint64_t i, struct pack_value *value,
                      struct error *error) {
    if (!array->ragged) {
        value->bytes = array->bytes / count;
        value->data = (const uint8_t *)array->data + i * value->bytes;
        return 0;
    }
    // Each is read once: a loader that was taken over could write them meanwhile.
    const int64_t begin = ((const volatile int64_t *)array->offsets)[i];
    const int64_t end = ((const volatile int64_t *)array->offsets)[i + 1];
    if (begin < 0 || begin > end || (uint64_t)end > array->shape[0])
        return error_set(error, -EPROTO,
                         "field %s: found offsets from %" PRId64 " to %" PRId64 " in a batch of %" PRIu64
                         " values",
                         array->name, begin, end, array->shape[0]);
    const uint64_t item = feed_dtype_bytes(array->dtype);
    value->data = (const uint8_t *)array->data + (uint64_t)begin * item;
    value->bytes = (uint64_t)(end - begin) * item;
    return 0;
}

static int add_sample(struct pack_shard *shard, const struct feed_batch *batch, uint64_t i,
                      struct error *error) {
    struct pack_value values[FEED_MAX_FIELDS] = {0};
    int err = 0;
    for (uint32_t k = 0; k < batch->field_count && !err; k++)
        err = find_value(&batch->field[k], batch->count, i, &values[k], error);
    return err ? err : pack_shard_add(shard, values, error);
}

// ---- Batches with samples that were skipped --------------------------------------------------------------------

struct place {
    int64_t position; // in the epoch
    uint64_t i;       // in the batch
};

static int by_position(const void *left, const void *right) {
    const struct place *a = left, *b = right;
    return (a->position > b->position) - (a->position < b->position);
}

// Samples were moved to where the skipped ones would have been.
static int add_in_order(struct pack_shard *shard, const struct feed *feed, const struct feed_batch *batch,
                        struct error *error) {
    AUTO_FREE struct place *places = calloc(batch->count, sizeof *places);
    int err = 0;
    if (!places)
        return error_set(error, -ENOMEM, "out of memory");
    for (uint64_t i = 0; i < batch->count; i++) {
        places[i] = (struct place){feed_batch_sample(feed, batch, i), i};
        if (places[i].position < 0)
            return error_set(error, (int)places[i].position,
                             "the samples of a batch cannot be determined: %s",
                             strerror((int)-places[i].position));
    }
    qsort(places, batch->count, sizeof *places, by_position);
    for (uint64_t i = 0; i < batch->count && !err; i++)
        err = add_sample(shard, batch, places[i].i, error);
    return err;
}

int pack_batch(struct pack_shard *shard, const struct feed *feed, const struct feed_batch *batch,
               struct error *error) {
    int err = 0;
    if (batch->field_count != shard->header.field_count)
        return error_set(error, -EPROTO, "found a batch of %" PRIu32 " fields, wanted %" PRIu32,
                         batch->field_count, shard->header.field_count);
    if (batch->skipped)
        return add_in_order(shard, feed, batch, error);
    for (uint64_t i = 0; i < batch->count && !err; i++)
        err = add_sample(shard, batch, i, error);
    return err;
}

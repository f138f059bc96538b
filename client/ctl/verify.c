#include "client/ctl/verify.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sentence.h"
#include "base/sizes.h"
#include "client/ctl/origins.h"
#include "order/partition.h"

struct verify {
    struct origins origins;
    const struct feed_description *description;
    struct partition partition; // as this consumer sees it: from where it began
    uint64_t rank;
    uint64_t batch;    // number of the next one, from 0
    uint8_t *seen;     // one bit per sample of this epoch
    uint64_t due;      // samples of this rank in this epoch so far, by the order contract
    uint64_t samples;  // in all
    uint64_t replaced; // of them, as far as their bytes are compared
    struct verify_epoch epoch;
    uint8_t *bytes; // of one sample's field
    size_t room;
};

static int wrong(struct error *error, const struct feed_batch *batch, const char *format, ...)
    PRINTF_LIKE(3, 4);

static int wrong(struct error *error, const struct feed_batch *batch, const char *format, ...) {
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    sentence_format(what, sizeof what, format, arguments);
    va_end(arguments);
    return error_set(error, -EBADMSG, "verification failed at batch %" PRIu64 " of epoch %" PRIu64 ": %s",
                     batch->index, batch->epoch, what);
}

static uint64_t bitmap_bytes(const struct verify *verify) {
    return divide_up(verify->partition.samples, 8);
}

int verify_open(struct verify **out, const struct ctl *ctl, const struct feed *feed,
                const struct feed_options *options, struct error *error) {
    const struct feed_description *description = feed_describe(feed);
    struct verify *verify = *out = calloc(1, sizeof *verify);
    if (!verify)
        return error_set(error, -ENOMEM, "out of memory");
    verify->description = description;
    verify->partition = (struct partition){.samples = description->samples,
                                           .batch_size = options->batch_size,
                                           .world_size = options->world_size ? options->world_size : 1,
                                           .drop_last = options->drop_last,
                                           .start_epoch = description->start_epoch,
                                           .start_sample = description->start_consumed};
    verify->rank = options->rank;
    verify->seen = calloc(1, bitmap_bytes(verify));
    if (!verify->seen)
        return error_set(error, -ENOMEM, "out of memory");
    return origins_open(&verify->origins, ctl, feed, options->seed, options->shuffle, error);
}

void verify_close(struct verify *verify) {
    if (!verify)
        return;
    origins_close(&verify->origins);
    free(verify->seen);
    free(verify->bytes);
    free(verify);
}

uint32_t verify_fields(const struct verify *verify, bool checked, char *names, size_t bytes) {
    uint32_t count = 0;
    size_t used = 0;
    *names = 0;
    for (uint32_t i = 0; i < verify->description->field_count; i++) {
        if (origins_transform(&verify->origins, i) == checked)
            continue;
        if (used < bytes)
            used += (size_t)snprintf(names + used, bytes - used, "%s%s", count ? ", " : "",
                                     verify->description->field[i].name);
        count++;
    }
    return count;
}

bool verify_by_index(const struct verify *verify) {
    return origins_use_index(&verify->origins);
}

uint64_t verify_samples(const struct verify *verify) {
    return verify->samples;
}

uint64_t verify_replaced(const struct verify *verify) {
    return verify->replaced;
}

// ---- A batch ---------------------------------------------------------------------------------------

static int check_place(struct verify *verify, const struct feed_batch *batch, struct error *error) {
    struct batch_place place;
    int located = partition_locate(&verify->partition, verify->rank, verify->batch++, &place);
    if (located < 0)
        return wrong(error, batch, "the order has no such batch");
    if (batch->epoch != place.epoch || batch->first_position != place.first_position)
        return wrong(error, batch,
                     "it begins at position %" PRIu64 ", expected was position %" PRIu64 " of epoch %" PRIu64,
                     batch->first_position, place.first_position, place.epoch);
    if (batch->count + batch->skipped != place.count)
        return wrong(error, batch,
                     "it has %" PRIu64 " samples and %" PRIu64 " skipped, expected were %" PRIu64,
                     batch->count, batch->skipped, place.count);
    verify->epoch.whole =
        batch->epoch != verify->partition.start_epoch || verify->partition.start_sample == 0;
    if (batch->last_of_epoch != place.last_of_epoch)
        return wrong(error, batch, "it claims %sto be the last of the epoch",
                     batch->last_of_epoch ? "" : "not ");
    verify->due += place.count;
    return 0;
}

static int check_once(struct verify *verify, const struct feed_batch *batch, uint64_t sample,
                      struct error *error) {
    uint8_t bit = (uint8_t)(1u << sample % 8);
    if (verify->seen[sample / 8] & bit)
        return wrong(error, batch, "sample %" PRIu64 " came a second time", sample);
    verify->seen[sample / 8] |= bit;
    return 0;
}

// The bytes of a field in one sample of a batch.
struct delivered {
    const uint8_t *bytes;
    size_t count;
};

// False: the offsets of a ragged field are not those of parts of its values.
static bool find_delivered(const struct feed_batch *batch, const struct feed_array *array, uint64_t i,
                           struct delivered *delivered) {
    if (!array->ragged) {
        const size_t each = array->bytes / batch->count;
        *delivered = (struct delivered){(const uint8_t *)array->data + i * each, each};
        return true;
    }
    // Each is read once: a ring is not the consumer's own memory.
    const uint64_t from = (uint64_t)__atomic_load_n(&array->offsets[i], __ATOMIC_RELAXED);
    const uint64_t to = (uint64_t)__atomic_load_n(&array->offsets[i + 1], __ATOMIC_RELAXED);
    const size_t each = feed_dtype_bytes(array->dtype);
    *delivered = (struct delivered){(const uint8_t *)array->data + from * each, (to - from) * each};
    return from <= to && to <= array->shape[0];
}

static int make_room(struct verify *verify, size_t bytes, struct error *error) {
    if (bytes <= verify->room)
        return 0;
    uint8_t *grown = realloc(verify->bytes, bytes);
    if (!grown)
        return error_set(error, -ENOMEM, "out of memory");
    verify->bytes = grown;
    verify->room = bytes;
    return 0;
}

// `sample` is the number of sample i of the batch, and `stored` that in `files`.
static int check_field(struct verify *verify, struct files *files, const struct feed_batch *batch,
                       uint32_t field, uint64_t i, uint64_t sample, uint64_t stored, struct error *error) {
    const struct feed_array *array = &batch->field[field];
    struct delivered got;
    const char *path;
    uint64_t offset;
    if (!find_delivered(batch, array, i, &got))
        return wrong(error, batch, "the offsets of field %s do not lie in its values", array->name);
    if (array->ragged && got.count != files_ragged_bytes(files, field, stored))
        return wrong(error, batch,
                     "field %s of sample %" PRIu64 " (number %" PRIu64
                     " of the batch) was delivered with %zu bytes, expected were %" PRIu64,
                     array->name, sample, i, got.count, files_ragged_bytes(files, field, stored));
    int err = make_room(verify, got.count, error);
    if (!err)
        err = files_read(files, field, stored, verify->bytes, got.count, &path, &offset, error);
    if (err)
        return err;
    size_t at = 0;
    while (at < got.count && got.bytes[at] == verify->bytes[at])
        at++;
    if (at == got.count)
        return 0;
    files_find_byte(files, field, stored, at, &path, &offset);
    return wrong(error, batch,
                 "field %s of sample %" PRIu64 " (number %" PRIu64
                 " of the batch) differs at byte %zu: %u was delivered, %s has %u at offset %" PRIu64,
                 array->name, sample, i, at, got.bytes[at], path, verify->bytes[at], offset);
}

// Whether sample `i` of the batch has the bytes that `files` have as `stored`.
static int check_bytes(struct verify *verify, const struct feed_batch *batch, uint64_t i, uint64_t sample,
                       struct files *files, uint64_t stored, struct error *error) {
    int err = 0;
    for (uint32_t field = 0; field < batch->field_count && !err; field++)
        if (!files->fields[field].transformed)
            err = check_field(verify, files, batch, field, i, sample, stored, error);
    return err;
}

// Whether it has those of one of the samples that may take its place.
static bool is_replaced(struct verify *verify, const struct feed_batch *batch, uint64_t i, uint64_t sample) {
    struct files *files;
    uint64_t stored;
    for (uint32_t attempt = 1; (files = origins_replacement(&verify->origins, batch->epoch,
                                                            batch->first_position + i, attempt, &stored));
         attempt++)
        if (check_bytes(verify, batch, i, sample, files, stored, NULL) == 0)
            return true;
    return false;
}

static int check_sample(struct verify *verify, const struct feed_batch *batch, uint64_t i, uint64_t sample,
                        struct error *error) {
    uint64_t stored;
    struct files *files = origins_find(&verify->origins, batch->epoch, sample, &stored);
    if (!files)
        return wrong(error, batch, "the mix has nothing at position %" PRIu64, sample);
    int err = check_bytes(verify, batch, i, sample, files, stored, error);
    if (err == 0 || !is_replaced(verify, batch, i, sample))
        return err;
    verify->replaced++;
    return 0;
}

int verify_batch(struct verify *verify, const struct feed *feed, const struct feed_batch *batch,
                 struct error *error) {
    int err = check_place(verify, batch, error);
    for (uint64_t i = 0; i < batch->count && err == 0; i++) {
        int64_t sample = feed_batch_sample(feed, batch, i);
        if (sample < 0)
            return wrong(error, batch, "the number of sample %" PRIu64 " of the batch is unknown: %s", i,
                         strerror((int)-sample));
        err = check_once(verify, batch, (uint64_t)sample, error);
        if (err == 0)
            err = check_sample(verify, batch, i, (uint64_t)sample, error);
    }
    if (err == 0) {
        verify->samples += batch->count;
        verify->epoch.samples += batch->count;
        verify->epoch.skipped += batch->skipped;
    }
    return err;
}

// ---- An epoch --------------------------------------------------------------------------------------

static uint64_t count_seen(const struct verify *verify) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < bitmap_bytes(verify); i++)
        count += (uint64_t)__builtin_popcount(verify->seen[i]);
    return count;
}

// For a single rank the sum is known without the arithmetic of the partition, so this checks that too.
static int check_sum(const struct verify *verify, uint64_t seen, struct error *error) {
    const struct partition *partition = &verify->partition;
    uint64_t due = verify->due;
    if (partition->world_size == 1 && verify->epoch.whole)
        due = partition->drop_last ? partition->samples / partition->batch_size * partition->batch_size
                                   : partition->samples;
    if (seen + verify->epoch.skipped == due)
        return 0;
    return error_set(error, -EBADMSG,
                     "verification failed: the epoch had %" PRIu64 " samples and %" PRIu64
                     " skipped ones, wanted %" PRIu64 " in all",
                     seen, verify->epoch.skipped, due);
}

int verify_epoch_end(struct verify *verify, struct verify_epoch *epoch, struct error *error) {
    int err = check_sum(verify, count_seen(verify), error);
    *epoch = verify->epoch;
    verify->epoch = (struct verify_epoch){0};
    verify->due = 0;
    memset(verify->seen, 0, bitmap_bytes(verify));
    return err;
}

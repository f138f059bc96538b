#include "client/ctl/verify.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "client/ctl/files.h"
#include "order/partition.h"

struct verify {
    struct files files;
    const struct feed_description *description;
    struct partition partition; // as this consumer sees it: from where it began
    uint64_t rank;
    uint64_t batch;   // number of the next one, from 0
    uint8_t *seen;    // one bit per sample of this epoch
    uint64_t due;     // samples of this rank in this epoch so far, by the order contract
    uint64_t samples; // in all
    struct verify_epoch epoch;
    void *bytes; // of one sample's field
};

static int wrong(struct error *error, const struct feed_batch *batch, const char *format, ...)
    PRINTF_LIKE(3, 4);

static int wrong(struct error *error, const struct feed_batch *batch, const char *format, ...) {
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return error_set(error, -EBADMSG, "verification failed at batch %" PRIu64 " of epoch %" PRIu64 ": %s",
                     batch->index, batch->epoch, what);
}

static uint64_t bitmap_bytes(const struct verify *verify) {
    return divide_up(verify->partition.samples, 8);
}

static int allocate(struct verify *verify, const struct feed_description *description, struct error *error) {
    size_t largest = 1;
    for (uint32_t i = 0; i < description->field_count; i++)
        largest = max_u64(largest, description->field[i].bytes / description->field[i].shape[0]);
    verify->bytes = malloc(largest);
    verify->seen = calloc(1, bitmap_bytes(verify));
    return verify->bytes && verify->seen ? 0 : error_set(error, -ENOMEM, "out of memory");
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
    int err = allocate(verify, description, error);
    return err < 0 ? err : files_open(&verify->files, ctl, description, options->seed, error);
}

void verify_close(struct verify *verify) {
    if (!verify)
        return;
    files_close(&verify->files);
    free(verify->seen);
    free(verify->bytes);
    free(verify);
}

uint32_t verify_fields(const struct verify *verify, bool checked, char *names, size_t bytes) {
    uint32_t count = 0;
    size_t used = 0;
    *names = 0;
    for (uint32_t i = 0; i < verify->description->field_count; i++) {
        if (verify->files.fields[i].transformed == checked)
            continue;
        if (used < bytes)
            used += (size_t)snprintf(names + used, bytes - used, "%s%s", count ? ", " : "",
                                     verify->description->field[i].name);
        count++;
    }
    return count;
}

uint64_t verify_samples(const struct verify *verify) {
    return verify->samples;
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

static int check_bytes(struct verify *verify, const struct feed_batch *batch, uint64_t i, uint64_t sample,
                       struct error *error) {
    const uint64_t stored = files_sample(&verify->files, batch->epoch, sample);
    for (uint32_t field = 0; field < batch->field_count; field++) {
        if (verify->files.fields[field].transformed)
            continue;
        const struct feed_array *array = &batch->field[field];
        size_t bytes = array->bytes / batch->count;
        const char *path;
        uint64_t offset;
        int read = files_read(&verify->files, field, stored, verify->bytes, bytes, &path, &offset, error);
        if (read < 0)
            return read;
        const uint8_t *got = (const uint8_t *)array->data + i * bytes, *wanted = verify->bytes;
        if (memcmp(got, wanted, bytes) == 0)
            continue;
        size_t at = 0;
        while (got[at] == wanted[at])
            at++;
        return wrong(error, batch,
                     "field %s of sample %" PRIu64 " (number %" PRIu64
                     " of the batch) differs at byte %zu: %u was delivered, %s has %u at offset %" PRIu64,
                     array->name, sample, i, at, got[at], path, wanted[at], offset + at);
    }
    return 0;
}

int verify_batch(struct verify *verify, const struct feed *feed, const struct feed_batch *batch,
                 struct error *error) {
    int err = check_place(verify, batch, error);
    for (uint64_t i = 0; i < batch->count && err == 0; i++) {
        int64_t sample = feed_batch_sample(feed, batch, i);
        if (sample < 0)
            return wrong(error, batch, "the index of its sample number %" PRIu64 " is unknown: %s", i,
                         strerror((int)-sample));
        err = check_once(verify, batch, (uint64_t)sample, error);
        if (err == 0)
            err = check_bytes(verify, batch, i, (uint64_t)sample, error);
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
                     "verification failed: %" PRIu64 " samples of the epoch came and %" PRIu64
                     " were skipped, expected were %" PRIu64,
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

#include "client/ctl/cmd_read.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <xxhash.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/cmd_read_options.h"
#include "client/ctl/text.h"
#include "client/ctl/verify.h"
#include "client/lib/connection.h"

#define FIELD_NAMES  (FEED_MAX_FIELDS * 34)
#define POLL_MS      200  // how often to look for an interrupt while no batch comes
#define RATE_LEAST_S 0.01 // a shorter run shows how full the ring was, not a rate

struct reading {
    const struct ctl *ctl;
    struct read_options options;
    struct feed *feed;
    struct verify *verify; // NULL: not wanted
    XXH3_state_t *digest;  // of this epoch; NULL: not wanted
    FILE *indices;         // NULL: not wanted
    uint8_t *fetched;      // a copy of a batch from GPU memory, as soon as one is wanted
    size_t fetched_room;
    bool whole; // this epoch, from its first batch on
    uint64_t epoch_batches, epoch_samples;
    uint64_t batches, samples, skipped, bytes, epochs; // in all
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

// ---- Batches ---------------------------------------------------------------------------------------

// 1 a batch, 0 the end, or negative with the error filled. libfeed does not return on signals, so this looks itself.
static int next_batch(struct reading *reading, struct feed_batch *batch, struct error *error) {
    uint64_t give_up = deadline_after_ms(reading->options.timeout_ms ? reading->options.timeout_ms : -1);
    while (!interrupted) {
        int got = feed_next(reading->feed, batch, POLL_MS);
        if (got >= 0)
            return got;
        if (got != -EAGAIN)
            return error_set(error, got, "%s", feed_strerror(reading->feed));
        if (monotonic_ns() >= give_up)
            return error_set(error, -ETIMEDOUT, "no batch came for %" PRId64 " ms",
                             reading->options.timeout_ms);
    }
    return 0;
}

static void pretend_to_compute(const struct reading *reading) {
    uint64_t ns = reading->options.work_us * 1000;
    struct timespec left = timespec_of_ns(ns);
    while (ns && !interrupted && nanosleep(&left, &left) < 0)
        ;
}

static int write_indices(const struct reading *reading, const struct feed_batch *batch, struct error *error) {
    for (uint64_t i = 0; i < batch->count; i++)
        fprintf(reading->indices, "%" PRIu64 " %" PRId64 "\n", batch->epoch,
                feed_batch_sample(reading->feed, batch, i));
    return ferror(reading->indices) ? error_set(error, -EIO, "cannot write %s", reading->options.indices) : 0;
}

static size_t offset_bytes(const struct feed_batch *batch, uint32_t field) {
    return batch->field[field].ragged ? (batch->count + 1) * sizeof(int64_t) : 0;
}

static int make_room_to_fetch(struct reading *reading, const struct feed_batch *batch) {
    size_t bytes = 1;
    for (uint32_t i = 0; i < batch->field_count; i++)
        bytes += offset_bytes(batch, i) + align_up(batch->field[i].bytes, sizeof(int64_t));
    if (bytes <= reading->fetched_room)
        return 0;
    free(reading->fetched);
    reading->fetched = malloc(bytes);
    reading->fetched_room = reading->fetched ? bytes : 0;
    return reading->fetched ? 0 : -ENOMEM;
}

// Offsets come first, so that they are aligned.
static int fetch_field(struct reading *reading, struct feed_batch *batch, uint32_t field, size_t *used) {
    struct feed_array *array = &batch->field[field];
    int64_t *offsets = (int64_t *)(void *)(reading->fetched + *used);
    uint8_t *values = reading->fetched + *used + offset_bytes(batch, field);
    int err = array->ragged ? feed_batch_fetch_offsets(reading->feed, batch, field, offsets) : 0;
    if (!err)
        err = feed_batch_fetch(reading->feed, batch, field, values);
    *used += offset_bytes(batch, field) + align_up(array->bytes, sizeof *offsets);
    array->data = values;
    array->offsets = array->ragged ? offsets : NULL;
    return err;
}

// The checks need the batch in host memory; `batch` then points there.
static int fetch_batch(struct reading *reading, struct feed_batch *batch, struct error *error) {
    size_t used = 0;
    bool wanted = reading->options.verify || reading->options.digest;
    if (!wanted || !feed_describe(reading->feed)->pool_bytes)
        return 0;
    if (make_room_to_fetch(reading, batch) < 0)
        return error_set(error, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < batch->field_count; i++) {
        int err = fetch_field(reading, batch, i, &used);
        if (err)
            return error_set(error, err, "%s", feed_strerror(reading->feed));
    }
    return 0;
}

static void add_to_digest(const struct reading *reading, const struct feed_batch *batch) {
    for (uint32_t i = 0; i < batch->field_count; i++) {
        XXH3_128bits_update(reading->digest, batch->field[i].data, batch->field[i].bytes);
        if (batch->field[i].ragged)
            XXH3_128bits_update(reading->digest, batch->field[i].offsets, offset_bytes(batch, i));
    }
}

static int take_batch(struct reading *reading, struct feed_batch *batch, struct error *error) {
    int err = fetch_batch(reading, batch, error);
    if (err)
        return err;
    for (uint32_t i = 0; i < batch->field_count; i++)
        reading->bytes += batch->field[i].bytes;
    if (reading->digest)
        add_to_digest(reading, batch);
    const struct feed_description *description = feed_describe(reading->feed);
    if (reading->epoch_batches == 0)
        reading->whole = batch->epoch != description->start_epoch || description->start_consumed == 0;
    reading->batches++;
    reading->samples += batch->count;
    reading->skipped += batch->skipped;
    reading->epoch_batches++;
    reading->epoch_samples += batch->count;
    int verified = reading->verify ? verify_batch(reading->verify, reading->feed, batch, error) : 0;
    if (verified == 0 && reading->indices)
        verified = write_indices(reading, batch, error);
    pretend_to_compute(reading);
    return verified;
}

static void begin_epoch(struct reading *reading) {
    reading->epoch_batches = reading->epoch_samples = 0;
    if (reading->digest)
        XXH3_128bits_reset(reading->digest);
}

static void print_digest(struct reading *reading) {
    XXH128_hash_t hash = XXH3_128bits_digest(reading->digest);
    printf(", digest %016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
}

// One line per epoch, the same for consumers that saw the same batches.
static int end_epoch(struct reading *reading, uint64_t epoch, struct error *error) {
    struct verify_epoch verified = {0};
    int err = reading->verify ? verify_epoch_end(reading->verify, &verified, error) : 0;
    reading->epochs++;
    if (err == 0 && (!reading->options.quiet || reading->digest)) {
        printf("epoch %" PRIu64 "%s: %" PRIu64 " sample%s in %" PRIu64 " batch%s", epoch,
               reading->whole ? "" : " (from where this consumer joined)", reading->epoch_samples,
               reading->epoch_samples == 1 ? "" : "s", reading->epoch_batches,
               reading->epoch_batches == 1 ? "" : "es");
        if (verified.skipped)
            printf(", %" PRIu64 " skipped", verified.skipped);
        if (reading->digest)
            print_digest(reading);
        putchar('\n');
        fflush(stdout);
    }
    begin_epoch(reading);
    return err;
}

static int read_batches(struct reading *reading, struct error *error) {
    struct feed_batch batch;
    uint64_t limit = reading->options.batches ? reading->options.batches : UINT64_MAX;
    while (reading->batches < limit) {
        int got = next_batch(reading, &batch, error);
        if (got <= 0)
            return got;
        if (feed_batch_wait(reading->feed, &batch, NULL) < 0)
            return error_set(error, -EIO, "%s", feed_strerror(reading->feed));
        int err = take_batch(reading, &batch, error);
        // If the release fails, the bytes may have changed while they were checked, so that error comes first.
        int released = feed_batch_release(reading->feed, &batch, NULL);
        if (released < 0)
            return error_set(error, released, "%s", feed_strerror(reading->feed));
        if (err == 0 && batch.last_of_epoch)
            err = end_epoch(reading, batch.epoch, error);
        if (err < 0)
            return err;
    }
    return 0;
}

// ---- Command ---------------------------------------------------------------------------------------

static void print_verified(const struct reading *reading) {
    const struct feed_options *feed = &reading->options.feed;
    char checked[FIELD_NAMES], unchecked[FIELD_NAMES];
    uint32_t checks = verify_fields(reading->verify, true, checked, sizeof checked);
    uint32_t transforms = verify_fields(reading->verify, false, unchecked, sizeof unchecked);
    uint64_t samples = verify_samples(reading->verify);
    printf("verified %" PRIu64 " sample%s of %" PRIu64 " whole epoch%s%s: each in its place, none twice",
           samples, samples == 1 ? "" : "s", reading->epochs, reading->epochs == 1 ? "" : "s",
           reading->epoch_batches ? " and one in part" : "");
    if (checks)
        printf(", all bytes%s%s equal to the files'%s", transforms ? " of " : "", transforms ? checked : "",
               verify_by_index(reading->verify) ? ", as feedd's index describes them" : "");
    if (transforms)
        printf("; not verified: the bytes of %s, which the daemon transforms", unchecked);
    if (feed->world_size > 1)
        printf(" (only the share of rank %u of %u)", feed->rank, feed->world_size);
    if (verify_replaced(reading->verify))
        printf("; %" PRIu64 " sample%s replaced by others, as on_error = replace says",
               verify_replaced(reading->verify), verify_replaced(reading->verify) == 1 ? " was" : "s were");
    if (reading->skipped)
        printf("; %" PRIu64 " sample%s skipped as unreadable", reading->skipped,
               reading->skipped == 1 ? " was" : "s were");
    putchar('\n');
}

static void print_summary(const struct reading *reading, double seconds) {
    char rate[CTL_TEXT], token[FEED_TOKEN_BYTES];
    double gb = (double)reading->bytes / 1e9;
    printf("%" PRIu64 " batch%s, %" PRIu64 " sample%s, %.3f GB in %.3f s", reading->batches,
           reading->batches == 1 ? "" : "es", reading->samples, reading->samples == 1 ? "" : "s", gb,
           seconds);
    ctl_format_count((double)reading->samples / seconds, rate);
    if (seconds >= RATE_LEAST_S)
        printf(": %s samples/s, %.3f GB/s", rate, gb / seconds);
    putchar('\n');
    if (feed_token(reading->feed, token) == 0)
        printf("resume token: %s\n", token);
}

static int begin(struct reading *reading, struct error *error) {
    int opened = feed_open(&reading->feed, &reading->options.feed);
    if (opened < 0)
        return error_set(error, opened, "%s", feed_strerror(reading->feed));
    if (reading->options.digest && !(reading->digest = XXH3_createState()))
        return error_set(error, -ENOMEM, "out of memory");
    if (reading->options.indices && !(reading->indices = fopen(reading->options.indices, "we")))
        return error_set(error, -errno, "cannot write %s: %m", reading->options.indices);
    begin_epoch(reading);
    return reading->options.verify
               ? verify_open(&reading->verify, reading->ctl, reading->feed, &reading->options.feed, error)
               : 0;
}

int cmd_read(const struct ctl *ctl, int count, char **arguments) {
    struct reading reading = {.ctl = ctl};
    struct error error = {0};
    read_parse(ctl, count, arguments, &reading.options);
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_signal}, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_signal}, NULL);
    int err = begin(&reading, &error);
    uint64_t start_ns = monotonic_ns();
    if (err == 0)
        err = read_batches(&reading, &error);
    double seconds = (double)(monotonic_ns() - start_ns + 1) / 1e9;
    if (err == 0 && reading.verify)
        print_verified(&reading);
    if (reading.feed && reading.batches && !reading.options.quiet)
        print_summary(&reading, seconds);
    fflush(stdout);
    if (reading.indices && fclose(reading.indices) != 0 && err == 0)
        err = error_set(&error, -errno, "cannot write %s: %m", reading.options.indices);
    verify_close(reading.verify);
    XXH3_freeState(reading.digest);
    free(reading.fetched);
    feed_close(reading.feed);
    return err < 0 ? ctl_complain(&error) : CTL_OK;
}

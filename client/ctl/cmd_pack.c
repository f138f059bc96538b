// A pack is one consumer of one epoch, in order. Shards end where batches do, so that a shard is finished only when the
// daemon has confirmed, with the release of its last batch, that all its bytes were read in time.
#include "client/ctl/cmd_pack.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/pack_batch.h"
#include "client/ctl/pack_options.h"
#include "client/ctl/pack_progress.h"
#include "client/ctl/pack_source.h"
#include "client/ctl/text.h"

#define TABLE_BYTES (32u << 20) // of a shard: the table is in memory until the shard is finished
#define SHARDS_MOST 65536u      // the daemon opens no more files
#define POLL_MS     200         // how often to look for an interrupt while no batch comes

struct packing {
    struct pack_options options;
    struct pack_source source;
    struct pack_set set;
    struct pack_shard shard;
    struct pack_progress progress;
    uint64_t position; // in the epoch: of the first sample that no batch has had yet
    uint64_t bytes;    // written in this run
    uint64_t started_ns, ended_ns;
    uint64_t replaced; // samples in this run; before its end, since the daemon started
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

static bool is_interrupted(void *context) {
    (void)context;
    return interrupted;
}

static int out_of_memory(struct error *error) {
    return error_set(error, -ENOMEM, "out of memory");
}

// ---- Shards ----------------------------------------------------------------------------------------------------

// For O_DIRECT: no sample touches a block more than it has to, where that costs 3 % of the room at most. For reads from
// the page cache it makes no difference that could be measured.
static uint32_t alignment_of(uint64_t sample_bytes) {
    if (sample_bytes >= 128u << 10)
        return 4096;
    return sample_bytes >= 16u << 10 ? 512 : 1;
}

static int prepare_shards(struct packing *packing, struct error *error) {
    const struct pack_identity *identity = &packing->source.identity;
    struct pack_shard *shard = &packing->shard;
    shard->folder = packing->set.folder;
    shard->name = packing->set.name;
    shard->header.set = packing->set.id;
    shard->header.field_count = identity->field_count;
    memcpy(shard->header.fields, identity->fields, sizeof identity->fields);
    shard->header.alignment = alignment_of(packing->source.sample_bytes);
    packing->position = packing->set.position;
    if (packed_is_ragged(&shard->header) && identity->samples > PACKED_SAMPLES)
        return error_set(error, -EFBIG, "found %" PRIu64 " samples, wanted at most %u with ragged fields",
                         identity->samples, PACKED_SAMPLES);
    return pack_set_begin(&packing->set, identity, error);
}

static bool is_full(const struct packing *packing) {
    return pack_shard_bytes(&packing->shard) >= packing->source.identity.shard_bytes ||
           pack_shard_table_bytes(&packing->shard) >= TABLE_BYTES;
}

static int finish_shard(struct packing *packing, bool last, struct error *error) {
    const uint64_t bytes = pack_shard_bytes(&packing->shard);
    int err = pack_shard_finish(&packing->shard, packing->position, last, error);
    if (!err)
        pack_set_count(&packing->set, &packing->shard.header, bytes);
    return err;
}

// A full shard ends when there is something to be put into the next one: the last shard has to say that it is the last.
static int make_room(struct packing *packing, struct error *error) {
    int err = packing->shard.fd >= 0 && is_full(packing) ? finish_shard(packing, false, error) : 0;
    if (err || packing->shard.fd >= 0)
        return err;
    if (packing->set.shards == SHARDS_MOST)
        return error_set(error, -EFBIG,
                         "there are %u shards, and a dataset has no more; give a larger --shard-size",
                         SHARDS_MOST);
    return pack_shard_begin(&packing->shard, packing->set.shards, packing->set.position, error);
}

static int take_batch(struct packing *packing, const struct feed_batch *batch, struct error *error) {
    int err = batch->count ? make_room(packing, error) : 0;
    const uint64_t before = packing->shard.fd >= 0 ? packing->shard.sample_end : 0;
    if (!err && batch->count)
        err = pack_batch(&packing->shard, packing->source.feed, batch, error);
    int released = feed_batch_release(packing->source.feed, batch, NULL);
    if (released < 0 && !err)
        err = error_set(error, released, "%s", feed_strerror(packing->source.feed));
    packing->position += batch->count + batch->skipped;
    packing->bytes += packing->shard.fd >= 0 ? packing->shard.sample_end - before : 0;
    pack_progress_show(&packing->progress, packing->position, packing->bytes);
    return err;
}

static int stopped(const struct packing *packing, struct error *error) {
    return error_set(error, -EINTR,
                     "interrupted with %" PRIu64 " of %" PRIu64
                     " samples in complete shards; the same command continues there",
                     packing->set.samples, packing->source.identity.samples);
}

// Until all positions of the epoch have been had.
static int read_all(struct packing *packing, struct error *error) {
    struct feed_batch batch;
    while (!interrupted) {
        int got = feed_next(packing->source.feed, &batch, POLL_MS);
        if (got == 0)
            return packing->position == packing->source.identity.samples
                       ? 0
                       : error_set(error, -EPROTO, "feedd ended after %" PRIu64 " of %" PRIu64 " samples",
                                   packing->position, packing->source.identity.samples);
        if (got == -EAGAIN)
            continue;
        int err = got < 0 ? error_set(error, got, "%s", feed_strerror(packing->source.feed))
                          : take_batch(packing, &batch, error);
        if (err)
            return err;
    }
    return stopped(packing, error);
}

// The daemon looks at what its loaders count four times per second. One that was restarted counts from 0.
static void count_replaced(struct packing *packing) {
    const struct timespec pause = timespec_of_ns(NS_PER_S / 2);
    if (!packing->source.replaces)
        return;
    nanosleep(&pause, NULL);
    const uint64_t now = pack_source_replaced(&packing->source);
    packing->replaced = now - min_u64(now, packing->replaced);
}

static int write_shards(struct packing *packing, struct error *error) {
    int err = pack_source_attach(&packing->source, packing->set.position, error);
    if (!err)
        err = prepare_shards(packing, error);
    packing->progress.positions = packing->source.identity.samples;
    pack_progress_start(&packing->progress, packing->position);
    if (!err)
        err = read_all(packing, error);
    pack_progress_end(&packing->progress);
    if (err)
        return err;
    if (packing->shard.fd < 0)
        return error_set(error, -ENODATA, "none of the samples from position %" PRIu64 " on could be read",
                         packing->set.position);
    err = finish_shard(packing, true, error);
    packing->ended_ns = monotonic_ns();
    if (!err)
        count_replaced(packing);
    return err;
}

// ---- Command ---------------------------------------------------------------------------------------------------

static uint64_t skipped(const struct packing *packing) {
    return packing->set.position - packing->set.samples;
}

static int print_json(const struct packing *packing, double seconds, const char *pattern,
                      const char *section) {
    json_t *object =
        json_pack("{s:o, s:I, s:I, s:I, s:I, s:I, s:f, s:o, s:o}", "dataset",
                  ctl_json_text(packing->options.dataset), "samples", (json_int_t)packing->set.samples,
                  "skipped", (json_int_t)skipped(packing), "replaced", (json_int_t)packing->replaced,
                  "shards", (json_int_t)packing->set.shards, "bytes", (json_int_t)packing->set.bytes,
                  "seconds", seconds, "path", ctl_json_text(pattern), "section", ctl_json_text(section));
    if (!object)
        return -ENOMEM;
    ctl_print_json(object, true);
    return 0;
}

static void print_text(const struct packing *packing, double seconds, const char *section) {
    char bytes[CTL_TEXT], rate[CTL_TEXT], duration[CTL_TEXT];
    const struct pack_set *set = &packing->set;
    ctl_format_bytes(set->bytes, bytes);
    printf("%" PRIu64 " sample%s in %" PRIu32 " shard%s, %s", set->samples, set->samples == 1 ? "" : "s",
           set->shards, set->shards == 1 ? "" : "s", bytes);
    if (packing->bytes) {
        ctl_format_bytes((uint64_t)((double)packing->bytes / (seconds + 1e-9)), rate);
        ctl_format_duration((uint64_t)(seconds * 1e9), duration);
        printf(" (in %s, %s/s)\n", duration, rate);
    } else {
        puts(", complete already");
    }
    if (skipped(packing))
        printf("%" PRIu64 " could not be read and %s skipped: feedctl errors %s\n", skipped(packing),
               skipped(packing) == 1 ? "was" : "were", packing->options.dataset);
    if (packing->replaced)
        printf("%" PRIu64
               " time%s a sample could not be read, and another took its place: feedctl errors %s\n",
               packing->replaced, packing->replaced == 1 ? "" : "s", packing->options.dataset);
    printf("\n%s", section);
}

// Of five digits, since "NAME-*.feed" has those of another set NAME-MORE in the same folder, too.
static int print_summary(const struct packing *packing, double seconds, struct error *error) {
    AUTO_FREE char *pattern = NULL, *section = NULL;
    if (asprintf(&pattern, "%s/%s-?????.feed",
                 strcmp(packing->set.folder_path, "/") ? packing->set.folder_path : "",
                 packing->set.name) < 0 ||
        asprintf(&section, "[dataset %s-packed]\nformat = packed\npath = %s\n", packing->options.dataset,
                 pattern) < 0)
        return out_of_memory(error);
    if (packing->options.json)
        return print_json(packing, seconds, pattern, section) ? out_of_memory(error) : 0;
    print_text(packing, seconds, section);
    return 0;
}

// Nothing else shows that every epoch then has the same crops.
static void warn_of_random_steps(const char *dataset) {
    fprintf(stderr,
            "feedctl: warning: the transform of %s is random, and the shards will store its results for one"
            " epoch; to augment anew in every epoch, pack the dataset without transform.NAME and set it in"
            " the section of the shards\n",
            dataset);
}

static int pack(struct packing *packing, struct error *error) {
    int err = pack_source_find(&packing->source, error);
    if (!err)
        err = pack_set_open(&packing->set, packing->options.file, error);
    if (!err && packing->options.force)
        err = pack_set_clear(&packing->set, error);
    if (!err)
        err = pack_set_find(&packing->set, &packing->source.identity, error);
    if (err || packing->set.complete)
        return err;
    if (packing->source.augmented)
        warn_of_random_steps(packing->source.name);
    if (packing->source.replaces)
        packing->replaced = pack_source_replaced(&packing->source); // before anything is read
    return write_shards(packing, error);
}

int cmd_pack(const struct ctl *ctl, int count, char **arguments) {
    struct packing packing = {.set = {.folder = -1, .manifest = -1}, .shard = {.fd = -1}};
    struct error error = {0};
    pack_parse(count, arguments, &packing.options);
    packing.progress =
        (struct pack_progress){.dataset = packing.options.dataset, .quiet = packing.options.quiet};
    packing.source = (struct pack_source){.ctl = ctl,
                                          .name = packing.options.dataset,
                                          .seed = packing.options.seed,
                                          .interrupted = is_interrupted,
                                          .identity.shard_bytes = packing.options.shard_bytes};
    sigaction(SIGINT, &(struct sigaction){.sa_handler = on_signal}, NULL);
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_signal}, NULL);
    signal(SIGXFSZ, SIG_IGN); // a write beyond the limit on file sizes then fails with a reason
    packing.started_ns = packing.ended_ns = monotonic_ns();
    int err = pack(&packing, &error);
    const double seconds = (double)(packing.ended_ns - packing.started_ns) / 1e9;
    if (!err)
        err = print_summary(&packing, seconds, &error);
    if (!err && (fflush(stdout) != 0 || ferror(stdout)))
        err = error_set(&error, -EIO, "cannot write to standard output");
    pack_shard_close(&packing.shard);
    pack_set_close(&packing.set);
    feed_close(packing.source.feed);
    return err < 0 ? ctl_complain(&error) : CTL_OK;
}

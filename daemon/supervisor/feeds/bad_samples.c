#include "daemon/supervisor/feeds/bad_samples.h"

#include <string.h>
#include <time.h>

#include "base/sizes.h"
#include "base/time.h"

static struct bad_samples *find(const struct supervisor *supervisor, const char *dataset) {
    struct bad_samples *found;
    LIST_FOREACH(found, &supervisor->bad_samples, link)
        if (strcmp(found->dataset, dataset) == 0)
            return found;
    return NULL;
}

static struct bad_samples *find_or_make(struct supervisor *supervisor, const char *dataset) {
    struct bad_samples *found = find(supervisor, dataset);
    if (found)
        return found;
    found = calloc(1, sizeof *found);
    if (!found)
        return NULL;
    snprintf(found->dataset, sizeof found->dataset, "%s", dataset);
    LIST_INSERT_HEAD(&supervisor->bad_samples, found, link);
    return found;
}

static uint64_t since_1970_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

// A loader may have written any bytes.
static void read_reason(const struct stats_bad_sample *report, char reason[STATS_REASON_BYTES]) {
    uint64_t words[STATS_REASON_BYTES / 8];
    for (size_t i = 0; i < COUNT_OF(words); i++)
        words[i] = atomic_load_explicit(&report->reason[i], memory_order_relaxed);
    memcpy(reason, words, STATS_REASON_BYTES);
    reason[STATS_REASON_BYTES - 1] = '\0';
    for (char *at = reason; *at; at++)
        if (*at < ' ' || *at > '~')
            *at = '?';
}

// What the loader wrote, if it can be true.
static bool read_report(const struct stats_bad_sample *report, const struct dataset *served,
                        struct bad_sample *bad) {
    uint32_t file = atomic_load_explicit(&report->file, memory_order_relaxed);
    *bad = (struct bad_sample){
        .sample = atomic_load_explicit(&report->sample, memory_order_relaxed),
        .offset = atomic_load_explicit(&report->offset, memory_order_relaxed),
        .code = atomic_load_explicit(&report->code, memory_order_relaxed),
        .fate = atomic_load_explicit(&report->fate, memory_order_relaxed),
        .refused = atomic_load_explicit(&report->refused, memory_order_relaxed) != 0,
        .at_ns = since_1970_ns(),
    };
    read_reason(report, bad->reason);
    if (file >= dataset_file_numbers(served))
        return false;
    const struct dataset *dataset = dataset_of_file(served, &file);
    if (bad->sample >= dataset_stored_samples(dataset->layout) || bad->fate >= BAD_FATES)
        return false;
    char path[DATASET_PATH_TEXT];
    snprintf(bad->dataset, sizeof bad->dataset, "%s", dataset->of ? dataset->of : dataset->name);
    bad->in_folder = dataset->layout->folder_count;
    bad->path = strdup(dataset_file_path(dataset, file, path));
    return bad->path != NULL;
}

static void keep(struct bad_samples *kept, const struct bad_sample *bad) {
    struct bad_sample *place = &kept->last[kept->count++ % BAD_SAMPLES_KEPT];
    free(place->path);
    *place = *bad;
}

void bad_samples_hear(struct served_feed *feed, struct loader_process *loader) {
    const struct stats_loader *record = loader->record;
    // Pairs with the release in stats_note_bad.
    uint64_t count = atomic_load_explicit(&record->bad_count, memory_order_acquire);
    struct bad_sample bad;
    if (count == loader->bad_heard)
        return;
    struct bad_samples *kept = find_or_make(feed->supervisor, feed->dataset->name);
    uint64_t first = max_u64(loader->bad_heard, count - min_u64(count, STATS_BAD_SAMPLES));
    for (uint32_t i = 0; kept && i < BAD_FATES; i++) {
        uint64_t total = atomic_load_explicit(&record->bad_totals[i], memory_order_relaxed);
        kept->total[i] += total - min_u64(loader->bad_totals[i], total);
        loader->bad_totals[i] = total;
    }
    for (uint64_t i = first; kept && i < count; i++) {
        if (!read_report(&record->bad[i % STATS_BAD_SAMPLES], feed->dataset, &bad))
            continue;
        bad.user = feed->user;
        keep(kept, &bad);
    }
    loader->bad_heard = count;
}

static void hear_all(struct served_feed *feed) {
    struct loader_process *loader;
    LIST_FOREACH(loader, &feed->loaders, link)
        bad_samples_hear(feed, loader);
}

void bad_samples_collect(struct supervisor *supervisor, const char *dataset) {
    struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        if (strcmp(feed->dataset->name, dataset) == 0)
            hear_all(feed);
}

const struct bad_samples *bad_samples_of(const struct supervisor *supervisor, const char *dataset) {
    return find(supervisor, dataset);
}

const char *bad_samples_reason(struct served_feed *feed, const struct dataset *dataset, uint64_t sample,
                               int code) {
    const char *name = dataset->of ? dataset->of : dataset->name;
    hear_all(feed);
    const struct bad_samples *kept = find(feed->supervisor, feed->dataset->name);
    for (uint64_t i = 0; kept && i < min_u64(kept->count, BAD_SAMPLES_KEPT); i++) {
        const struct bad_sample *bad = &kept->last[(kept->count - 1 - i) % BAD_SAMPLES_KEPT];
        if (bad->sample == sample && bad->fate == BAD_FATAL && strcmp(bad->dataset, name) == 0)
            return bad->refused && *bad->reason && bad->code == (uint32_t)-code ? bad->reason : NULL;
    }
    return NULL;
}

void bad_samples_forget(struct supervisor *supervisor, bool all) {
    struct bad_samples *bad, *next;
    LIST_FOREACH_SAFE(bad, &supervisor->bad_samples, link, next) {
        if (!all && config_find_dataset(supervisor->config, bad->dataset))
            continue;
        for (uint32_t i = 0; i < BAD_SAMPLES_KEPT; i++)
            free(bad->last[i].path);
        LIST_REMOVE(bad, link);
        free(bad);
    }
}

#include "client/ctl/origins.h"

#include <string.h>

#include "base/sizes.h"
#include "client/ctl/query.h"
#include "client/lib/handle.h"
#include "order/mix_samples.h"
#include "order/replace.h"

struct sources {
    char *names[MIX_MAX_SOURCES];
    uint64_t samples[MIX_MAX_SOURCES];
    bool windows[MIX_MAX_SOURCES]; // it is shuffled in windows
    uint32_t count;
    bool replaces;
};

static int take_sources(const Feedd__Answer *page, void *context, struct error *error) {
    struct sources *sources = context;
    sources->replaces = page->replaces;
    for (size_t i = 0; i < page->n_sources; i++) {
        char *name = sources->count < MIX_MAX_SOURCES ? strdup(page->sources[i]->name) : NULL;
        if (!name || page->sources[i]->samples == 0) {
            free(name);
            return error_set(error, -EPROTO, "feedd describes a source that a mix cannot have");
        }
        sources->names[sources->count] = name;
        sources->windows[sources->count] = page->sources[i]->windows;
        sources->samples[sources->count++] = page->sources[i]->samples;
    }
    return 0;
}

static void free_sources(struct sources *sources) {
    for (uint32_t i = 0; i < sources->count; i++)
        free(sources->names[i]);
}

static int ask_for_sources(struct sources *sources, const struct ctl *ctl, const char *name,
                           struct error *error) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    int err = query_open(&connection, ctl, error);
    return err ? err
               : query_ask(&connection, FEEDD__QUERY__KIND__SOURCES, name, take_sources, sources, error);
}

static bool allocate(struct origins *origins, uint32_t count) {
    origins->files = calloc(count, sizeof *origins->files);
    origins->first = calloc(count, sizeof *origins->first);
    origins->samplers = calloc(count, sizeof *origins->samplers);
    return origins->files && origins->first && origins->samplers;
}

static void set_seed(struct origins *origins, uint64_t seed, bool shuffle) {
    bool random = shuffle;
    for (uint32_t i = 0; i < origins->count; i++)
        random |= origins->files[i].list.selector.selection.kind == SELECTION_WEIGHTED_1;
    origins->seed = random ? seed : 0;
}

static int open_sampler(struct origins *origins, uint32_t i, enum order_version version, uint64_t samples,
                        struct error *error) {
    const struct files *files = &origins->files[i];
    const struct selection *selection = &files->list.selector.selection;
    if (selection->kind == SELECTION_WEIGHTED_1)
        version = ORDER_SEQUENTIAL; // see dataset_source_order
    return sampler_open(&origins->samplers[i], version, samples, origins->seed, selection, files->list.words,
                        files->list.count * sizeof *files->list.words, error);
}

static int open_mix(struct origins *origins, const struct feed *feed, const struct sources *sources,
                    struct error *error) {
    struct mix_source about[MIX_MAX_SOURCES];
    const struct attachment *attachment = feed->now;
    uint64_t first = 0;
    for (uint32_t i = 0; i < sources->count; i++) {
        const struct selector *selector = &origins->files[i].list.selector;
        enum order_version version = (enum order_version)attachment->mix_order;
        if (sources->windows[i] && version != ORDER_SEQUENTIAL)
            version = ORDER_WINDOW_1;
        int err = open_sampler(origins, i, version, sources->samples[i], error);
        if (err) {
            error_prefix(error, "source %s", sources->names[i]);
            return err;
        }
        about[i] = (struct mix_source){&origins->samplers[i], first};
        origins->first[i] = first;
        bool view = selector->selection.kind != SELECTION_ALL;
        if (__builtin_add_overflow(first, view ? selector->selection.of : sources->samples[i], &first))
            return error_set(error, -EPROTO, "feedd describes sources with too many samples");
    }
    return mix_samples_open(&attachment->mix, about, 1, &origins->mix, error);
}

static int open_sources(struct origins *origins, const struct ctl *ctl, const struct feed *feed,
                        const struct sources *sources, uint64_t seed, bool shuffle, struct error *error) {
    if (sources->count != feed->now->mix.sources)
        return error_set(error, -EPROTO, "feedd describes a different mix from the one that was opened");
    for (uint32_t i = 0; i < sources->count; i++) {
        struct feed_description description = *feed_describe(feed);
        description.dataset = sources->names[i];
        description.samples = sources->samples[i];
        origins->count++;
        int err =
            files_open(&origins->files[i], ctl, &description, seed, shuffle && sources->windows[i], error);
        origins->files[i].open_most = divide_up(FILES_OPEN, sources->count);
        origins->files[i].blocks.most_bytes = divide_up(FILES_BLOCK_MEMORY, sources->count);
        if (err < 0) {
            error_prefix(error, "source %s", sources->names[i]);
            return err;
        }
    }
    origins->replaces = sources->replaces;
    set_seed(origins, seed, shuffle);
    return open_mix(origins, feed, sources, error);
}

static int open_dataset(struct origins *origins, const struct ctl *ctl,
                        const struct feed_description *description, uint64_t seed, bool shuffle,
                        struct error *error) {
    origins->count = 1;
    int err = files_open(origins->files, ctl, description, seed, false, error);
    origins->replaces = origins->files->replaces;
    set_seed(origins, seed, shuffle);
    return err;
}

int origins_open(struct origins *origins, const struct ctl *ctl, const struct feed *feed, uint64_t seed,
                 bool shuffle, struct error *error) {
    const struct feed_description *description = feed_describe(feed);
    bool mixed = feed->now && feed->now->mix.version;
    struct sources sources = {.count = 0};
    *origins = (struct origins){.epoch_samples = description->samples};
    if (!allocate(origins, mixed ? MIX_MAX_SOURCES : 1))
        return error_set(error, -ENOMEM, "out of memory");
    if (!mixed)
        return open_dataset(origins, ctl, description, seed, shuffle, error);
    int err = ask_for_sources(&sources, ctl, description->dataset, error);
    if (err >= 0)
        err = open_sources(origins, ctl, feed, &sources, seed, shuffle, error);
    free_sources(&sources);
    return err;
}

void origins_close(struct origins *origins) {
    mix_samples_close(origins->mix);
    for (uint32_t i = 0; i < origins->count; i++) {
        sampler_close(&origins->samplers[i]);
        files_close(&origins->files[i]);
    }
    free(origins->samplers);
    free(origins->files);
    free(origins->first);
}

// Of a stored sample of a mix; `stored` becomes its number there.
static struct files *find_source(const struct origins *origins, uint64_t *stored) {
    uint32_t source = origins->count - 1;
    if (*stored == UINT64_MAX)
        return NULL;
    while (source && origins->first[source] > *stored)
        source--;
    *stored -= origins->first[source];
    return &origins->files[source];
}

struct files *origins_find(const struct origins *origins, uint64_t epoch, uint64_t sample, uint64_t *stored) {
    uint64_t position;
    if (!origins->mix) {
        *stored = files_sample(origins->files, epoch, sample);
        return origins->files;
    }
    if (!mix_run_position(origins->epoch_samples, epoch, sample, &position))
        return NULL;
    mix_samples_at(origins->mix, position, 1, stored);
    return find_source(origins, stored);
}

struct files *origins_replacement(const struct origins *origins, uint64_t epoch, uint64_t position,
                                  uint32_t attempt, uint64_t *stored) {
    uint64_t in_run;
    if (!origins->replaces || attempt > REPLACE_ATTEMPTS)
        return NULL;
    if (!origins->mix)
        return origins_find(origins, epoch,
                            replace_number(origins->seed, epoch, position, attempt, origins->epoch_samples),
                            stored);
    if (!mix_run_position(origins->epoch_samples, epoch, position, &in_run))
        return NULL;
    *stored = mix_samples_replacement(origins->mix, in_run, attempt);
    return find_source(origins, stored);
}

bool origins_use_index(const struct origins *origins) {
    bool known = false;
    for (uint32_t i = 0; i < origins->count; i++)
        known |= origins->files[i].index.known;
    return known;
}

bool origins_transform(const struct origins *origins, uint32_t field) {
    bool transformed = false;
    for (uint32_t i = 0; i < origins->count; i++)
        transformed |= origins->files[i].fields[field].transformed;
    return transformed;
}

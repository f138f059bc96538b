#include "client/ctl/verdict.h"

#include "base/sizes.h"
#include "client/ctl/earlier.h"

#define MUCH   0.5
#define LITTLE 0.1
#define STARVED                                                                                              \
    0.7 // loaders that are busy and on a processor for less than this share of the time lack cores

static const struct {
    const char *word, *phrase, *hint;
} bounds[BOUNDS] = {
    [BOUND_IDLE] = {"idle", "idle", "No consumer is attached."},
    [BOUND_NONE] = {"none", "bound by nothing yet", "Nobody waits much."},
    [BOUND_CONSUMERS] = {"consumers", "bound by its consumers",
                         "Batches wait for the consumers: feedd could deliver more."},
    [BOUND_LOADERS] =
        {"loaders", "bound by the loaders' processors",
         "More loaders on free cores help (feedctl loaders), or larger samples per read (feedctl pack)."},
    [BOUND_DECODING] =
        {"decoding", "bound by decoding",
         "More loaders on free cores help (feedctl loaders), or data that is stored as it is delivered."},
    [BOUND_STORAGE] = {"storage", "bound by the storage",
                       "More reads in flight help (queue_depth, feedctl loaders), larger reads (feedctl pack,"
                       " shuffle_window), or faster storage."},
    [BOUND_BUS] = {"bus", "bound by copies to the GPU",
                   "Smaller samples help: integers that the GPU converts, f16 or bf16 instead of f32."},
    [BOUND_POOL] =
        {"pool", "bound by its pool on the GPU",
         "The consumers' work keeps all of the pool: if the GPU is busy, that is its limit; otherwise raise"
         " device_pool, or release batches earlier."},
    [BOUND_RANK] =
        {"rank", "bound by its slowest consumer",
         "One consumer holds batches that the others have released: feedctl clients shows who holds most."},
    [BOUND_HANDOVER] = {"handover", "bound by handing over",
                        "Both sides wait: larger batches help, a larger ring, or a larger prefetch."},
};

const char *verdict_word(enum bound bound) {
    return bounds[bound].word;
}

const char *verdict_phrase(enum bound bound) {
    return bounds[bound].phrase;
}

// ---- Shares ----------------------------------------------------------------------------------------

static double share(uint64_t ns, double of_ns) {
    double share = of_ns > 0 ? (double)ns / of_ns : 0;
    return share < 1 ? share : 1; // a long wait is counted when it ends, and may have begun earlier
}

static uint64_t grown(const uint64_t *before, const uint64_t *after, int counter) {
    return after[counter] > before[counter] ? after[counter] - before[counter] : 0;
}

static void add_gpus(const struct stats_snapshot *before, const struct stats_snapshot *now, uint64_t gpus,
                     struct verdict *verdict) {
    for (uint32_t i = 0; i < now->gpu_count; i++) {
        struct gpu_rates rates;
        if (now->gpus[i].record >= 64 || !(gpus >> now->gpus[i].record & 1))
            continue;
        rates_of_gpu(earlier_gpu(before, now, &now->gpus[i]), &now->gpus[i], before ? before->taken_ns : 0,
                     now->taken_ns, &rates);
        // That of the GPU that is busiest, and of the one that waits most: ranks wait for each other.
        verdict->copying = rates.busy > verdict->copying ? rates.busy : verdict->copying;
        verdict->release_wait =
            rates.release_wait > verdict->release_wait ? rates.release_wait : verdict->release_wait;
    }
}

static void add_shares(const struct stats_feed_snapshot *before, const struct stats_feed_snapshot *now,
                       double passed_ns, struct verdict *verdict) {
#define FEED(name)   grown(before->feed, now->feed, FEED_##name)
#define LOADER(name) grown(before->loader, now->loader, LOADER_##name)
    const double consumers_ns = (double)max_u64(now->consumers, 1) * passed_ns;
    const double loaders_ns =
        (double)(LOADER(room_wait_ns) + LOADER(io_wait_ns) + LOADER(decode_ns) + LOADER(fill_ns));
    verdict->data_wait = share(FEED(consumer_wait_ns), consumers_ns);
    verdict->wait_loaders = share(FEED(wait_loaders_ns), consumers_ns);
    verdict->wait_copy = share(FEED(wait_copy_ns), consumers_ns);
    verdict->wait_pool = share(FEED(wait_pool_ns), consumers_ns);
    verdict->wait_rank = share(FEED(wait_rank_ns), consumers_ns);
    verdict->wait_others = share(FEED(wait_others_ns), consumers_ns);
    verdict->ready = share(FEED(ready_ns), passed_ns);
    verdict->room_wait = share(LOADER(room_wait_ns), loaders_ns);
    verdict->io_wait = share(LOADER(io_wait_ns), loaders_ns);
    verdict->decode = share(LOADER(decode_ns), loaders_ns);
    verdict->fill = share(LOADER(fill_ns), loaders_ns);
    verdict->cpu = share(LOADER(cpu_ns), loaders_ns);
#undef FEED
#undef LOADER
}

// ---- The verdict -----------------------------------------------------------------------------------

static enum bound of_loaders(const struct verdict *verdict) {
    if (verdict->room_wait >= MUCH)
        return BOUND_HANDOVER;
    if (verdict->io_wait >= verdict->decode && verdict->io_wait >= verdict->fill)
        return BOUND_STORAGE;
    return verdict->decode >= verdict->fill ? BOUND_DECODING : BOUND_LOADERS;
}

static enum bound bound_of(const struct verdict *verdict) {
    const struct {
        double share;
        enum bound bound;
    } causes[] = {
        {verdict->wait_loaders, of_loaders(verdict)},
        {verdict->wait_copy, verdict->release_wait > verdict->copying ? BOUND_POOL : BOUND_BUS},
        {verdict->wait_pool, BOUND_POOL},
        {verdict->wait_rank, BOUND_RANK},
        {verdict->wait_others, BOUND_NONE},
    };
    size_t most = 0;
    if (verdict->data_wait < LITTLE)
        return verdict->room_wait >= MUCH || verdict->ready >= MUCH ? BOUND_CONSUMERS : BOUND_NONE;
    for (size_t i = 1; i < COUNT_OF(causes); i++)
        if (causes[i].share > causes[most].share)
            most = i;
    return causes[most].bound;
}

static const char *hint_of(const struct verdict *verdict) {
    const bool works = verdict->bound == BOUND_LOADERS || verdict->bound == BOUND_DECODING;
    if (works && verdict->cpu < STARVED * (verdict->decode + verdict->fill))
        return "The loaders want more processor time than they get: other programs use the cores.";
    if (verdict->bound == BOUND_NONE && verdict->data_wait >= LITTLE)
        return "The consumers that are here wait for others to attach (wait_for).";
    return bounds[verdict->bound].hint;
}

void verdict_of(const struct stats_snapshot *before, const struct stats_snapshot *now,
                const struct stats_feed_snapshot *feed, struct verdict *verdict) {
    static const struct stats_feed_snapshot nothing;
    const struct stats_feed_snapshot *earlier = earlier_feed(before, now, feed->id);
    const uint64_t since_ns = earlier ? before->taken_ns : feed->started_ns;
    const double passed_ns = now->taken_ns > since_ns ? (double)(now->taken_ns - since_ns) : 0;
    *verdict = (struct verdict){0};
    add_shares(earlier ? earlier : &nothing, feed, passed_ns, verdict);
    add_gpus(earlier ? before : NULL, now, feed->gpus, verdict);
    verdict->bound = feed->consumers ? bound_of(verdict) : BOUND_IDLE;
    verdict->hint = hint_of(verdict);
}

#include "client/ctl/report_latency.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "client/ctl/earlier.h"
#include "client/ctl/render.h"
#include "shm/stats_read.h"

#define SHARES 4u

static const double shares[SHARES] = {0.5, 0.9, 0.99, 1};
static const char *const share_keys[SHARES] = {"p50_s", "p90_s", "p99_s", "max_s"};

struct quantiles {
    uint64_t count;
    uint64_t ns[SHARES]; // so many were shorter, or, from the last bucket on, at least as long
};

static void measure(const struct latency_snapshot *before, const struct latency_snapshot *now,
                    struct quantiles *quantiles) {
    uint64_t counts[LATENCY_BUCKETS] = {0}, passed = 0;
    uint32_t share = 0;
    *quantiles = (struct quantiles){0};
    for (uint32_t i = 0; i < LATENCY_BUCKETS; i++) {
        const uint64_t earlier = before ? before->buckets[i] : 0;
        counts[i] = now->buckets[i] > earlier ? now->buckets[i] - earlier : 0;
        quantiles->count += counts[i];
    }
    for (uint32_t i = 0; i < LATENCY_BUCKETS && quantiles->count; i++) {
        passed += counts[i];
        while (share < SHARES && passed && (double)passed >= shares[share] * (double)quantiles->count)
            quantiles->ns[share++] = latency_bucket_end(i);
    }
}

// ---- Text ------------------------------------------------------------------------------------------

static const struct column columns[] = {
    {"FEED", false, 0}, {"NAME", false, 4}, {"WHAT", false, 0}, {"COUNT", true, 0}, {"P50", true, 0},
    {"P90", true, 2},   {"P99", true, 1},   {"MAX", true, 0},   {"OF", false, 3},
};

static void format_time(uint64_t ns, char text[CTL_TEXT]) {
    if (ns < 1000000)
        snprintf(text, CTL_TEXT, "%.*f us", ns < 10000 ? 1 : 0, (double)ns / 1e3);
    else if (ns < 1000000000)
        snprintf(text, CTL_TEXT, "%.*f ms", ns < 10000000 ? 1 : 0, (double)ns / 1e6);
    else
        snprintf(text, CTL_TEXT, "%.*f s", ns < 10000000000 ? 1 : 0, (double)ns / 1e9);
}

struct subject {
    const char *id, *name;
    const struct latency_text *texts;
    uint32_t kinds;
    const struct latency_snapshot *before; // NULL: since the start
    const struct latency_snapshot *now;
};

static void add(struct table *table, const struct subject *subject) {
    for (uint32_t kind = 0; kind < subject->kinds; kind++) {
        char count[CTL_TEXT], times[SHARES][CTL_TEXT];
        struct quantiles quantiles;
        measure(subject->before ? &subject->before[kind] : NULL, &subject->now[kind], &quantiles);
        if (!quantiles.count)
            continue;
        snprintf(count, sizeof count, "%" PRIu64, quantiles.count);
        for (uint32_t i = 0; i < SHARES; i++)
            format_time(quantiles.ns[i], times[i]);
        const char *texts[COUNT_OF(columns)] = {subject->id, subject->name, subject->texts[kind].name,
                                                count,       times[0],      times[1],
                                                times[2],    times[3],      subject->texts[kind].text};
        if (table_add(table, texts) < 0)
            return;
    }
}

static void add_feed(struct table *table, const struct stats_feed_snapshot *before,
                     const struct stats_feed_snapshot *feed) {
    char id[CTL_TEXT];
    snprintf(id, sizeof id, "%" PRIu64, feed->id);
    struct subject subject = {.id = id, .name = *feed->name ? feed->name : "-"};
    subject.texts = loader_latency_texts;
    subject.kinds = LOADER_LATENCIES;
    subject.before = before ? before->loader_latency : NULL;
    subject.now = feed->loader_latency;
    add(table, &subject);
    subject.texts = feed_latency_texts;
    subject.kinds = FEED_LATENCIES;
    subject.before = before ? before->feed_latency : NULL;
    subject.now = feed->feed_latency;
    add(table, &subject);
}

void report_latencies(const struct report_options *options, const struct stats_snapshot *before,
                      const struct stats_snapshot *now, FILE *out) {
    struct table table = {.columns = columns, .column_count = COUNT_OF(columns), .no_title = !options->title};
    for (uint32_t i = 0; i < now->feed_count; i++)
        if (report_wants(options, &now->feeds[i]))
            add_feed(&table, earlier_feed(before, now, now->feeds[i].id), &now->feeds[i]);
    for (uint32_t i = 0; i < now->gpu_count && !options->feed; i++) {
        const struct stats_gpu_snapshot *earlier = earlier_gpu(before, now, &now->gpus[i]);
        const struct subject subject = {.id = "-",
                                        .name = now->gpus[i].uuid,
                                        .texts = gpu_latency_texts,
                                        .kinds = GPU_LATENCIES,
                                        .before = earlier ? earlier->latency : NULL,
                                        .now = now->gpus[i].latency};
        add(&table, &subject);
    }
    table_print(&table, options->width, out);
    table_free(&table);
}

// ---- JSON ------------------------------------------------------------------------------------------

static void add_json(json_t *json, const struct latency_text *texts, uint32_t kinds,
                     const struct latency_snapshot *before, const struct latency_snapshot *now) {
    for (uint32_t kind = 0; kind < kinds; kind++) {
        struct quantiles quantiles;
        measure(before ? &before[kind] : NULL, &now[kind], &quantiles);
        json_t *one = json_pack("{s:I}", "count", (json_int_t)quantiles.count);
        for (uint32_t i = 0; i < SHARES; i++)
            json_object_set_new(one, share_keys[i], json_real((double)quantiles.ns[i] / 1e9));
        json_object_set_new(json, texts[kind].name, one);
    }
}

json_t *report_feed_latencies_json(const struct stats_feed_snapshot *before,
                                   const struct stats_feed_snapshot *now) {
    json_t *json = json_object();
    add_json(json, loader_latency_texts, LOADER_LATENCIES, before ? before->loader_latency : NULL,
             now->loader_latency);
    add_json(json, feed_latency_texts, FEED_LATENCIES, before ? before->feed_latency : NULL,
             now->feed_latency);
    return json;
}

json_t *report_gpu_latencies_json(const struct stats_gpu_snapshot *before,
                                  const struct stats_gpu_snapshot *now) {
    json_t *json = json_object();
    add_json(json, gpu_latency_texts, GPU_LATENCIES, before ? before->latency : NULL, now->latency);
    return json;
}

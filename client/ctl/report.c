#include "client/ctl/report.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "client/ctl/earlier.h"
#include "client/ctl/render.h"
#include "client/ctl/report_latency.h"
#include "client/ctl/text.h"
#include "shm/stats_read.h"

bool report_wants(const struct report_options *options, const struct stats_feed_snapshot *feed) {
    char id[CTL_TEXT];
    snprintf(id, sizeof id, "%" PRIu64, feed->id);
    return !options->feed || strcmp(options->feed, id) == 0 || strcmp(options->feed, feed->name) == 0;
}

// ---- Text ------------------------------------------------------------------------------------------

void report_daemon(const struct stats_snapshot *now, enum daemon_state state, FILE *out) {
    char heartbeat[CTL_TEXT], uptime[CTL_TEXT], used[CTL_TEXT], bound[CTL_TEXT];
    ctl_format_duration(now->taken_ns > now->heartbeat_ns ? now->taken_ns - now->heartbeat_ns : 0, heartbeat);
    ctl_format_duration(now->heartbeat_ns > now->started_ns ? now->heartbeat_ns - now->started_ns : 0,
                        uptime);
    ctl_format_bytes(now->ring_bytes, used);
    ctl_format_bytes(now->ring_memory, bound);
    switch (state) {
    case DAEMON_ALIVE:
        fprintf(out, "feedd %" PRIu64 " alive, up %s, %" PRIu64 " session%s, rings %s of %s\n", now->pid,
                uptime, now->sessions, now->sessions == 1 ? "" : "s", used, bound);
        return;
    case DAEMON_STOPPED:
        fprintf(out, "feedd %" PRIu64 " stopped cleanly, last heartbeat %s ago\n", now->pid, heartbeat);
        return;
    case DAEMON_GONE:
        fprintf(out, "feedd %" PRIu64 " is gone: killed or crashed, last heartbeat %s ago\n", now->pid,
                heartbeat);
        return;
    case DAEMON_WEDGED:
        fprintf(out, "feedd %" PRIu64 " is wedged: it exists, but its last heartbeat was %s ago\n", now->pid,
                heartbeat);
        return;
    }
}

static const struct column stats_columns[] = {
    {"FEED", true, 0},      {"NAME", false, 1},     {"DATASET", false, 9},    {"OVER", true, 6},
    {"SAMPLES/S", true, 0}, {"BATCHES/S", true, 5}, {"MB/S", true, 0},        {"RING", true, 4},
    {"LOADERS", true, 10},  {"NO ROOM", true, 3},   {"CONSUMERS", true, 11},  {"NO DATA", true, 2},
    {"ERRORS", true, 7},    {"SKIPPED", true, 8},   {"REPLACED", true, 12},   {"CACHED/S", true, 13},
    {"ENGINE/S", true, 14}, {"UNFIT/S", true, 15},  {"BOTTLENECK", false, 0},
};

static int add_feed(struct table *table, const struct stats_feed_snapshot *feed,
                    const struct feed_rates *rates, const struct verdict *verdict, bool since_start) {
    char cells[COUNT_OF(stats_columns)][2 * CTL_TEXT + STATS_NAME];
    const char *texts[COUNT_OF(stats_columns)];
    for (size_t i = 0; i < COUNT_OF(stats_columns); i++)
        texts[i] = cells[i];
    size_t at = 0;
#define CELL(...) snprintf(cells[at], sizeof cells[at], __VA_ARGS__), at++
    CELL("%" PRIu64, feed->id);
    CELL("%s", *feed->name ? feed->name : "-");
    CELL("%s", *feed->dataset ? feed->dataset : "-");
    if (since_start)
        CELL("start");
    else
        CELL("%.1f s", rates->seconds);
    ctl_format_count(rates->samples_per_s, cells[at++]);
    ctl_format_count(rates->batches_per_s, cells[at++]);
    CELL("%.*f", rates->bytes_per_s < 99.95e6 ? 1 : 0, rates->bytes_per_s / 1e6);
    CELL("%" PRIu64 "/%" PRIu64, feed->slots_ready, feed->slot_count);
    CELL("%" PRIu64, feed->loaders);
    CELL("%.0f %%", 100 * rates->room_wait);
    CELL("%" PRIu64, feed->consumers);
    CELL("%.0f %%", 100 * rates->consumer_wait);
    CELL("%" PRIu64, rates->read_errors);
    CELL("%" PRIu64, rates->skipped);
    CELL("%" PRIu64, rates->children_replaced);
    ctl_format_count(rates->cached_per_s, cells[at++]);
    ctl_format_count(rates->engine_per_s, cells[at++]);
    ctl_format_count(rates->unfit_per_s, cells[at++]);
    CELL("%s", verdict_word(verdict->bound));
#undef CELL
    return table_add(table, texts);
}

void report_feeds(const struct report_options *options, const struct stats_snapshot *before,
                  const struct stats_snapshot *now, FILE *out) {
    struct table table = {
        .columns = stats_columns, .column_count = COUNT_OF(stats_columns), .no_title = !options->title};
    for (uint32_t i = 0; i < now->feed_count; i++) {
        const struct stats_feed_snapshot *feed = &now->feeds[i];
        const struct stats_feed_snapshot *earlier = earlier_feed(before, now, feed->id);
        if (!report_wants(options, feed))
            continue;
        struct feed_rates rates;
        struct verdict verdict;
        rates_between(earlier, feed, before ? before->taken_ns : 0, now->taken_ns, &rates);
        verdict_of(before, now, feed, &verdict);
        if (add_feed(&table, feed, &rates, &verdict, !earlier) < 0)
            break;
    }
    table_print(&table, options->width, out);
    table_free(&table);
}

void report_shares(const struct verdict *verdict, char *text, size_t bytes) {
    const struct {
        const char *what;
        double share;
    } shares[] = {{"loaders", verdict->wait_loaders},
                  {"copies", verdict->wait_copy},
                  {"the pool", verdict->wait_pool},
                  {"a slower consumer", verdict->wait_rank},
                  {"others to attach", verdict->wait_others}};
    size_t used =
        (size_t)snprintf(text, bytes, "consumers wait %.0f %% of their time", 100 * verdict->data_wait);
    const char *between = " (for ";
    for (size_t i = 0; i < COUNT_OF(shares) && used < bytes; i++) {
        if (shares[i].share < 0.005)
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s %.0f %%", between, shares[i].what,
                                 100 * shares[i].share);
        between = ", ";
    }
    if (used < bytes)
        snprintf(text + used, bytes - used,
                 "%s; loaders copy %.0f %%, decode %.0f %%, wait for storage %.0f %%, for room %.0f %%",
                 *between == ',' ? ")" : "", 100 * verdict->fill, 100 * verdict->decode,
                 100 * verdict->io_wait, 100 * verdict->room_wait);
}

void report_verdicts(const struct report_options *options, const struct stats_snapshot *before,
                     const struct stats_snapshot *now, FILE *out) {
    for (uint32_t i = 0; i < now->feed_count; i++) {
        const struct stats_feed_snapshot *feed = &now->feeds[i];
        struct verdict verdict;
        char shares[512], text[1024];
        if (!report_wants(options, feed))
            continue;
        verdict_of(before, now, feed, &verdict);
        report_shares(&verdict, shares, sizeof shares);
        snprintf(text, sizeof text, "feed %" PRIu64 " is %s: %s. %s", feed->id, verdict_phrase(verdict.bound),
                 shares, verdict.hint);
        text_fold(text, 0, options->width, out);
    }
}

static const struct column gpu_columns[] = {
    {"GPU", false, 0},     {"NAME", false, 4}, {"OVER", true, 5},     {"MB/S", true, 0},
    {"COPIES/S", true, 3}, {"BUSY", true, 0},  {"WAIT", true, 0},     {"BUS", true, 1},
    {"PINNED", true, 6},   {"POOLS", true, 7}, {"REPLACED", true, 8}, {"STATE", false, 2},
};

// What a person tells GPUs apart by: the UUID up to the end of its first group, "GPU-5a3c1b2f", if no other begins so.
static int short_uuid(const struct stats_snapshot *now, const struct stats_gpu_snapshot *gpu) {
    const char *kind_end = strchr(gpu->uuid, '-');
    const char *group_end = kind_end ? strchr(kind_end + 1, '-') : NULL;
    int whole = (int)strlen(gpu->uuid), length = group_end ? (int)(group_end - gpu->uuid) : whole;
    for (uint32_t i = 0; i < now->gpu_count; i++)
        if (&now->gpus[i] != gpu && strncmp(now->gpus[i].uuid, gpu->uuid, (size_t)length) == 0)
            return whole;
    return length;
}

static int add_gpu(struct table *table, const struct stats_gpu_snapshot *gpu, int uuid_length,
                   const struct gpu_rates *rates, bool since_start) {
    char cells[COUNT_OF(gpu_columns)][CTL_TEXT + STATS_NAME];
    const char *texts[COUNT_OF(gpu_columns)];
    for (size_t i = 0; i < COUNT_OF(gpu_columns); i++)
        texts[i] = cells[i];
    size_t at = 0;
#define CELL(...) snprintf(cells[at], sizeof cells[at], __VA_ARGS__), at++
    CELL("%.*s", uuid_length, gpu->uuid);
    CELL("%s", gpu->name);
    if (since_start)
        CELL("start");
    else
        CELL("%.1f s", rates->seconds);
    CELL("%.*f", rates->bytes_per_s < 99.95e6 ? 1 : 0, rates->bytes_per_s / 1e6);
    ctl_format_count(rates->copies_per_s, cells[at++]);
    CELL("%.0f %%", 100 * rates->busy);
    CELL("%.0f %%", 100 * rates->release_wait);
    if (rates_have_bus(gpu->uuid, gpu->bus_bytes_per_s))
        CELL("%.0f %%", 100 * rates->bus);
    else
        CELL("-");
    ctl_format_bytes(gpu->pinned_bytes, cells[at++]);
    CELL("%u", gpu->pools);
    CELL("%" PRIu64, rates->processes_replaced);
    CELL("%s", stats_gpu_state_name(gpu->state));
#undef CELL
    return table_add(table, texts);
}

bool report_gpus(const struct report_options *options, const struct stats_snapshot *before,
                 const struct stats_snapshot *now, FILE *out) {
    if (options->feed || now->gpu_count == 0)
        return false;
    struct table table = {
        .columns = gpu_columns, .column_count = COUNT_OF(gpu_columns), .no_title = !options->gpu_title};
    for (uint32_t i = 0; i < now->gpu_count; i++) {
        const struct stats_gpu_snapshot *gpu = &now->gpus[i], *earlier = earlier_gpu(before, now, gpu);
        struct gpu_rates rates;
        rates_of_gpu(earlier, gpu, before ? before->taken_ns : 0, now->taken_ns, &rates);
        if (add_gpu(&table, gpu, short_uuid(now, gpu), &rates, !earlier) < 0)
            break;
    }
    if (options->gpu_title)
        fputc('\n', out);
    table_print(&table, options->width, out);
    table_free(&table);
    return true;
}

// ---- JSON ------------------------------------------------------------------------------------------

static json_t *verdict_json(const struct verdict *verdict) {
    return json_pack(
        "{s:s, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "bound",
        verdict_word(verdict->bound), "hint", verdict->hint, "data_wait", verdict->data_wait, "wait_loaders",
        verdict->wait_loaders, "wait_copy", verdict->wait_copy, "wait_pool", verdict->wait_pool, "wait_rank",
        verdict->wait_rank, "wait_others", verdict->wait_others, "ready", verdict->ready, "room_wait",
        verdict->room_wait, "io_wait", verdict->io_wait, "decode", verdict->decode, "fill", verdict->fill,
        "cpu", verdict->cpu, "copying", verdict->copying, "release_wait", verdict->release_wait);
}

static json_t *rates_json(const struct feed_rates *rates, const struct verdict *verdict) {
    json_t *json = json_pack(
        "{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:I, s:I, s:s}", "seconds",
        rates->seconds, "samples_per_s", rates->samples_per_s, "batches_per_s", rates->batches_per_s,
        "bytes_per_s", rates->bytes_per_s, "read_bytes_per_s", rates->read_bytes_per_s, "cached_per_s",
        rates->cached_per_s, "engine_per_s", rates->engine_per_s, "unfit_per_s", rates->unfit_per_s,
        "ring_full", rates->ring_full, "room_wait", rates->room_wait, "io_wait", rates->io_wait,
        "consumer_wait", rates->consumer_wait, "read_errors", (json_int_t)rates->read_errors, "skipped",
        (json_int_t)rates->skipped, "children_replaced", (json_int_t)rates->children_replaced,
        "consumers_detached", (json_int_t)rates->consumers_detached, "bottleneck",
        verdict_word(verdict->bound));
    json_object_set_new(json, "verdict", verdict_json(verdict));
    return json;
}

static json_t *counters_json(const struct counter_text *texts, const uint64_t *values, size_t count) {
    json_t *counters = json_object();
    for (size_t i = 0; i < count; i++)
        json_object_set_new(counters, texts[i].name, json_integer((json_int_t)values[i]));
    return counters;
}

static json_t *feed_json(const struct stats_snapshot *before, const struct stats_snapshot *now,
                         const struct stats_feed_snapshot *feed) {
    const struct stats_feed_snapshot *earlier = earlier_feed(before, now, feed->id);
    struct feed_rates since_start, interval;
    struct verdict always, lately;
    rates_between(NULL, feed, 0, now->taken_ns, &since_start);
    rates_between(earlier, feed, before ? before->taken_ns : 0, now->taken_ns, &interval);
    verdict_of(NULL, now, feed, &always);
    verdict_of(before, now, feed, &lately);
    json_t *json = json_pack(
        "{s:I, s:o, s:o, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "id", (json_int_t)feed->id, "name",
        ctl_json_text(feed->name), "dataset", ctl_json_text(feed->dataset), "age_s", since_start.seconds,
        "batch_size", (json_int_t)feed->batch_size, "world_size", (json_int_t)feed->world_size, "ring_bytes",
        (json_int_t)feed->ring_bytes, "slots", (json_int_t)feed->slot_count, "slots_ready",
        (json_int_t)feed->slots_ready, "slots_filling", (json_int_t)feed->slots_filling, "consumers",
        (json_int_t)feed->consumers, "loaders", (json_int_t)feed->loaders);
    json_object_set_new(json, "interval", rates_json(&interval, &lately));
    json_object_set_new(json, "since_start", rates_json(&since_start, &always));
    json_object_set_new(json, "feed_counters", counters_json(feed_counter_texts, feed->feed, FEED_COUNTERS));
    json_object_set_new(json, "loader_counters",
                        counters_json(loader_counter_texts, feed->loader, LOADER_COUNTERS));
    json_object_set_new(json, "latency", report_feed_latencies_json(earlier, feed));
    return json;
}

static double age_s(uint64_t then_ns, uint64_t now_ns) {
    return now_ns > then_ns ? (double)(now_ns - then_ns) / 1e9 : 0;
}

static json_t *gpu_rates_json(const struct gpu_rates *rates) {
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:I}", "seconds", rates->seconds, "copies_per_s",
                     rates->copies_per_s, "bytes_per_s", rates->bytes_per_s, "busy", rates->busy,
                     "release_wait", rates->release_wait, "bus", rates->bus, "processes_replaced",
                     (json_int_t)rates->processes_replaced);
}

static json_t *gpu_json(const struct stats_gpu_snapshot *earlier, const struct stats_gpu_snapshot *gpu,
                        uint64_t before_ns, uint64_t now_ns) {
    struct gpu_rates since_start, interval;
    rates_of_gpu(NULL, gpu, 0, now_ns, &since_start);
    rates_of_gpu(earlier, gpu, before_ns, now_ns, &interval);
    json_t *json = json_pack(
        "{s:o, s:o, s:f, s:s, s:I, s:f, s:I, s:I, s:I, s:I}", "uuid", ctl_json_text(gpu->uuid), "name",
        ctl_json_text(gpu->name), "age_s", since_start.seconds, "state", stats_gpu_state_name(gpu->state),
        "pid", (json_int_t)gpu->pid, "heartbeat_age_s", age_s(gpu->heartbeat_ns, now_ns), "pools",
        (json_int_t)gpu->pools, "pool_bytes", (json_int_t)gpu->pool_bytes, "pinned_bytes",
        (json_int_t)gpu->pinned_bytes, "bus_bytes_per_s", (json_int_t)gpu->bus_bytes_per_s);
    json_object_set_new(json, "interval", gpu_rates_json(&interval));
    json_object_set_new(json, "since_start", gpu_rates_json(&since_start));
    json_object_set_new(json, "gpu_counters", counters_json(gpu_counter_texts, gpu->counters, GPU_COUNTERS));
    json_object_set_new(json, "latency", report_gpu_latencies_json(earlier, gpu));
    return json;
}

json_t *report_json(const struct report_options *options, const struct stats_snapshot *before,
                    const struct stats_snapshot *now, enum daemon_state state) {
    json_t *feeds = json_array(), *gpus = json_array();
    for (uint32_t i = 0; i < now->gpu_count; i++)
        json_array_append_new(gpus, gpu_json(earlier_gpu(before, now, &now->gpus[i]), &now->gpus[i],
                                             before ? before->taken_ns : 0, now->taken_ns));
    for (uint32_t i = 0; i < now->feed_count; i++) {
        const struct stats_feed_snapshot *feed = &now->feeds[i];
        if (report_wants(options, feed))
            json_array_append_new(feeds, feed_json(before, now, feed));
    }
    return json_pack("{s:s, s:f, s:I, s:f, s:I, s:I, s:I, s:o, s:o}", "state", daemon_state_name(state),
                     "heartbeat_age_s", age_s(now->heartbeat_ns, now->taken_ns), "pid", (json_int_t)now->pid,
                     "uptime_s", (double)(now->taken_ns - now->started_ns) / 1e9, "sessions",
                     (json_int_t)now->sessions, "ring_bytes", (json_int_t)now->ring_bytes, "ring_memory",
                     (json_int_t)now->ring_memory, "feeds", feeds, "gpus", gpus);
}

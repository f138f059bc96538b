#include "client/ctl/metrics.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "shm/stats_read.h"

const char *metrics_content_type(enum metrics_format format) {
    return format == METRICS_OPEN ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                  : "text/plain; version=0.0.4; charset=utf-8";
}

struct writer {
    enum metrics_format format;
    FILE *out;
};

// ---- Families ----------------------------------------------------------------------------------------------

#define NAME_BYTES 96

// A family: its name, without what a sample adds, and the factor of its unit.
struct family {
    char name[NAME_BYTES];
    const char *unit; // base unit, with which the name ends; or ""
    double factor;
    bool counter;
};

static void write_help(const char *text, FILE *out) {
    for (; *text; text++)
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '\\' || *text == '"')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
}

static void write_family(const struct writer *writer, const struct family *family, const char *type,
                         const char *help) {
    // The older format knows no families: what it describes has the name of the samples.
    bool open = writer->format == METRICS_OPEN;
    const char *end = family->counter && !open ? "_total" : "";
    fprintf(writer->out, "# HELP %s%s ", family->name, end);
    write_help(help, writer->out);
    fprintf(writer->out, "\n# TYPE %s%s %s\n", family->name, end, type);
    if (open && *family->unit)
        fprintf(writer->out, "# UNIT %s %s\n", family->name, family->unit);
}

// "room_wait_ns" in ns becomes "..._room_wait_seconds", in thousand millionths.
static struct family counter_family(const char *prefix, const struct counter_text *text) {
    struct family family = {.unit = "", .factor = 1, .counter = true};
    size_t length = strlen(text->name);
    if (strcmp(text->unit, "ns") == 0) {
        snprintf(family.name, sizeof family.name, "%s_%.*s_seconds", prefix, (int)(length - strlen("_ns")),
                 text->name);
        family.unit = "seconds";
        family.factor = 1e-9;
        return family;
    }
    snprintf(family.name, sizeof family.name, "%s_%s", prefix, text->name);
    family.unit = strcmp(text->unit, "bytes") == 0 ? "bytes" : "";
    return family;
}

static struct family gauge_family(const char *name, const char *unit) {
    struct family family = {.unit = unit, .factor = 1};
    snprintf(family.name, sizeof family.name, "%s", name);
    return family;
}

// ---- Samples -----------------------------------------------------------------------------------------------

struct label {
    const char *name, *value;
};

// Names are printable ASCII; in a file that something else has written, anything else becomes '?'.
static void write_value(const char *text, FILE *out) {
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            fprintf(out, "\\%c", *text);
        else
            fputc(*text >= 0x20 && *text < 0x7f ? *text : '?', out);
}

static void write_labels(const struct label *labels, size_t count, FILE *out) {
    const char *before = "{";
    for (size_t i = 0; i < count; i++) {
        if (!*labels[i].value)
            continue;
        fprintf(out, "%s%s=\"", before, labels[i].name);
        write_value(labels[i].value, out);
        fputc('"', out);
        before = ",";
    }
    if (*before == ',')
        fputc('}', out);
}

static void write_part(const struct writer *writer, const struct family *family, const char *part,
                       const struct label *labels, size_t count, uint64_t value) {
    fprintf(writer->out, "%s%s", family->name, part);
    write_labels(labels, count, writer->out);
    if (family->factor == 1)
        fprintf(writer->out, " %" PRIu64 "\n", value);
    else
        fprintf(writer->out, " %.9f\n", (double)value * family->factor);
}

static void write_sample(const struct writer *writer, const struct family *family, const struct label *labels,
                         size_t count, uint64_t value) {
    write_part(writer, family, family->counter ? "_total" : "", labels, count, value);
}

static void write_gauge(const struct writer *writer, const char *name, const char *unit, const char *help,
                        uint64_t value) {
    struct family family = gauge_family(name, unit);
    write_family(writer, &family, "gauge", help);
    write_sample(writer, &family, NULL, 0, value);
}

static void write_seconds(const struct writer *writer, const char *name, const char *help, double seconds) {
    struct family family = gauge_family(name, "seconds");
    write_family(writer, &family, "gauge", help);
    fprintf(writer->out, "%s %.3f\n", family.name, seconds);
}

// ---- Histograms --------------------------------------------------------------------------------------------

// The bounds of their buckets: a fixed number, whatever happens. Each is twice the one before and the end of a bucket
// of the statistics, so that counts are exact, except that what takes as long as a bound to the nanosecond counts as
// longer.
#define FIRST_BOUND_NS (UINT64_C(1) << 14) // 16 us
#define LAST_BOUND_NS  (UINT64_C(1) << 33) // 8.6 s

#define MAX_LABELS 4

static struct family latency_family(const char *prefix, const struct latency_text *text) {
    struct family family = {.unit = "seconds", .factor = 1};
    snprintf(family.name, sizeof family.name, "%s_%s_latency_seconds", prefix, text->name);
    return family;
}

static void write_histogram(const struct writer *writer, const struct family *family,
                            const struct label *subject, size_t count,
                            const struct latency_snapshot *latency) {
    struct label labels[MAX_LABELS];
    char end[24];
    uint64_t passed = 0;
    memcpy(labels, subject, count * sizeof *labels);
    labels[count] = (struct label){"le", end};
    for (uint32_t i = 0; i < LATENCY_BUCKETS; i++) {
        const uint64_t end_ns = latency_bucket_end(i);
        passed += latency->buckets[i];
        if (end_ns < FIRST_BOUND_NS || end_ns > LAST_BOUND_NS || (end_ns & (end_ns - 1)))
            continue;
        snprintf(end, sizeof end, "%.9f", (double)end_ns * 1e-9);
        write_part(writer, family, "_bucket", labels, count + 1, passed);
    }
    snprintf(end, sizeof end, "+Inf");
    write_part(writer, family, "_bucket", labels, count + 1, passed);
    write_part(writer, family, "_count", labels, count, passed);
    fprintf(writer->out, "%s_sum", family->name);
    write_labels(labels, count, writer->out);
    fprintf(writer->out, " %.9f\n", (double)latency->sum_ns * 1e-9);
}

// ---- Feeds -------------------------------------------------------------------------------------------------

#define FEED_LABELS 3

static void label_feed(const struct stats_feed_snapshot *feed, char id[24],
                       struct label labels[FEED_LABELS]) {
    snprintf(id, 24, "%" PRIu64, feed->id);
    labels[0] = (struct label){"feed", id};
    labels[1] = (struct label){"name", feed->name};
    labels[2] = (struct label){"dataset", feed->dataset};
}

// A value of each feed, `offset` bytes into its snapshot.
static void write_of_feeds(const struct writer *writer, const struct stats_snapshot *now,
                           const struct family *family, const char *help, size_t offset) {
    write_family(writer, family, family->counter ? "counter" : "gauge", help);
    for (uint32_t i = 0; i < now->feed_count; i++) {
        struct label labels[FEED_LABELS];
        char id[24];
        uint64_t value;
        memcpy(&value, (const uint8_t *)&now->feeds[i] + offset, sizeof value);
        label_feed(&now->feeds[i], id, labels);
        write_sample(writer, family, labels, FEED_LABELS, value);
    }
}

// Latencies of each feed, which begin `offset` bytes into its snapshot.
static void write_latencies_of_feeds(const struct writer *writer, const struct stats_snapshot *now,
                                     const char *prefix, const struct latency_text *texts, size_t kinds,
                                     size_t offset) {
    for (size_t kind = 0; kind < kinds; kind++) {
        const struct family family = latency_family(prefix, &texts[kind]);
        write_family(writer, &family, "histogram", texts[kind].text);
        for (uint32_t i = 0; i < now->feed_count; i++) {
            const uint8_t *feed = (const uint8_t *)&now->feeds[i];
            struct label labels[FEED_LABELS];
            char id[24];
            label_feed(&now->feeds[i], id, labels);
            write_histogram(writer, &family, labels, FEED_LABELS,
                            (const struct latency_snapshot *)(feed + offset) + kind);
        }
    }
}

static void write_feeds(const struct writer *writer, const struct stats_snapshot *now) {
    static const struct {
        const char *name, *unit, *help;
        size_t offset;
    } gauges[] = {
#define GAUGE(member) offsetof(struct stats_feed_snapshot, member)
        {"feedd_feed_consumers", "", "consumers attached", GAUGE(consumers)},
        {"feedd_feed_loaders", "", "loader processes", GAUGE(loaders)},
        {"feedd_feed_slots", "", "places for batches in the ring", GAUGE(slot_count)},
        {"feedd_feed_slots_ready", "", "batches that are ready, not yet released by all", GAUGE(slots_ready)},
        {"feedd_feed_slots_filling", "", "batches that are being read", GAUGE(slots_filling)},
        {"feedd_feed_ring_bytes", "bytes", "size of the ring", GAUGE(ring_bytes)},
        {"feedd_feed_batch_size", "", "samples in a batch of a rank", GAUGE(batch_size)},
        {"feedd_feed_world_size", "", "ranks", GAUGE(world_size)},
#undef GAUGE
    };
    for (size_t i = 0; i < COUNT_OF(gauges); i++) {
        struct family family = gauge_family(gauges[i].name, gauges[i].unit);
        write_of_feeds(writer, now, &family, gauges[i].help, gauges[i].offset);
    }
    for (size_t i = 0; i < FEED_COUNTERS; i++) {
        struct family family = counter_family("feedd_feed", &feed_counter_texts[i]);
        write_of_feeds(writer, now, &family, feed_counter_texts[i].text,
                       offsetof(struct stats_feed_snapshot, feed) + i * sizeof(uint64_t));
    }
    for (size_t i = 0; i < LOADER_COUNTERS; i++) {
        struct family family = counter_family("feedd_loader", &loader_counter_texts[i]);
        write_of_feeds(writer, now, &family, loader_counter_texts[i].text,
                       offsetof(struct stats_feed_snapshot, loader) + i * sizeof(uint64_t));
    }
    write_latencies_of_feeds(writer, now, "feedd_feed", feed_latency_texts, FEED_LATENCIES,
                             offsetof(struct stats_feed_snapshot, feed_latency));
    write_latencies_of_feeds(writer, now, "feedd_loader", loader_latency_texts, LOADER_LATENCIES,
                             offsetof(struct stats_feed_snapshot, loader_latency));
}

// ---- GPUs --------------------------------------------------------------------------------------------------

#define GPU_LABELS 2

static void label_gpu(const struct stats_gpu_snapshot *gpu, struct label labels[GPU_LABELS]) {
    labels[0] = (struct label){"gpu", gpu->uuid};
    labels[1] = (struct label){"name", gpu->name};
}

static void write_of_gpus(const struct writer *writer, const struct stats_snapshot *now,
                          const struct family *family, const char *help,
                          uint64_t (*value)(const struct stats_gpu_snapshot *gpu, size_t which),
                          size_t which) {
    write_family(writer, family, family->counter ? "counter" : "gauge", help);
    for (uint32_t i = 0; i < now->gpu_count; i++) {
        struct label labels[GPU_LABELS];
        label_gpu(&now->gpus[i], labels);
        write_sample(writer, family, labels, GPU_LABELS, value(&now->gpus[i], which));
    }
}

static uint64_t gpu_counter(const struct stats_gpu_snapshot *gpu, size_t which) {
    return gpu->counters[which];
}

static uint64_t gpu_gauge(const struct stats_gpu_snapshot *gpu, size_t which) {
    const uint64_t gauges[] = {gpu->pools, gpu->pool_bytes, gpu->pinned_bytes, gpu->bus_bytes_per_s,
                               gpu->state == GPU_RUNNING};
    return gauges[which];
}

static void write_gpus(const struct writer *writer, const struct stats_snapshot *now) {
    static const struct {
        const char *name, *unit, *help;
    } gauges[] = {
        // as in gpu_gauge
        {"feedd_gpu_pools", "", "feeds that are delivered to the GPU"},
        {"feedd_gpu_pool_bytes", "bytes", "GPU memory of all pools"},
        {"feedd_gpu_pinned_bytes", "bytes", "host memory that is registered with the GPU"},
        {"feedd_gpu_bus_bytes_per_second", "", "measured bandwidth of the bus; 0: not measured"},
        {"feedd_gpu_running", "", "1: its transfer process runs; 0: it starts, stops or backs off"},
    };
    for (size_t i = 0; i < COUNT_OF(gauges); i++) {
        struct family family = gauge_family(gauges[i].name, gauges[i].unit);
        write_of_gpus(writer, now, &family, gauges[i].help, gpu_gauge, i);
    }
    for (size_t i = 0; i < GPU_COUNTERS; i++) {
        struct family family = counter_family("feedd_gpu", &gpu_counter_texts[i]);
        write_of_gpus(writer, now, &family, gpu_counter_texts[i].text, gpu_counter, i);
    }
    for (size_t kind = 0; kind < GPU_LATENCIES; kind++) {
        struct family family = latency_family("feedd_gpu", &gpu_latency_texts[kind]);
        write_family(writer, &family, "histogram", gpu_latency_texts[kind].text);
        for (uint32_t i = 0; i < now->gpu_count; i++) {
            const struct stats_gpu_snapshot *gpu = &now->gpus[i];
            struct label labels[GPU_LABELS];
            label_gpu(gpu, labels);
            write_histogram(writer, &family, labels, GPU_LABELS, &gpu->latency[kind]);
        }
    }
}

// ---- All ---------------------------------------------------------------------------------------------------

static double seconds_between(uint64_t then_ns, uint64_t now_ns) {
    return now_ns > then_ns ? (double)(now_ns - then_ns) / 1e9 : 0;
}

// Of the states, one is 1. The older format has no type for that.
static void write_state(const struct writer *writer, enum daemon_state state) {
    struct family family = gauge_family("feedd_state", "");
    write_family(writer, &family, writer->format == METRICS_OPEN ? "stateset" : "gauge",
                 "what the daemon's statistics say of it");
    for (enum daemon_state other = DAEMON_ALIVE; other <= DAEMON_WEDGED; other++) {
        const struct label label = {"feedd_state", daemon_state_name(other)};
        write_sample(writer, &family, &label, 1, state == other);
    }
}

static void write_daemon(const struct writer *writer, const struct stats_snapshot *now,
                         enum daemon_state state) {
    write_state(writer, state);
    write_seconds(writer, "feedd_heartbeat_age_seconds", "time since the daemon's last heartbeat",
                  seconds_between(now->heartbeat_ns, now->taken_ns));
    write_seconds(writer, "feedd_uptime_seconds", "time from the daemon's start to its last heartbeat",
                  seconds_between(now->started_ns, now->heartbeat_ns));
    write_gauge(writer, "feedd_sessions", "", "clients connected", now->sessions);
    write_gauge(writer, "feedd_ring_bytes", "bytes", "memory of all rings", now->ring_bytes);
    write_gauge(writer, "feedd_ring_limit_bytes", "bytes", "ring_memory in feedd.conf", now->ring_memory);
    write_feeds(writer, now);
    write_gpus(writer, now);
}

void metrics_write(enum metrics_format format, const struct stats_snapshot *snapshot, enum daemon_state state,
                   FILE *out) {
    struct writer writer = {format, out};
    write_gauge(&writer, "feedd_up", "", "1: the daemon is alive", snapshot != NULL && state == DAEMON_ALIVE);
    if (snapshot)
        write_daemon(&writer, snapshot, state);
    if (format == METRICS_OPEN)
        fputs("# EOF\n", out);
}

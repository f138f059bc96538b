#include "client/ctl/cmd_status.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "client/ctl/arguments.h"
#include "client/ctl/feed_images.h"
#include "client/ctl/others.h"
#include "client/ctl/query.h"
#include "client/ctl/rates.h"
#include "client/ctl/render.h"
#include "client/ctl/text.h"
#include "shm/stats.h"

#define TITLE_COLUMNS 15   // of the names of lines
#define LINE_BYTES    4608 // a path, and some words

static const struct column process_columns[] = {
    {"ROLE", false, 0}, {"PID", true, 0},     {"STATE", false, 0}, {"FEED", true, 0},
    {"NO", true, 3},    {"READER", false, 0}, {"WHY", false, 1},   {"HEARTBEAT", true, 2},
};

static const struct column gpu_columns[] = {
    {"UUID", false, 0},    {"NAME", false, 3},    {"STATE", false, 0},
    {"PID", true, 1},      {"BUS GB/S", true, 4}, {"POOLS", true, 0},
    {"IN POOLS", true, 2}, {"PINNED", true, 5},   {"HEARTBEAT", true, 6},
};

static const struct column wait_columns[] = {{"", false, 0}, {"", false, 0}};

struct report {
    json_t *json; // NULL: text
    struct table processes, waits, gpus;
};

// ---- Text ------------------------------------------------------------------------------------------

// A line below the first one, folded to the terminal.
static void say(const char *title, const char *format, ...) PRINTF_LIKE(2, 3);
static void say(const char *title, const char *format, ...) {
    char text[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    text_clean(text);
    printf("  %-*s", TITLE_COLUMNS, title);
    text_fold(text, TITLE_COLUMNS + 2, ctl_terminal_width(), stdout);
}

static void print_decoder(const Feedd__Gpu *gpu) {
    char text[512];
    if (!*gpu->images)
        return; // a daemon that does not say
    text_clean(gpu->images);
    if (strcmp(gpu->images, "engine") == 0)
        snprintf(text, sizeof text, "decoded by the engine of %s, where datasets ask for it", gpu->uuid);
    else if (strcmp(gpu->images, "loaders") == 0)
        snprintf(text, sizeof text, "for %s, decoded by loaders", gpu->uuid);
    else
        snprintf(text, sizeof text, "for %s, decoded by loaders: %s", gpu->uuid, gpu->images);
    say("images", "%s", text);
}

static void print_feed_images(const Feedd__Feed *feed) {
    char text[FEED_IMAGES_TEXT];
    if (!feed_images_by_loaders(feed) || !*feed_images_text(feed, text))
        return;
    say("images", "%s", text);
}

static void print_turns(const Feedd__Status *status) {
    char age[CTL_TEXT];
    if (!status->longest_turn_ns)
        return; // a daemon that does not measure them
    ctl_format_duration(status->longest_turn_age_ns, age);
    say("event loop", "longest turn %.1f ms, %s ago (%s); %" PRIu64 " of more than 20 ms",
        (double)status->longest_turn_ns / 1e6, age, status->longest_turn_work, status->long_turns);
}

static size_t append_list(char *text, size_t bytes, size_t used, const char *head, char *const *names,
                          size_t count) {
    for (size_t i = 0; i < count && used < bytes; i++) {
        text_clean(names[i]);
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i ? ", " : head, names[i]);
    }
    return used;
}

static void print_confinement(const Feedd__Status *status) {
    for (size_t i = 0; i < status->n_confinement; i++) {
        const Feedd__Confinement *row = status->confinement[i];
        char text[512];
        text_clean(row->role);
        size_t used = (size_t)snprintf(text, sizeof text, "%s: ", row->role);
        used = append_list(text, sizeof text, used, "", row->active, row->n_active);
        append_list(text, sizeof text, used,
                    row->n_active ? "; refused by the kernel: " : "refused by the kernel: ", row->missing,
                    row->n_missing);
        say(i ? "" : "confinement", "%s", text);
    }
    if (*status->confinement_note)
        say("confinement", "%s", status->confinement_note);
}

static void print_others(const struct others *others) {
    char text[OTHERS_TEXT];
    if (*others_sessions(others, text))
        say("not shown", "%s (show_others)", text);
    if (*others_feeds(others, text))
        say("not shown", "%s", text);
}

// An older daemon says nothing of them.
static void print_caches(const Feedd__Status *status) {
    char taken[CTL_TEXT], counted[CTL_TEXT], bound[CTL_TEXT];
    ctl_format_bytes(status->cache_taken, taken);
    ctl_format_bytes(status->cache_bytes, counted);
    ctl_format_bytes(status->cache_memory, bound);
    if (status->cache_memory)
        say("caches", "%s, at most %s of %s", taken, counted, bound);
}

static void print_status(const Feedd__Status *status, const struct others *others) {
    char uptime[CTL_TEXT], used[CTL_TEXT], bound[CTL_TEXT];
    ctl_format_duration(status->uptime_ns, uptime);
    ctl_format_bytes(status->ring_bytes, used);
    ctl_format_bytes(status->ring_memory, bound);
    printf("feedd %s, pid %" PRIu64 ", up %s%s\n", status->version, status->pid, uptime,
           status->draining ? ", draining" : "");
    say("configuration", "%s", *status->config_path ? status->config_path : "none");
    say("socket", "%s", status->socket_path);
    say("statistics", "%s", status->stats_path);
    say("rings", "%s of %s", used, bound);
    print_caches(status);
    char loaders[CTL_TEXT] = "auto";
    if (status->loaders)
        snprintf(loaders, sizeof loaders, "%u", status->loaders);
    say("settings", "io = %s, loaders = %s", status->io, loaders);
    ctl_format_bytes(status->prepared_ring_bytes, used);
    say("prepared", "%u loader%s and %s of a ring for the next feed", status->prepared_loaders,
        status->prepared_loaders == 1 ? "" : "s", used);
    if (*status->gpu_support)
        say("GPU support", "%s", status->gpu_support);
    print_turns(status);
    print_confinement(status);
    say("serving", "%u dataset%s, %u feed%s, %u session%s", status->datasets,
        status->datasets == 1 ? "" : "s", status->feeds, status->feeds == 1 ? "" : "s", status->sessions,
        status->sessions == 1 ? "" : "s");
    for (size_t i = 0; i < status->n_indexing; i++)
        say(i ? "" : "indexing", "%s", status->indexing[i]);
    print_others(others);
    if (status->n_last_errors == 0) {
        say("last errors", "none");
        return;
    }
    printf("  last errors\n");
    for (size_t i = 0; i < status->n_last_errors; i++) {
        text_clean(status->last_errors[i]);
        printf("    ");
        text_fold(status->last_errors[i], 4, ctl_terminal_width(), stdout);
    }
}

static int add_process(struct table *table, const Feedd__Process *process) {
    char pid[CTL_TEXT], feed[CTL_TEXT] = "-", serial[CTL_TEXT], age[CTL_TEXT];
    snprintf(pid, sizeof pid, "%" PRIu64, process->pid);
    if (process->feed)
        snprintf(feed, sizeof feed, "%" PRIu64, process->feed);
    snprintf(serial, sizeof serial, "%u", process->serial);
    ctl_format_duration(process->heartbeat_age_ns, age);
    const char *cells[] = {process->role,   pid, process->state, feed, serial, process->reader,
                           process->reason, age};
    return table_add(table, cells);
}

// Below the table, in which a path would leave no room for anything else.
static int add_wait(struct table *table, const Feedd__Process *process) {
    char text[128], age[CTL_TEXT];
    text_clean(process->waits_for);
    ctl_format_duration(process->waited_ns, age);
    snprintf(text, sizeof text, "loader %u of feed %" PRIu64 " has waited %s for", process->serial,
             process->feed, age);
    const char *cells[] = {text, process->waits_for};
    return table_add(table, cells);
}

static int add_gpu(struct table *table, const Feedd__Gpu *gpu) {
    char pid[CTL_TEXT] = "-", age[CTL_TEXT] = "-", bus[CTL_TEXT] = "-";
    char pools[CTL_TEXT], in_pools[CTL_TEXT], pinned[CTL_TEXT];
    if (gpu->pid) {
        snprintf(pid, sizeof pid, "%" PRIu64, gpu->pid);
        ctl_format_duration(gpu->heartbeat_age_ns, age);
    }
    if (rates_have_bus(gpu->uuid, gpu->bus_bytes_per_s))
        snprintf(bus, sizeof bus, "%.1f", (double)gpu->bus_bytes_per_s / 1e9);
    snprintf(pools, sizeof pools, "%u", gpu->pools);
    ctl_format_bytes(gpu->pool_bytes, in_pools);
    ctl_format_bytes(gpu->pinned_bytes, pinned);
    const char *cells[] = {gpu->uuid, gpu->name, gpu->state, pid, bus, pools, in_pools, pinned, age};
    return table_add(table, cells);
}

// ---- JSON ------------------------------------------------------------------------------------------

static json_t *names_json(char *const *names, size_t count) {
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, ctl_json_text(names[i]));
    return array;
}

static json_t *confinement_json(const Feedd__Status *status) {
    json_t *array = json_array();
    for (size_t i = 0; i < status->n_confinement; i++) {
        const Feedd__Confinement *row = status->confinement[i];
        json_array_append_new(array,
                              json_pack("{s:o, s:i, s:o, s:o}", "role", ctl_json_text(row->role), "processes",
                                        (int)row->processes, "active", names_json(row->active, row->n_active),
                                        "missing", names_json(row->missing, row->n_missing)));
    }
    return array;
}

static void put_status(json_t *json, const Feedd__Status *status, const struct others *others) {
    json_t *errors = json_array();
    for (size_t i = 0; i < status->n_last_errors; i++)
        json_array_append_new(errors, ctl_json_text(status->last_errors[i]));
    json_object_set_new(json, "version", ctl_json_text(status->version));
    json_object_set_new(json, "pid", json_integer((json_int_t)status->pid));
    json_object_set_new(json, "uptime_s", json_real((double)status->uptime_ns / 1e9));
    json_object_set_new(json, "draining", json_boolean(status->draining));
    json_object_set_new(json, "config_path", ctl_json_text(status->config_path));
    json_object_set_new(json, "socket_path", ctl_json_text(status->socket_path));
    json_object_set_new(json, "stats_path", ctl_json_text(status->stats_path));
    json_object_set_new(json, "ring_bytes", json_integer((json_int_t)status->ring_bytes));
    json_object_set_new(json, "ring_memory", json_integer((json_int_t)status->ring_memory));
    json_object_set_new(json, "cache_taken", json_integer((json_int_t)status->cache_taken));
    json_object_set_new(json, "cache_bytes", json_integer((json_int_t)status->cache_bytes));
    json_object_set_new(json, "cache_memory", json_integer((json_int_t)status->cache_memory));
    json_object_set_new(json, "io", ctl_json_text(status->io));
    json_object_set_new(json, "loaders", json_integer(status->loaders));
    json_object_set_new(json, "prepared_loaders", json_integer(status->prepared_loaders));
    json_object_set_new(json, "prepared_ring_bytes", json_integer((json_int_t)status->prepared_ring_bytes));
    json_object_set_new(json, "datasets", json_integer(status->datasets));
    json_object_set_new(json, "feeds", json_integer(status->feeds));
    json_object_set_new(json, "sessions", json_integer(status->sessions));
    json_object_set_new(json, "others", others_json(others));
    json_object_set_new(json, "last_errors", errors);
    json_object_set_new(json, "gpu_support", ctl_json_text(status->gpu_support));
    json_object_set_new(json, "longest_turn_ms", json_real((double)status->longest_turn_ns / 1e6));
    json_object_set_new(json, "longest_turn_age_s", json_real((double)status->longest_turn_age_ns / 1e9));
    json_object_set_new(json, "longest_turn_work", ctl_json_text(status->longest_turn_work));
    json_object_set_new(json, "long_turns", json_integer((json_int_t)status->long_turns));
    json_object_set_new(json, "confinement", confinement_json(status));
    json_object_set_new(json, "confinement_note", ctl_json_text(status->confinement_note));
    json_object_set_new(json, "indexing", names_json(status->indexing, status->n_indexing));
    json_object_set_new(json, "gpus", json_array());
    json_object_set_new(json, "feed_images", json_array());
    json_object_set_new(json, "processes", json_array());
}

static int put_gpu(json_t *json, const Feedd__Gpu *gpu) {
    json_t *object = json_pack(
        "{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:o}", "uuid", ctl_json_text(gpu->uuid), "name",
        ctl_json_text(gpu->name), "state", ctl_json_text(gpu->state), "pid", (json_int_t)gpu->pid, "pools",
        (json_int_t)gpu->pools, "pool_bytes", (json_int_t)gpu->pool_bytes, "pinned_bytes",
        (json_int_t)gpu->pinned_bytes, "bus_bytes_per_s", (json_int_t)gpu->bus_bytes_per_s, "copied_bytes",
        (json_int_t)gpu->copied_bytes, "heartbeat_age_s", (double)gpu->heartbeat_age_ns / 1e9, "images",
        ctl_json_text(gpu->images));
    return json_array_append_new(json_object_get(json, "gpus"), object);
}

static int put_feed_images(json_t *json, const Feedd__Feed *feed) {
    if (!*feed->images)
        return 0;
    json_t *object = json_pack("{s:I, s:o, s:o}", "feed", (json_int_t)feed->id, "dataset",
                               ctl_json_text(feed->dataset), "images", feed_images_json(feed));
    return json_array_append_new(json_object_get(json, "feed_images"), object);
}

static int put_process(json_t *json, const Feedd__Process *process) {
    json_t *object = json_pack(
        "{s:o, s:I, s:o, s:I, s:I, s:o, s:o, s:f, s:o, s:f}", "role", ctl_json_text(process->role), "pid",
        (json_int_t)process->pid, "state", ctl_json_text(process->state), "feed", (json_int_t)process->feed,
        "serial", (json_int_t)process->serial, "reader", ctl_json_text(process->reader), "reason",
        ctl_json_text(process->reason), "heartbeat_age_s", (double)process->heartbeat_age_ns / 1e9,
        "waits_for", ctl_json_text(process->waits_for), "waited_s", (double)process->waited_ns / 1e9);
    return json_array_append_new(json_object_get(json, "processes"), object);
}

// ---- Command ---------------------------------------------------------------------------------------

static int take_status(const Feedd__Answer *page, void *context, struct error *error) {
    struct report *report = context;
    const Feedd__Status *status = page->status;
    struct others others = {0};
    if (!status)
        return error_set(error, -EPROTO, "feedd sent no status");
    others_take(page, &others);
    if (report->json)
        put_status(report->json, status, &others);
    else
        print_status(status, &others);
    for (size_t i = 0; i < status->n_gpus; i++) {
        Feedd__Gpu *gpu = status->gpus[i];
        if (!report->json)
            print_decoder(gpu);
        if ((report->json ? put_gpu(report->json, gpu) : add_gpu(&report->gpus, gpu)) < 0)
            return error_set(error, -ENOMEM, "out of memory");
    }
    return 0;
}

static int take_feeds(const Feedd__Answer *page, void *context, struct error *error) {
    struct report *report = context;
    for (size_t i = 0; i < page->n_feeds; i++) {
        if (!report->json)
            print_feed_images(page->feeds[i]);
        else if (put_feed_images(report->json, page->feeds[i]) < 0)
            return error_set(error, -ENOMEM, "out of memory");
    }
    return 0;
}

static int take_processes(const Feedd__Answer *page, void *context, struct error *error) {
    struct report *report = context;
    for (size_t i = 0; i < page->n_processes; i++) {
        const Feedd__Process *process = page->processes[i];
        int err =
            report->json ? put_process(report->json, process) : add_process(&report->processes, process);
        if (err == 0 && !report->json && *process->waits_for)
            err = add_wait(&report->waits, process);
        if (err < 0)
            return error_set(error, -ENOMEM, "out of memory");
    }
    return 0;
}

static int make_report(const struct ctl *ctl, struct report *report, struct error *error) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    int err = query_open(&connection, ctl, error);
    if (err == 0)
        err = query_ask(&connection, FEEDD__QUERY__KIND__STATUS, NULL, take_status, report, error);
    if (err == 0)
        err = query_ask(&connection, FEEDD__QUERY__KIND__FEEDS, NULL, take_feeds, report, error);
    if (err == 0)
        err = query_ask(&connection, FEEDD__QUERY__KIND__PROCESSES, NULL, take_processes, report, error);
    return err;
}

int cmd_status(const struct ctl *ctl, int count, char **arguments) {
    bool json =
        ctl_parse_json("The daemon, its processes, the GPUs in use and its last errors.", count, arguments);
    struct report report = {
        .json = json ? json_object() : NULL,
        .processes = {.columns = process_columns, .column_count = COUNT_OF(process_columns)},
        .waits = {.columns = wait_columns, .column_count = COUNT_OF(wait_columns), .no_title = true},
        .gpus = {.columns = gpu_columns, .column_count = COUNT_OF(gpu_columns)}};
    struct error error = {0};
    int err = make_report(ctl, &report, &error);
    if (err == 0 && report.json) {
        ctl_print_json(json_incref(report.json), true);
    } else if (err == 0) {
        putchar('\n');
        table_print(&report.processes, ctl_terminal_width(), stdout);
    }
    if (err == 0 && report.waits.row_count) {
        putchar('\n');
        table_print(&report.waits, 0, stdout); // not cut: the end of a path says which file it is
    }
    if (err == 0 && report.gpus.row_count) {
        putchar('\n');
        table_print(&report.gpus, ctl_terminal_width(), stdout);
    }
    json_decref(report.json);
    table_free(&report.processes);
    table_free(&report.waits);
    table_free(&report.gpus);
    return err < 0 ? ctl_complain(&error) : CTL_OK;
}

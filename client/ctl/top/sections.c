#include "client/ctl/top/sections.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/earlier.h"
#include "client/ctl/text.h"
#include "client/ctl/verdict.h"
#include "shm/reader_kind.h"

#define BAR 6 // characters

// The first column is the title of the section; give_up as in render.h.
static const struct column feed_columns[] = {
    {"FEED", false, 0},    {"NAME", false, 2},   {"DATASET", false, 9}, {"SAMPLES/S", true, 0},
    {"HISTORY", false, 4}, {"MB/S", true, 6},    {"RING", false, 7},    {"NO ROOM", true, 5},
    {"NO DATA", true, 3},  {"ERRORS", true, 10}, {"LOADERS", true, 8},  {"BOTTLENECK", false, 1},
};
static const struct column consumer_columns[] = {
    {"CONSUMER", false, 0}, {"FEED", true, 3},      {"RANK", true, 4},     {"PID", true, 6},
    {"UID", true, 8},       {"BATCHES/S", true, 0}, {"HISTORY", false, 2}, {"HELD", false, 5},
    {"WAITS", false, 1},    {"DEVICE", false, 7},   {"STATE", false, 9},
};
static const struct column loader_columns[] = {
    {"LOADER", false, 0},   {"FEED", true, 3},     {"READER", false, 5},
    {"SAMPLES/S", true, 0}, {"HISTORY", false, 2}, {"MB/S", true, 4},
    {"NO ROOM", true, 1},   {"STORAGE", true, 6},  {"HEARTBEAT", true, 7},
};
static const struct column gpu_columns[] = {
    {"GPU", false, 0}, {"NAME", false, 8}, {"MB/S", true, 0},   {"HISTORY", false, 2}, {"BUSY", false, 1},
    {"WAIT", true, 3}, {"BUS", true, 4},   {"PINNED", true, 7}, {"POOLS", true, 6},    {"STATE", false, 5},
};

void sections_open(struct sections *sections, bool blocks) {
    sections->blocks = blocks;
#define SECTION(name, these)                                                                                 \
    (struct section){.title = name, .columns = these, .column_count = COUNT_OF(these)}
    sections->list[SECTION_FEEDS] = SECTION("FEED", feed_columns);
    sections->list[SECTION_CONSUMERS] = SECTION("CONSUMER", consumer_columns);
    sections->list[SECTION_LOADERS] = SECTION("LOADER", loader_columns);
    sections->list[SECTION_GPUS] = SECTION("GPU", gpu_columns);
#undef SECTION
}

void sections_close(struct sections *sections) {
    for (int i = 0; i < SECTIONS; i++)
        section_free(&sections->list[i]);
    free(sections->histories);
}

// ---- Histories -------------------------------------------------------------------------------------

static struct kept_history *find_history(struct sections *sections, enum section_kind kind, uint64_t key) {
    for (uint32_t i = 0; i < sections->history_count; i++)
        if (sections->histories[i].kind == kind && sections->histories[i].key == key)
            return &sections->histories[i];
    if (sections->history_count == sections->history_room) {
        uint32_t room = sections->history_room ? 2 * sections->history_room : 32;
        struct kept_history *histories = realloc(sections->histories, room * sizeof *histories);
        if (!histories)
            return NULL;
        sections->histories = histories;
        sections->history_room = room;
    }
    struct kept_history *kept = &sections->histories[sections->history_count++];
    *kept = (struct kept_history){.kind = kind, .key = key};
    return kept;
}

static void forget_histories(struct sections *sections) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < sections->history_count; i++) {
        if (!sections->histories[i].fresh)
            continue;
        sections->histories[kept] = sections->histories[i];
        sections->histories[kept++].fresh = false;
    }
    sections->history_count = kept;
}

// ---- Cells -----------------------------------------------------------------------------------------

// Cells are filled from left to right.
struct filling {
    struct sections *sections;
    enum section_kind kind;
    struct top_row *row;
    uint32_t at;
};

static void put_text(struct filling *filling, const char *text) {
    struct top_cell *cell = &filling->row->cells[filling->at++];
    snprintf(cell->text, sizeof cell->text, "%s", *text ? text : "-");
}

static void put_number(struct filling *filling, uint64_t number) {
    struct top_cell *cell = &filling->row->cells[filling->at++];
    snprintf(cell->text, sizeof cell->text, "%" PRIu64, number);
    cell->value = (double)number;
}

// The value itself, and then its history.
static void put_rate(struct filling *filling, double value) {
    struct top_cell *cell = &filling->row->cells[filling->at++];
    ctl_format_count(value, cell->text);
    cell->value = value;
}

static void put_history(struct filling *filling, double value) {
    struct top_cell *cell = &filling->row->cells[filling->at++];
    struct kept_history *kept = find_history(filling->sections, filling->kind, filling->row->key);
    if (!kept)
        return;
    if (!kept->fresh)
        history_add(&kept->history, value);
    kept->fresh = true;
    draw_history(&kept->history, filling->sections->blocks, cell->text);
}

// The first look only has the mean since the start, which would be the tallest bar of a row that is idle now.
static void put_history_between(struct filling *filling, const struct top_look *before, double value) {
    if (before)
        put_history(filling, value);
    else
        filling->at++;
}

static void put_megabytes(struct filling *filling, double bytes_per_s) {
    struct top_cell *cell = &filling->row->cells[filling->at++];
    snprintf(cell->text, sizeof cell->text, "%.*f", bytes_per_s < 99.95e6 ? 1 : 0, bytes_per_s / 1e6);
    cell->value = bytes_per_s;
}

static void put_share(struct filling *filling, double share) {
    struct top_cell *cell = &filling->row->cells[filling->at++];
    snprintf(cell->text, sizeof cell->text, "%.0f %%", 100 * share);
    cell->value = share;
}

// A bar, with brackets so that its end is seen, and words after it.
static void put_bar(struct filling *filling, double share, const char *words) {
    struct top_cell *cell = &filling->row->cells[filling->at++];
    char bar[DRAW_BYTES];
    draw_bar(share, BAR, filling->sections->blocks, bar);
    snprintf(cell->text, sizeof cell->text, "[%s] %s", bar, words);
    cell->value = share;
}

static void put_of(struct filling *filling, uint64_t part, uint64_t whole) {
    char words[48];
    snprintf(words, sizeof words, "%" PRIu64 "/%" PRIu64, part, whole);
    put_bar(filling, whole ? (double)part / (double)whole : 0, words);
}

static bool begin(struct filling *filling, struct sections *sections, enum section_kind kind, uint64_t key,
                  uint64_t feed) {
    *filling = (struct filling){.sections = sections, .kind = kind};
    filling->row = section_add(&sections->list[kind], key, feed);
    return filling->row != NULL;
}

// ---- Rows ------------------------------------------------------------------------------------------

static void fill_feeds(struct sections *sections, const struct top_look *before, const struct top_look *now) {
    for (uint32_t i = 0; i < now->stats.feed_count; i++) {
        const struct stats_feed_snapshot *feed = &now->stats.feeds[i];
        const struct stats_feed_snapshot *earlier =
            earlier_feed(before ? &before->stats : NULL, &now->stats, feed->id);
        struct feed_rates rates;
        struct verdict verdict;
        struct filling filling;
        verdict_of(before ? &before->stats : NULL, &now->stats, feed, &verdict);
        rates_between(earlier, feed, before ? before->stats.taken_ns : 0, now->stats.taken_ns, &rates);
        if (!begin(&filling, sections, SECTION_FEEDS, feed->id, feed->id))
            return;
        filling.row->idle = feed->consumers == 0;
        put_number(&filling, feed->id);
        put_text(&filling, feed->name);
        put_text(&filling, feed->dataset);
        put_rate(&filling, rates.samples_per_s);
        put_history_between(&filling, before, rates.samples_per_s);
        put_megabytes(&filling, rates.bytes_per_s);
        put_of(&filling, feed->slots_ready, feed->slot_count);
        put_share(&filling, rates.room_wait);
        put_share(&filling, rates.consumer_wait);
        put_number(&filling, rates.read_errors);
        put_number(&filling, feed->loaders);
        put_text(&filling, verdict_word(verdict.bound));
    }
}

static const struct top_client *earlier_client(const struct top_look *before,
                                               const struct top_client *client) {
    for (uint32_t i = 0; before && before->asked_ns && i < before->client_count; i++)
        if (before->clients[i].session == client->session && before->clients[i].feed == client->feed)
            return &before->clients[i];
    return NULL;
}

static void fill_consumers(struct sections *sections, const struct top_look *before,
                           const struct top_look *now) {
    for (uint32_t i = 0; i < now->client_count; i++) {
        const struct top_client *client = &now->clients[i], *earlier = earlier_client(before, client);
        struct filling filling;
        if (sections->feed && client->feed != sections->feed)
            continue;
        if (!begin(&filling, sections, SECTION_CONSUMERS, client->session, client->feed))
            return;
        // A consumer whose batches count from 0 again has begun another run.
        double seconds = earlier ? (double)(now->asked_ns - before->asked_ns) / 1e9 : 0;
        double rate = earlier && seconds > 0 && client->batches >= earlier->batches
                          ? (double)(client->batches - earlier->batches) / seconds
                          : 0;
        put_text(&filling, client->name);
        put_number(&filling, client->feed);
        put_number(&filling, client->rank);
        put_number(&filling, client->pid);
        put_number(&filling, client->user);
        put_rate(&filling, rate);
        put_history(&filling, rate);
        put_of(&filling, client->held, client->prefetch);
        put_text(&filling, client->waiting ? "waits" : "-");
        put_text(&filling, client->device);
        put_text(&filling, client->state);
    }
}

static bool is_idle(const struct top_look *look, uint64_t feed) {
    for (uint32_t i = 0; i < look->stats.feed_count; i++)
        if (look->stats.feeds[i].id == feed)
            return look->stats.feeds[i].consumers == 0;
    return false;
}

static const struct stats_loader_snapshot *earlier_loader(const struct top_look *before,
                                                          const struct stats_loader_snapshot *loader) {
    for (uint32_t i = 0; before && i < before->loader_count; i++)
        if (before->loaders[i].record == loader->record && before->loaders[i].pid == loader->pid &&
            before->loaders[i].feed == loader->feed)
            return &before->loaders[i];
    return NULL;
}

static void fill_loaders(struct sections *sections, const struct top_look *before,
                         const struct top_look *now) {
    static const struct stats_loader_snapshot nothing;
    for (uint32_t i = 0; i < now->loader_count; i++) {
        const struct stats_loader_snapshot *loader = &now->loaders[i];
        const struct stats_loader_snapshot *earlier = earlier_loader(before, loader);
        struct filling filling;
        char heartbeat[CTL_TEXT];
        if (sections->feed && loader->feed != sections->feed)
            continue;
        if (!begin(&filling, sections, SECTION_LOADERS, loader->pid, loader->feed))
            return;
        // Nobody says when a loader started: its first rates come at the second look.
        double seconds = before ? (double)(now->stats.taken_ns - before->stats.taken_ns) / 1e9 : 0;
        const struct stats_loader_snapshot *from = earlier ? earlier : &nothing;
#define PER_SECOND(name)                                                                                     \
    (earlier && seconds > 0 && loader->counters[LOADER_##name] >= from->counters[LOADER_##name]              \
         ? (double)(loader->counters[LOADER_##name] - from->counters[LOADER_##name]) / seconds               \
         : 0)
        ctl_format_duration(
            now->stats.taken_ns > loader->heartbeat_ns ? now->stats.taken_ns - loader->heartbeat_ns : 0,
            heartbeat);
        filling.row->idle = is_idle(now, loader->feed);
        put_number(&filling, loader->pid);
        put_number(&filling, loader->feed);
        put_text(&filling, reader_kind_name(loader->reader));
        put_rate(&filling, PER_SECOND(samples));
        put_history(&filling, PER_SECOND(samples));
        put_megabytes(&filling, PER_SECOND(bytes));
        double room = PER_SECOND(room_wait_ns) / 1e9, storage = PER_SECOND(io_wait_ns) / 1e9;
        put_share(&filling, room < 1 ? room : 1);
        put_share(&filling, storage < 1 ? storage : 1);
        put_text(&filling, heartbeat);
#undef PER_SECOND
    }
}

// Of a UUID, the part before the second hyphen tells GPUs apart.
static void put_uuid(struct filling *filling, const char *uuid) {
    const char *first = strchr(uuid, '-'), *second = first ? strchr(first + 1, '-') : NULL;
    char text[STATS_NAME];
    snprintf(text, sizeof text, "%.*s", second ? (int)(second - uuid) : (int)strlen(uuid), uuid);
    put_text(filling, text);
}

static void fill_gpus(struct sections *sections, const struct top_look *before, const struct top_look *now) {
    for (uint32_t i = 0; i < now->stats.gpu_count; i++) {
        const struct stats_gpu_snapshot *gpu = &now->stats.gpus[i];
        const struct stats_gpu_snapshot *earlier =
            earlier_gpu(before ? &before->stats : NULL, &now->stats, gpu);
        struct gpu_rates rates;
        struct filling filling;
        char words[CTL_TEXT];
        rates_of_gpu(earlier, gpu, before ? before->stats.taken_ns : 0, now->stats.taken_ns, &rates);
        if (!begin(&filling, sections, SECTION_GPUS, i + 1, 0))
            return;
        put_uuid(&filling, gpu->uuid);
        put_text(&filling, gpu->name);
        put_megabytes(&filling, rates.bytes_per_s);
        put_history_between(&filling, before, rates.bytes_per_s);
        snprintf(words, sizeof words, "%.0f %%", 100 * rates.busy);
        put_bar(&filling, rates.busy, words);
        put_share(&filling, rates.release_wait);
        if (rates_have_bus(gpu->uuid, gpu->bus_bytes_per_s))
            put_share(&filling, rates.bus);
        else
            put_text(&filling, "");
        ctl_format_bytes(gpu->pinned_bytes, words);
        put_text(&filling, words);
        put_number(&filling, gpu->pools);
        put_text(&filling, stats_gpu_state_name(gpu->state));
    }
}

void sections_fill(struct sections *sections, const struct top_look *before, const struct top_look *now) {
    for (int i = 0; i < SECTIONS; i++)
        section_clear(&sections->list[i]);
    fill_feeds(sections, before, now);
    fill_consumers(sections, before, now);
    fill_loaders(sections, before, now);
    fill_gpus(sections, before, now);
    forget_histories(sections);
    for (int i = 0; i < SECTIONS; i++)
        section_sort(&sections->list[i]);
}

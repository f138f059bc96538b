#include "client/ctl/cmd_list.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/error.h"
#include "base/sizes.h"
#include "client/ctl/arguments.h"
#include "client/ctl/feed_images.h"
#include "client/ctl/indexing.h"
#include "client/ctl/others.h"
#include "client/ctl/query.h"
#include "client/ctl/render.h"
#include "client/ctl/text.h"

struct list {
    struct table table;
    struct table notes; // below it
    json_t *json;       // array, when JSON is wanted
    struct others others;
    const char *(*describe_others)(const struct others *others, char text[OTHERS_TEXT]); // NULL: none
};

static int out_of_memory(struct error *error) {
    return error_set(error, -ENOMEM, "out of memory");
}

static int add(struct list *list, const char *const *cells, json_t *object, struct error *error) {
    if (list->json)
        return json_array_append_new(list->json, object) < 0 ? out_of_memory(error) : 0;
    return table_add(&list->table, cells) < 0 ? out_of_memory(error) : 0;
}

static const char *or_dash(const char *text) {
    return *text ? text : "-";
}

#define NUMBER(text, value) snprintf(text, sizeof text, "%" PRIu64, (uint64_t)(value))

// ---- Datasets --------------------------------------------------------------------------------------

// "image f32[3,32,32] from u8, label u8"
static void format_fields(const Feedd__Dataset *dataset, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = 0;
    for (size_t i = 0; i < dataset->n_fields && used < bytes; i++) {
        const Feedd__Field *field = dataset->fields[i];
        used += (size_t)snprintf(text + used, bytes - used, "%s%s %s", i ? ", " : "", field->name,
                                 dtype_name(field->dtype));
        for (size_t k = 0; k < field->n_shape && used < bytes; k++)
            used += (size_t)snprintf(text + used, bytes - used, "%c%" PRIu64 "%s", k ? ',' : '[',
                                     field->shape[k], k + 1 == field->n_shape ? "]" : "");
        if (field->ragged && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "[]");
        if (*field->transform && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, " from %s", dtype_name(field->stored));
    }
}

// "; cache: 3.1 GiB of 40 GiB"
static void format_cache(const Feedd__Dataset *dataset, char *text, size_t bytes) {
    char used[CTL_TEXT], most[CTL_TEXT];
    const size_t length = strlen(text);
    if (!dataset->cache_bytes)
        return;
    ctl_format_bytes(dataset->cache_used, used);
    ctl_format_bytes(dataset->cache_bytes, most);
    snprintf(text + length, bytes - length, "; cache: %s of %s", used, most);
}

static json_t *cache_json(const Feedd__Dataset *dataset) {
    if (!dataset->cache_bytes)
        return json_null();
    return json_pack("{s:I, s:I}", "bytes", (json_int_t)dataset->cache_bytes, "used",
                     (json_int_t)dataset->cache_used);
}

static json_t *fields_json(const Feedd__Dataset *dataset) {
    json_t *fields = json_array();
    for (size_t i = 0; i < dataset->n_fields; i++) {
        json_t *shape = dataset->fields[i]->ragged ? json_null() : json_array();
        for (size_t k = 0; k < dataset->fields[i]->n_shape; k++)
            json_array_append_new(shape, json_integer((json_int_t)dataset->fields[i]->shape[k]));
        const Feedd__Field *field = dataset->fields[i];
        json_t *object =
            json_pack("{s:o, s:s, s:o, s:s, s:o}", "name", ctl_json_text(field->name), "dtype",
                      dtype_name(field->dtype), "shape", shape, "stored", dtype_name(field->stored),
                      "transform", *field->transform ? ctl_json_text(field->transform) : json_null());
        if (field->ragged) {
            json_object_set_new(object, "mean_bytes", json_integer((json_int_t)field->mean_bytes));
            json_object_set_new(object, "largest_bytes", json_integer((json_int_t)field->largest_bytes));
        }
        json_array_append_new(fields, object);
    }
    return fields;
}

static json_t *dataset_json(const Feedd__Dataset *dataset) {
    char fingerprint[CTL_TEXT];
    snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, dataset->fingerprint);
    return json_pack("{s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:s, s:o, s:o, s:b, s:I, s:o, s:o, s:o, s:o, s:o, "
                     "s:I, s:I, s:o, s:o*}",
                     "name", ctl_json_text(dataset->name), "of",
                     *dataset->of ? ctl_json_text(dataset->of) : json_null(), "format",
                     ctl_json_text(dataset->format), "samples", (json_int_t)dataset->samples, "sample_bytes",
                     (json_int_t)dataset->sample_bytes, "bytes", (json_int_t)dataset->bytes, "files",
                     (json_int_t)dataset->files, "fingerprint", fingerprint, "fields", fields_json(dataset),
                     "io", ctl_json_text(dataset->io), "io_direct", (int)dataset->io_direct, "io_delay_us",
                     (json_int_t)dataset->io_delay_us, "on_error", ctl_json_text(dataset->on_error), "state",
                     ctl_json_text(dataset->state), "indexing", indexing_json(dataset->indexing), "problem",
                     *dataset->problem ? ctl_json_text(dataset->problem) : json_null(), "index",
                     *dataset->index ? ctl_json_text(dataset->index) : json_null(), "shuffle_window",
                     (json_int_t)dataset->shuffle_window, "groups", (json_int_t)dataset->groups, "cache",
                     cache_json(dataset), "sources",
                     dataset->sources ? json_array() : NULL); // see add_sources
}

// A dataset that is not there yet: instead of its fields, how far its index is, or why it has none.
static void describe_absent(const Feedd__Dataset *dataset, const char *cells[], char *text, size_t bytes) {
    char progress[INDEXING_TEXT];
    if (dataset->indexing)
        snprintf(text, bytes, "indexing: %s", indexing_text(dataset->indexing, progress));
    else
        snprintf(text, bytes, "index %s%s%s", dataset->state, *dataset->problem ? ": " : "",
                 dataset->problem);
    for (int i = 2; i <= 5; i++) // SAMPLES to FILES
        cells[i] = "-";
}

static int take_datasets(const Feedd__Answer *page, void *context, struct error *error) {
    struct list *list = context;
    for (size_t i = 0; i < page->n_datasets; i++) {
        const Feedd__Dataset *dataset = page->datasets[i];
        char format[80], samples[CTL_TEXT], bytes[CTL_TEXT], total[CTL_TEXT], files[CTL_TEXT], fields[1024],
            io[64];
        NUMBER(samples, dataset->samples);
        NUMBER(files, dataset->files);
        ctl_format_bytes(dataset->sample_bytes, bytes);
        ctl_format_bytes(dataset->bytes, total);
        format_fields(dataset, fields, sizeof fields);
        format_cache(dataset, fields, sizeof fields);
        snprintf(io, sizeof io, "%.40s%s%s", dataset->io, dataset->io_direct ? ", direct" : "",
                 dataset->io_delay_us ? ", delayed" : "");
        snprintf(format, sizeof format, "%s%.64s", *dataset->of ? "view of " : "",
                 *dataset->of ? dataset->of : dataset->format);
        if (dataset->sources)
            snprintf(format, sizeof format, "mix of %" PRIu32, dataset->sources);
        const char *cells[] = {dataset->name, format, samples, bytes, total, files, io, fields};
        if (!dataset->samples)
            describe_absent(dataset, cells, fields, sizeof fields);
        int added = add(list, cells, list->json ? dataset_json(dataset) : NULL, error);
        if (added < 0)
            return added;
    }
    return 0;
}

static int take_sources(const Feedd__Answer *page, void *context, struct error *error) {
    json_t *sources = context;
    for (size_t i = 0; i < page->n_sources; i++) {
        const Feedd__Source *source = page->sources[i];
        json_t *object = json_pack("{s:o, s:I, s:I}", "name", ctl_json_text(source->name), "weight",
                                   (json_int_t)source->weight, "samples", (json_int_t)source->samples);
        if (json_array_append_new(sources, object) < 0)
            return out_of_memory(error);
    }
    return 0;
}

// A mix may have more sources than fit into a page of datasets.
static int add_sources(const struct ctl *ctl, json_t *datasets, struct error *error) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    size_t i;
    json_t *dataset;
    int err = query_open(&connection, ctl, error);
    json_array_foreach(datasets, i, dataset) {
        json_t *sources = json_object_get(dataset, "sources");
        if (err == -EACCES || err == -ENOENT)
            err = 0; // one that is shown, but for others, or that has gone
        if (sources && err >= 0)
            err =
                query_ask(&connection, FEEDD__QUERY__KIND__SOURCES,
                          json_string_value(json_object_get(dataset, "name")), take_sources, sources, error);
    }
    return err == -EACCES || err == -ENOENT ? 0 : err;
}

static const struct column dataset_columns[] = {
    {"DATASET", false, 0}, {"FORMAT", false, 3}, {"SAMPLES", true, 0}, {"SAMPLE", true, 2},
    {"TOTAL", true, 1},    {"FILES", true, 5},   {"IO", false, 4},     {"FIELDS", false, 0},
};

// ---- Feeds -----------------------------------------------------------------------------------------

static json_t *feed_json(const Feedd__Feed *feed) {
    return json_pack(
        "{s:I, s:o, s:o, s:I, s:I, s:b, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:o, s:o}", "id",
        (json_int_t)feed->id, "name", ctl_json_text(feed->name), "dataset", ctl_json_text(feed->dataset),
        "batch_size", (json_int_t)feed->batch_size, "world_size", (json_int_t)feed->world_size, "shuffle",
        (int)feed->shuffle, "seed", ctl_json_word(feed->seed), "slots", (json_int_t)feed->slots, "ring_bytes",
        (json_int_t)feed->ring_bytes, "consumers", (json_int_t)feed->consumers, "loaders",
        (json_int_t)feed->loaders, "epoch", (json_int_t)feed->epoch, "batch", (json_int_t)feed->batch,
        "state", ctl_json_text(feed->state), "user", (json_int_t)feed->user, "reader",
        ctl_json_text(feed->reader), "images", feed_images_json(feed));
}

static int add_note(struct list *list, const Feedd__Feed *feed, struct error *error) {
    char text[FEED_IMAGES_TEXT];
    const char *cells[] = {feed_images_text(feed, text)};
    if (list->json || !*text)
        return 0;
    return table_add(&list->notes, cells) < 0 ? out_of_memory(error) : 0;
}

static int take_feeds(const Feedd__Answer *page, void *context, struct error *error) {
    struct list *list = context;
    others_take(page, &list->others);
    for (size_t i = 0; i < page->n_feeds; i++) {
        const Feedd__Feed *feed = page->feeds[i];
        char id[CTL_TEXT], batch[CTL_TEXT], world[CTL_TEXT], ring[CTL_TEXT + 32], bytes[CTL_TEXT],
            loaders[CTL_TEXT];
        char consumers[CTL_TEXT], epoch[CTL_TEXT], at[CTL_TEXT], order[CTL_TEXT + 16];
        NUMBER(id, feed->id);
        NUMBER(batch, feed->batch_size);
        NUMBER(world, feed->world_size);
        ctl_format_bytes(feed->ring_bytes, bytes);
        snprintf(ring, sizeof ring, "%u slots, %s", feed->slots, bytes);
        NUMBER(consumers, feed->consumers);
        NUMBER(loaders, feed->loaders);
        NUMBER(epoch, feed->epoch);
        NUMBER(at, feed->batch);
        snprintf(order, sizeof order, "in order");
        if (feed->shuffle)
            snprintf(order, sizeof order, "seed %" PRIu64, feed->seed);
        const char *cells[] = {id,    or_dash(feed->name), feed->dataset, batch, world,
                               order, consumers,           loaders,       ring,  epoch,
                               at,    feed->reader,        feed->state};
        int added = add(list, cells, list->json ? feed_json(feed) : NULL, error);
        if (added == 0)
            added = add_note(list, page->feeds[i], error);
        if (added < 0)
            return added;
    }
    return 0;
}

static const struct column feed_columns[] = {
    {"ID", true, 0},     {"NAME", false, 1},  {"DATASET", false, 0},  {"BATCH", true, 4},
    {"WORLD", true, 7},  {"ORDER", false, 8}, {"CONSUMERS", true, 0}, {"LOADERS", true, 6},
    {"RING", false, 9},  {"EPOCH", true, 2},  {"AT", true, 3},        {"READER", false, 5},
    {"STATE", false, 0},
};

static const struct column note_columns[] = {{"", false, 0}};

// ---- Clients ---------------------------------------------------------------------------------------

static json_t *client_json(const Feedd__Client *client) {
    return json_pack(
        "{s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o, s:o}", "session",
        (json_int_t)client->session, "name", ctl_json_text(client->name), "pid", (json_int_t)client->pid,
        "user", (json_int_t)client->user, "feed", (json_int_t)client->feed, "rank", (json_int_t)client->rank,
        "prefetch", (json_int_t)client->prefetch, "held", (json_int_t)client->held, "batches",
        (json_int_t)client->batches, "epoch", (json_int_t)client->epoch, "waiting", (int)client->waiting,
        "state", ctl_json_text(client->state), "device", ctl_json_text(client->device));
}

static int take_clients(const Feedd__Answer *page, void *context, struct error *error) {
    struct list *list = context;
    others_take(page, &list->others);
    for (size_t i = 0; i < page->n_clients; i++) {
        const Feedd__Client *client = page->clients[i];
        char session[CTL_TEXT], pid[CTL_TEXT], user[CTL_TEXT], feed[CTL_TEXT] = "-", rank[CTL_TEXT] = "-";
        char prefetched[2 * CTL_TEXT] = "-", batches[CTL_TEXT], epoch[CTL_TEXT] = "-";
        NUMBER(session, client->session);
        NUMBER(pid, client->pid);
        NUMBER(user, client->user);
        NUMBER(batches, client->batches);
        if (client->feed) {
            NUMBER(feed, client->feed);
            NUMBER(rank, client->rank);
            NUMBER(epoch, client->epoch);
            snprintf(prefetched, sizeof prefetched, "%u of %u", client->held, client->prefetch);
        }
        const char *waiting = client->waiting ? "yes" : "no", *device = or_dash(client->device);
        const char *cells[] = {
            session, or_dash(client->name), pid, user, feed, rank, prefetched, batches, epoch, waiting,
            device,  client->state};
        int added = add(list, cells, list->json ? client_json(client) : NULL, error);
        if (added < 0)
            return added;
    }
    return 0;
}

static const struct column client_columns[] = {
    {"SESSION", true, 4}, {"NAME", false, 0},    {"PID", true, 0},         {"UID", true, 5},
    {"FEED", true, 0},    {"RANK", true, 0},     {"PREFETCHED", false, 3}, {"BATCHES", true, 1},
    {"EPOCH", true, 2},   {"WAITING", false, 6}, {"DEVICE", false, 7},     {"STATE", false, 0},
};

// ---- Commands --------------------------------------------------------------------------------------

static int ask(const struct ctl *ctl, Feedd__Query__Kind kind,
               int (*take)(const Feedd__Answer *, void *, struct error *), struct list *list,
               struct error *error) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    int err = query_open(&connection, ctl, error);
    return err < 0 ? err : query_ask(&connection, kind, NULL, take, list, error);
}

static void print_table(const struct list *list) {
    char others[OTHERS_TEXT];
    table_print(&list->table, ctl_terminal_width(), stdout);
    if (list->notes.row_count) {
        putchar('\n');
        table_print(&list->notes, 0, stdout); // not cut: the end says why
    }
    if (list->describe_others && *list->describe_others(&list->others, others))
        printf("not shown: %s (show_others)\n", others);
}

static int print_list(const struct ctl *ctl, Feedd__Query__Kind kind,
                      int (*take)(const Feedd__Answer *, void *, struct error *), struct list *list) {
    struct error error = {0};
    int err = ask(ctl, kind, take, list, &error);
    if (err == 0 && list->json && kind == FEEDD__QUERY__KIND__DATASETS)
        err = add_sources(ctl, list->json, &error);
    if (err == 0 && list->json)
        ctl_print_json(json_incref(list->json), true);
    else if (err == 0)
        print_table(list);
    json_decref(list->json);
    table_free(&list->table);
    table_free(&list->notes);
    return err < 0 ? ctl_complain(&error) : CTL_OK;
}

#define TABLE(of)                                                                                            \
    { .columns = (of), .column_count = COUNT_OF(of) }

int cmd_datasets(const struct ctl *ctl, int count, char **arguments) {
    bool json = ctl_parse_json("What can be read.", count, arguments);
    struct list list = {.table = TABLE(dataset_columns), .json = json ? json_array() : NULL};
    return print_list(ctl, FEEDD__QUERY__KIND__DATASETS, take_datasets, &list);
}

int cmd_feeds(const struct ctl *ctl, int count, char **arguments) {
    bool json = ctl_parse_json("What is being read.", count, arguments);
    struct list list = {.table = TABLE(feed_columns),
                        .notes = TABLE(note_columns),
                        .json = json ? json_array() : NULL,
                        .describe_others = others_feeds};
    list.notes.no_title = true;
    return print_list(ctl, FEEDD__QUERY__KIND__FEEDS, take_feeds, &list);
}

int cmd_clients(const struct ctl *ctl, int count, char **arguments) {
    bool json = ctl_parse_json("Who is connected.", count, arguments);
    struct list list = {.table = TABLE(client_columns),
                        .json = json ? json_array() : NULL,
                        .describe_others = others_sessions};
    return print_list(ctl, FEEDD__QUERY__KIND__CLIENTS, take_clients, &list);
}

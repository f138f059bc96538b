#include "client/ctl/cmd_errors.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/arguments.h"
#include "client/ctl/query.h"
#include "client/ctl/render.h"
#include "client/ctl/text.h"

#define TEXT_BYTES 8192 // a path and a reason

struct options {
    const char *dataset;
    bool json;
};

struct list {
    struct table table;
    json_t *samples; // array, when JSON is wanted
    uint64_t failed, skipped, replaced, incomplete, others;
};

enum {
    TIME,
    DATASET,
    SAMPLE,
    WHAT,
    FILE_PATH,
    OFFSET,
    REASON,
    COLUMNS
};

static const struct column columns[COLUMNS] = {
    [TIME] = {"TIME", false, 2},     [DATASET] = {"DATASET", false, 1}, [SAMPLE] = {"SAMPLE", true, 0},
    [WHAT] = {"WHAT", false, 1},     [FILE_PATH] = {"FILE", false, 0},  [OFFSET] = {"OFFSET", true, 3},
    [REASON] = {"REASON", false, 0},
};

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct options *options = state->input;
    if (key != 'j')
        return ctl_parse_dataset(key, argument, state, &options->dataset);
    options->json = true;
    return 0;
}

static int add_row(struct list *list, const Feedd__BadSample *bad) {
    char when[32] = "?", sample[CTL_TEXT], offset[CTL_TEXT];
    time_t seconds = (time_t)(bad->at_ns / NS_PER_S);
    struct tm local;
    if (!bad->at_ns)
        snprintf(when, sizeof when, "-");
    else if (localtime_r(&seconds, &local))
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    snprintf(sample, sizeof sample, "%" PRIu64, bad->sample);
    snprintf(offset, sizeof offset, "%" PRIu64, bad->offset);
    const char *cells[] = {when, bad->dataset, sample, bad->fate, bad->path, offset, bad->reason};
    return table_add(&list->table, cells);
}

static int add_json(struct list *list, const Feedd__BadSample *bad) {
    return json_array_append_new(
        list->samples,
        json_pack("{s:I, s:o, s:I, s:o, s:o, s:I, s:o}", "time", (json_int_t)(bad->at_ns / NS_PER_S),
                  "dataset", ctl_json_text(bad->dataset), "sample", (json_int_t)bad->sample, "what",
                  ctl_json_text(bad->fate), "file", ctl_json_text(bad->path), "offset",
                  (json_int_t)bad->offset, "reason", ctl_json_text(bad->reason)));
}

static int take(const Feedd__Answer *page, void *context, struct error *error) {
    struct list *list = context;
    const Feedd__Errors *errors = page->errors;
    if (!errors)
        return error_set(error, -EPROTO, "feedd sent no errors");
    list->failed = errors->failed;
    list->skipped = errors->skipped;
    list->replaced = errors->replaced;
    list->incomplete = errors->incomplete;
    list->others += errors->others;
    for (size_t i = 0; i < errors->n_samples; i++)
        if ((list->samples ? add_json : add_row)(list, errors->samples[i]) < 0)
            return error_set(error, -ENOMEM, "out of memory");
    return 0;
}

static void print_json(const struct list *list) {
    ctl_print_json(json_pack("{s:I, s:I, s:I, s:I, s:I, s:O}", "fatal", (json_int_t)list->failed, "skipped",
                             (json_int_t)list->skipped, "replaced", (json_int_t)list->replaced, "incomplete",
                             (json_int_t)list->incomplete, "not_shown", (json_int_t)list->others, "samples",
                             list->samples),
                   true);
}

// A sample per paragraph, where its file and its reason do not fit into a line.
static void print_paragraphs(const struct table *table, uint32_t width) {
    for (uint32_t row = 0; row < table->row_count; row++) {
        char text[TEXT_BYTES];
        char *const *cells = table->cells + (size_t)row * COLUMNS;
        const bool timed = strcmp(cells[TIME], "-") != 0;
        snprintf(text, sizeof text, "sample %s of %s: %s%s%s", cells[SAMPLE], cells[DATASET], cells[WHAT],
                 timed ? ", " : "", timed ? cells[TIME] : "");
        text_fold(text, 0, width, stdout);
        snprintf(text, sizeof text, "%s, offset %s: %s", cells[FILE_PATH], cells[OFFSET], cells[REASON]);
        printf("  ");
        text_fold(text, 2, width, stdout);
    }
}

static void print_samples(const struct table *table) {
    const uint32_t width = ctl_terminal_width();
    if (table_fits(table, width))
        table_print(table, width, stdout);
    else
        print_paragraphs(table, width);
}

static void print_text(const struct list *list) {
    if (list->failed || list->skipped || list->replaced)
        printf("since the daemon started: %" PRIu64 " skipped, %" PRIu64 " replaced, %" PRIu64 " fatal\n",
               list->skipped, list->replaced, list->failed);
    else
        puts("none since the daemon started");
    if (list->incomplete)
        printf("%" PRIu64 " sample%s incomplete, as the index says\n", list->incomplete,
               list->incomplete == 1 ? " is" : "s are");
    if (list->table.row_count)
        print_samples(&list->table);
    if (list->others)
        printf("not shown: %" PRIu64 " of feeds of other users (show_others)\n", list->others);
}

static int ask(const struct ctl *ctl, const char *dataset, struct list *list, struct error *error) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    int err = query_open(&connection, ctl, error);
    return err < 0 ? err : query_ask(&connection, FEEDD__QUERY__KIND__ERRORS, dataset, take, list, error);
}

int cmd_errors(const struct ctl *ctl, int count, char **arguments) {
    static const struct argp_option argp_options[] = {
        {"json", 'j', NULL, 0, "Print JSON", 0},
        {0},
    };
    static const struct argp argp = {argp_options,
                                     parse,
                                     "DATASET",
                                     "Samples of a dataset that could not be read since the daemon started:"
                                     " how many, and the last ones with file and reason, newest first;"
                                     " and samples that are incomplete.",
                                     NULL,
                                     NULL,
                                     NULL};
    struct options options = {0};
    struct error error = {0};
    ctl_parse(&argp, count, arguments, &options);
    struct list list = {.table = {.columns = columns, .column_count = COUNT_OF(columns)},
                        .samples = options.json ? json_array() : NULL};
    int err = ask(ctl, options.dataset, &list, &error);
    if (err == 0 && options.json)
        print_json(&list);
    else if (err == 0)
        print_text(&list);
    json_decref(list.samples);
    table_free(&list.table);
    return err < 0 ? ctl_complain(&error) : CTL_OK;
}

#include "client/ctl/cmd_index.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "client/ctl/arguments.h"
#include "client/ctl/indexing.h"
#include "client/ctl/query.h"
#include "client/ctl/render.h"
#include "client/ctl/text.h"

#define LOOK_EVERY_MS 500
#define LINE_EVERY    20 // looks, where lines stay: every 10 s

struct options {
    const char *dataset;
    bool quiet;
};

// What is asked while the command is at work, on a connection of its own.
struct watcher {
    const struct options *options;
    struct connection connection;
    uint32_t looks;
    bool terminal;
    bool shown; // there is a line to be overwritten
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

// A shell that puts the command into the background may have it ignore the signal.
static void catch_interrupt(void) {
    struct sigaction before;
    if (sigaction(SIGINT, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &(struct sigaction){.sa_handler = on_signal}, NULL);
}

static bool is_interrupted(void *context) {
    (void)context;
    return interrupted;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct options *options = state->input;
    if (key != 'q')
        return ctl_parse_dataset(key, argument, state, &options->dataset);
    options->quiet = true;
    return 0;
}

static void show(struct watcher *watcher, const char *text) {
    if (watcher->terminal)
        ctl_overwrite(text);
    else if (watcher->looks % LINE_EVERY == 0)
        fprintf(stderr, "%s\n", text);
    watcher->shown = true;
}

static int take(const Feedd__Answer *page, void *context, struct error *error) {
    struct watcher *watcher = context;
    char text[INDEXING_TEXT];
    (void)error;
    for (size_t i = 0; i < page->n_datasets; i++)
        if (strcmp(page->datasets[i]->name, watcher->options->dataset) == 0 && page->datasets[i]->indexing)
            show(watcher, indexing_text(page->datasets[i]->indexing, text));
    return 0;
}

// Progress is a courtesy: what cannot be asked is not shown.
static void look(void *context) {
    struct watcher *watcher = context;
    struct error error = {0};
    if (watcher->options->quiet || watcher->connection.socket < 0)
        return;
    if (query_ask(&watcher->connection, FEEDD__QUERY__KIND__DATASETS, NULL, take, watcher, &error) < 0)
        connection_close(&watcher->connection);
    watcher->looks++;
}

static void close_watcher(struct watcher *watcher) {
    if (watcher->shown && watcher->terminal)
        fputs("\r\033[K", stderr);
    connection_close(&watcher->connection);
}

static int run(const struct ctl *ctl, const struct options *options, char *text, size_t bytes,
               struct error *error) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    struct watcher watcher CLEANUP(close_watcher) = {
        .options = options, .connection = {.socket = -1}, .terminal = isatty(STDERR_FILENO)};
    struct error unimportant = {0};
    int err = query_open(&connection, ctl, error);
    if (err < 0)
        return err;
    query_open(&watcher.connection, ctl, &unimportant);
    connection.interrupt = watcher.connection.interrupt = (struct interrupt){is_interrupted, NULL};
    catch_interrupt();
    const struct query_patience patience = {LOOK_EVERY_MS, look, &watcher};
    return query_command_patiently(&connection, FEEDD__COMMAND__KIND__INDEX, options->dataset, &patience,
                                   text, bytes, error);
}

// Nothing else shows that Ctrl-C ends the command alone. The process ends as if it had not caught the signal.
static int stop(const char *dataset) {
    fprintf(stderr,
            "feedctl: interrupted, but the daemon continues with the index of %s,"
            " and feedctl status shows its progress\n",
            dataset);
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
    return CTL_FAILED;
}

int cmd_index(const struct ctl *ctl, int count, char **arguments) {
    static const struct argp_option argp_options[] = {
        {"quiet", 'q', NULL, 0, "Do not show the progress", 0},
        {0},
    };
    static const struct argp argp = {argp_options,
                                     parse,
                                     "DATASET",
                                     "Check that the index of a dataset fits its files, and rebuild it if it "
                                     "does not. Shows the progress, and"
                                     " returns when it is done.",
                                     NULL,
                                     NULL,
                                     NULL};
    struct options options = {0};
    struct error error = {0};
    char text[1024] = "";
    ctl_parse(&argp, count, arguments, &options);
    int err = run(ctl, &options, text, sizeof text, &error);
    if (err == -EINTR && interrupted)
        return stop(options.dataset);
    if (err < 0)
        return ctl_complain(&error);
    text_print_answer(text, ctl_terminal_width(), stdout, stderr);
    return CTL_OK;
}

#include "client/ctl/cmd_trace.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/time.h"
#include "client/ctl/arguments.h"
#include "client/ctl/look.h"
#include "client/ctl/query.h"
#include "client/ctl/text.h"
#include "client/ctl/trace_file.h"

#define LOOK_NS  (10 * NS_PER_MS)  // how often the rings are read
#define NAMES_NS (500 * NS_PER_MS) // how often the processes are identified

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    double *seconds = state->input;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (state->arg_num > 0)
        argp_error(state, "too many arguments");
    *seconds = ctl_parse_decimal(state, "time", argument, 0.01, 86400);
    return 0;
}

struct tracing {
    struct look look;
    struct stats_snapshot snapshot;
    struct stats_loader_snapshot loaders[STATS_MAX_LOADERS];
    struct trace_reader reader;
    struct trace_file file;
};

// ---- Names -----------------------------------------------------------------------------------------

static const struct stats_feed_snapshot *find_feed(const struct stats_snapshot *snapshot, uint64_t id) {
    for (uint32_t i = 0; i < snapshot->feed_count; i++)
        if (snapshot->feeds[i].id == id)
            return &snapshot->feeds[i];
    return NULL;
}

static void name_of(const struct stats_snapshot *snapshot, const char *role, uint64_t id, char *text,
                    size_t bytes) {
    const struct stats_feed_snapshot *feed = find_feed(snapshot, id);
    const char *name = feed ? *feed->name ? feed->name : feed->dataset : "";
    snprintf(text, bytes, "%s of feed %" PRIu64 "%s%s", role, id, *name ? " " : "", name);
}

static void name_processes(struct tracing *tracing) {
    char name[160];
    struct error error = {0};
    if (look_at(&tracing->look, &tracing->snapshot, &error) < 0)
        return;
    uint32_t count = look_at_loaders(&tracing->look, tracing->loaders);
    for (uint32_t i = 0; i < count; i++) {
        name_of(&tracing->snapshot, "feedd loader", tracing->loaders[i].feed, name, sizeof name);
        trace_file_name(&tracing->file, (uint32_t)tracing->loaders[i].pid, name);
    }
    for (uint32_t i = 0; i < tracing->snapshot.gpu_count; i++) {
        const struct stats_gpu_snapshot *gpu = &tracing->snapshot.gpus[i];
        snprintf(name, sizeof name, "feedd transfer to %s", gpu->uuid);
        if (gpu->pid)
            trace_file_name(&tracing->file, (uint32_t)gpu->pid, name);
    }
}

// ---- Events ----------------------------------------------------------------------------------------

static void take(const struct trace_record *record, void *context) {
    struct tracing *tracing = context;
    char name[160];
    if (record->kind == TRACE_LEASE || record->kind == TRACE_WAIT) {
        name_of(&tracing->snapshot, "consumer", record->feed, name, sizeof name);
        trace_file_name(&tracing->file, record->process, name);
    }
    trace_file_put(&tracing->file, record);
}

static void read_rings(struct tracing *tracing) {
    for (uint32_t i = 0; i < TRACE_RINGS; i++)
        trace_read(&tracing->reader, i, take, tracing);
}

static void record(struct tracing *tracing, double seconds) {
    uint64_t end_ns = tracing->file.begin_ns + (uint64_t)(seconds * 1e9), named_ns = 0, now;
    while (!interrupted && (now = monotonic_ns()) < end_ns && !ferror(tracing->file.out)) {
        if (now > named_ns + NAMES_NS) {
            name_processes(tracing);
            named_ns = now;
        }
        read_rings(tracing);
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
    read_rings(tracing);
}

// ---- Command ---------------------------------------------------------------------------------------

static int begin(struct tracing *tracing, const struct ctl *ctl, struct connection *connection,
                 struct error *error) {
    Feedd__Command command = FEEDD__COMMAND__INIT;
    command.kind = FEEDD__COMMAND__KIND__TRACE;
    char text[256];
    int err = query_open(connection, ctl, error);
    if (err == 0)
        err = query_command(connection, &command, text, sizeof text, error);
    if (err == -EPERM)
        return error_set(error, err,
                         "only root and the daemon's own user may record a timeline:"
                         " run feedctl trace in a root shell, beside the training script");
    if (err == 0)
        err = look_open(&tracing->look, ctl, error);
    if (err == 0)
        err = look_at(&tracing->look, &tracing->snapshot, error); // and so, that this is the same version
    return err < 0 ? err : trace_reader_open(tracing->look.path, &tracing->reader, error);
}

int cmd_trace(const struct ctl *ctl, int count, char **arguments) {
    const struct argp argp = {
        NULL,
        parse,
        "[SECONDS]",
        "A timeline of all processes for the next SECONDS (default 5), on standard output, for "
        "ui.perfetto.dev or chrome://tracing: what loaders spend their time on, chunks being read, copies "
        "to GPUs, and batches that consumers hold or wait for. Ctrl-C ends it early. For root and the "
        "daemon's user.",
        NULL,
        NULL,
        NULL};
    double seconds = 5;
    struct error error = {0};
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    ctl_parse(&argp, count, arguments, &seconds);
    if (isatty(STDOUT_FILENO)) {
        error_set(&error, -EINVAL,
                  "the timeline is for a program, not for a terminal: feedctl trace %g >trace.json", seconds);
        ctl_complain(&error);
        return CTL_USAGE;
    }
    struct tracing *tracing AUTO_FREE = calloc(1, sizeof *tracing);
    int err =
        tracing ? begin(tracing, ctl, &connection, &error) : error_set(&error, -ENOMEM, "out of memory");
    if (err < 0 || !tracing)
        return ctl_complain(&error);
    // Writing to a pipe that is full continues.
    const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    trace_file_begin(&tracing->file, stdout);
    record(tracing, seconds);
    uint64_t lost = tracing->reader.lost;
    trace_reader_close(&tracing->reader);
    if (lost)
        fprintf(stderr, "feedctl: warning: %" PRIu64 " events came too fast and are missing\n", lost);
    err = trace_file_end(&tracing->file, lost, &error);
    return err < 0 ? ctl_complain(&error) : CTL_OK;
}

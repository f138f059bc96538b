#include "client/ctl/cmd_stats.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/arguments.h"
#include "client/ctl/look.h"
#include "client/ctl/report.h"
#include "client/ctl/report_latency.h"
#include "client/ctl/terminal.h"
#include "client/ctl/text.h"
#include "shm/stats_read.h"

struct stats_options {
    struct report_options report;
    double interval_s;
    uint64_t count; // reports; 0: not given, until interrupted
    bool once, json, latency;
    bool interval_given;
};

static volatile sig_atomic_t interrupted, resized;

static void on_signal(int number) {
    if (number == SIGWINCH)
        resized = 1;
    else
        interrupted = 1;
}

// Without SA_RESTART: each of them ends the sleep.
static void watch_signals(bool screen) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    for (size_t i = 0; i < COUNT_OF(numbers) - !screen; i++)
        sigaction(numbers[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
}

// ---- Arguments -------------------------------------------------------------------------------------

static error_t parse(int key, char *argument, struct argp_state *state) {
    struct stats_options *options = state->input;
    switch (key) {
    case 'o':
        options->once = true;
        return 0;
    case 'j':
        options->json = true;
        return 0;
    case 'l':
        options->latency = true;
        return 0;
    case 'n':
        options->count = ctl_parse_number(state, "count", argument, 1, UINT64_MAX);
        return 0;
    case ARGP_KEY_ARG:
        // A first argument that begins like a number is the interval; a feed with such a name can come second.
        if (state->arg_num == 0 && strchr("0123456789.", *argument)) {
            options->interval_s = ctl_parse_decimal(state, "interval", argument, 0.05, 86400);
            options->interval_given = true;
        } else if (!options->report.feed && state->arg_num <= options->interval_given) {
            options->report.feed = argument;
        } else {
            argp_error(state, "too many arguments");
        }
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void parse_options(int count, char **arguments, struct stats_options *options) {
    static const struct argp_option table[] = {
        {"once", 'o', NULL, 0, "print the figures since the start and exit", 0},
        {"json", 'j', NULL, 0, "print one JSON object per line; feedctl(1) lists its keys", 0},
        {"latency", 'l', NULL, 0, "how long reads, decoding, copies, waits and leases take", 0},
        {"count", 'n', "N", 0, "stop after N reports", 0},
        {0},
    };
    const struct argp argp = {
        table,
        parse,
        "[INTERVAL] [FEED]",
        "Live throughput of all feeds, or of the feed with that id or name, every INTERVAL seconds (default "
        "1). Needs no answer from the daemon. In a pipe the first lines cover the time since each feed "
        "started; without INTERVAL or --count, nothing follows them.\v"
        "NO ROOM is the share of the loaders' time in which the ring was full, NO DATA the share of the "
        "consumers' time in which they waited for a batch, BOTTLENECK what the feed is bound by; on a "
        "terminal and with --once, a sentence per feed says more about that. For a GPU, BUSY is the share of "
        "the time with a copy in progress, WAIT the share in which copies waited for a consumer to release a "
        "batch, BUS the throughput as a share of the measured bandwidth of the bus.",
        NULL,
        NULL,
        NULL};
    ctl_parse(&argp, count, arguments, options);
}

// ---- Looking ---------------------------------------------------------------------------------------

static void show_lines(struct stats_options *options, const struct stats_snapshot *before,
                       const struct stats_snapshot *now, enum daemon_state state) {
    static enum daemon_state told = -1;
    if (options->once || told != state)
        report_daemon(now, state, stdout);
    told = state;
    // One header for all lines, repeated after lines of the other table.
    static bool gpus_last;
    bool feeds = now->feed_count > 0;
    if (gpus_last && feeds)
        putchar('\n');
    options->report.title |= gpus_last && feeds;
    options->report.gpu_title = !gpus_last || feeds;
    report_feeds(&options->report, before, now, stdout);
    gpus_last = report_gpus(&options->report, before, now, stdout) || (gpus_last && !feeds);
    if (options->once)
        report_verdicts(&options->report, before, now, stdout);
    options->report.title = false;
    fflush(stdout);
}

static void show_latencies(struct stats_options *options, const struct stats_snapshot *before,
                           const struct stats_snapshot *now, enum daemon_state state) {
    report_daemon(now, state, stdout);
    report_latencies(&options->report, before, now, stdout);
    fflush(stdout);
}

static void show_screen(struct stats_options *options, const struct stats_snapshot *before,
                        const struct stats_snapshot *now, enum daemon_state state) {
    char *text AUTO_FREE = NULL;
    size_t bytes;
    uint32_t height;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return;
    terminal_size(&options->report.width, &height);
    report_daemon(now, state, out);
    fprintf(out, "\nover the last interval\n");
    if (options->latency) {
        report_latencies(&options->report, before, now, out);
    } else {
        report_feeds(&options->report, before, now, out);
        report_gpus(&options->report, before, now, out);
        fprintf(out, "\nsince each feed started\n");
        report_feeds(&options->report, NULL, now, out);
        report_gpus(&options->report, NULL, now, out);
        if (now->feed_count)
            fputc('\n', out);
        report_verdicts(&options->report, before, now, out);
    }
    fclose(out);
    if (text)
        terminal_draw(text);
}

// Sleeps until an absolute time, so that intervals do not drift, or until a signal comes. In slices, because a signal
// may come just before the sleep.
static void sleep_until(uint64_t when_ns) {
    uint64_t now_ns;
    while (!interrupted && !resized && (now_ns = monotonic_ns()) < when_ns) {
        uint64_t left = min_u64(when_ns - now_ns, 500000000);
        nanosleep(&(struct timespec){.tv_nsec = (long)left}, NULL);
    }
}

struct snapshots {
    struct stats_snapshot before, now, fresh; // `before` to `now` is what is shown
    bool have_before;
};

static void show(struct stats_options *options, const struct snapshots *snapshots, bool screen) {
    const struct stats_snapshot *before = snapshots->have_before ? &snapshots->before : NULL;
    enum daemon_state state = look_state(&snapshots->now);
    if (options->json)
        ctl_print_json(report_json(&options->report, before, &snapshots->now, state), false);
    else if (screen)
        show_screen(options, before, &snapshots->now, state);
    else if (options->latency)
        show_latencies(options, before, &snapshots->now, state);
    else
        show_lines(options, before, &snapshots->now, state);
}

static int watch(struct look *looking, struct stats_options *options, struct snapshots *snapshots,
                 bool screen, struct error *error) {
    uint64_t interval_ns = (uint64_t)(options->interval_s * 1e9), next_ns = monotonic_ns() + interval_ns;
    for (uint64_t reports = 1;; reports++) {
        show(options, snapshots, screen);
        if (options->once || reports == options->count)
            return 0;
        for (sleep_until(next_ns); resized && !interrupted; sleep_until(next_ns)) {
            resized = 0;
            show(options, snapshots, screen);
        }
        int err = interrupted ? 0 : look_at(looking, &snapshots->fresh, error);
        if (interrupted || err < 0)
            return err;
        snapshots->before = snapshots->now;
        snapshots->now = snapshots->fresh;
        snapshots->have_before = true;
        next_ns = max_u64(next_ns + interval_ns, monotonic_ns());
    }
}

// A named feed must exist at the start; it may end later.
static int check_feed(const struct report_options *options, const struct stats_snapshot *now,
                      struct error *error) {
    for (uint32_t i = 0; i < now->feed_count; i++)
        if (report_wants(options, &now->feeds[i]))
            return 0;
    return options->feed
               ? error_set(error, -ENOENT, "there is no feed %s: feedctl stats shows all", options->feed)
               : 0;
}

int cmd_stats(const struct ctl *ctl, int count, char **arguments) {
    struct stats_options options = {.interval_s = 1, .report = {.title = true, .gpu_title = true}};
    struct look looking = {0};
    struct error error = {0};
    parse_options(count, arguments, &options);
    struct snapshots *snapshots AUTO_FREE = calloc(1, sizeof *snapshots);
    int err = snapshots ? look_open(&looking, ctl, &error) : error_set(&error, -ENOMEM, "out of memory");
    if (err == 0)
        err = look_at(&looking, &snapshots->now, &error);
    if (err == 0)
        err = check_feed(&options.report, &snapshots->now, &error);
    if (err < 0)
        return ctl_complain(&error);
    bool screen = !options.once && !options.json && terminal_open();
    // Like vmstat: what reads a pipe is to see its end, unless it asks for more.
    if (!screen && !isatty(STDOUT_FILENO) && !options.interval_given && !options.count)
        options.once = true;
    watch_signals(screen);
    options.report.width = screen ? 0 : ctl_terminal_width();
    err = watch(&looking, &options, snapshots, screen, &error);
    if (screen)
        terminal_close();
    return err < 0 ? ctl_complain(&error) : CTL_OK;
}

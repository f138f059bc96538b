#include "client/ctl/cmd_top.h"

#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "base/sizes.h"
#include "base/time.h"
#include "client/ctl/arguments.h"
#include "client/ctl/text.h"
#include "client/ctl/top/page.h"
#include "client/ctl/top/screen.h"

#define PAGE_ROWS 10 // that the keys for pages move by

static volatile sig_atomic_t interrupted;

static void on_signal(int number) {
    (void)number;
    interrupted = 1;
}

static error_t parse(int key, char *argument, struct argp_state *state) {
    double *interval_s = state->input;
    if (key != ARGP_KEY_ARG)
        return ARGP_ERR_UNKNOWN;
    if (state->arg_num > 0)
        argp_error(state, "too many arguments");
    *interval_s = ctl_parse_decimal(state, "interval", argument, 0.1, 3600);
    return 0;
}

struct top {
    struct gathered gathered;
    struct sections sections;
    struct page page;
    char note[600];
};

// ---- Showing ---------------------------------------------------------------------------------------

static void fill(struct top *top) {
    const struct gathered *gathered = &top->gathered;
    sections_fill(&top->sections, gathered->have_before ? &gathered->before : NULL, &gathered->now);
    top->page.state = look_state(&gathered->now.stats);
}

static void show(struct top *top) {
    char *text AUTO_FREE = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return;
    screen_size(&top->page.width, &top->page.height);
    top->page.note = *top->note ? top->note : NULL;
    page_print(&top->page, &top->sections, top->gathered.have_before ? &top->gathered.before : NULL,
               &top->gathered.now, out);
    fclose(out);
    if (text)
        screen_show(text);
}

// A daemon that has ended leaves the last figures on the screen, and a line that says so.
static void look_again(struct top *top) {
    struct error error = {0};
    *top->note = '\0';
    if (gather(&top->gathered, &error) < 0)
        snprintf(top->note, sizeof top->note, "q quit  %s", error.text);
    fill(top);
}

// ---- Keys ------------------------------------------------------------------------------------------

static void turn_focus(struct top *top, int32_t by) {
    for (int i = 0; i < SECTIONS; i++) {
        top->page.focus = (enum section_kind)(((int32_t)top->page.focus + by + SECTIONS) % SECTIONS);
        if (top->sections.list[top->page.focus].count)
            return;
    }
}

// The consumers and loaders of the feed that is picked, or of all again.
static void choose_feed(struct top *top) {
    const struct section *section = &top->sections.list[top->page.focus];
    uint32_t picked = section_picked(section);
    uint64_t feed = picked == UINT32_MAX ? 0 : section->rows[picked].feed;
    top->sections.feed = top->sections.feed == feed ? 0 : feed;
    fill(top);
}

// False: to end.
static bool handle(struct top *top, enum screen_key key) {
    struct section *section = &top->sections.list[top->page.focus];
    switch (key) {
    case SCREEN_QUIT:
        return false;
    case SCREEN_UP:
    case SCREEN_DOWN:
        section_move(section, key == SCREEN_UP ? -1 : 1);
        return true;
    case SCREEN_PAGE_UP:
    case SCREEN_PAGE_DOWN:
        section_move(section, key == SCREEN_PAGE_UP ? -PAGE_ROWS : PAGE_ROWS);
        return true;
    case SCREEN_TAB:
    case SCREEN_BACKTAB:
        turn_focus(top, key == SCREEN_TAB ? 1 : -1);
        return true;
    case SCREEN_ENTER:
        choose_feed(top);
        return true;
    case SCREEN_SORT:
        section_sort_next(section);
        return true;
    case SCREEN_REVERSE:
        section->descending = !section->descending;
        section_sort(section);
        return true;
    default:
        return true;
    }
}

// A terminal that is gone, or whose input has ended, sends no more keys.
static bool terminal_gone(void) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0 && (input.revents & (POLLHUP | POLLERR | POLLNVAL));
}

static void run(struct top *top, double interval_s) {
    uint64_t interval_ns = (uint64_t)(interval_s * 1e9), next_ns = monotonic_ns() + interval_ns;
    for (bool more = true; more && !interrupted && !terminal_gone();) {
        show(top);
        enum screen_key key = screen_wait(next_ns);
        if (key != SCREEN_NONE)
            more = handle(top, key);
        if (monotonic_ns() < next_ns)
            continue;
        look_again(top);
        next_ns = max_u64(next_ns + interval_ns, monotonic_ns());
    }
}

// ---- Command ---------------------------------------------------------------------------------------

int cmd_top(const struct ctl *ctl, int count, char **arguments) {
    const struct argp argp = {
        NULL,
        parse,
        "[INTERVAL]",
        "Feeds, consumers, loaders and GPUs, full-screen, with bars and short histories, every INTERVAL "
        "seconds (default 1). Keys: q quits; Tab moves to the next section; the arrows select a row; Enter "
        "shows only the consumers and loaders of that row's feed, or all again; s sorts by the next column; "
        "r reverses the order.",
        NULL,
        NULL,
        NULL};
    double interval_s = 1;
    struct error error = {0};
    ctl_parse(&argp, count, arguments, &interval_s);
    struct top *top AUTO_FREE = calloc(1, sizeof *top);
    if (!top)
        error_set(&error, -ENOMEM, "out of memory");
    if (!top || gather_open(&top->gathered, ctl, &error) < 0 || screen_open(&error) < 0) {
        if (top)
            gather_close(&top->gathered);
        return ctl_complain(&error);
    }
    const struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    sections_open(&top->sections, strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
    fill(top);
    run(top, interval_s);
    screen_close();
    sections_close(&top->sections);
    gather_close(&top->gathered);
    return CTL_OK;
}

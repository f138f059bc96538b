#include "daemon/supervisor/reload.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sentence.h"
#include "base/time.h"
#include "daemon/config/config_changes.h"
#include "daemon/source/source.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/bad_samples.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/indexing.h"
#include "daemon/supervisor/notify.h"
#include "daemon/supervisor/task.h"

struct reload {
    struct supervisor *supervisor;
    struct task *task;
    uint64_t asker; // the session that waits for the outcome, or 0
    bool done;      // the thread has finished
    uint64_t seen_opening, seen_progress,
        seen_ns; // what it had opened when that last changed, and when that was

    // Written by the thread, and read by the loop once it is done; the first two also meanwhile.
    struct datasets_opening opening; // number 0: it reads the configuration
    struct config *config;           // when that is not 0
    struct dataset **datasets;
    struct error error;
    bool failed;
    char *path;
};

static void load(void *context) {
    struct reload *reload = context;
    reload->failed = config_load(reload->path, &reload->config, &reload->error) < 0 ||
                     datasets_open(reload->config, &reload->datasets, &reload->opening, &reload->error) < 0;
}

static struct session *find_session(const struct supervisor *supervisor, uint64_t id) {
    struct session *session;
    TAILQ_FOREACH(session, &supervisor->sessions, link)
        if (session->id == id && session->state < SESSION_CLOSING)
            return session;
    return NULL;
}

static void answer(struct supervisor *supervisor, uint64_t asker, int err, const char *text) {
    struct session *session = find_session(supervisor, asker);
    if (!session)
        return;
    if (err)
        session_refuse(session, err, text);
    else
        session_done(session, text);
}

// As show_others has it now.
static void rename_feeds(const struct supervisor *supervisor) {
    const struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link) {
        if (!feed->stats)
            continue; // it is QUEUED, and has no record yet
        stats_feed_write_begin(feed->stats);
        served_feed_write_names(feed);
        stats_feed_write_end(feed->stats);
    }
}

// Takes over the configuration and the datasets.
static void apply(struct reload *reload) {
    struct supervisor *supervisor = reload->supervisor;
    struct config *old = supervisor->config;
    datasets_close(supervisor->datasets, supervisor->dataset_count, supervisor->own_closer);
    supervisor->config = reload->config;
    supervisor->datasets = reload->datasets;
    supervisor->dataset_count = supervisor->config->dataset_count;
    supervisor->stats->header.ring_memory = supervisor->config->ring_memory;
    log_set_level((enum log_level)supervisor->config->log_level);
    rename_feeds(supervisor);
    reload->config = NULL;
    reload->datasets = NULL;
    indexing_begin_again(supervisor);
    bad_samples_forget(supervisor, false);
    config_free(old);
}

static void describe(const struct reload *reload, char *text, size_t bytes) {
    const struct supervisor *supervisor = reload->supervisor;
    struct change_lines lines = {.text = text, .bytes = bytes};
    const size_t count = reload->config->dataset_count;
    change_lines_add(&lines, "serving %zu dataset%s", count, count == 1 ? "" : "s");
    config_describe_changes(supervisor->config, reload->config, supervisor->socket_path, &lines);
    datasets_describe_changes(supervisor, reload->config, reload->datasets, &lines);
    change_lines_end(&lines);
}

// Logs each change on a line of its own. The log's level takes the place of the prefix.
static void log_changes(const char *text) {
    const size_t prefix = strlen(CONFIG_CHANGES_WARNING);
    for (size_t length; *text; text += length + (text[length] != '\0')) {
        bool warning = strncmp(text, CONFIG_CHANGES_WARNING, prefix) == 0;
        if (warning)
            text += prefix;
        length = strcspn(text, "\n");
        log_write(warning ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "reloaded: %.*s", (int)length, text);
    }
}

static void free_reload(struct reload *reload) {
    config_free(reload->config);
    free(reload->path);
    free(reload);
}

// In the thread, if the loop has left; else `datasets` are closed already.
static void discard(void *context) {
    struct reload *reload = context;
    if (reload->datasets)
        datasets_close(reload->datasets, reload->config->dataset_count, NULL);
    free_reload(reload);
}

static void refuse(struct reload *reload, int err, const char *text) {
    supervisor_report(reload->supervisor, "reload: %s; everything stays as it was", text);
    answer(reload->supervisor, reload->asker, err, text);
    notify_ready(reload->supervisor->dataset_count, reload->supervisor->socket_path);
}

static void accept_result(struct reload *reload) {
    struct supervisor *supervisor = reload->supervisor;
    char text[4096];
    describe(reload, text, sizeof text);
    apply(reload);
    log_changes(text);
    answer(supervisor, reload->asker, 0, text);
    notify_ready(supervisor->dataset_count, supervisor->socket_path);
}

static void finish(struct reload *reload) {
    struct supervisor *supervisor = reload->supervisor;
    bool wanted = !supervisor->reload_given_up && supervisor->state < SUPERVISOR_STOPPING;
    if (wanted && reload->failed)
        refuse(reload, reload->error.code, reload->error.text);
    else if (wanted)
        accept_result(reload);
    if (supervisor->reload_given_up)
        log_info("the abandoned reload has ended");
    if (reload->datasets)
        datasets_close(reload->datasets, reload->config->dataset_count, supervisor->own_closer);
    reload->datasets = NULL;
    supervisor->reload = NULL;
    supervisor->reload_given_up = false;
    task_leave(reload->task); // it has ended, so this frees the reload
}

// The turn that follows finishes the reload.
static void on_loaded(void *context) {
    struct reload *reload = context;
    reload->done = true;
}

// Storage that does not answer.
static void watch(struct reload *reload, uint64_t now) {
    struct supervisor *supervisor = reload->supervisor;
    uint64_t limit_s = supervisor->config->loader_timeout_s;
    // Pairs with the release in datasets_open: the configuration is complete.
    uint64_t opening = atomic_load_explicit(&reload->opening.number_plus_1, memory_order_acquire);
    uint64_t progress = atomic_load_explicit(&source_progress, memory_order_relaxed);
    char text[512];
    if (opening != reload->seen_opening || progress != reload->seen_progress || supervisor->stood_still) {
        reload->seen_opening = opening;
        reload->seen_progress = progress;
        reload->seen_ns = now;
    }
    if (supervisor->reload_given_up || now - reload->seen_ns < limit_s * NS_PER_S)
        return;
    if (opening)
        snprintf(text, sizeof text,
                 "opening a file of dataset %s has taken more than %" PRIu64 " s (loader_timeout)",
                 reload->config->datasets[opening - 1].name, limit_s);
    else
        sentence_write(text, sizeof text, "reading %s has taken more than %" PRIu64 " s (loader_timeout)",
                       reload->path, limit_s);
    supervisor->reload_given_up = true;
    refuse(reload, -ETIMEDOUT, text);
}

static int start(struct supervisor *supervisor) {
    struct reload *reload = calloc(1, sizeof *reload);
    if (!reload)
        return -ENOMEM;
    const struct task_work work = {.run = load, .ended = on_loaded, .discard = discard, .context = reload};
    reload->supervisor = supervisor;
    reload->asker = supervisor->reload_asker;
    reload->seen_ns = monotonic_ns();
    reload->path = strdup(supervisor->config->file);
    int err = reload->path ? task_start(&supervisor->poll_set, &work, &reload->task) : -ENOMEM;
    if (err) {
        free_reload(reload);
        return err;
    }
    supervisor->reload = reload;
    notify_reloading();
    return 0;
}

bool reload_is_due(const struct supervisor *supervisor) {
    return supervisor->reload_wanted && !supervisor->reload && supervisor->state < SUPERVISOR_STOPPING;
}

void reload_act(struct supervisor *supervisor) {
    if (supervisor->reload && supervisor->reload->done)
        finish(supervisor->reload);
    else if (supervisor->reload && supervisor->state < SUPERVISOR_STOPPING)
        watch(supervisor->reload, monotonic_ns());
    if (!reload_is_due(supervisor))
        return;
    supervisor->reload_wanted = false;
    int err = start(supervisor);
    if (err) {
        char text[128];
        snprintf(text, sizeof text, "cannot start a reload: %s", strerror(-err));
        supervisor_report(supervisor, "%s; everything stays as it was", text);
        answer(supervisor, supervisor->reload_asker, err, text);
    }
    supervisor->reload_asker = 0;
}

void reload_leave(struct supervisor *supervisor) {
    if (supervisor->reload)
        task_leave(supervisor->reload->task);
    supervisor->reload = NULL;
}

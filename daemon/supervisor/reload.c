#include "daemon/supervisor/reload.h"

#include <string.h>

#include "base/error.h"
#include "daemon/config/config_changes.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/notify.h"

struct reload {
    uv_work_t work;
    struct supervisor *supervisor;
    uint64_t asker; // the session that waits for the outcome, or 0
    char *path;
    bool done; // the thread has finished
    struct config *config;
    struct dataset **datasets;
    struct error error;
};

static void load(uv_work_t *work) {
    struct reload *reload = work->data;
    if (config_load(reload->path, &reload->config, &reload->error) < 0)
        return;
    if (datasets_open(reload->config, &reload->datasets, &reload->error) < 0) {
        config_free(reload->config);
        reload->config = NULL;
    }
}

static struct session *find_session(const struct supervisor *supervisor, uint64_t id) {
    struct session *session;
    LIST_FOREACH(session, &supervisor->sessions, link)
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
    config_free(old);
}

static void describe(const struct reload *reload, char *text, size_t bytes) {
    const struct supervisor *supervisor = reload->supervisor;
    size_t count = reload->config->dataset_count;
    size_t used =
        (size_t)snprintf(text, bytes, "%zu dataset%s on offer\n", count, count == 1 ? " is" : "s are");
    if (config_describe_changes(supervisor->config, reload->config, supervisor->socket_path, text + used,
                                bytes - used) == 0)
        text[used - 1] = '\0';
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

static void discard(struct reload *reload) {
    if (reload->config) {
        datasets_close(reload->datasets, reload->config->dataset_count, reload->supervisor->own_closer);
        config_free(reload->config);
    }
    free(reload->path);
    free(reload);
}

static void finish(struct reload *reload) {
    struct supervisor *supervisor = reload->supervisor;
    char text[4096];
    if (!reload->config) {
        supervisor_report(supervisor, "reload: %s; everything stays as it was", reload->error.text);
        answer(supervisor, reload->asker, reload->error.code, reload->error.text);
    } else if (supervisor->state < SUPERVISOR_STOPPING) {
        describe(reload, text, sizeof text);
        apply(reload);
        log_changes(text);
        answer(supervisor, reload->asker, 0, text);
    }
    if (supervisor->state < SUPERVISOR_STOPPING)
        notify_ready(supervisor->dataset_count, supervisor->socket_path);
    supervisor->reload = NULL;
    discard(reload);
}

// Wakes the loop; the turn that follows finishes the reload.
static void on_loaded(uv_work_t *work, int status) {
    struct reload *reload = work->data;
    (void)status;
    reload->done = true;
}

static int start(struct supervisor *supervisor) {
    struct reload *reload = calloc(1, sizeof *reload);
    if (!reload)
        return -ENOMEM;
    reload->work.data = reload;
    reload->supervisor = supervisor;
    reload->asker = supervisor->reload_asker;
    reload->path = strdup(supervisor->config->file);
    if (!reload->path || uv_queue_work(&supervisor->loop, &reload->work, load, on_loaded) != 0) {
        discard(reload);
        return -ENOMEM;
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
    if (!reload_is_due(supervisor))
        return;
    supervisor->reload_wanted = false;
    if (start(supervisor) < 0) {
        supervisor_report(supervisor, "reload: out of memory; everything stays as it was");
        answer(supervisor, supervisor->reload_asker, -ENOMEM, "out of memory; everything stays as it was");
    }
    supervisor->reload_asker = 0;
}

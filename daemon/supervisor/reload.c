// The datasets on offer, and how they change: the configuration is read and files are opened in a thread of
// libuv's pool, because storage may be slow; the loop goes on meanwhile and swaps the result in. Feeds in use
// keep what they have.
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "daemon/source/source.h"
#include "daemon/supervisor/clients/session.h"

struct reload {
    uv_work_t work;
    struct supervisor *supervisor;
    uint64_t asker;
    char *path;
    struct config *config;
    struct dataset **datasets;
    struct error error;
};

void datasets_close(struct dataset **datasets, size_t count) {
    for (size_t i = 0; datasets && i < count; i++)
        if (datasets[i])
            dataset_unref(datasets[i]);
    free(datasets);
}

int datasets_open(const struct config *config, struct dataset ***datasets, struct error *error) {
    struct dataset **opened = calloc(config->dataset_count + 1, sizeof(struct dataset *));
    if (!opened)
        return error_set(error, -ENOMEM, "out of memory");
    for (size_t i = 0; i < config->dataset_count; i++) {
        int err = source_open_dataset(&config->datasets[i], &opened[i], error);
        if (err) {
            datasets_close(opened, i);
            return err;
        }
    }
    *datasets = opened;
    return 0;
}

struct dataset *datasets_find(const struct supervisor *supervisor, const char *name) {
    for (size_t i = 0; i < supervisor->dataset_count; i++)
        if (strcmp(supervisor->datasets[i]->name, name) == 0)
            return supervisor->datasets[i];
    return NULL;
}

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
        if (session->id == id)
            return session;
    return NULL;
}

static void answer(const struct reload *reload, int err, const char *text) {
    struct session *session = find_session(reload->supervisor, reload->asker);
    if (!session || session->state >= SESSION_CLOSING)
        return;
    if (err) {
        session_refuse(session, err, text);
    } else {
        Feedd__Done done = FEEDD__DONE__INIT;
        Feedd__ServerMessage frame = FEEDD__SERVER_MESSAGE__INIT;
        done.text = (char *)text;
        frame.body_case = FEEDD__SERVER_MESSAGE__BODY_DONE;
        frame.done = &done;
        session_send(session, &frame.base);
    }
    session_flush(session);
}

static void apply(struct reload *reload) {
    struct supervisor *supervisor = reload->supervisor;
    struct config *old = supervisor->config;
    if (strcmp(old->socket, reload->config->socket) != 0)
        log_warning("socket: still listening on %s; a new path needs a restart", old->socket);
    datasets_close(supervisor->datasets, supervisor->dataset_count);
    supervisor->config = reload->config;
    supervisor->datasets = reload->datasets;
    supervisor->dataset_count = reload->config->dataset_count;
    supervisor->stats->header.ring_memory = reload->config->ring_memory;
    log_set_level((enum log_level)reload->config->log_level);
    config_free(old);
}

static void finish(uv_work_t *work, int status) {
    struct reload *reload = work->data;
    struct supervisor *supervisor = reload->supervisor;
    char text[128];
    (void)status;
    supervisor->reloading = false;
    if (supervisor->state >= SUPERVISOR_STOPPING) {
        if (reload->config) {
            datasets_close(reload->datasets, reload->config->dataset_count);
            config_free(reload->config);
        }
    } else if (!reload->config) {
        supervisor_report(supervisor, "reload: %s; everything stays as it was", reload->error.text);
        answer(reload, reload->error.code, reload->error.text);
    } else {
        apply(reload);
        snprintf(text, sizeof text, "%zu dataset%s on offer", supervisor->dataset_count,
                 supervisor->dataset_count == 1 ? " is" : "s are");
        log_info("reloaded: %s", text);
        answer(reload, 0, text);
    }
    notify_ready(supervisor);
    free(reload->path);
    free(reload);
    supervisor_check_done(supervisor);
}

void reload_start(struct supervisor *supervisor, uint64_t asker) {
    struct reload *reload = supervisor->reloading ? NULL : calloc(1, sizeof *reload);
    if (!reload)
        return;
    reload->work.data = reload;
    reload->supervisor = supervisor;
    reload->asker = asker;
    reload->path = strdup(supervisor->config->file);
    supervisor->reloading = true;
    notify_reloading();
    if (!reload->path || uv_queue_work(&supervisor->loop, &reload->work, load, finish) != 0) {
        supervisor->reloading = false;
        free(reload->path);
        free(reload);
        supervisor_report(supervisor, "reload: out of memory; everything stays as it was");
    }
}

#include "daemon/supervisor/supervisor.h"

#include <string.h>

#include "base/sentence.h"
#include "base/states.h"
#include "base/time.h"
#include "daemon/supervisor/feeds/prepared_loaders.h"

static const struct state states[] = {
    [SUPERVISOR_RUNNING] = {"running", STATE(SUPERVISOR_DRAINING) | STATE(SUPERVISOR_STOPPING) |
                                           STATE(SUPERVISOR_STOPPED)},
    [SUPERVISOR_DRAINING] = {"draining", STATE(SUPERVISOR_STOPPING)},
    [SUPERVISOR_STOPPING] = {"stopping", STATE(SUPERVISOR_STOPPED)},
    [SUPERVISOR_STOPPED] = {"stopped", 0},
};
static const struct state_table table = STATE_TABLE("supervisor", states);

void supervisor_init(struct supervisor *supervisor, struct config *config) {
    TAILQ_INIT(&supervisor->sessions);
    LIST_INIT(&supervisor->users);
    LIST_INIT(&supervisor->feeds);
    LIST_INIT(&supervisor->kept_rings);
    prepared_loaders_init(supervisor);
    LIST_INIT(&supervisor->caches);
    TAILQ_INIT(&supervisor->brought);
    LIST_INIT(&supervisor->devices);
    LIST_INIT(&supervisor->bad_samples);
    mark_queue_init(&supervisor->marked_sessions);
    mark_queue_init(&supervisor->marked_feeds);
    mark_queue_init(&supervisor->marked_devices);
    mark_queue_init(&supervisor->unsent_sessions);
    mark_queue_init(&supervisor->closed_sessions);
    supervisor->config = config;
    supervisor->group = (gid_t)-1;
    supervisor->listen_fd = supervisor->lock_fd = supervisor->stats_fd = supervisor->poll_set.epoll_fd = -1;
    supervisor->started_ns = supervisor->listening_ns = monotonic_ns();
}

void supervisor_set_state(struct supervisor *supervisor, enum supervisor_state state) {
    supervisor->state = (enum supervisor_state)state_next(&table, supervisor->state, state);
}

void supervisor_report(struct supervisor *supervisor, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    sentence_format(text, sizeof text, format, arguments);
    va_end(arguments);
    log_error("%s", text);
    uint32_t place = supervisor->error_count++ % LAST_ERRORS;
    supervisor->last_errors[place].at_ns = monotonic_ns();
    sentence_write(supervisor->last_errors[place].text, sizeof supervisor->last_errors[place].text, "%s",
                   text);
}

void supervisor_drain(struct supervisor *supervisor) {
    if (supervisor->state != SUPERVISOR_RUNNING)
        return;
    log_info("draining: no new consumers are accepted; feedd stops when the last one has left");
    supervisor_set_state(supervisor, SUPERVISOR_DRAINING);
}

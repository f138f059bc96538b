#include "daemon/supervisor/clients/tracing.h"

#include <string.h>

#include "shm/trace.h"

// The rings of the processes that there are. The memory of a ring stays until the daemon ends: a process that has just
// seen it turned on may still write to it.
static int turn_on_all(struct supervisor *supervisor) {
    const struct stats_region *stats = supervisor->stats;
    int err = trace_turn_on(supervisor->stats_fd, supervisor->trace_on, TRACE_SUPERVISOR);
    for (uint32_t i = 0; !err && i < STATS_MAX_LOADERS; i++)
        if (atomic_load_explicit(&stats->owners.feed[i], memory_order_relaxed))
            err = trace_turn_on(supervisor->stats_fd, supervisor->trace_on, i);
    for (uint32_t i = 0; !err && i < STATS_MAX_GPUS; i++)
        if (stats->gpus[i].used)
            err = trace_turn_on(supervisor->stats_fd, supervisor->trace_on, TRACE_GPU(i));
    return err;
}

static int open_switches(struct supervisor *supervisor, struct error *error) {
    if (supervisor->trace_on)
        return 0;
    int err = trace_switches_open(supervisor->stats_fd, &supervisor->trace_on, error);
    if (!err)
        err = trace_writer_open(supervisor->stats_fd, TRACE_SUPERVISOR, (uint32_t)getpid(), 0,
                                &supervisor->trace, error);
    return err;
}

void tracing_begin(struct session *session) {
    struct supervisor *supervisor = session->supervisor;
    struct error error = {0};
    char text[600];
    if (session->traces) {
        session_refuse(session, -EALREADY, "this session has turned the timeline on already");
        return;
    }
    int err = open_switches(supervisor, &error);
    if (!err)
        err = turn_on_all(supervisor);
    if (err) {
        if (supervisor->trace_on && !supervisor->tracers)
            trace_turn_off(supervisor->trace_on);
        snprintf(text, sizeof text, "there is no room for a timeline beside the statistics: %s",
                 *error.text ? error.text : strerror(-err));
        session_refuse(session, err, text);
        return;
    }
    session->traces = true;
    supervisor->tracers++;
    session_done(session, "the timeline is on until this session ends");
}

void tracing_end(struct session *session) {
    struct supervisor *supervisor = session->supervisor;
    if (!session->traces)
        return;
    session->traces = false;
    if (--supervisor->tracers == 0)
        trace_turn_off(supervisor->trace_on);
}

void tracing_tick(struct supervisor *supervisor) {
    if (supervisor->tracers)
        (void)turn_on_all(supervisor); // without room, a new process is not in the timeline
}

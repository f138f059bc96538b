#include "client/ctl/cmd_metrics.h"

#include "client/ctl/arguments.h"
#include "client/ctl/look.h"
#include "client/ctl/metrics.h"
#include "client/ctl/text.h"

static error_t parse(int key, char *argument, struct argp_state *state) {
    (void)argument;
    if (key == ARGP_KEY_ARG)
        argp_error(state, "too many arguments");
    if (key != 'p')
        return ARGP_ERR_UNKNOWN;
    *(enum metrics_format *)state->input = METRICS_PROMETHEUS;
    return 0;
}

int cmd_metrics(const struct ctl *ctl, int count, char **arguments) {
    static const struct argp_option options[] = {
        {"prometheus", 'p', NULL, 0,
         "print the older text format of Prometheus, as node_exporter's textfile collector reads it", 0},
        {0},
    };
    const struct argp argp = {options,
                              parse,
                              NULL,
                              "The statistics as OpenMetrics text, once. Needs no answer from the daemon. "
                              "feedd-exporter(8) serves the same over HTTP.",
                              NULL,
                              NULL,
                              NULL};
    enum metrics_format format = METRICS_OPEN;
    ctl_parse(&argp, count, arguments, &format);
    struct look look = {0};
    struct error error = {0};
    struct stats_snapshot *snapshot AUTO_FREE = calloc(1, sizeof *snapshot);
    int err = snapshot ? look_open(&look, ctl, &error) : error_set(&error, -ENOMEM, "out of memory");
    if (err == 0)
        err = look_at(&look, snapshot, &error);
    // No daemon is an answer too, so that what a collector keeps is replaced.
    if (err == -ENOENT) {
        ctl_complain(&error);
        metrics_write(format, NULL, DAEMON_GONE, stdout);
        return CTL_OK;
    }
    if (err < 0)
        return ctl_complain(&error);
    metrics_write(format, snapshot, look_state(snapshot), stdout);
    return CTL_OK;
}

// The statistics as text for Prometheus. Used by feedctl metrics and feedd-exporter.
#ifndef FEEDD_CLIENT_CTL_METRICS_H
#define FEEDD_CLIENT_CTL_METRICS_H

#include <stdio.h>

#include "client/ctl/rates.h"

enum metrics_format {
    METRICS_OPEN,      // OpenMetrics 1.0
    METRICS_PROMETHEUS // the older format, which has no units and no end: version 0.0.4
};

// What to name as the content type of each.
const char *metrics_content_type(enum metrics_format format);

// Everything that `snapshot` has; NULL: there is no daemon, and that is all there is to say.
void metrics_write(enum metrics_format format, const struct stats_snapshot *snapshot, enum daemon_state state,
                   FILE *out);

#endif

// Latencies as a table or JSON. Used by feedctl stats.
#ifndef FEEDD_CLIENT_CTL_REPORT_LATENCY_H
#define FEEDD_CLIENT_CTL_REPORT_LATENCY_H

#include "client/ctl/report.h"

// A line per latency of a feed or GPU that has been seen at all: over the time since `before`, or since the start when
// that is NULL. GPUs are left out when one feed alone is wanted.
void report_latencies(const struct report_options *options, const struct stats_snapshot *before,
                      const struct stats_snapshot *now, FILE *out);

// By name: how many there were, and the seconds that half, 90 %, 99 % and all of them were shorter than.
json_t *report_feed_latencies_json(const struct stats_feed_snapshot *before,
                                   const struct stats_feed_snapshot *now);
json_t *report_gpu_latencies_json(const struct stats_gpu_snapshot *before,
                                  const struct stats_gpu_snapshot *now);

#endif

// One look at the statistics as text or JSON. Used by feedctl stats.
#ifndef FEEDD_CLIENT_CTL_REPORT_H
#define FEEDD_CLIENT_CTL_REPORT_H

#include "client/ctl/rates.h"
#include "client/ctl/text.h"
#include "client/ctl/verdict.h"

struct report_options {
    const char *feed; // id or name to show alone; NULL: all
    uint32_t width;   // 0: any
    bool title;       // of the table of feeds
    bool gpu_title;
};

// Whether `options` wants this feed.
bool report_wants(const struct report_options *options, const struct stats_feed_snapshot *feed);

// "feedd 123 alive, up 3 min 2 s, 4 sessions, rings 128 MiB of 4 GiB": at most 80 columns.
void report_daemon(const struct stats_snapshot *now, enum daemon_state state, FILE *out);

// A line a feed: over the time since `before`, or since each feed started when that is NULL.
void report_feeds(const struct report_options *options, const struct stats_snapshot *before,
                  const struct stats_snapshot *now, FILE *out);

// "consumers wait 83 % of their time (for loaders 80 %, ...); loaders copy 1 %, ...".
void report_shares(const struct verdict *verdict, char *text, size_t bytes);

// A sentence or two per feed, over the same time: what it is bound by, the shares of time behind that, and a hint.
void report_verdicts(const struct report_options *options, const struct stats_snapshot *before,
                     const struct stats_snapshot *now, FILE *out);

// A line a GPU, over the same times, after an empty line if there is a title. Nothing when no GPU is in use, or when
// one feed alone is wanted; returns whether there was something.
bool report_gpus(const struct report_options *options, const struct stats_snapshot *before,
                 const struct stats_snapshot *now, FILE *out);

// One object: see feedctl(1).
json_t *report_json(const struct report_options *options, const struct stats_snapshot *before,
                    const struct stats_snapshot *now, enum daemon_state state);

#endif

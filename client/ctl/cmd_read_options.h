// The options of feedctl read.
#ifndef FEEDD_CLIENT_CTL_CMD_READ_OPTIONS_H
#define FEEDD_CLIENT_CTL_CMD_READ_OPTIONS_H

#include "client/ctl/ctl.h"
#include "client/feed.h"

struct read_options {
    struct feed_options feed;
    uint64_t batches;    // 0: until the run ends
    int64_t timeout_ms;  // for one batch; 0: no limit
    uint64_t work_us;    // per batch
    const char *indices; // a file for one line "EPOCH SAMPLE" per sample; NULL: none
    bool verify, digest, quiet;
};

// Exits with a usage message on an error.
void read_parse(const struct ctl *ctl, int count, char **arguments, struct read_options *options);

#endif

// The options of feedctl read.
#ifndef FEEDD_CLIENT_CTL_CMD_READ_H
#define FEEDD_CLIENT_CTL_CMD_READ_H

#include "client/ctl/ctl.h"
#include "client/feed.h"

struct read_options {
    struct feed_options feed;
    uint64_t batches;    // 0: until the run ends
    int64_t timeout_ms;  // for one batch; 0: for ever
    uint64_t work_us;    // a batch
    const char *indices; // a file for a line "EPOCH SAMPLE" a sample; NULL: none
    bool verify, digest, quiet;
};

// Ends the program with a usage message when something is wrong.
void read_parse(const struct ctl *ctl, int count, char **arguments, struct read_options *options);

#endif

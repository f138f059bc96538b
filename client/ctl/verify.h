// feedctl read --verify: reads the same samples from the files and keeps track of which ones were delivered.
#ifndef FEEDD_CLIENT_CTL_VERIFY_H
#define FEEDD_CLIENT_CTL_VERIFY_H

#include "base/error.h"
#include "client/ctl/ctl.h"
#include "client/feed.h"

struct verify;

struct verify_epoch {
    uint64_t samples; // delivered in it so far
    uint64_t skipped;
    bool whole; // from its first batch on
};

// Finds out where the samples are stored. `options` are those that the feed was opened with.
int verify_open(struct verify **verify, const struct ctl *ctl, const struct feed *feed,
                const struct feed_options *options, struct error *error);

// Checks one batch: its place in the order, that none of its samples came earlier in this epoch, and every byte of the
// fields that are not transformed.
// -EBADMSG with a sentence that says what is wrong.
int verify_batch(struct verify *verify, const struct feed *feed, const struct feed_batch *batch,
                 struct error *error);

// After the last batch of an epoch: checks that every sample came, and begins the next epoch.
int verify_epoch_end(struct verify *verify, struct verify_epoch *epoch, struct error *error);

// The names of the fields whose bytes are checked, or of those that are transformed so that they cannot be: "a, b", cut
// to `bytes`. Returns how many there are.
uint32_t verify_fields(const struct verify *verify, bool checked, char *names, size_t bytes);

// Whether the daemon's index says where the bytes are, and what the numbers are that it has read from text.
bool verify_by_index(const struct verify *verify);

// Samples checked in all epochs.
uint64_t verify_samples(const struct verify *verify);
// Of them, those in whose places others stand, because they cannot be read.
uint64_t verify_replaced(const struct verify *verify);

void verify_close(struct verify *verify);

#endif

// What must hold for what a client gets: batches, ends and errors.
#ifndef FEEDD_TESTS_SIMULATE_ORACLE_H
#define FEEDD_TESTS_SIMULATE_ORACLE_H

#include "tests/simulate/client.h"

// It has attached, with a token or without: where it begins.
void oracle_opened(struct client *client, bool resumed);

// It cannot attach.
void oracle_not_opened(const struct client *client, int err, bool resumed);

// It got a batch, which it now holds.
void oracle_batch(struct client *client, const struct feed_batch *batch);

// Its samples are the right ones: from now on held->contents says which.
void oracle_samples(const struct client *client, struct held *held);

// It gave back what it held, which was intact.
void oracle_intact(const struct client *client, const struct held *held);
bool oracle_is_intact(const struct held *held);

// Its job is over.
void oracle_ended(const struct client *client);

// feed_next or feed_batch_release returned this error, which ends the handle.
void oracle_failed(struct client *client, int err);

// With this error: a sample that the client is due cannot be read, and no other can replace it.
bool oracle_cannot_continue(const struct client *client, int err);

#endif

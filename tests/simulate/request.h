// What a simulated client asks for.
#ifndef FEEDD_TESTS_SIMULATE_REQUEST_H
#define FEEDD_TESTS_SIMULATE_REQUEST_H

#include "tests/simulate/client.h"

struct feed_options request_options(const struct client *client);

// Opens client->feed.
int request_open(struct client *client, const struct feed_options *options);

// Makes a token for another place, as of a job with other batches.
void request_wander(struct client *client);

#endif

// How a simulated loader gets its feed: with its start, or by its socket, if it is prepared.
#ifndef FEEDD_TESTS_SIMULATE_LOADER_FEED_H
#define FEEDD_TESTS_SIMULATE_LOADER_FEED_H

#include "tests/simulate/loader.h"

// It is prepared, and gets a feed by its socket.
void loader_wait_for_feed(struct loader *loader, int assignment_fd, int far_fd);
// Before its number is another descriptor's.
void loader_far_end_closes(struct loader *loader);

// The feed that its process has. The descriptor of the event becomes its own.
void loader_take_feed(struct loader *loader, int ring_fd, int event_fd);

// Its actor's, until it has one.
void loader_act_waiting(struct loader *loader);
void loader_stop_waiting(struct loader *loader);

#endif

// The order of a run that goes through its dataset group by group (order/window.h), from what comes with the daemon's
// answer.
#ifndef FEEDD_CLIENT_LIB_OWN_WINDOW_H
#define FEEDD_CLIENT_LIB_OWN_WINDOW_H

#include "order/window.h"
#include "proto/codec.h"

// All zeros: the run has no such order.
struct own_window {
    struct window_groups *groups; // a copy: nobody changes it
    struct window_order *order;
};

// For a run of `samples` samples with that seed, reads the groups from `fd`. -EPROTO for those that cannot be. On
// failure own_window_close is due as well.
int own_window_open(struct own_window *window, uint64_t samples, uint64_t seed, const Feedd__Window *about,
                    int fd, struct error *error);
void own_window_close(struct own_window *window);

#endif

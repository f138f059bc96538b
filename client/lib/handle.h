// What is behind a libfeed handle. Layers, each of which calls those to its left alone: connection, attachment,
// leases and batch, reconnect, handle. feed.h declares the functions of handle.c, and those of describe.c that take a
// handle.
#ifndef FEEDD_CLIENT_LIB_HANDLE_H
#define FEEDD_CLIENT_LIB_HANDLE_H

#include "base/error.h"
#include "client/feed.h"
#include "client/lib/attachment.h"
#include "client/lib/describe.h"
#include "client/lib/reconnect.h"
#include "order/order.h"

#define FEED_API __attribute__((visibility("default")))

enum handle_state {
    HANDLE_NEW, // not attached yet
    HANDLE_ATTACHED,
    HANDLE_LOST,   // the daemon is gone, and we look for it
    HANDLE_ENDED,  // the daemon said End: after what is queued the run is over
    HANDLE_FAILED, // nothing more is delivered
};

struct feed {
    struct open_request request;
    struct gpu *gpu; // NULL: host memory
    enum handle_state state;
    int failed;                 // HANDLE_FAILED: the error that every feed_next() returns
    struct reconnect reconnect; // HANDLE_LOST
    struct error error;         // the last one

    struct attachment
        *now; // and, by its `past`, those of which leases are still held; NULL before HANDLE_ATTACHED
    struct described described;

    struct order order; // of order_epoch, kept for feed_batch_sample
    uint64_t order_epoch;
    bool order_known;
};

#endif

// The arguments of feed_open_view(), checked and copied: attaching again after a restart of the daemon needs them, too.
#ifndef FEEDD_CLIENT_LIB_OPEN_REQUEST_H
#define FEEDD_CLIENT_LIB_OPEN_REQUEST_H

#include "base/error.h"
#include "client/feed.h"
#include "client/lib/own_view.h"
#include "client/lib/waiting.h"

struct open_request {
    char *socket, *dataset, *share, *resume, *client_name;
    struct own_view view;
    struct feed_options options; // its strings are the ones above
};

// `view` may be NULL. -EINVAL for invalid options, -ENOMEM. Release it with open_request_free in any case.
int open_request_copy(struct open_request *request, const struct feed_options *options,
                      const struct feed_view *view, struct error *error);
void open_request_free(struct open_request *request);

static inline struct interrupt open_request_interrupt(const struct open_request *request) {
    return (struct interrupt){request->options.interrupted, request->options.interrupted_context};
}

#endif

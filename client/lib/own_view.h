// A view that the program brings (feed_open_view): checked and copied, since a daemon that is restarted has to be given
// it again.
#ifndef FEEDD_CLIENT_LIB_OWN_VIEW_H
#define FEEDD_CLIENT_LIB_OWN_VIEW_H

#include "base/error.h"
#include "client/feed.h"
#include "client/lib/connection.h"

struct own_view {
    struct feed_view what; // `data` and `part` are not used. kind 0: there is no view
    // The numbers, or NULL; with `chooses`, after the weights, how often each sample counts: PROTO_TIMES_WORDS.
    uint64_t *words;
    uint64_t word_count;
    bool chooses;
    uint64_t hash; // of the words
};

// -EINVAL, -ERANGE, -ENOMEM. NULL: not a view. Release it with own_view_free in any case.
int own_view_copy(struct own_view *copy, const struct feed_view *view, struct error *error);
void own_view_free(struct own_view *copy);

// Brings it to the daemon, which knows it already or is sent it. With `patience_ns`, *deadline moves on as the daemon
// takes more of it.
int own_view_bring(const struct own_view *view, struct connection *connection, const char *dataset,
                   uint64_t patience_ns, uint64_t *deadline, struct error *error);

#endif

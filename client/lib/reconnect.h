// Attaching to a daemon that is being restarted: for the first time, and again after it was lost, where the application
// stands. What it still holds of the lost attachment
// stays readable.
#ifndef FEEDD_CLIENT_LIB_RECONNECT_H
#define FEEDD_CLIENT_LIB_RECONNECT_H

#include "base/error.h"
#include "client/lib/attachment.h"

// While the daemon is lost.
struct reconnect {
    uint64_t until_ns; // then we give up
    uint64_t next_try_ns;
    uint64_t denied_ns;       // since when we may not connect; 0: we may
    struct attachment *fresh; // while an attempt is made: see attachment_open
};

// Whether an error of the connection, or one that the daemon sent, means a loss that is to be made good.
bool reconnect_is_wanted(const struct open_request *request, int err);

// The first attachment: attachment_open, repeated until the deadline while the daemon is being restarted. A daemon that
// was not there to begin with is not waited for.
int reconnect_first(struct attachment **fresh, const struct open_request *request, struct gpu *gpu,
                    uint64_t deadline, struct error *error);

// Begins to look for the daemon: disconnects, and forgets what was granted and not handed out.
void reconnect_begin(struct reconnect *reconnect, struct attachment *lost);

// One attempt, if it is time for one, that ends by `deadline` or soon after. 1 attached again: *now is the new
// attachment, the lost one is in the list after it while something of it is held. 0 not yet, -EINTR as
// feed_options.interrupted says, or the error that ends the handle.
int reconnect_try(struct reconnect *reconnect, struct attachment **now, struct gpu *gpu, uint64_t deadline,
                  struct error *error);

#endif

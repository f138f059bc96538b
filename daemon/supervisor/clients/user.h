// What the sessions of one user share: how many there are, and how often they may ask.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_USER_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_USER_H

#include "base/bucket.h"
#include "daemon/supervisor/supervisor.h"

// The place of a session in the queue of its user's sessions that wait for a new feed.
struct feed_wait {
    TAILQ_ENTRY(feed_wait) link;
    bool waits;
};

struct user {
    LIST_ENTRY(user) link;
    uid_t uid;
    uint32_t sessions;
    struct bucket questions; // one per query or command
    struct bucket new_feeds;
    TAILQ_HEAD(, feed_wait) waiting; // for a new feed, in the order in which they came
    struct bucket pieces;            // of views that it brings
    struct bucket log_lines;         // about its sessions
    uint64_t lines_left_out;         // of the log, since the last one that was written
};

// The record of a user, created if necessary, with one more session. NULL: out of memory.
struct user *user_get(struct supervisor *supervisor, uid_t uid, uint64_t now);
// One session less. The record stays until users_forget, or a user who connects anew for every few questions could ask
// without end.
void user_put(struct user *user);

// Frees the records of users who have no session, and may ask and have logged as much as a new user.
void users_forget(struct supervisor *supervisor, uint64_t now);

// Whether this user may have another question answered: an answer costs more than other messages do.
bool user_may_ask(struct user *user, uint64_t now);

// Whether a feed may be made for this session of the user now. A feed costs an allocation, and a process per loader. If
// not, the session waits and asks again; sessions that come later are served after it.
bool user_may_make_feed(struct user *user, struct feed_wait *wait, uint64_t now);
// Ends the wait of a session, if it waits: it loses its place.
void user_stop_waiting(struct user *user, struct feed_wait *wait);

// Whether another piece of a view may be taken from this user now: one costs up to a tenth of a millisecond.
bool user_may_send_piece(struct user *user, uint64_t now);

// Whether to write a line about a session of this user. Logs how many were suppressed before.
bool user_may_log(struct user *user, uint64_t now);

#endif

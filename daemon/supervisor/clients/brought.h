// Views that clients bring, as the daemon holds them: nobody but their user finds one, and those who bring the same
// view of the same dataset share it. It lasts as long as a session or a feed uses it, and for `linger` after that.
//
// A view with a list or weights is there once its words have arrived, from one of the sessions that want it, and have
// proved to be what that session had said. If that one leaves, the next one begins again.
#ifndef FEEDD_DAEMON_SUPERVISOR_CLIENTS_BROUGHT_H
#define FEEDD_DAEMON_SUPERVISOR_CLIENTS_BROUGHT_H

#include "base/error.h"
#include "base/queue.h"
#include "daemon/supervisor/supervisor.h"
#include "order/selection.h"

enum brought_state {
    BROUGHT_ARRIVING, // its words are still to come
    BROUGHT_WORKING,  // a thread completes the list
    BROUGHT_READY,
    BROUGHT_FAILED, // `error` says why
};

// What it is. Of weights, `selection.seed` is the hash of the words too, until there is a table.
struct brought_want {
    struct dataset *base;
    struct selection selection;
    uint32_t dtype; // of a list or weights
    bool chooses;   // draws are from a part of the samples: its words also say how often each one counts
};

struct arrival;
struct list_job;
struct session;

struct brought {
    TAILQ_ENTRY(brought) link; // of the supervisor, those that were held last at the end
    struct supervisor *supervisor;
    uid_t user;
    struct brought_want want; // holds a reference to `base`
    enum brought_state state;
    struct dataset *dataset; // a reference, once READY
    uint64_t bytes;          // that count for its user
    uint32_t sessions;       // that wait for it, or have it
    uint64_t idle_since_ns;  // 0: it is in use
    struct session *bringer; // sends the words; NULL: nobody does now
    struct arrival *arrival; // while ARRIVING or WORKING
    struct list_job *job;    // while WORKING
    struct error error;
};

// The view that a user wants, found or made; the session holds it from now on. -EAGAIN: room is being made for it, try
// again at the next tick. Or why there will be none.
int brought_hold(struct session *session, const struct brought_want *want, struct brought **held,
                 struct error *error);

// The session does not use it any more: it may be gone.
void brought_let_go(struct brought *brought, struct session *session);

// The turn: what a thread has made of it is taken over.
void brought_act(struct brought *brought);

// Frees what nobody has used for `linger`, and ends sessions that are too slow.
void brought_tick(struct supervisor *supervisor, uint64_t now);

// Frees all of them: no session or feed is left.
void brought_leave(struct supervisor *supervisor);

// ---- For brought_room.c and brought_words.c ----------------------------------------------------------------

void brought_set_state(struct brought *brought, enum brought_state state);

// Makes the sessions act that wait for it.
void brought_mark_sessions(const struct brought *brought);

// Whether a session, or a feed that has clients, uses it.
bool brought_is_used(const struct brought *brought);

void brought_free(struct brought *brought);

#endif

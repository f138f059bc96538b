// A client as a feed sees it: a consumer with a place in it, or one that waits for a place. Embedded in the client's
// session, which is notified through `events`; those only queue messages and mark the session.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_MEMBER_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_MEMBER_H

#include "base/queue.h"
#include "base/scope.h"
#include "daemon/supervisor/delivery/types.h"
#include "daemon/supervisor/feeds/attach_request.h"

struct member;

struct member_events {
    // It has a place: member->feed, and member->pool on a GPU.
    void (*joined)(struct member *member);
    // The batches that it is granted in this slot of its pool from now on are in memory of the slot's own, which has
    // that descriptor. False: the client does not read, and is to be told later.
    bool (*slot_grown)(struct member *member, uint32_t slot, uint64_t bytes, int fd);
    // Batches sequence, sequence + 1, ... are in these slots, at most PROTO_MAX_GRANTS. `company`: see
    // served_feed_company.
    void (*granted)(struct member *member, uint64_t sequence, const uint32_t *slots, uint32_t count,
                    uint32_t company);
    // Only `company` has changed. False: the client does not read, and is to be told later.
    bool (*accompanied)(struct member *member, uint32_t company);
    // It has been granted everything that it is due.
    void (*ended)(struct member *member);
    // It gets nothing more, for the reason given. It stays on the feed's lists until the session takes it off
    // (places.h).
    void (*failed)(struct member *member, int code, const char *text);
};

struct member {
    const struct member_events *events;
    struct attach_request request;
    struct served_feed *feed;    // in which it has a place, or NULL
    struct served_feed *awaited; // in which it waits for one, or NULL
    LIST_ENTRY(member) feed_link;
    TAILQ_ENTRY(member) awaited_link;
    struct consumer consumer;
    uint32_t process; // of the client
    bool end_told;
    bool failed;
    bool dropped; // the daemon ends its session, for no fault in what it sent: it may still use what it holds
    bool is_counted;  // in feed->counted
    bool is_gathered; // in feed->gathered, if that was GATHERING
    uint64_t
        silent_since_ns; // since when only those are missing there that do not say that they know their place
    uint32_t company_told; // to the client

    // On a GPU:
    struct pool *pool;
    LIST_ENTRY(member) pool_link;
    int words_fd;        // its release words
    uint32_t *told;      // of each slot of the pool: how often it had grown when the client was last told
    uint64_t entered_ns; // when it entered the pool
    uint64_t stalling_since_ns; // since when others have waited for its stream; 0: none do
    uint64_t stalling_heard_ns;
};

void member_init(struct member *member, const struct member_events *events);

// Notifies the session, with a sentence.
void member_fail(struct member *member, int code, const char *format, ...) PRINTF_LIKE(3, 4);

#endif

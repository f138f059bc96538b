// A feed being served: its ring, its loaders, its pools on GPUs and the clients that have a place in it. These
// functions change the feed's own state and mark it; feed_turn.h acts.
#ifndef FEEDD_DAEMON_SUPERVISOR_FEEDS_SERVED_FEED_H
#define FEEDD_DAEMON_SUPERVISOR_FEEDS_SERVED_FEED_H

#include "base/scope.h"
#include "daemon/supervisor/delivery/delivery.h"
#include "daemon/supervisor/delivery/fill_loaders.h"
#include "daemon/supervisor/delivery/pace.h"
#include "daemon/supervisor/feeds/loader_count.h"
#include "daemon/supervisor/feeds/member.h"
#include "daemon/supervisor/processes/condemned.h"
#include "daemon/supervisor/processes/respawn.h"
#include "daemon/supervisor/supervisor.h"
#include "shm/block_share.h"
#include "shm/ring.h"

enum feed_state {
    FEED_QUEUED,    // waits for room, which idle feeds are making; has nothing yet
    FEED_MAKING,    // the first slots of its ring are being allocated, off the loop; its loaders start
    FEED_GATHERING, // waits for wait_for consumers before the first grant
    FEED_RUNNING,
    FEED_CLOSING, // its loaders and pools are being ended
};

// What feed_clock.h saw when it last looked.
struct feed_clock {
    uint64_t looked_ns; // 0: never
    uint64_t leases;    // batches held, summed over consumers
    bool complete;      // a complete batch was in the ring that a consumer had yet to be granted
};

struct served_feed {
    LIST_ENTRY(served_feed) link;
    struct mark mark;
    struct supervisor *supervisor;
    uint64_t id;
    char name[PROTO_MAX_NAME + 1];
    uid_t user;
    enum feed_state state;
    struct feed_shape shape;
    char images_by[IMAGES_BY_TEXT]; // as its first consumer found it
    struct dataset *dataset;        // a reference
    struct stats_feed *stats;       // NULL while QUEUED

    uint32_t wait_for;
    uint32_t gathered;        // consumers that have joined while GATHERING, and know it
    uint64_t gather_until_ns; // RUNNING from then on, even if some are missing; 0: wait for all
    // While GATHERING, newcomers have to wait until then: consumers return that were promised leases. 0: they need not
    uint64_t newcomers_from_ns;
    uint64_t returns_until_ns; // until then a consumer that returns may take its lane back to its place
    uint64_t max_lag_ns;
    uint64_t idle_since_ns; // since when it has had no consumers; 0: it has some
    uint64_t warm_until_ns; // until then a client may come back that waited for a place and left (idle.h)
    uint64_t closing_since_ns;
    uint64_t kept_until_ns; // its memory is left as it is until then; 0: nobody needs it (kept.h)

    // Its ring, as planned for what the first client asked for.
    uint64_t ring_bytes;
    uint64_t asked_ring_bytes;
    uint32_t asked_prefetch;
    uint32_t asked_lanes; // local_world_size
    int ring_fd, ring_read_fd;
    struct ring ring;
    struct block_share_plan share; // of decoded blocks; zeros: its loaders share none
    int share_fd;
    bool share_lacks; // descriptors or memory ran out when it was made; tried again for the next loader
    struct user_cache *
        *caches; // of decoded images, for each source of a mix, else for the dataset; NULL: none
    uint32_t cache_count;
    struct making *making; // while it is queued, or a slot of its ring is still to be allocated
    int event_fd;          // with which loaders wake the supervisor
    struct poll_entry event;
    struct loaders_fill fill; // of the delivery
    struct growth *growth;    // of the ring's slots; NULL: no ragged fields
    struct delivery delivery;
    struct pace pace;
    struct feed_clock clock;

    LIST_HEAD(, member) members; // in host memory and on GPUs
    uint32_t member_count;
    uint32_t counted;   // members that have not come to their end,
    uint32_t twins;     // and pairs of them of the same rank
    bool tells_company; // some members have not been told of the last change
    uint64_t told_company_ns;
    TAILQ_HEAD(, member) awaiting; // join once the feed, or the pool they need, is ready
    bool admit;                    // some of those may be able to join now
    bool find_laggards;            // some members may be holding up others
    LIST_HEAD(, pool) pools;

    LIST_HEAD(, loader_process) loaders;
    uint32_t loaders_wanted;
    bool loaders_auto; // as many as it needs
    struct loader_count loader_count;
    uint32_t loaders_running;
    uint32_t loaders_left;      // behind, and not gone
    uint64_t starved_since_ns;  // what the feed lacks are the slots that they keep; 0: it lacks none
    struct condemned condemned; // samples that have ended its loaders
    uint32_t hung_file; // index, plus 1, of the file in which a loader was last seen to hang; 0: not known
    uint32_t next_serial;
    struct respawn respawn;
};

const char *served_feed_state_name(enum feed_state state);
void served_feed_set_state(struct served_feed *feed, enum feed_state state);

// Makes the turn act on it.
void served_feed_mark(struct served_feed *feed);

// Whether any client has a place in it or waits for one.
static inline bool served_feed_in_use(const struct served_feed *feed) {
    return !LIST_EMPTY(&feed->members) || !TAILQ_EMPTY(&feed->awaiting);
}

// Whether its ring has slots and it is not closing.
static inline bool served_feed_is_open(const struct served_feed *feed) {
    return feed->state == FEED_GATHERING || feed->state == FEED_RUNNING;
}

// Writes its names to its record in the statistics, between stats_feed_write_begin and _end; none if somebody may read
// the statistics who may not see the names.
void served_feed_write_names(const struct served_feed *feed);
// From here on it has a record in the statistics, and a ring of so many slots.
void served_feed_publish(struct served_feed *feed, struct stats_feed *stats, uint32_t slot_count);

// The partition of a run of this shape in which a batch begins there.
struct partition served_feed_partition(const struct feed_shape *shape, uint64_t epoch, uint64_t consumed);

// The run that a consumer needs: the one that it was in before the daemon was lost, else one as above.
struct partition served_feed_run(const struct feed_shape *shape, const struct attach_request *request);

// Called before a client is given a place: holds back the first grant of a feed in which nobody has one, until as many
// have joined as it asks for, or as others know of that return from the same run.
void served_feed_gather(struct served_feed *feed, const struct attach_request *request);
void served_feed_end_gathering(struct served_feed *feed);
// A member knows its place. Until then, a feed that waits for it grants nothing: if the daemon were lost, the member
// would come back as a newcomer, and the others would have begun without it.
void served_feed_gathered(struct served_feed *feed, struct member *member);
// A member has left: the feed waits for at most the highest number that any remaining one asks for.
void served_feed_expect_fewer(struct served_feed *feed);

// How many consumers are to return if the daemon is lost: those that read the same batches must wait for each other, as
// long as they have not come to their end. 0: nothing has been granted yet.
uint32_t served_feed_company(const struct served_feed *feed);
void served_feed_count(struct served_feed *feed, struct member *member);
void served_feed_uncount(struct served_feed *feed, struct member *member);

// Tells the clients that wait for a place on that GPU (NULL: anywhere) why they will not get one.
void served_feed_refuse(struct served_feed *feed, const char *device, int code, const char *text);

// Ends the feed with an error for all its clients.
void served_feed_fail(struct served_feed *feed, int code, const char *format, ...) PRINTF_LIKE(3, 4);

// The same if its ring cannot be as loaders leave it.
void served_feed_fail_damaged(struct served_feed *feed);

// Ends the feed. Its clients have left, or have been told.
void served_feed_close(struct served_feed *feed);

#endif

// Simulated clients: real libfeed, each in a coroutine that yields where libfeed waits. A client runs its job to the
// end through whatever happens: it resumes from a token when it was killed or has left, and every batch is compared
// with the reference.
#ifndef FEEDD_TESTS_SIMULATE_CLIENT_H
#define FEEDD_TESTS_SIMULATE_CLIENT_H

#include <sys/queue.h>

#include "client/feed.h"
#include "gpu/gpu.h"
#include "tests/simulate/coroutine.h"
#include "tests/simulate/storage.h"

#define HELD_MOST 8u

struct held {
    struct feed_batch batch;
    struct reference_batch expected;
    struct contents contents;
};

struct client {
    struct actor actor;
    struct coroutine coroutine;
    struct group *group;
    uint32_t number;
    struct reference_run run;
    bool dead;                                // killed: it only cleans up what its process had
    bool done;                                // its job is over
    bool alone;                               // its shared feed has moved on without it
    bool gives_up;                            // a sample cannot be read
    bool dismissed;                           // what it waits for will never come, and rightly so
    uint32_t waits_for;                       // until its first batch
    int refused;                              // the error of its last feed_open
    int fd;                                   // of its newest connection
    uint64_t connection, detached_connection; // the number of that one; of the last one that was detached
    const char *device;                       // NULL: host memory
    gpu_stream streams[2];                    // there
    LIST_HEAD(, kernel) kernels;
    struct feed *feed;
    uint64_t fingerprint; // of what it last attached to; 0: it has not yet
    uint64_t stands_still_ns;

    // Where it is, and where its last checkpoint is.
    struct reference_place place, saved_place;
    char saved[FEED_TOKEN_BYTES]; // "": none
    struct held held[HELD_MOST];
    uint32_t held_count;
    uint64_t batches;

    uint32_t generation;       // of its last batch; 0 if it has attached since
    uint64_t daemon_ns;        // when the daemon of that generation was started
    uint64_t before_ns;        // heard_ns as of the daemon before
    uint64_t heard_ns;         // when it last attached or got a batch, with that daemon still up
    uint64_t called_ns;        // its last call of libfeed returned
    uint64_t longest_pause_ns; // since it last asked to attach
};

// Which one runs now; NULL: the daemon, or somebody else.
extern struct client *client_running;

void clients_begin(void);
bool clients_done(void);

// When the member of a group that had been out of touch for the longest time last heard of an earlier daemon.
uint64_t clients_last_together(const struct group *group);
void clients_end(void);

// Ends those that can only wait: for consumers that have finished, or for memory that a loader keeps whose read never
// ends.
void clients_dismiss(void);

// One at random is killed, or stands still.
void clients_kill_one(void);
void clients_stop_one(uint64_t for_ns);

// Each client that is not done, in words.
void clients_describe(void);
uint64_t clients_batches(void);

// ---- For the functions that libfeed waits with -------------------------------------------------------------

// Until its actor acts.
void client_yield(struct client *client);
void client_sleep(struct client *client, uint64_t ns);

#endif

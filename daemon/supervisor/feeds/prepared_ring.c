#include "daemon/supervisor/feeds/prepared_ring.h"

#include <string.h>
#include <uv.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/states.h"
#include "base/time.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/feeds/room.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/processes/loader_prepared.h"
#include "shm/ring_room.h"

#define PREPARED_BYTES (2 * MIB)              // one huge page, where there are some
#define LEAST_LEFT     (16u * PREPARED_BYTES) // where less is unused, feeds need it more
#define PAUSE_NS       (100 * NS_PER_MS)      // after a feed has begun
#define AGAIN_NS       (1 * NS_PER_S)         // between two tries

enum prepared_ring_state {
    RING_BEING_MADE, // in a thread
    RING_THERE,
    RING_OVER, // it has gone to a feed, or could not be made
};

static const struct state states[] = {
    [RING_BEING_MADE] = {"being made", STATE(RING_THERE) | STATE(RING_OVER)},
    [RING_THERE] = {"there", STATE(RING_OVER)},
    [RING_OVER] = {"over", 0},
};
static const struct state_table table = STATE_TABLE("prepared ring", states);

struct prepared_ring {
    uv_work_t work;
    struct supervisor *supervisor;
    enum prepared_ring_state state;
    bool unwanted; // it is given up as soon as it is there
    uint64_t number;
    int fd, read_fd;
    int err;
    struct error error;
};

static void set_state(struct prepared_ring *ring, enum prepared_ring_state state) {
    ring->state = (enum prepared_ring_state)state_next(&table, ring->state, state);
}

static void forget(struct prepared_ring *ring) {
    set_state(ring, RING_OVER);
    ring->supervisor->prepared.ring = NULL;
    close_fd(&ring->read_fd);
    free(ring);
}

static bool is_there(const struct supervisor *supervisor) {
    return supervisor->prepared.ring && supervisor->prepared.ring->state == RING_THERE;
}

bool prepared_ring_give_up(struct supervisor *supervisor) {
    struct prepared_ring *ring = supervisor->prepared.ring;
    uint32_t one = 1;
    supervisor->prepared.tried_ns = monotonic_ns(); // not made again at once
    if (!is_there(supervisor)) {
        if (ring)
            ring->unwanted = true;
        return false;
    }
    // Loaders that wait have it mapped, so closing it would not free it.
    closer_take_memory(supervisor->own_closer, CLOSER_ANYBODY, &ring->fd, &one, PREPARED_BYTES);
    forget(ring);
    return true;
}

// ---- Making it ---------------------------------------------------------------------------------------------

static void work(uv_work_t *job) {
    struct prepared_ring *ring = job->data;
    ring->err = ring_prepare(PREPARED_BYTES, &ring->fd, &ring->read_fd, &ring->error);
}

static void on_worked(uv_work_t *job, int status) {
    struct prepared_ring *ring = job->data;
    struct supervisor *supervisor = ring->supervisor;
    if (status < 0 || ring->err) {
        log_debug("%s", status < 0 ? "the next ring was given up" : ring->error.text);
        forget(ring);
        return;
    }
    set_state(ring, RING_THERE);
    supervisor->prepared.changed = true; // loaders that wait are offered it
    if (ring->unwanted)
        prepared_ring_give_up(supervisor);
}

static bool is_wanted(const struct supervisor *supervisor) {
    return supervisor->state == SUPERVISOR_RUNNING && supervisor->config->prepare_loaders;
}

static bool any_waits_for_room(const struct supervisor *supervisor) {
    const struct served_feed *feed;
    LIST_FOREACH(feed, &supervisor->feeds, link)
        if (feed->making)
            return true;
    return false;
}

static bool has_room(const struct supervisor *supervisor) {
    const uint64_t held = room_held_bytes(supervisor), most = supervisor->config->ring_memory;
    return most > held && min_u64(most - held, ring_free_bytes()) >= LEAST_LEFT;
}

static void make(struct supervisor *supervisor) {
    struct prepared_ring *ring = calloc(1, sizeof *ring);
    if (!ring)
        return;
    ring->supervisor = supervisor;
    ring->number = ++supervisor->prepared.next_ring;
    ring->fd = ring->read_fd = -1;
    ring->work.data = ring;
    if (uv_queue_work(&supervisor->loop, &ring->work, work, on_worked) < 0)
        free(ring);
    else
        supervisor->prepared.ring = ring;
}

void prepared_ring_tick(struct supervisor *supervisor, uint64_t now) {
    if (!is_wanted(supervisor) || room_held_bytes(supervisor) > supervisor->config->ring_memory) {
        prepared_ring_give_up(supervisor);
        return;
    }
    if (supervisor->prepared.ring || now < supervisor->prepared.taken_ns + PAUSE_NS ||
        now < supervisor->prepared.tried_ns + AGAIN_NS || any_waits_for_room(supervisor))
        return;
    supervisor->prepared.tried_ns = now;
    if (has_room(supervisor))
        make(supervisor);
}

// ---- Using it ----------------------------------------------------------------------------------------------

uint64_t prepared_ring_bytes(const struct supervisor *supervisor) {
    return is_there(supervisor) ? PREPARED_BYTES : 0;
}

void prepared_ring_offer(const struct supervisor *supervisor, struct loader_process *loader) {
    const struct prepared_ring *ring = supervisor->prepared.ring;
    if (!is_there(supervisor) || loader->offered == ring->number)
        return;
    loader->offered = ring->number;
    int err = loader_prepared_offer(loader, ring->fd, PREPARED_BYTES);
    if (err)
        log_debug("process %d is not offered the next ring: %s", (int)process_pid(&loader->process),
                  strerror(-err));
}

uint64_t prepared_ring_take(struct supervisor *supervisor, const struct ring_plan *plan, int *fd,
                            int *read_fd) {
    struct prepared_ring *ring = supervisor->prepared.ring;
    uint64_t bytes = PREPARED_BYTES;
    struct error error;
    if (!is_there(supervisor))
        return 0;
    if (ring_adopt(plan, ring->fd, &bytes, &error) < 0) {
        log_debug("%s", error.text);
        prepared_ring_give_up(supervisor);
        return 0;
    }
    *fd = ring->fd;
    *read_fd = ring->read_fd;
    ring->read_fd = -1;
    supervisor->prepared.tried_ns = 0;
    forget(ring);
    return bytes;
}

void prepared_ring_free(struct supervisor *supervisor) {
    struct prepared_ring *ring = supervisor->prepared.ring;
    if (!ring)
        return;
    close_fd(&ring->fd);
    forget(ring);
}

#include "daemon/supervisor/feeds/kept.h"

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/supervisor/closer.h"

struct kept_ring {
    LIST_ENTRY(kept_ring) link;
    int fd;
    uid_t user;
    uint64_t bytes, until_ns;
};

// On a GPU it reads in the pool.
void kept_note(struct served_feed *feed, const struct member *member) {
    if (member->dropped && member->consumer.held_count && !member->pool)
        feed->kept_until_ns = monotonic_ns() + KEPT_NS;
}

static void give_back(struct supervisor *supervisor, uid_t user, int fd, uint64_t bytes) {
    uint32_t one = 1;
    closer_take_memory(supervisor->own_closer, user, &fd, &one, bytes);
}

void kept_take(struct served_feed *feed) {
    struct supervisor *supervisor = feed->supervisor;
    if (feed->ring_fd < 0)
        return;
    close_fd(&feed->ring_read_fd); // not the last descriptor, so this frees nothing
    // A daemon that ends leaves memory to those that have it mapped: see kept_leave.
    bool ends = supervisor->state >= SUPERVISOR_STOPPING;
    bool keep = feed->kept_until_ns > (ends ? 0 : monotonic_ns());
    struct kept_ring *kept = keep ? malloc(sizeof *kept) : NULL;
    if (kept) {
        *kept = (struct kept_ring){.fd = feed->ring_fd,
                                   .user = feed->user,
                                   .bytes = feed->ring_bytes,
                                   .until_ns = feed->kept_until_ns};
        LIST_INSERT_HEAD(&supervisor->kept_rings, kept, link);
    } else {
        give_back(supervisor, feed->user, feed->ring_fd, feed->ring_bytes);
    }
    feed->ring_fd = -1;
}

uint64_t kept_bytes(const struct supervisor *supervisor, uid_t user) {
    const struct kept_ring *kept;
    uint64_t bytes = closer_bytes(supervisor->own_closer, user);
    LIST_FOREACH(kept, &supervisor->kept_rings, link)
        if (user == CLOSER_ANYBODY || kept->user == user)
            bytes += kept->bytes;
    return bytes;
}

void kept_tick(struct supervisor *supervisor, uint64_t now) {
    struct kept_ring *kept, *next;
    if (supervisor->state >= SUPERVISOR_STOPPING)
        return; // see kept_take
    LIST_FOREACH_SAFE(kept, &supervisor->kept_rings, link, next) {
        if (now < kept->until_ns)
            continue;
        LIST_REMOVE(kept, link);
        give_back(supervisor, kept->user, kept->fd, kept->bytes);
        free(kept);
    }
}

void kept_leave(struct supervisor *supervisor) {
    struct kept_ring *kept;
    while ((kept = LIST_FIRST(&supervisor->kept_rings))) {
        LIST_REMOVE(kept, link);
        close(kept->fd);
        free(kept);
    }
}

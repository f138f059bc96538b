#include "daemon/supervisor/feeds/feed_event.h"

#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include "base/error.h"

int feed_event_open(struct served_feed *feed, struct error *error) {
    feed->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return feed->event_fd < 0 ? error_set(error, -errno, "cannot make an eventfd: %m") : 0;
}

// A loader shares the description, so it could take the flag that keeps a read from waiting off it, and empty it just
// before: this read does not rely on the flag where the kernel can do without.
static ssize_t empty(int fd) {
    uint64_t count;
    const struct iovec piece = {&count, sizeof count};
    ssize_t got = preadv2(fd, &piece, 1, -1, RWF_NOWAIT);
    return got < 0 && errno == EOPNOTSUPP ? read(fd, &count, sizeof count) : got;
}

static void on_event(struct poll_entry *entry, uint32_t events) {
    struct served_feed *feed = CONTAINER_OF(entry, struct served_feed, event);
    (void)events;
    if (empty(feed->event_fd) < 0 && errno != EAGAIN)
        log_warning("cannot read the eventfd of feed %" PRIu64 ": %m", feed->id);
    served_feed_mark(feed);
}

int feed_event_watch(struct served_feed *feed, struct error *error) {
    int err = poll_set_add(&feed->supervisor->poll_set, &feed->event, feed->event_fd, EPOLLIN, on_event);
    return err ? error_set(error, err, "cannot watch an eventfd: %s", strerror(-err)) : 0;
}

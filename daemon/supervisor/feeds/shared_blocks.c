#include "daemon/supervisor/feeds/shared_blocks.h"

#include <inttypes.h>

#include "base/error.h"
#include "daemon/log.h"
#include "daemon/supervisor/closer.h"
#include "daemon/supervisor/feeds/feed_loaders_count.h"
#include "daemon/supervisor/processes/loader_process.h"

// Of all parts of a mix. Plain blocks count too: they are numbered together.
static uint64_t count_blocks(const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    uint64_t count = layout->blocks.count;
    for (uint32_t i = 0; i < layout->part_count; i++)
        count += dataset->sources[i]->layout->blocks.count;
    return count;
}

void shared_blocks_open(struct served_feed *feed) {
    const struct dataset_blocks *blocks = &feed->dataset->layout->blocks;
    const bool again = feed->share_lacks;
    struct error error = {0};
    if (!blocks->memory ||
        !block_share_plan(&feed->share, count_blocks(feed->dataset), feed_loaders_most(feed), blocks->memory))
        return;
    int err = block_share_create(&feed->share, &feed->share_fd, &error);
    feed->share_lacks = error_is_lack(err);
    if (!err)
        return;
    feed->share = (struct block_share_plan){0};
    if (!again)
        log_warning("feed %" PRIu64 ": each loader decodes blocks for itself: %s", feed->id, error.text);
}

void shared_blocks_close(struct served_feed *feed) {
    uint32_t one = 1;
    if (feed->share_fd >= 0)
        closer_take(feed->supervisor->own_closer, feed->user, &feed->share_fd, &one);
    feed->share_fd = -1;
}

static bool has(const struct served_feed *feed, uint32_t arena) {
    const struct loader_process *loader;
    LIST_FOREACH(loader, &feed->loaders, link)
        if (loader->share_arena == arena)
            return true;
    return false;
}

uint32_t shared_blocks_arena(const struct served_feed *feed) {
    uint32_t arena = 0;
    while (arena < feed->share.arenas && has(feed, arena))
        arena++;
    return arena;
}

void shared_blocks_lend(struct served_feed *feed, struct loader_start *start) {
    if (feed->share_lacks)
        shared_blocks_open(feed);
    start->share = &feed->share;
    start->share_fd = feed->share_fd;
    start->share_arena = shared_blocks_arena(feed);
}

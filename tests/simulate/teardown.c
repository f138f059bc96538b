#include "tests/simulate/teardown.h"

#include "daemon/supervisor/clients/brought.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/bad_samples.h"
#include "daemon/supervisor/feeds/device.h"
#include "daemon/supervisor/feeds/growth.h"
#include "daemon/supervisor/feeds/kept.h"
#include "daemon/supervisor/feeds/making.h"
#include "daemon/supervisor/feeds/pool_growth.h"
#include "daemon/supervisor/feeds/prepared_ring.h"
#include "daemon/supervisor/feeds/sample_caches.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "daemon/supervisor/processes/transfer_process.h"
#include "tests/simulate/children.h"
#include "tests/simulate/network.h"

static void end_session(struct session *session) {
    TAILQ_REMOVE(&session->supervisor->sessions, session, link);
    if (session->fd >= 0) {
        network_closed(session->fd);
        close_fd(&session->fd);
    }
    close_fd(&session->member.words_fd);
    free(session->member.told);
    peer_groups_free(&session->groups);
    frame_reader_free(&session->reader);
    frame_writer_free(&session->writer);
    free(session);
}

static void end_loader(struct loader_process *loader) {
    LIST_REMOVE(loader, link);
    child_orphaned(&loader->process);
    for (int i = 0; i < LOADER_COUNTERS; i++)
        atomic_store(&loader->record->counters[i], 0);
    atomic_store(loader->record_owner, 0);
    close_fd(&loader->process.channel_fd);
    free(loader);
}

static void end_prepared(struct loader_process *loader) {
    LIST_REMOVE(loader, link);
    child_orphaned(&loader->process);
    close_fd(&loader->process.channel_fd);
    loader_process_free(&loader->process);
}

static void end_pool(struct pool *pool) {
    LIST_REMOVE(pool, link);
    delivery_close(&pool->delivery);
    pool_growth_close(pool);
    ring_unmap(&pool->ring);
    close_fd(&pool->ring_fd);
    close_fd(&pool->ring_read_fd);
    close_fd(&pool->memory_fd);
    free(pool);
}

static void end_device(struct device *device) {
    LIST_REMOVE(device, link);
    if (device->transfer) {
        child_orphaned(&device->transfer->process);
        device->transfer->process.state = PROCESS_GONE;
        transfer_process_release(device->transfer);
    }
    close_fd(&device->wake_fd);
    device->supervisor->stats->gpus[device->record].used = 0;
    free(device);
}

static void end_feed(struct served_feed *feed) {
    struct loader_process *loader;
    struct pool *pool;
    while ((pool = LIST_FIRST(&feed->pools)))
        end_pool(pool);
    LIST_REMOVE(feed, link);
    while ((loader = LIST_FIRST(&feed->loaders)))
        end_loader(loader);
    delivery_close(&feed->delivery);
    growth_close(feed);
    making_free(feed);
    ring_unmap(&feed->ring);
    close_fd(&feed->ring_fd);
    close_fd(&feed->ring_read_fd);
    close_fd(&feed->event_fd);
    close_fd(&feed->share_fd);
    sample_caches_end(feed);
    if (feed->stats)
        feed->stats->id = 0;
    datasets_release(feed->dataset, NULL);
    free(feed);
}

void teardown(struct supervisor *supervisor) {
    struct session *session;
    struct served_feed *feed;
    struct device *device;
    struct user *user;
    struct loader_process *loader;
    while ((loader = LIST_FIRST(&supervisor->prepared.list)))
        end_prepared(loader);
    prepared_ring_free(supervisor);
    while ((session = TAILQ_FIRST(&supervisor->sessions)))
        end_session(session);
    while ((feed = LIST_FIRST(&supervisor->feeds)))
        end_feed(feed);
    while ((device = LIST_FIRST(&supervisor->devices)))
        end_device(device);
    sample_caches_leave(supervisor);
    kept_leave(supervisor);
    brought_leave(supervisor);
    bad_samples_forget(supervisor, true);
    while ((user = LIST_FIRST(&supervisor->users))) {
        LIST_REMOVE(user, link);
        free(user);
    }
    codec_arena_free(&supervisor->arena);
    close_fd(&supervisor->poll_set.epoll_fd);
}

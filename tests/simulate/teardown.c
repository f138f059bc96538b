#include "tests/simulate/teardown.h"

#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/datasets.h"
#include "daemon/supervisor/feeds/kept.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "tests/simulate/children.h"
#include "tests/simulate/network.h"

static void end_session(struct session *session) {
    LIST_REMOVE(session, link);
    if (session->fd >= 0) {
        network_closed(session->fd);
        close_fd(&session->fd);
    }
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

static void end_feed(struct served_feed *feed) {
    struct loader_process *loader;
    LIST_REMOVE(feed, link);
    while ((loader = LIST_FIRST(&feed->loaders)))
        end_loader(loader);
    delivery_close(&feed->delivery);
    ring_unmap(&feed->ring);
    close_fd(&feed->ring_fd);
    close_fd(&feed->ring_read_fd);
    close_fd(&feed->event_fd);
    if (feed->stats)
        feed->stats->id = 0;
    datasets_release(feed->dataset, NULL);
    free(feed->making);
    free(feed);
}

void teardown(struct supervisor *supervisor) {
    struct session *session;
    struct served_feed *feed;
    struct user *user;
    while ((session = LIST_FIRST(&supervisor->sessions)))
        end_session(session);
    while ((feed = LIST_FIRST(&supervisor->feeds)))
        end_feed(feed);
    kept_leave(supervisor);
    while ((user = LIST_FIRST(&supervisor->users))) {
        LIST_REMOVE(user, link);
        free(user);
    }
    codec_arena_free(&supervisor->arena);
    close_fd(&supervisor->poll_set.epoll_fd);
}

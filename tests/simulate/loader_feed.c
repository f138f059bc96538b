#include "tests/simulate/loader_feed.h"

#include <errno.h>
#include <fcntl.h>

#include "base/fdpass.h"
#include "daemon/heritage.h"
#include "daemon/supervisor/processes/loader_process.h"
#include "tests/simulate/network.h"

void loader_wait_for_feed(struct loader *loader, int assignment_fd, int far_fd) {
    loader->assignment_fd = assignment_fd;
    loader->far_fd = far_fd;
    network_watched(assignment_fd, &loader->actor);
    network_watched(far_fd, &loader->actor);
}

void loader_far_end_closes(struct loader *loader) {
    if (loader->far_fd >= 0)
        network_unwatched(loader->far_fd, &loader->actor);
    loader->far_fd = -1;
}

void loader_stop_waiting(struct loader *loader) {
    if (loader->assignment_fd >= 0)
        network_unwatched(loader->assignment_fd, &loader->actor);
    close_fd(&loader->assignment_fd);
}

void loader_take_feed(struct loader *loader, int ring_fd, int event_fd) {
    const struct loader_process *known = loader_process_of(loader->process);
    loader->serial = known->serial;
    loader->record = known->record;
    loader->mapping = mapping_get(loader->process->owner, ring_fd);
    loader->ring = loader->mapping->ring;
    loader->event_fd = event_fd;
}

static int take_descriptor(const struct loader_assignment *assignment, struct received_fds *received,
                           int number) {
    for (uint32_t i = 0; i < assignment->count; i++)
        if (assignment->numbers[i] == number)
            return fcntl(received->fds[i], F_DUPFD_CLOEXEC, 0);
    sim_violated("a loader has got no descriptor %d", number);
}

// What comes is complete; it may come only after the loader has been asked to end.
void loader_act_waiting(struct loader *loader) {
    struct loader_assignment assignment;
    int fds[FDPASS_MOST];
    struct received_fds received = receive_into(fds, FDPASS_MOST);
    const bool wanted = loader->process && loader->process->state == PROCESS_RUNNING;
    ssize_t got = fdpass_receive(loader->assignment_fd, &assignment, sizeof assignment, &received, NULL);
    if (got == -EAGAIN && wanted)
        return;
    if (got != (ssize_t)sizeof assignment || !wanted) {
        received_fds_close(&received);
        loader_end(loader, 0);
        return;
    }
    SIM_MUST(received.count == assignment.count && !received.lost);
    if (!assignment.feed) { // memory that may become its ring: more may have come
        SIM_MUST(received.count == 1);
        received_fds_close(&received);
        actor_wake(&loader->actor, sim_below(500 * NS_PER_US));
        return;
    }
    int ring_fd = take_descriptor(&assignment, &received, HERITAGE_RING);
    loader_take_feed(loader, ring_fd, take_descriptor(&assignment, &received, HERITAGE_EVENT));
    close(ring_fd);
    received_fds_close(&received);
    loader_stop_waiting(loader);
    actor_wake(&loader->actor, sim_below(500 * NS_PER_US));
}

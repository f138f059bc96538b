#include "daemon/loader/prepared.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "daemon/confine/confine.h"
#include "daemon/confine/limits.h"
#include "daemon/heritage.h"
#include "daemon/loader/read/file_maps.h"
#include "daemon/loader/read/page_tables.h"
#include "daemon/log.h"
#include "daemon/role.h"

void loader_begin(void) {
    limits_volunteer(LIMITS_LOADER_POINTS);
}

// ---- Before there is a feed --------------------------------------------------------------------------------

// Descriptors of most feeds have numbers below this one, which are reserved until there is a feed.
#define RESERVED_FDS 32u
// Less than malloc would map separately, and than free would give back to the kernel.
#define HEAP_BYTES (120u << 10)

// All numbers that descriptors of a feed may get, so that none of its own lies there.
static int reserve_numbers(struct error *error) {
    for (int number = STDERR_FILENO + 1; number < (int)ASSIGNMENT_FDS; number++) {
        bool taken = number == HERITAGE_SETTINGS || number == HERITAGE_ASSIGNMENT || number == HERITAGE_LIFE;
        if (!taken && dup2(STDIN_FILENO, number) < 0) // /dev/null
            return error_set(error, -errno, "a prepared loader cannot have %u descriptors: %m",
                             ASSIGNMENT_FDS);
    }
    return 0;
}

static void close_all(uint32_t first, uint32_t end) {
    if (first >= end || syscall(SYS_close_range, first, end - 1, 0) == 0) // since Linux 5.9
        return;
    for (uint32_t number = first; number < end; number++)
        close((int)number);
}

// The plans of its first chunks will lie there: what is freed is used again.
static void touch_heap(void) {
    void *memory = malloc(HEAP_BYTES);
    if (memory)
        explicit_bzero(memory, HEAP_BYTES);
    free(memory);
}

static int prepare(struct uring_queues *queues, struct error *error) {
    const void *map;
    int err = role_map(HERITAGE_SETTINGS, "settings", sizeof(struct prepared_settings), &map, error);
    if (err)
        return err;
    const struct prepared_settings settings = *(const struct prepared_settings *)map;
    munmap((void *)map, sizeof settings);
    log_set_level((enum log_level)settings.log_level);
    confine_set(settings.confine);
    err = role_tie(settings.supervisor_pid, error);
    if (err)
        return err;
    loader_begin();
    file_maps_prepare();
    page_tables_prepare();
    confine_loader_prepare();
    if (settings.confine) // without, a reader makes its own when it needs them
        uring_queues_prepare(queues, settings.queue_depth, true);
    touch_heap();
    return 0;
}

// ---- The feed ----------------------------------------------------------------------------------------------

// False: there will be none. SIGTERM ends the wait; should it come just before, the end of the socket does.
static bool wait_for_message(void) {
    struct pollfd socket = {.fd = HERITAGE_ASSIGNMENT, .events = POLLIN};
    while (!role_stopping)
        if (poll(&socket, 1, -1) > 0)
            return true;
    return false;
}

// Out of the way of the numbers that descriptors get.
static int move(struct received_fds *received, int end) {
    for (uint32_t i = 0; i < received->count; i++) {
        int fd = received->fds[i];
        if (fd >= end)
            continue;
        received->fds[i] = fcntl(fd, F_DUPFD_CLOEXEC, end);
        close(fd);
        if (received->fds[i] < 0)
            return -errno;
    }
    return 0;
}

// The numbers of an assignment ascend.
static int fill(const struct loader_assignment *assignment, const struct received_fds *received) {
    uint32_t next = 0;
    for (uint32_t number = HERITAGE_SETTINGS; number < assignment->fd_count; number++) {
        bool given = next < assignment->count && assignment->numbers[next] == number;
        int fd = given ? received->fds[next++] : STDIN_FILENO;
        if ((given || number >= RESERVED_FDS) && dup2(fd, (int)number) < 0)
            return -errno;
    }
    return 0;
}

// The numbers from fd_count on are free again: descriptors that are opened later get the lowest.
static int place(const struct loader_assignment *assignment, struct received_fds *received,
                 struct error *error) {
    int err = move(received, (int)assignment->fd_count);
    if (!err)
        err = fill(assignment, received);
    if (err)
        return error_set(error, err, "cannot place a descriptor of the feed: %s", strerror(-err));
    received_fds_close(received);
    close_all(assignment->fd_count, RESERVED_FDS);
    return 0;
}

// In place of what was shown until then: as a loader that was started for the feed.
static void show_feed(char **arguments, uint64_t feed) {
    char text[96];
    size_t room = 0;
    for (char **argument = arguments; *argument; argument++)
        room += strlen(*argument) + 1; // they lie one after another
    int length = snprintf(text, sizeof text, "feedd-loader%c--role=loader%cfeed %" PRIu64, 0, 0, feed);
    if (!arguments[0] || (size_t)length >= room)
        return;
    memset(arguments[0], 0, room);
    memcpy(arguments[0], text, (size_t)length);
}

// Closes the descriptor, with which the loader could resize memory that others have mapped.
static void take_offer(uint64_t bytes, struct received_fds *received, struct ring_memory *memory) {
    ring_memory_unmap(memory);
    if (received->count == 1)
        ring_memory_map(memory, received->fds[0], bytes);
    received_fds_close(received);
}

// 1: it was an offer.
static int take_message(char **arguments, struct ring_memory *memory, struct error *error) {
    struct loader_assignment assignment;
    int fds[FDPASS_MOST];
    struct received_fds received = receive_into(fds, FDPASS_MOST);
    ssize_t got = fdpass_receive(HERITAGE_ASSIGNMENT, &assignment, sizeof assignment, &received, NULL);
    if (got == 0)
        return -ECANCELED;
    if (got != (ssize_t)sizeof assignment || received.lost || received.count != assignment.count) {
        received_fds_close(&received);
        return error_set(error, got < 0 ? (int)got : -EMFILE,
                         "found %" PRIu32 " descriptors of a feed, wanted %" PRIu32, received.count,
                         got < 0 ? 0 : assignment.count);
    }
    if (!assignment.feed) {
        take_offer(assignment.bytes, &received, memory);
        return 1;
    }
    show_feed(arguments, assignment.feed);
    return place(&assignment, &received, error);
}

int prepared_await(char **arguments, struct uring_queues *queues, struct ring_memory *memory,
                   struct error *error) {
    int err = reserve_numbers(error);
    log_open("prepared loader", LOG_LEVEL_INFO);
    prctl(PR_SET_NAME, "feedd-prepared");
    if (!err)
        err = prepare(queues, error);
    if (err)
        return err;
    close_all(RESERVED_FDS, ASSIGNMENT_FDS);
    do
        err = wait_for_message() ? take_message(arguments, memory, error) : -ECANCELED;
    while (err == 1);
    return err;
}

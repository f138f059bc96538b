#include "daemon/supervisor/closer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scope.h"
#include "daemon/log.h"
#include "daemon/supervisor/thread.h"

#define SPARES 64u

struct entry {
    STAILQ_ENTRY(entry) link;
    uid_t user;
    int fd;
    uint64_t bytes; // of memory, to be given back before it is closed
};

struct closer {
    pthread_mutex_t lock;
    pthread_cond_t work;
    STAILQ_HEAD(, entry) entries; // the first one is being closed
    uint32_t count;
    bool running;     // the thread exists
    bool left;        // nothing more will be queued
    uint32_t holders; // the loop and the thread; the last one frees
    // For when there is no memory: a descriptor that stayed open would keep a ring's memory.
    struct entry spare[SPARES];
    STAILQ_HEAD(, entry) spares;
};

static struct entry *new_entry(struct closer *closer) {
    struct entry *entry = malloc(sizeof *entry);
    if (!entry && (entry = STAILQ_FIRST(&closer->spares)))
        STAILQ_REMOVE_HEAD(&closer->spares, link);
    return entry;
}

static void free_entry(struct closer *closer, struct entry *entry) {
    if (entry >= closer->spare && entry < closer->spare + SPARES)
        STAILQ_INSERT_HEAD(&closer->spares, entry, link);
    else
        free(entry);
}

// Unlocks.
static void let_go(struct closer *closer) {
    bool last = --closer->holders == 0;
    pthread_mutex_unlock(&closer->lock);
    if (!last)
        return;
    pthread_cond_destroy(&closer->work);
    pthread_mutex_destroy(&closer->lock);
    free(closer);
}

// From its start on: the names of its batches go before their bytes. All of the object, which is larger than what is
// charged if only a part of each slot is allocated. What is cut off, instead, would end a process that still looks at
// it by a signal. A failure cannot be reported, since the log belongs to the loop's thread; then the memory comes back
// with its last descriptor.
static void give_back(const struct entry *entry) {
    struct stat status;
    if (fstat(entry->fd, &status) == 0)
        fallocate(entry->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, status.st_size);
}

static void *run(void *argument) {
    struct closer *closer = argument;
    pthread_mutex_lock(&closer->lock);
    while (true) {
        struct entry *entry = STAILQ_FIRST(&closer->entries);
        if (!entry && closer->left)
            break;
        if (!entry) {
            pthread_cond_wait(&closer->work, &closer->lock);
            continue;
        }
        pthread_mutex_unlock(&closer->lock);
        if (entry->bytes)
            give_back(entry);
        close(entry->fd);
        pthread_mutex_lock(&closer->lock);
        STAILQ_REMOVE_HEAD(&closer->entries, link);
        closer->count--;
        free_entry(closer, entry);
    }
    let_go(closer);
    return NULL;
}

// If the thread cannot be created, the next descriptor tries again.
static void start_thread(struct closer *closer) {
    int err = thread_start(run, closer);
    closer->running = err == 0;
    closer->holders += err == 0;
    if (err)
        log_warning("cannot start a thread that closes descriptors: %s", strerror(-err));
}

struct closer *closer_open(void) {
    struct closer *closer = calloc(1, sizeof *closer);
    if (!closer)
        return NULL;
    pthread_mutex_init(&closer->lock, NULL);
    pthread_cond_init(&closer->work, NULL);
    STAILQ_INIT(&closer->entries);
    STAILQ_INIT(&closer->spares);
    for (uint32_t i = 0; i < SPARES; i++)
        STAILQ_INSERT_HEAD(&closer->spares, &closer->spare[i], link);
    closer->holders = 1;
    return closer;
}

void closer_prepare(struct closer *closer) {
    pthread_mutex_lock(&closer->lock);
    start_thread(closer);
    pthread_mutex_unlock(&closer->lock);
}

void closer_leave(struct closer *closer) {
    struct entry *entry;
    pthread_mutex_lock(&closer->lock);
    closer->left = true;
    // Without a thread, they stay open until this process ends, which does not wait for them.
    while (!closer->running && (entry = STAILQ_FIRST(&closer->entries))) {
        STAILQ_REMOVE_HEAD(&closer->entries, link);
        free_entry(closer, entry);
    }
    pthread_cond_signal(&closer->work);
    let_go(closer);
}

static void take(struct closer *closer, uid_t user, int *fds, uint32_t *count, uint64_t bytes) {
    pthread_mutex_lock(&closer->lock);
    while (*count) {
        struct entry *entry = new_entry(closer);
        --*count;
        // Out of memory, and of spare entries: a descriptor that stays open is better than a loop that blocks.
        if (!entry)
            continue;
        // The first descriptor is closed last.
        *entry = (struct entry){.user = user, .fd = fds[*count], .bytes = *count ? 0 : bytes};
        STAILQ_INSERT_TAIL(&closer->entries, entry, link);
        closer->count++;
    }
    if (!closer->running)
        start_thread(closer);
    pthread_cond_signal(&closer->work);
    pthread_mutex_unlock(&closer->lock);
}

void closer_take(struct closer *closer, uid_t user, int *fds, uint32_t *count) {
    take(closer, user, fds, count, 0);
}

void closer_take_memory(struct closer *closer, uid_t user, int *fds, uint32_t *count, uint64_t bytes) {
    take(closer, user, fds, count, bytes);
}

uint64_t closer_bytes(struct closer *closer, uid_t user) {
    const struct entry *entry;
    uint64_t bytes = 0;
    if (!closer)
        return 0;
    pthread_mutex_lock(&closer->lock);
    STAILQ_FOREACH(entry, &closer->entries, link)
        if (user == CLOSER_ANYBODY || entry->user == user)
            bytes += entry->bytes;
    pthread_mutex_unlock(&closer->lock);
    return bytes;
}

// Whether the next bytes of the receive queue come with descriptors. Peeking without room for them duplicates and drops
// references that are not the last ones, so it cannot block.
static ssize_t peek(int socket, void *bytes, size_t count, bool *with_fds) {
    struct iovec into = {bytes, count};
    struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1};
    ssize_t got = recvmsg(socket, &message, MSG_PEEK | MSG_DONTWAIT);
    *with_fds = got > 0 && message.msg_flags & MSG_CTRUNC;
    return got;
}

// Discards what has no descriptors. True: nothing is left, and nothing more can come.
static bool drain(int socket) {
    static uint8_t unwanted[65536];
    bool with_fds;
    ssize_t got;
    while ((got = peek(socket, unwanted, sizeof unwanted, &with_fds)) > 0 && !with_fds)
        if (recv(socket, unwanted, (size_t)got, MSG_DONTWAIT) != got)
            return false;
    return !with_fds;
}

void closer_take_socket(struct closer *closer, uid_t user, int *socket) {
    uint32_t one = 1;
    if (*socket < 0)
        return;
    shutdown(*socket, SHUT_RDWR); // from here on nothing can be added
    if (drain(*socket))
        close(*socket);
    else
        closer_take(closer, user, socket, &one);
    *socket = -1;
}

uint32_t closer_count(struct closer *closer, uid_t user) {
    const struct entry *entry;
    uint32_t count = 0;
    if (!closer)
        return 0;
    pthread_mutex_lock(&closer->lock);
    STAILQ_FOREACH(entry, &closer->entries, link)
        count += entry->user == user;
    pthread_mutex_unlock(&closer->lock);
    return count;
}

bool closer_is_full(struct closer *closer) {
    pthread_mutex_lock(&closer->lock);
    bool full = closer->count >= CLOSER_MOST;
    pthread_mutex_unlock(&closer->lock);
    return full;
}

#include "client/python/native/handle.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/python/native/write_fault.h"

#define RECONNECT_POLL_MS 20 // there is no descriptor to wait on while libfeed looks for the daemon

// ---- Fork --------------------------------------------------------------------------------------------------

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, handle) handles = LIST_HEAD_INITIALIZER(handles);
static pthread_once_t fork_watched = PTHREAD_ONCE_INIT;

static void before_fork(void) {
    pthread_mutex_lock(&handles_lock);
}

static void after_fork_in_parent(void) {
    pthread_mutex_unlock(&handles_lock);
}

// Another thread may have been connecting again at the moment of the fork, so the number that libfeed has for its
// socket may be the number of something else by now.
static bool is_our_socket(const struct handle *handle, int fd) {
    struct sockaddr_un peer = {0};
    socklen_t length = sizeof peer;
    return fd >= 0 && getpeername(fd, (struct sockaddr *)&peer, &length) == 0 &&
           memcmp(&peer, &handle->daemon, sizeof peer) == 0;
}

// The child closes the sockets; otherwise the daemon would not see that the parent has died.
static void after_fork_in_child(void) {
    struct handle *handle;
    LIST_FOREACH(handle, &handles, link) {
        int fd = feed_fd(handle->feed);
        if (is_our_socket(handle, fd))
            close(fd);
        close(handle->wake_fd);
        atomic_store(&handle->forked, true);
    }
    LIST_INIT(&handles);
    handles_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static int refuse_forked(const struct handle *handle, char *text) {
    if (!atomic_load(&handle->forked))
        return 0;
    snprintf(text, HANDLE_TEXT_BYTES,
             "this loader belongs to the process that made it, and this one was forked from it: make another "
             "loader here");
    return -ENOTSUP;
}

// ---- Giving back -------------------------------------------------------------------------------------------

static void push(struct handle *handle, struct lease *lease) {
    lease->next = atomic_load(&handle->returned);
    while (!atomic_compare_exchange_weak(&handle->returned, &lease->next, lease))
        ;
}

// With `lock` held. A lease that cannot be given back now, as during the capture of a CUDA graph, is tried again later.
static void give_back(struct handle *handle) {
    struct lease *lease = atomic_exchange(&handle->returned, NULL), *next, *kept = NULL;
    for (; lease; lease = next) {
        next = lease->next;
        if (feed_batch_release(handle->feed, &lease->batch, FEED_EVERY_STREAM) == -EAGAIN) {
            lease->next = kept;
            kept = lease;
            continue;
        }
        free(lease);
    }
    for (; kept; kept = next) {
        next = kept->next;
        push(handle, kept);
    }
}

static void lock_handle(struct handle *handle) {
    pthread_mutex_lock(&handle->lock);
}

// Gives back what was returned while the lock was held, since whoever returned it did not wait. Only in host memory: on
// a GPU a release must not fall into the capture of a graph, so it waits until the next batch is asked for.
static void unlock_handle(struct handle *handle) {
    bool at_once = strcmp(handle->description.device, "cpu") == 0;
    pthread_mutex_unlock(&handle->lock);
    // Pairs with the one in lease_put: either we see the lease or that thread sees the lock free.
    atomic_thread_fence(memory_order_seq_cst);
    while (at_once && atomic_load(&handle->returned) && pthread_mutex_trylock(&handle->lock) == 0) {
        give_back(handle);
        pthread_mutex_unlock(&handle->lock);
        atomic_thread_fence(memory_order_seq_cst);
    }
}

static void wake_waiters(struct handle *handle) {
    const uint64_t one = 1;
    if (atomic_load(&handle->waiters) > 0)
        (void)!write(handle->wake_fd, &one, sizeof one);
}

struct lease *lease_get(struct lease *lease) {
    atomic_fetch_add(&lease->references, 1);
    return lease;
}

void lease_put(struct lease *lease) {
    if (atomic_fetch_sub(&lease->references, 1) != 1)
        return;
    struct handle *handle = lease->handle;
    if (atomic_load(&handle->forked))
        return;
    write_fault_remove(lease->write_fault);
    push(handle, lease);                       // we keep its reference of the handle until the last line
    atomic_thread_fence(memory_order_seq_cst); // pairs with the one in unlock_handle
    wake_waiters(handle);
    if (pthread_mutex_trylock(&handle->lock) == 0)
        unlock_handle(handle);
    handle_put(handle);
}

// ---- Opening and closing -----------------------------------------------------------------------------------

int handle_open(struct handle **result, const struct feed_options *options, const struct feed_view *view,
                char text[HANDLE_TEXT_BYTES]) {
    *result = NULL;
    pthread_once(&fork_watched, watch_forks);
    struct handle *handle = calloc(1, sizeof *handle);
    if (!handle) {
        snprintf(text, HANDLE_TEXT_BYTES, "out of memory");
        return -ENOMEM;
    }
    handle->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int err = handle->wake_fd < 0 ? -errno : feed_open_view(&handle->feed, options, view);
    if (err) {
        snprintf(text, HANDLE_TEXT_BYTES, "%s",
                 handle->wake_fd < 0 ? "no descriptor is left (see ulimit -n)" : feed_strerror(handle->feed));
        feed_close(handle->feed);
        if (handle->wake_fd >= 0)
            close(handle->wake_fd);
        free(handle);
        return err;
    }
    handle->description = *feed_describe(handle->feed);
    if (handle->description.device_number < 0)
        write_fault_watch();
    socklen_t length = sizeof handle->daemon;
    (void)!getpeername(feed_fd(handle->feed), (struct sockaddr *)&handle->daemon, &length);
    pthread_mutex_init(&handle->lock, NULL);
    atomic_store(&handle->references, 1);
    pthread_mutex_lock(&handles_lock);
    LIST_INSERT_HEAD(&handles, handle, link);
    pthread_mutex_unlock(&handles_lock);
    *result = handle;
    return 0;
}

struct handle *handle_get(struct handle *handle) {
    atomic_fetch_add(&handle->references, 1);
    return handle;
}

void handle_put(struct handle *handle) {
    if (atomic_fetch_sub(&handle->references, 1) != 1 || atomic_load(&handle->forked))
        return;
    pthread_mutex_lock(&handles_lock);
    LIST_REMOVE(handle, link);
    pthread_mutex_unlock(&handles_lock);
    feed_close(handle->feed); // gives back everything on the list
    struct lease *lease = atomic_load(&handle->returned), *next;
    for (; lease; lease = next) {
        next = lease->next;
        free(lease);
    }
    close(handle->wake_fd);
    pthread_mutex_destroy(&handle->lock);
    free(handle);
}

// ---- Batches -----------------------------------------------------------------------------------------------

// In host memory: from the first byte of the batch's fields to the last.
static int watch_writes(const struct handle *handle, const struct feed_batch *batch) {
    const char *from = NULL, *end = NULL;
    for (uint32_t i = 0; i < batch->field_count; i++) {
        const char *data = batch->field[i].data;
        if (!from || data < from)
            from = data;
        if (!end || data + batch->field[i].bytes > end)
            end = data + batch->field[i].bytes;
    }
    return handle->description.device_number < 0 && end > from ? write_fault_add(from, (size_t)(end - from))
                                                               : -1;
}

// With `lock` held.
static int take(struct handle *handle, struct lease **result, char *text) {
    give_back(handle);
    struct lease *lease = calloc(1, sizeof *lease);
    int got = lease ? feed_next(handle->feed, &lease->batch, 0) : -ENOMEM;
    if (got == 1) {
        lease->handle = handle;
        lease->waiting_stream = LEASE_NO_STREAM_WAITS;
        lease->write_fault = watch_writes(handle, &lease->batch);
        atomic_fetch_add(&handle->references, 1);
        atomic_store(&lease->references, 1);
        *result = lease;
        return 1;
    }
    if (got == -EAGAIN && feed_fd(handle->feed) >= 0)
        *text = 0; // the daemon is there, so there is nothing to add
    else if (got < 0)
        snprintf(text, HANDLE_TEXT_BYTES, "%s", lease ? feed_strerror(handle->feed) : "out of memory");
    free(lease);
    return got;
}

static int wait_for_news(struct handle *handle, int fd, int wait_ms) {
    struct pollfd polled[] = {{.fd = handle->wake_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    if (fd < 0 && (wait_ms < 0 || wait_ms > RECONNECT_POLL_MS))
        wait_ms = RECONNECT_POLL_MS;
    int ready = poll(polled, fd < 0 ? 1 : 2, wait_ms);
    uint64_t count;
    if (ready > 0 && polled[0].revents)
        (void)!read(handle->wake_fd, &count, sizeof count);
    return ready < 0 ? -errno : 0;
}

int handle_next(struct handle *handle, struct lease **lease, int wait_ms, char text[HANDLE_TEXT_BYTES]) {
    int got = refuse_forked(handle, text);
    if (got < 0)
        return got;
    for (bool waited = false;; waited = true) {
        atomic_fetch_add(&handle->waiters, 1);
        lock_handle(handle);
        got = take(handle, lease, text);
        int fd = feed_fd(handle->feed);
        unlock_handle(handle);
        int interrupted = got == -EAGAIN && !waited && wait_ms ? wait_for_news(handle, fd, wait_ms) : 0;
        atomic_fetch_sub(&handle->waiters, 1);
        if (interrupted < 0)
            return interrupted;
        if (got != -EAGAIN || waited || !wait_ms)
            return got;
    }
}

void handle_settle(struct handle *handle) {
    if (atomic_load(&handle->forked))
        return;
    lock_handle(handle);
    give_back(handle);
    unlock_handle(handle);
}

bool handle_is_connected(struct handle *handle) {
    if (atomic_load(&handle->forked))
        return true;
    lock_handle(handle);
    bool connected = feed_fd(handle->feed) >= 0;
    unlock_handle(handle);
    return connected;
}

void handle_describe(struct handle *handle, struct feed_description *description) {
    *description = handle->description;
    if (atomic_load(&handle->forked))
        return;
    lock_handle(handle);
    *description = *feed_describe(handle->feed);
    unlock_handle(handle);
}

int handle_token(struct handle *handle, const struct order_place *place, char token[FEED_TOKEN_BYTES],
                 char text[HANDLE_TEXT_BYTES]) {
    int err = refuse_forked(handle, text);
    if (err)
        return err;
    lock_handle(handle);
    err = place ? feed_token_at(handle->feed, place->epoch, place->consumed, token)
                : feed_token(handle->feed, token);
    unlock_handle(handle);
    if (err && place)
        snprintf(text, HANDLE_TEXT_BYTES, "there is no such place in the order: %llu samples into epoch %llu",
                 (unsigned long long)place->consumed, (unsigned long long)place->epoch);
    else if (err)
        snprintf(text, HANDLE_TEXT_BYTES, "the place of this loader is not known: %s", strerror(-err));
    return err;
}

int lease_wait(struct lease *lease, void *stream, char text[HANDLE_TEXT_BYTES]) {
    struct handle *handle = lease->handle;
    int err = refuse_forked(handle, text);
    if (err)
        return err;
    lock_handle(handle);
    if (lease->waiting_stream != stream) {
        err = feed_batch_wait(handle->feed, &lease->batch, stream);
        if (err)
            snprintf(text, HANDLE_TEXT_BYTES, "%s", feed_strerror(handle->feed));
        else
            lease->waiting_stream = stream;
    }
    unlock_handle(handle);
    return err;
}

struct feed_array lease_array(const struct lease *lease, struct lease_part part) {
    const struct feed_array *field = &lease->batch.field[part.field];
    uint64_t count = lease->batch.count + 1;
    if (!part.offsets)
        return *field;
    return (struct feed_array){.name = field->name,
                               .data = field->offsets,
                               .dtype = FEED_I64,
                               .dimensions = 1,
                               .shape = {count},
                               .bytes = count * sizeof *field->offsets};
}

int lease_fetch(struct lease *lease, struct lease_part part, void *to, char text[HANDLE_TEXT_BYTES]) {
    struct handle *handle = lease->handle;
    int err = refuse_forked(handle, text);
    if (err)
        return err;
    lock_handle(handle);
    err = part.offsets ? feed_batch_fetch_offsets(handle->feed, &lease->batch, part.field, to)
                       : feed_batch_fetch(handle->feed, &lease->batch, part.field, to);
    if (err)
        snprintf(text, HANDLE_TEXT_BYTES, "%s", feed_strerror(handle->feed));
    unlock_handle(handle);
    return err;
}

int lease_samples(struct lease *lease, int64_t *samples, char text[HANDLE_TEXT_BYTES]) {
    struct handle *handle = lease->handle;
    int err = refuse_forked(handle, text);
    if (err)
        return err;
    lock_handle(handle);
    for (uint64_t i = 0; i < lease->batch.count && err == 0; i++) {
        samples[i] = feed_batch_sample(handle->feed, &lease->batch, i);
        err = samples[i] < 0 ? (int)samples[i] : 0;
    }
    unlock_handle(handle);
    if (err)
        snprintf(text, HANDLE_TEXT_BYTES,
                 "the samples of this batch are no longer known (%s): ask before the loader is closed",
                 strerror(-err));
    return err;
}

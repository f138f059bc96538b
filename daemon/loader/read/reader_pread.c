#include "daemon/loader/read/reader_pread.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/dataset/folder_file.h"
#include "daemon/loader/read/plain_read.h"
#include "daemon/loader/read/request.h"

#define MOST_THREADS 16u
#define THREAD_STACK (64u << 10)

struct entry {
    struct read_request *request;
    uint64_t due_ns; // not to be read earlier (io_delay_us)
};

// Everything below `lock` is guarded by it. Submit queues requests in a list of the loader's own, and reap hands them
// over together.
struct pread_reader {
    struct reader reader;
    const struct dataset_layout *layout;
    struct folder_set folders;
    int first_fd;
    uint64_t delay_ns;
    uint32_t thread_count;
    struct request_list submitted; // the loader's own
    pthread_t threads[MOST_THREADS];

    pthread_mutex_t lock;
    pthread_cond_t work;     // the queue is not empty, or stop
    pthread_cond_t complete; // finished is not empty
    pthread_cond_t room;     // bounce memory was given back
    bool stop;
    uint32_t idle;
    struct plain_read_cost cost;
    struct bounce bounce;
    struct request_list finished;
    uint32_t head, count; // of the queue, a ring of reader.depth entries
    struct entry queue[];
};

static void sleep_until(uint64_t due_ns) {
    struct timespec due = timespec_of_ns(due_ns);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
        ;
}

// With the lock held; waits for other reads to give memory back.
static int take_memory(struct pread_reader *self, const struct read_request *request, void **memory) {
    const struct dataset_file *file = read_request_file(self->layout, request);
    *memory = NULL;
    if (!bounce_needed(file, request))
        return 0;
    int err;
    while ((err = bounce_take(&self->bounce, file, request, memory)) == -EAGAIN)
        pthread_cond_wait(&self->room, &self->lock);
    return err;
}

// With the lock held; drops it while reading.
static void serve(struct pread_reader *self, struct entry entry, uint8_t *scratch) {
    struct read_request *request = entry.request;
    const struct dataset_file *file = read_request_file(self->layout, request);
    const struct folder_files *folder = folder_set_find(&self->folders, request->file);
    struct plain_read_cost cost = {0};
    void *memory;
    request->result = take_memory(self, request, &memory);
    if (request->result == 0) {
        pthread_mutex_unlock(&self->lock);
        if (entry.due_ns > 0)
            sleep_until(entry.due_ns);
        if (folder)
            plain_read_in_folder(folder, self->first_fd, file, request, scratch, &cost);
        else
            plain_read(self->first_fd + (int)request->file, file, request, memory, scratch, &cost);
        pthread_mutex_lock(&self->lock);
    }
    if (memory) {
        bounce_give(&self->bounce, file, request, memory);
        pthread_cond_broadcast(&self->room);
    }
    self->cost.reads += cost.reads;
    self->cost.storage_bytes += cost.storage_bytes;
    if (!self->finished.first)
        pthread_cond_signal(&self->complete);
    request_list_add(&self->finished, request);
}

static void *work(void *argument) {
    struct pread_reader *self = argument;
    uint8_t scratch[READER_SCRATCH_BYTES];
    pthread_mutex_lock(&self->lock);
    while (!self->stop) {
        if (self->count == 0) {
            self->idle++;
            pthread_cond_wait(&self->work, &self->lock);
            self->idle--;
            continue;
        }
        struct entry entry = self->queue[self->head];
        self->head = (self->head + 1) % self->reader.depth;
        self->count--;
        serve(self, entry, scratch);
    }
    pthread_mutex_unlock(&self->lock);
    return NULL;
}

static int pread_submit(struct reader *reader, struct read_request *request) {
    struct pread_reader *self = (struct pread_reader *)reader;
    if (reader->in_flight >= reader->depth)
        return -EBUSY;
    reader->in_flight++;
    request_list_add(&self->submitted, request);
    return 0;
}

// With the lock held.
static void hand_over(struct pread_reader *self) {
    uint64_t due_ns = self->delay_ns && self->submitted.first ? monotonic_ns() + self->delay_ns : 0;
    uint32_t added = 0;
    for (struct read_request *request; (request = request_list_take(&self->submitted)); added++) {
        uint32_t tail = (self->head + self->count++) % self->reader.depth;
        self->queue[tail] = (struct entry){request, due_ns};
    }
    for (uint32_t i = 0; i < added && i < self->idle; i++)
        pthread_cond_signal(&self->work);
}

static struct read_request *pread_reap(struct reader *reader, int timeout_ms) {
    struct pread_reader *self = (struct pread_reader *)reader;
    if (reader->in_flight == 0)
        return NULL;
    uint64_t until = timeout_ms > 0 ? monotonic_ns() + (uint64_t)timeout_ms * NS_PER_MS : 0;
    struct timespec limit = timespec_of_ns(until);
    pthread_mutex_lock(&self->lock);
    hand_over(self);
    while (!self->finished.first && until &&
           pthread_cond_timedwait(&self->complete, &self->lock, &limit) != ETIMEDOUT)
        ;
    struct read_request *list = self->finished.first;
    self->finished.first = NULL;
    reader->reads = self->cost.reads;
    reader->storage_bytes = self->cost.storage_bytes;
    pthread_mutex_unlock(&self->lock);
    for (const struct read_request *request = list; request; request = request->next)
        reader->in_flight--;
    return list;
}

static void pread_close(struct reader *reader) {
    struct pread_reader *self = (struct pread_reader *)reader;
    pthread_mutex_lock(&self->lock);
    self->stop = true;
    pthread_cond_broadcast(&self->work);
    pthread_mutex_unlock(&self->lock);
    for (uint32_t i = 0; i < self->thread_count; i++)
        pthread_join(self->threads[i], NULL);
    pthread_cond_destroy(&self->work);
    pthread_cond_destroy(&self->complete);
    pthread_cond_destroy(&self->room);
    pthread_mutex_destroy(&self->lock);
    bounce_free(&self->bounce);
    free(self);
}

static void init_locks(struct pread_reader *self) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->work, NULL);
    pthread_cond_init(&self->complete, &monotonic);
    pthread_cond_init(&self->room, NULL);
    pthread_condattr_destroy(&monotonic);
}

// Starts as many of the wanted threads as possible; an error if that is none.
static int start_threads(struct pread_reader *self, uint32_t wanted) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK);
    sigset_t all, before;
    sigfillset(&all);
    // Signals go to the loader's main thread, except for faults that a thread raises itself.
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = 0;
    while (self->thread_count < wanted && err == 0) {
        err = pthread_create(&self->threads[self->thread_count], &attributes, work, self);
        self->thread_count += err == 0;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return self->thread_count ? 0 : -err;
}

int reader_open_pread(const struct reader_options *options, struct reader **reader,
                      enum reader_reason *reason, struct error *error) {
    *reader = NULL;
    (void)reason;
    struct pread_reader *self = calloc(1, sizeof *self + options->depth * sizeof self->queue[0]);
    if (!self)
        return error_set(error, -ENOMEM, "no memory for the pread reader");
    self->reader = (struct reader){.kind = READER_PREAD,
                                   .submit = pread_submit,
                                   .reap = pread_reap,
                                   .close = pread_close,
                                   .depth = options->depth};
    self->layout = options->layout;
    self->folders = options->folders;
    self->first_fd = options->first_fd;
    self->delay_ns = options->delay_us * UINT64_C(1000);
    init_locks(self);
    int err = start_threads(self, (uint32_t)min_u64(options->depth, MOST_THREADS));
    if (err < 0) {
        pread_close(&self->reader);
        return error_set(error, err, "cannot start threads to read with: %s", strerror(-err));
    }
    *reader = &self->reader;
    return 0;
}

#include "daemon/loader/read/reader_uring.h"

#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/loader/read/folder_chain.h"
#include "daemon/loader/read/read_naming.h"
#include "daemon/loader/read/uring_queues.h"

#define CLOSE_TIMEOUT_NS (10 * NS_PER_S)

// A request's `result` until its file, in a folder, has been opened; then it is the descriptor.
#define UNOPENED (-1)

struct uring_reader {
    struct reader reader;
    struct uring_queues *queues; // `own`, or lent
    struct uring_queues own;
    const struct dataset_layout *layout;
    struct folder_set folders;
    struct folder_chains chains;
    char paths[FOLDER_CHAIN_PATHS];
    int first_fd;
    bool closing;
    bool closed_any;    // files, since one could not be opened because there were too many
    uint32_t in_kernel; // requests given to the kernel, or prepared to be
    struct __kernel_timespec delay;
    struct bounce bounce;
    struct read_naming naming;
    struct request_list waiting;  // for bounce memory or room in the submission queue
    struct request_list finished; // not yet reported
    uint32_t finished_count;
};

static void finish(struct uring_reader *self, struct read_request *request, int result) {
    request->result = result;
    self->finished_count++;
    request_list_add(&self->finished, request);
}

static void submit_all(struct uring_reader *self) {
    uint32_t before = read_naming_begin(&self->naming);
    io_uring_submit(&self->queues->uring);
    folder_chains_submitted(&self->chains, &self->queues->uring);
    read_naming_end(&self->naming, before);
}

static bool has_room(const struct uring_reader *self, uint32_t entries) {
    return io_uring_sq_space_left(&self->queues->uring) >= entries && folder_chains_has_room(&self->chains);
}

// Makes room for entries that must be submitted together, and for one path. False if the kernel takes no more now.
static bool have_room(struct uring_reader *self, uint32_t entries) {
    if (!has_room(self, entries))
        submit_all(self);
    return has_room(self, entries);
}

static inline bool is_in_folder(const struct uring_reader *self, const struct read_request *request) {
    return folder_set_find(&self->folders, request->file);
}

static struct folder_file file_of(const struct uring_reader *self, const struct read_request *request) {
    return folder_files_get(folder_set_find(&self->folders, request->file), self->first_fd, request->file,
                            folder_chains_path(&self->chains));
}

static void ask_open(struct uring_reader *self, struct read_request *request, struct io_uring_sqe *entry) {
    const struct folder_file file = file_of(self, request);
    folder_chains_keep_path(&self->chains, &file);
    io_uring_prep_openat2(entry, file.folder, file.path, (struct open_how *)&folder_file_how);
    io_uring_sqe_set_data(entry, request);
}

// Asks for the rest of a request.
static void ask_read(struct uring_reader *self, struct read_request *request, struct io_uring_sqe *entry) {
    struct request_rest rest =
        request_rest(read_request_file(self->layout, request), request, request->bounce);
    bool in_folder = is_in_folder(self, request), fixed_file = self->queues->fixed_files && !in_folder;
    int fd = in_folder    ? request->result
             : fixed_file ? (int)request->file
                          : self->first_fd + (int)request->file;
    uring_queues_ask(self->queues, entry, fd, fixed_file, &rest);
    io_uring_sqe_set_data(entry, request);
    self->reader.reads++;
    self->reader.storage_bytes += rest.bytes;
}

// Prepares a chain for a request whose file is not open, if there can be one.
static bool ask_chain(struct uring_reader *self, struct read_request *request) {
    if (request->bounce || !have_room(self, FOLDER_CHAIN_ENTRIES))
        return false;
    const struct folder_file file = file_of(self, request);
    if (!folder_chains_take(&self->chains, request, &file))
        return false;
    folder_chains_ask(&self->chains, &self->queues->uring, request, &file);
    self->reader.reads++;
    self->reader.storage_bytes += request->bytes;
    return true;
}

// Prepares what a request needs next. False: no room.
static bool prepare(struct uring_reader *self, struct read_request *request, bool delayed) {
    struct io_uring_sqe *delay = NULL;
    const bool unopened = is_in_folder(self, request) && request->result == UNOPENED;
    if (unopened && !delayed && ask_chain(self, request)) {
        read_naming_prepare(&self->naming, request->file);
        return true;
    }
    if (!have_room(self, delayed ? 2 : 1) || (delayed && !(delay = io_uring_get_sqe(&self->queues->uring))))
        return false;
    struct io_uring_sqe *entry = io_uring_get_sqe(&self->queues->uring);
    if (!entry)
        return false; // have_room has made sure of them
    if (delay) {      // a hard link: a timeout "fails" with ETIME, and the read after it starts all the same
        io_uring_prep_timeout(delay, &self->delay, 0, 0);
        delay->flags |= IOSQE_IO_HARDLINK;
        io_uring_sqe_set_data64(delay, 0);
    }
    if (unopened)
        ask_open(self, request, entry);
    else
        ask_read(self, request, entry);
    read_naming_prepare(&self->naming, request->file);
    return true;
}

// Gives a request to the kernel, or lets it wait or fail.
static void start(struct uring_reader *self, struct read_request *request) {
    const struct dataset_file *file = read_request_file(self->layout, request);
    request->done = 0;
    void *memory = NULL;
    if (bounce_needed(file, request)) {
        int err = bounce_take(&self->bounce, file, request, &memory);
        if (err == -EAGAIN)
            return request_list_add(&self->waiting, request);
        if (err < 0)
            return finish(self, request, err);
    }
    request->bounce = memory;
    if (prepare(self, request, self->delay.tv_sec || self->delay.tv_nsec)) {
        self->in_kernel++;
        return;
    }
    if (memory)
        bounce_give(&self->bounce, file, request, memory);
    request_list_add(&self->waiting, request);
}

// Retries the waiting requests, in order, until one has to keep waiting.
static void start_waiting(struct uring_reader *self) {
    struct request_list waiting = self->waiting;
    self->waiting = (struct request_list){0};
    while (waiting.first && !self->waiting.first)
        start(self, request_list_take(&waiting));
    while (waiting.first)
        request_list_add(&self->waiting, request_list_take(&waiting));
}

static int uring_submit(struct reader *reader, struct read_request *request) {
    struct uring_reader *self = (struct uring_reader *)reader;
    if (reader->in_flight >= reader->depth)
        return -EBUSY;
    reader->in_flight++;
    if (is_in_folder(self, request))
        request->result = UNOPENED;
    if (self->waiting.first)
        request_list_add(&self->waiting, request);
    else
        start(self, request);
    return 0;
}

// Closes take no completion where the kernel can leave that out; nobody waits for one anywhere.
static void close_opened(struct uring_reader *self, int fd) {
    self->closed_any = true;
    struct io_uring_sqe *entry = have_room(self, 1) ? io_uring_get_sqe(&self->queues->uring) : NULL;
    if (!entry) {
        close(fd);
        return;
    }
    io_uring_prep_close(entry, fd);
    io_uring_sqe_set_data64(entry, 0);
    if (self->queues->uring.features & IORING_FEAT_CQE_SKIP)
        entry->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

// Other requests may have all the descriptors that there are, and closes may be under way.
static bool tries_again(struct uring_reader *self, int returned) {
    if (returned != -EMFILE || self->in_kernel > 1)
        return returned == -EINTR || returned == -EAGAIN || returned == -EMFILE;
    bool room_comes = self->closed_any;
    self->closed_any = false;
    return room_comes;
}

// The file of a request is open, or could not be opened.
static void complete_open(struct uring_reader *self, struct read_request *request, int returned) {
    bool again = tries_again(self, returned);
    const struct folder_files *folder = folder_set_find(&self->folders, request->file);
    int err = returned < 0 ? returned : folder_files_check(folder, request->file, returned);
    if (!err) {
        request->result = returned;
        if (!self->closing && prepare(self, request, false))
            return;
    } else if (returned >= 0) {
        close_opened(self, returned);
    }
    self->in_kernel--;
    if (err && !again)
        finish(self, request, err);
    else
        request_list_add(&self->waiting, request);
}

static void complete_read(struct uring_reader *self, struct read_request *request, int returned) {
    const struct dataset_file *file = read_request_file(self->layout, request);
    void *memory = request->bounce;
    const bool in_folder = is_in_folder(self, request);
    int fd = request->result;
    bool go_on = request_advance(file, request, memory, returned) == REQUEST_CONTINUE;
    if (go_on && in_folder)
        request->result = fd;
    if (go_on && !self->closing && prepare(self, request, false))
        return;
    self->in_kernel--;
    if (!go_on && in_folder)
        close_opened(self, fd);
    if (memory)
        bounce_give(&self->bounce, file, request, memory);
    if (go_on)
        request_list_add(&self->waiting, request); // to start over
    else
        finish(self, request, request->result);
}

static void complete(struct uring_reader *self, struct read_request *request, int returned) {
    if (is_in_folder(self, request) && request->result == UNOPENED)
        complete_open(self, request, returned);
    else
        complete_read(self, request, returned);
}

static void complete_chain(struct uring_reader *self, uint64_t data, int returned) {
    bool whole;
    struct read_request *request = folder_chains_complete(&self->chains, data, returned, &whole);
    if (!request)
        return;
    if (!whole && !self->closing && prepare(self, request, false))
        return;
    self->in_kernel--;
    if (whole)
        finish(self, request, 0);
    else
        request_list_add(&self->waiting, request);
}

static void drain_completions(struct uring_reader *self) {
    struct io_uring_cqe *cqe;
    unsigned head, seen = 0;
    io_uring_for_each_cqe(&self->queues->uring, head, cqe) {
        seen++;
        // Without data: delays, cancellations and closes. The second is liburing's own.
        if (folder_chain_owns(cqe->user_data))
            complete_chain(self, cqe->user_data, cqe->res);
        else if (cqe->user_data != 0 && cqe->user_data != LIBURING_UDATA_TIMEOUT)
            complete(self, io_uring_cqe_get_data(cqe), cqe->res);
    }
    io_uring_cq_advance(&self->queues->uring, seen);
}

// One system call: everything prepared goes in, completions come out.
static void exchange(struct uring_reader *self, uint64_t wait_ns) {
    struct io_uring_cqe *cqe = NULL;
    uint32_t before = read_naming_begin(&self->naming);
    if (wait_ns == 0) {
        io_uring_submit_and_get_events(&self->queues->uring);
    } else {
        // A few at a time when many are under way, so that their successors are submitted together as well.
        struct __kernel_timespec limit = {(int64_t)(wait_ns / NS_PER_S), (int64_t)(wait_ns % NS_PER_S)};
        io_uring_submit_and_wait_timeout(&self->queues->uring, &cqe, 1 + self->in_kernel / 16, &limit, NULL);
    }
    folder_chains_submitted(&self->chains, &self->queues->uring);
    read_naming_end(&self->naming, before);
    drain_completions(self);
}

static struct read_request *report(struct uring_reader *self) {
    struct read_request *list = self->finished.first;
    self->finished.first = NULL;
    self->reader.in_flight -= self->finished_count;
    self->finished_count = 0;
    return list;
}

static struct read_request *uring_reap(struct reader *reader, int timeout_ms) {
    struct uring_reader *self = (struct uring_reader *)reader;
    uint64_t left = self->finished.first || timeout_ms < 0 ? 0 : (uint64_t)timeout_ms * NS_PER_MS;
    uint64_t deadline = 0;
    for (;;) {
        start_waiting(self);
        if (self->in_kernel)
            exchange(self, left);
        if (self->finished.first || reader->in_flight == 0 || left == 0)
            break;
        uint64_t now = monotonic_ns();
        if (deadline == 0)
            deadline = now + left; // the first wait is not counted: short reads that continue are rare
        left = now < deadline ? deadline - now : 0;
    }
    struct read_request *list = report(self);
    if (self->folders.count && reader->in_flight == 0)
        submit_all(self); // files that are still to be closed
    return list;
}

static void uring_rest(struct reader *reader) {
    struct uring_reader *self = (struct uring_reader *)reader;
    if (folder_chains_rest(&self->chains, &self->queues->uring))
        submit_all(self);
}

// Those that were opened for requests which then had to wait.
static void close_waiting(struct uring_reader *self) {
    for (struct read_request *request; (request = request_list_take(&self->waiting));)
        if (is_in_folder(self, request) && request->result != UNOPENED)
            close(request->result);
}

static void uring_close(struct reader *reader) {
    struct uring_reader *self = (struct uring_reader *)reader;
    self->closing = true;
    if (self->in_kernel && have_room(self, 1)) {
        struct io_uring_sqe *entry = io_uring_get_sqe(&self->queues->uring);
        io_uring_prep_cancel64(entry, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
        io_uring_sqe_set_data64(entry, 0);
    }
    // Reads of files that cannot be cancelled complete by themselves; a device that hangs is left to the kernel.
    uint64_t deadline = monotonic_ns() + CLOSE_TIMEOUT_NS;
    while (self->in_kernel && monotonic_ns() < deadline)
        exchange(self, 100000000u);
    close_waiting(self);
    folder_chains_rest(&self->chains, &self->queues->uring);
    submit_all(self);
    uring_queues_close(&self->own);
    if (self->in_kernel == 0) {
        bounce_free(&self->bounce);
        folder_chains_free(&self->chains);
    }
    free(self);
}

// ---- Set-up ------------------------------------------------------------------------------------------------

static bool uring_settle(struct reader *reader, uint64_t now, bool idle) {
    struct uring_queues *queues = ((struct uring_reader *)reader)->queues;
    bool done = uring_buffers_add(&queues->buffers, &queues->uring, now, idle);
    if (done)
        reader->kind = uring_queues_kind(queues);
    if (queues->buffers.err == -ENOMEM)
        reader->reason = REASON_MEMLOCK;
    return done;
}

static int fail(struct uring_reader *self, enum reader_reason *reason, int code, struct error *error) {
    free(self);
    *reason = uring_queues_reason(code);
    return error_set(error, code, "io_uring cannot be used: %s", strerror(-code));
}

int reader_open_uring(const struct reader_options *options, struct reader **reader,
                      enum reader_reason *reason, struct error *error) {
    *reader = NULL;
    struct uring_reader *self = calloc(1, sizeof *self);
    if (!self)
        return fail(NULL, reason, -ENOMEM, error);
    self->reader = (struct reader){.submit = uring_submit,
                                   .reap = uring_reap,
                                   .rest = uring_rest,
                                   .close = uring_close,
                                   .settle = uring_settle,
                                   .depth = options->depth};
    self->layout = options->layout;
    self->folders = options->folders;
    self->naming.where = options->read_file;
    self->first_fd = options->first_fd;
    self->delay = (struct __kernel_timespec){options->delay_us / 1000000, options->delay_us % 1000000 * 1000};
    self->own.err = -EBADF;
    self->queues = options->queues ? options->queues : &self->own;
    if (!options->queues)
        uring_queues_open(&self->own, options, false);
    if (self->queues->err < 0)
        return fail(self, reason, self->queues->err, error);
    self->reader.kind = uring_queues_kind(self->queues);
    folder_chains_make(&self->chains, self->queues, self->paths); // if it fails, there are no chains
    *reader = &self->reader;
    return 0;
}

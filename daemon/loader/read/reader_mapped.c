#include "daemon/loader/read/reader_mapped.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/loader/read/fault_guard.h"
#include "daemon/loader/read/file_maps.h"
#include "daemon/loader/read/page_tables.h"
#include "daemon/loader/read/plain_read.h"
#include "daemon/loader/read/request.h"

#define TABLE_CHECK 128u // copies between checks of the page tables
// A reap returns after this much, so that completed chunks are published early.
#define REAP_BYTES    (256u << 10)
#define REAP_PLAIN_NS (50 * NS_PER_MS)

#define BLOCK_BYTES 512u // copied per call, while as many are fetched
#define AHEAD_BYTES 4096u
// Pieces of this size or more are copied in one call: the processor fetches all but their first bytes by itself.
#define LARGE_BYTES 4096u
#define BEGIN_BYTES 256u

// A file's size as seen in check number `checked`.
struct size_seen {
    uint64_t bytes;
    uint64_t checked;
};

// How far fetching has got in the queue. `request` is in the queue; NULL: all of it is fetched.
struct fetch_cursor {
    const struct read_request *request;
    uint64_t done; // bytes of it
};

struct mapped_reader {
    struct reader reader;
    struct folder_set folders; // whose files are read, not copied: a map costs more than it saves
    struct file_maps files;
    struct request_list queue; // submitted, all of files that are mapped
    struct request_list plain; // submitted, to be read instead of copied
    struct fetch_cursor fetch;
    struct request_list suspects; // copied, but perhaps from beyond the end of the file
    uint64_t checks;
    struct request_list finished; // not yet reported
    uint32_t finished_count;
    struct page_tables tables;
    uint32_t copies;      // since they were looked at
    struct bounce bounce; // for `plain`
    _Atomic uint32_t *read_file;
    _Atomic uint32_t nobody_asked; // for read_file
    struct size_seen sizes[];
};

static int fd_of(const struct mapped_reader *self, const struct read_request *request) {
    return self->files.first_fd + (int)request->file;
}

static inline const uint8_t *map_start(const struct mapped_reader *self, const struct read_request *request) {
    return self->files.maps[request->file].start + request->offset;
}

static void finish(struct mapped_reader *self, struct read_request *request, int result) {
    request->result = result;
    self->finished_count++;
    request_list_add(&self->finished, request);
}

// ---- Submitting --------------------------------------------------------------------------------------------

static void enqueue(struct mapped_reader *self, struct read_request *request) {
    if (folder_set_find(&self->folders, request->file)) {
        request_list_add(&self->plain, request);
        return;
    }
    const struct file_map *map = file_maps_find(&self->files, request->file);
    if (!map) {
        self->reader.reason = REASON_UNMAPPED;
        request_list_add(&self->plain, request);
    } else if (request->offset + request->bytes > map->bytes) {
        finish(self, request, -ENODATA);
    } else {
        request_list_add(&self->queue, request);
    }
}

static int mapped_submit(struct reader *reader, struct read_request *request) {
    struct mapped_reader *self = (struct mapped_reader *)reader;
    if (reader->in_flight >= reader->depth)
        return -EBUSY;
    reader->in_flight++;
    enqueue(self, request);
    return 0;
}

// A copy, like a read, waits for storage in the loader's own thread, which cannot say then what it waits for.
static inline void name_file(const struct mapped_reader *self, const struct read_request *request) {
    atomic_store_explicit(self->read_file, request->file + 1, memory_order_relaxed);
}

// ---- Copying -----------------------------------------------------------------------------------------------

// Fetches the next `bytes` of the queue into the cache. Never faults, whatever has become of the file.
static inline void fetch_ahead(struct mapped_reader *self, uint64_t bytes) {
    struct fetch_cursor *fetch = &self->fetch;
    while (bytes && fetch->request) {
        const struct read_request *request = fetch->request;
        const uint8_t *from = map_start(self, request) + fetch->done;
        uint64_t count = min_u64(bytes, request->bytes - fetch->done);
        for (uint64_t i = 0; i < count; i += CACHE_LINE)
            __builtin_prefetch(from + i);
        bytes -= count;
        fetch->done += count;
        if (fetch->done == request->bytes)
            *fetch = (struct fetch_cursor){.request = request->next};
    }
}

// Always the library's memcpy: knowing the bounds of `bytes` here, a compiler would emit `rep movs`, which is slower
// and waits for the fetches under way.
static inline void copy_bytes(void *to, const void *from, uint64_t bytes) {
    __asm__("" : "+r"(bytes));
    memcpy(to, from, bytes);
}

// The address of the next `bytes` of the queue, which then count as fetched; NULL if they are not contiguous.
static inline const uint8_t *take_ahead(struct mapped_reader *self, uint64_t bytes) {
    struct fetch_cursor *fetch = &self->fetch;
    const struct read_request *request = fetch->request;
    if (!request || request->bytes - fetch->done <= bytes)
        return NULL;
    const uint8_t *from = map_start(self, request) + fetch->done;
    fetch->done += bytes;
    return from;
}

// Line by line, so that fetches do not come in bursts that wait for each other.
static inline void copy_lines(uint8_t *to, const uint8_t *from, const uint8_t *ahead) {
    for (uint64_t i = 0; i < BLOCK_BYTES; i += CACHE_LINE) {
        __builtin_prefetch(ahead + i);
        memcpy(to + i, from + i, CACHE_LINE);
    }
}

static inline void copy_blocks(struct mapped_reader *self, uint8_t *to, const uint8_t *from, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes; done += BLOCK_BYTES) {
        uint64_t block = min_u64(BLOCK_BYTES, bytes - done);
        const uint8_t *ahead = block == BLOCK_BYTES ? take_ahead(self, block) : NULL;
        if (ahead) {
            copy_lines(to + done, from + done, ahead);
            continue;
        }
        fetch_ahead(self, block);
        copy_bytes(to + done, from + done, block);
    }
}

static inline void copy_piece(struct mapped_reader *self, const struct read_request *request,
                              const struct iovec *piece, const uint8_t *from) {
    if (piece->iov_base == reader_scratch) {
        fetch_ahead(self, piece->iov_len);
    } else if (piece->iov_len < LARGE_BYTES) {
        copy_blocks(self, piece->iov_base, from, piece->iov_len);
    } else {
        self->fetch = (struct fetch_cursor){.request = request->next};
        fetch_ahead(self, BEGIN_BYTES);
        copy_bytes(piece->iov_base, from, piece->iov_len);
    }
}

// True when the last byte is zero: so are the bytes that a map shows between the end of a file and the end of its page,
// and reading those does not fault.
static inline bool copy(struct mapped_reader *self, const struct read_request *request) {
    const struct file_map *map = &self->files.maps[request->file];
    const uint8_t *from = map->start + request->offset;
    fault_guard_enter(map->start, map->bytes);
    for (uint32_t i = 0; i < request->piece_count; i++) {
        const struct iovec *piece = &request->pieces[i];
        copy_piece(self, request, piece, from);
        from += piece->iov_len;
    }
    bool suspect = *(const volatile uint8_t *)(from - 1) == 0;
    fault_guard_leave();
    return suspect;
}

static void finish_copied(struct mapped_reader *self, struct read_request *request, int result) {
    self->reader.reads++;
    self->reader.storage_bytes += request->bytes;
    finish(self, request, result);
}

// After the copies: a file that was truncated before one of them is found short now.
static NO_INLINE void check_suspects(struct mapped_reader *self) {
    struct read_request *request;
    self->checks++;
    while ((request = request_list_take(&self->suspects))) {
        struct size_seen *size = &self->sizes[request->file];
        if (size->checked != self->checks) {
            size->checked = self->checks;
            // Not fstat: the C library makes it a call with a path, which a confined loader may not use.
            off_t end = lseek(fd_of(self, request), 0, SEEK_END);
            size->bytes = end < 0 ? 0 : (uint64_t)end;
        }
        finish_copied(self, request, request->offset + request->bytes > size->bytes ? -ENODATA : 0);
    }
}

// Kept out of copy_queue, which a fault jumps into: to the address sanitizer, a jump past the end of a variable's scope
// looks like a use after it.
static NO_INLINE void renew_maps(struct mapped_reader *self) {
    struct request_list waiting = self->queue;
    if (!file_maps_renew(&self->files))
        return;
    self->queue = (struct request_list){0};
    for (struct read_request *request; (request = request_list_take(&waiting));)
        enqueue(self, request);
    self->fetch = (struct fetch_cursor){.request = self->queue.first};
}

// All state that a fault must not lose is in *self: locals may be stale after the jump.
static void copy_queue(struct mapped_reader *self) {
    if (sigsetjmp(fault_guard.escape, 0) != 0)
        request_list_add(&self->plain, request_list_take(&self->queue)); // a read finds out why it faulted
    self->fetch = (struct fetch_cursor){.request = self->queue.first};
    fetch_ahead(self, AHEAD_BYTES);
    for (uint64_t bytes = 0; self->queue.first && bytes < REAP_BYTES;) {
        bytes += self->queue.first->bytes;
        name_file(self, self->queue.first);
        bool suspect = copy(self, self->queue.first);
        struct read_request *request = request_list_take(&self->queue);
        if (suspect)
            request_list_add(&self->suspects, request);
        else
            finish_copied(self, request, 0);
        if (++self->copies % TABLE_CHECK == 0 && page_tables_too_large(&self->tables))
            renew_maps(self);
    }
    check_suspects(self);
}

// ---- Reading what cannot be copied -------------------------------------------------------------------------

static void read_one(struct mapped_reader *self, struct read_request *request) {
    const struct dataset_file *file = read_request_file(self->files.layout, request);
    const struct folder_files *folder = folder_set_find(&self->folders, request->file);
    struct plain_read_cost cost = {0};
    void *memory = NULL;
    name_file(self, request);
    // One at a time, so there is always room for it.
    int err = bounce_needed(file, request) ? bounce_take(&self->bounce, file, request, &memory) : 0;
    if (!err && folder) {
        plain_read_in_folder(folder, self->files.first_fd, file, request, reader_scratch, &cost);
        err = request->result;
    } else if (!err) {
        plain_read(fd_of(self, request), file, request, memory, reader_scratch, &cost);
        err = request->result;
    }
    if (memory)
        bounce_give(&self->bounce, file, request, memory);
    self->reader.reads += cost.reads;
    self->reader.storage_bytes += cost.storage_bytes;
    finish(self, request, err);
}

static NO_INLINE void read_plain(struct mapped_reader *self) {
    uint64_t until = monotonic_ns() + REAP_PLAIN_NS, bytes = 0;
    struct read_request *request;
    while (bytes < REAP_BYTES && (request = request_list_take(&self->plain))) {
        bytes += request->bytes;
        read_one(self, request);
        if (monotonic_ns() > until)
            break;
    }
}

static struct read_request *mapped_reap(struct reader *reader, int timeout_ms) {
    struct mapped_reader *self = (struct mapped_reader *)reader;
    (void)timeout_ms; // a copy or read waits for nothing but storage
    if (self->queue.first)
        copy_queue(self);
    if (self->plain.first)
        read_plain(self);
    atomic_store_explicit(self->read_file, 0, memory_order_relaxed);
    struct read_request *list = self->finished.first;
    self->finished.first = NULL;
    reader->in_flight -= self->finished_count;
    self->finished_count = 0;
    return list;
}

static void mapped_close(struct reader *reader) {
    struct mapped_reader *self = (struct mapped_reader *)reader;
    file_maps_close(&self->files);
    bounce_free(&self->bounce);
    fault_guard_close();
    free(self);
}

int reader_open_mapped(const struct reader_options *options, struct reader **reader,
                       enum reader_reason *reason, struct error *error) {
    *reader = NULL;
    (void)reason;
    uint32_t count = options->layout->file_count;
    if (options->delay_us)
        return error_set(error, -ENOTSUP, "the mapped reader cannot delay reads (io_delay_us)");
    struct mapped_reader *self = calloc(1, sizeof *self + count * sizeof self->sizes[0]);
    if (!self || file_maps_open(&self->files, options->layout, options->first_fd) < 0) {
        free(self);
        return error_set(error, -ENOMEM, "no memory for the mapped reader");
    }
    int err = fault_guard_open();
    if (err < 0) {
        file_maps_close(&self->files);
        free(self);
        return error_set(error, err, "signal handlers: %s", strerror(-err));
    }
    self->reader = (struct reader){.kind = READER_MAPPED,
                                   .submit = mapped_submit,
                                   .reap = mapped_reap,
                                   .close = mapped_close,
                                   .depth = options->depth};
    self->read_file = options->read_file ? options->read_file : &self->nobody_asked;
    self->folders = options->folders;
    page_tables_limit(&self->tables, options->table_bytes);
    *reader = &self->reader;
    return 0;
}

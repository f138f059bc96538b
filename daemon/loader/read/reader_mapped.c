#include "daemon/loader/read/reader_mapped.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/loader/read/fault_guard.h"
#include "daemon/loader/read/page_tables.h"
#include "daemon/loader/read/request.h"

#define TABLE_CHECK 128u   // copies between checks of the page tables
#define MOST_FILES  60000u // the kernel allows a process 65530 maps by default
#define REAP_BYTES                                                                                           \
    (256u << 10) // a reap returns after this much, so that completed chunks are published early

#define BLOCK_BYTES 512u // copied per call, while as many are fetched
#define AHEAD_BYTES 4096u
#define LARGE_BYTES (32u << 10)

struct map {
    const uint8_t *start; // NULL: not yet mapped
    uint64_t bytes;
    uint64_t size_now; // of the file, as seen in check number `checked`
    uint64_t checked;
};

// How far fetching has got in the queue. `request` is in the queue; NULL: all of it is fetched.
struct fetch_cursor {
    const struct read_request *request;
    uint64_t done; // bytes of it
};

struct mapped_reader {
    struct reader reader;
    const struct dataset_layout *layout;
    int first_fd;
    struct request_list queue; // submitted
    struct fetch_cursor fetch;
    struct request_list suspects; // copied, but perhaps from beyond the end of the file
    uint64_t checks;
    struct request_list finished; // not yet reported
    uint32_t finished_count;
    struct page_tables tables;
    uint32_t copies; // since they were looked at
    struct map maps[];
};

static int map_file(struct mapped_reader *self, uint32_t index) {
    uint64_t bytes = self->layout->files[index].bytes;
    void *start = mmap(NULL, bytes, PROT_READ, MAP_SHARED, self->first_fd + (int)index, 0);
    if (start == MAP_FAILED)
        return -errno;
    self->maps[index] = (struct map){.start = start, .bytes = bytes};
    return 0;
}

static int mapped_submit(struct reader *reader, struct read_request *request) {
    struct mapped_reader *self = (struct mapped_reader *)reader;
    if (reader->in_flight >= reader->depth)
        return -EBUSY;
    reader->in_flight++;
    const struct map *map = &self->maps[request->file];
    request->result = map->start ? 0 : map_file(self, request->file);
    if (request->result == 0 && request->offset + request->bytes > map->bytes)
        request->result = -ENODATA;
    if (request->result < 0)
        self->finished_count++;
    request_list_add(request->result < 0 ? &self->finished : &self->queue, request);
    return 0;
}

// Fetches the next `bytes` of the queue into the cache. Never faults, whatever has become of the file.
static inline void fetch_ahead(struct mapped_reader *self, uint64_t bytes) {
    struct fetch_cursor *fetch = &self->fetch;
    while (bytes && fetch->request) {
        const struct read_request *request = fetch->request;
        const uint8_t *from = self->maps[request->file].start + request->offset + fetch->done;
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
    const uint8_t *from = self->maps[request->file].start + request->offset + fetch->done;
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
        copy_bytes(piece->iov_base, from, piece->iov_len);
        self->fetch = (struct fetch_cursor){.request = request->next};
    }
}

// True when the last byte is zero: so are the bytes that a map shows between the end of a file and the end of its page,
// and reading those does not fault.
static inline bool copy(struct mapped_reader *self, const struct read_request *request) {
    const struct map *map = &self->maps[request->file];
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

static void finish(struct mapped_reader *self, struct read_request *request, int result) {
    request->result = result;
    self->finished_count++;
    self->reader.reads++;
    self->reader.storage_bytes += request->bytes;
    request_list_add(&self->finished, request);
}

// After the copies: a file that was truncated before one of them is found short now.
static NO_INLINE void check_suspects(struct mapped_reader *self) {
    struct read_request *request;
    self->checks++;
    while ((request = request_list_take(&self->suspects))) {
        struct map *map = &self->maps[request->file];
        struct stat status;
        if (map->checked != self->checks) {
            map->checked = self->checks;
            map->size_now =
                fstat(self->first_fd + (int)request->file, &status) < 0 ? 0 : (uint64_t)status.st_size;
        }
        finish(self, request, request->offset + request->bytes > map->size_now ? -ENODATA : 0);
    }
}

// Why a request's copy faulted. Kept out of the frame that is jumped into: to the address sanitizer, a jump past the
// end of a variable's scope looks like a use after it.
static NO_INLINE int fault_cause(const struct mapped_reader *self, const struct read_request *request) {
    struct stat status;
    if (fstat(self->first_fd + (int)request->file, &status) < 0)
        return -errno;
    return (uint64_t)status.st_size < request->offset + request->bytes ? -ENODATA : -EIO;
}

// Maps the files again, at the same addresses: the page tables start afresh. Where a file can no longer be mapped,
// nothing else may be: reads of it must fault.
static NO_INLINE void renew_maps(struct mapped_reader *self) {
    for (uint32_t i = 0; i < self->layout->file_count; i++) {
        void *start = (void *)self->maps[i].start;
        uint64_t bytes = self->maps[i].bytes;
        if (!start ||
            mmap(start, bytes, PROT_READ, MAP_SHARED | MAP_FIXED, self->first_fd + (int)i, 0) == start)
            continue;
        const int nothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
        if (mmap(start, bytes, PROT_NONE, nothing, -1, 0) != start)
            abort();
    }
}

// All state that a fault must not lose is in *self: locals may be stale after the jump.
static void copy_queue(struct mapped_reader *self) {
    if (sigsetjmp(fault_guard.escape, 0) != 0) {
        struct read_request *faulty = request_list_take(&self->queue);
        finish(self, faulty, fault_cause(self, faulty));
    }
    self->fetch = (struct fetch_cursor){.request = self->queue.first};
    fetch_ahead(self, AHEAD_BYTES);
    for (uint64_t bytes = 0; self->queue.first && bytes < REAP_BYTES;) {
        bytes += self->queue.first->bytes;
        bool suspect = copy(self, self->queue.first);
        struct read_request *request = request_list_take(&self->queue);
        if (suspect)
            request_list_add(&self->suspects, request);
        else
            finish(self, request, 0);
        if (++self->copies % TABLE_CHECK == 0 && page_tables_too_large(&self->tables))
            renew_maps(self);
    }
    check_suspects(self);
}

static struct read_request *mapped_reap(struct reader *reader, int timeout_ms) {
    struct mapped_reader *self = (struct mapped_reader *)reader;
    (void)timeout_ms; // a copy waits for nothing but storage
    if (self->queue.first)
        copy_queue(self);
    struct read_request *list = self->finished.first;
    self->finished.first = NULL;
    reader->in_flight -= self->finished_count;
    self->finished_count = 0;
    return list;
}

static void mapped_close(struct reader *reader) {
    struct mapped_reader *self = (struct mapped_reader *)reader;
    for (uint32_t i = 0; i < self->layout->file_count; i++)
        if (self->maps[i].start)
            munmap((void *)self->maps[i].start, self->maps[i].bytes);
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
    if (count > MOST_FILES)
        return error_set(error, -ENOTSUP, "%u files are more than the mapped reader can hold (%u)", count,
                         MOST_FILES);
    struct mapped_reader *self = calloc(1, sizeof *self + count * sizeof self->maps[0]);
    if (!self)
        return error_set(error, -ENOMEM, "no memory for the mapped reader");
    int err = fault_guard_open();
    if (err < 0) {
        free(self);
        return error_set(error, err, "signal handlers: %s", strerror(-err));
    }
    self->reader = (struct reader){.kind = READER_MAPPED,
                                   .submit = mapped_submit,
                                   .reap = mapped_reap,
                                   .close = mapped_close,
                                   .depth = options->depth};
    self->layout = options->layout;
    self->first_fd = options->first_fd;
    page_tables_limit(&self->tables, options->table_bytes);
    *reader = &self->reader;
    return 0;
}

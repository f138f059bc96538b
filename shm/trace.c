#include "shm/trace.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

_Static_assert(TRACE_OFFSET % RING_PAGE == 0, "the timeline begins with a page");
_Static_assert(sizeof(struct trace_event) == 32, "two events are a cache line");

// ---- Writing -----------------------------------------------------------------------------------------------

int trace_writer_open(int fd, uint32_t number, uint32_t process, uint32_t feed, struct trace_writer *writer,
                      struct error *error) {
    if (number >= TRACE_RINGS)
        return error_set(error, -EINVAL, "ring %u of the timeline does not exist", number);
    const size_t bytes = offsetof(struct trace_region, rings);
    const _Atomic uint32_t *on = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, (off_t)TRACE_OFFSET);
    if (on == MAP_FAILED)
        return error_set(error, -errno, "cannot map the switches of the timeline: %m");
    void *ring = mmap(NULL, sizeof(struct trace_ring), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                      (off_t)TRACE_RING_OFFSET(number));
    if (ring == MAP_FAILED) {
        int err = -errno;
        munmap((void *)on, bytes);
        return error_set(error, err, "cannot map a ring of the timeline: %s", strerror(-err));
    }
    *writer = (struct trace_writer){
        .on = &on[number], .ring = ring, .process = process, .feed = feed, .count = UINT64_MAX};
    return 0;
}

void trace_write_of(struct trace_writer *writer, enum trace_kind kind, uint64_t begin_ns, uint64_t end_ns,
                    uint32_t process, uint32_t feed, uint32_t slot) {
    if (!trace_is_on(writer))
        return;
    struct trace_ring *ring = writer->ring;
    if (writer->count == UINT64_MAX) // the process that had the ring before may have written some
        writer->count = atomic_load_explicit(&ring->count, memory_order_relaxed);
    struct trace_event *event = &ring->events[writer->count % TRACE_EVENTS];
    // A reader that sees any word of this event sees the count that was stored before; pairs with the acquire fence in
    // trace_read.
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&event->begin_ns, begin_ns, memory_order_relaxed);
    atomic_store_explicit(&event->end_ns, end_ns, memory_order_relaxed);
    atomic_store_explicit(&event->what, (uint64_t)feed << 8 | kind, memory_order_relaxed);
    atomic_store_explicit(&event->where, (uint64_t)slot << 32 | process, memory_order_relaxed);
    writer->count++;
    // Pairs with the acquire in trace_read.
    atomic_store_explicit(&ring->count, writer->count, memory_order_release);
}

void trace_write(struct trace_writer *writer, enum trace_kind kind, uint64_t begin_ns, uint64_t end_ns,
                 uint32_t slot) {
    trace_write_of(writer, kind, begin_ns, end_ns, writer->process, writer->feed, slot);
}

// ---- Switching ---------------------------------------------------------------------------------------------

int trace_switches_open(int fd, _Atomic uint32_t **on, struct error *error) {
    const size_t bytes = offsetof(struct trace_region, rings);
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)TRACE_OFFSET);
    if (memory == MAP_FAILED)
        return error_set(error, -errno, "cannot map the switches of the timeline: %m");
    *on = memory;
    return 0;
}

int trace_turn_on(int fd, _Atomic uint32_t *on, uint32_t number) {
    int err;
    if (atomic_load_explicit(&on[number], memory_order_relaxed))
        return 0;
    do
        err = posix_fallocate(fd, (off_t)TRACE_RING_OFFSET(number), sizeof(struct trace_ring));
    while (err == EINTR);
    if (err)
        return -err;
    atomic_store_explicit(&on[number], 1, memory_order_relaxed);
    return 0;
}

void trace_turn_off(_Atomic uint32_t *on) {
    for (uint32_t i = 0; i < TRACE_RINGS; i++)
        atomic_store_explicit(&on[i], 0, memory_order_relaxed);
}

// ---- Reading -----------------------------------------------------------------------------------------------

int trace_reader_open(const char *path, struct trace_reader *reader, struct error *error) {
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(error, -errno, "cannot open the statistics file %s: %m", path);
    if ((uint64_t)status.st_size == STATS_FILE_LEAST)
        return error_set(error, -EFBIG,
                         "%s has no timeline: the daemon's files may not be large enough (RLIMIT_FSIZE)",
                         path);
    if ((uint64_t)status.st_size != STATS_FILE_BYTES)
        return error_set(error, -EPROTO, "%s is the statistics file of another build of feedd", path);
    const void *region =
        mmap(NULL, sizeof(struct trace_region), PROT_READ, MAP_SHARED, fd, (off_t)TRACE_OFFSET);
    if (region == MAP_FAILED)
        return error_set(error, -errno, "cannot map the timeline in %s: %m", path);
    *reader = (struct trace_reader){.region = region};
    return 0;
}

void trace_reader_close(struct trace_reader *reader) {
    if (reader->region)
        munmap((void *)reader->region, sizeof *reader->region);
    reader->region = NULL;
}

static struct trace_record read_event(const struct trace_ring *ring, uint64_t number) {
    const struct trace_event *event = &ring->events[number % TRACE_EVENTS];
    uint64_t what = atomic_load_explicit(&event->what, memory_order_relaxed);
    uint64_t where = atomic_load_explicit(&event->where, memory_order_relaxed);
    return (struct trace_record){.kind = (enum trace_kind)(what & 0xff),
                                 .feed = (uint32_t)(what >> 8),
                                 .process = (uint32_t)where,
                                 .slot = (uint32_t)(where >> 32),
                                 .begin_ns = atomic_load_explicit(&event->begin_ns, memory_order_relaxed),
                                 .end_ns = atomic_load_explicit(&event->end_ns, memory_order_relaxed)};
}

static bool is_possible(const struct trace_record *record) {
    return record->kind > 0 && record->kind < TRACE_KINDS && record->begin_ns <= record->end_ns;
}

void trace_read(struct trace_reader *reader, uint32_t number,
                void (*take)(const struct trace_record *record, void *context), void *context) {
    const struct trace_ring *ring = &reader->region->rings[number];
    if (!atomic_load_explicit(&reader->region->on[number], memory_order_relaxed))
        return; // the memory may not be there
    // Pairs with the release in trace_write_of.
    uint64_t count = atomic_load_explicit(&ring->count, memory_order_acquire);
    uint64_t *done = &reader->counts[number];
    if (!reader->known[number] || count < *done) { // a process that has gone wrong may count backwards
        reader->known[number] = true;
        *done = count;
    }
    if (count - *done > TRACE_EVENTS) {
        reader->lost += count - *done - TRACE_EVENTS;
        *done = count - TRACE_EVENTS;
    }
    for (; *done < count; ++*done) {
        const struct trace_record record = read_event(ring, *done);
        // Pairs with the release fence in trace_write_of: if another event was being written there, the count says so.
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&ring->count, memory_order_relaxed) - *done >= TRACE_EVENTS)
            reader->lost++;
        else if (is_possible(&record))
            take(&record, context);
    }
}

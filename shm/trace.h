// The timeline: what processes did when, in rings of events after the statistics in their file. One process writes each
// ring, while a switch of the supervisor's is on; whoever may read the statistics reads it.
#ifndef FEEDD_SHM_TRACE_H
#define FEEDD_SHM_TRACE_H

#include "base/error.h"
#include "shm/layout.h"

// That a ring has: at 50,000 events per second, a reader may come 160 ms late, as on processors that others keep busy.
#define TRACE_EVENTS 8192u
// A ring for each record of the statistics: loaders, then GPUs; and the supervisor's.
#define TRACE_GPU(record) (STATS_MAX_LOADERS + (record))
#define TRACE_SUPERVISOR  (STATS_MAX_LOADERS + STATS_MAX_GPUS)
#define TRACE_RINGS       (TRACE_SUPERVISOR + 1)

// What a process did from `begin` to `end`.
enum trace_kind {
    TRACE_FILL = 1, // loader: plans and copies
    TRACE_DECODE,   // loader: its stages, or decodes blocks
    TRACE_STORAGE,  // loader: waits for reads
    TRACE_ROOM,     // loader: the ring is full
    TRACE_READ,     // loader: a chunk, from its claim until its last read has come back
    TRACE_CHUNK,    // loader: a chunk, from its claim until it is in the ring
    TRACE_COPY,     // transfer process: a batch, from when its copy is queued until it is on the GPU
    TRACE_RELEASE,  // transfer process: a batch waits for the streams of consumers
    TRACE_LEASE,    // consumer: a batch, from when it was granted until its release
    TRACE_WAIT,     // consumer: waits for a batch
    TRACE_BUS,      // transfer process: batches that are queued together cross the bus, by the GPU's clock
    TRACE_KINDS
};

// All words are written relaxed, by the process that has the ring.
struct trace_event {
    _Atomic uint64_t begin_ns; // monotonic
    _Atomic uint64_t end_ns;
    _Atomic uint64_t
        what; // kind | feed << 8; of a transfer process, the number of the pool in place of the feed's
    _Atomic uint64_t where; // process | slot << 32
};

// Event number i is in events[i % TRACE_EVENTS].
struct trace_ring {
    _Alignas(
        RING_PAGE) _Atomic uint64_t count; // ever; written by the process that has the ring, with release
    _Alignas(CACHE_LINE) struct trace_event events[TRACE_EVENTS];
};

// Nothing but the switches is allocated before it is needed.
struct trace_region {
    // 1: the ring is allocated, and events are wanted. Written only by the supervisor.
    _Alignas(RING_PAGE) _Atomic uint32_t on[TRACE_RINGS];
    struct trace_ring rings[TRACE_RINGS];
};

#define TRACE_OFFSET sizeof(struct stats_region) // in the file
#define TRACE_RING_OFFSET(number)                                                                            \
    (TRACE_OFFSET + offsetof(struct trace_region, rings) + (number) * sizeof(struct trace_ring))
#define STATS_FILE_BYTES (sizeof(struct stats_region) + sizeof(struct trace_region))
// Where files may not be as large as that, the rings are missing.
#define STATS_FILE_LEAST (TRACE_OFFSET + offsetof(struct trace_region, rings))

// ---- Writing -----------------------------------------------------------------------------------------------

// Zeroed: nothing is ever on.
struct trace_writer {
    const _Atomic uint32_t *on;
    struct trace_ring *ring;
    uint32_t process, feed; // what its own events are about
    uint64_t count; // of the ring; UINT64_MAX: not looked up yet, because the ring may not be allocated
};

// Maps ring `number` of the file, and the switches, which cannot be written through this mapping.
int trace_writer_open(int fd, uint32_t number, uint32_t process, uint32_t feed, struct trace_writer *writer,
                      struct error *error);

static inline bool trace_is_on(const struct trace_writer *writer) {
    // Relaxed: nothing that the supervisor wrote is read.
    return writer->on && atomic_load_explicit(writer->on, memory_order_relaxed) != 0;
}

// If it is on: something that the writer's process did in its feed.
void trace_write(struct trace_writer *writer, enum trace_kind kind, uint64_t begin_ns, uint64_t end_ns,
                 uint32_t slot);
// The same of another process and feed.
void trace_write_of(struct trace_writer *writer, enum trace_kind kind, uint64_t begin_ns, uint64_t end_ns,
                    uint32_t process, uint32_t feed, uint32_t slot);

// ---- Switching: the supervisor -----------------------------------------------------------------------------

// Maps the switches for writing.
int trace_switches_open(int fd, _Atomic uint32_t **on, struct error *error);
// Allocates ring `number`, so that no writer finds the file system full, and turns it on. 0 or a negative errno.
int trace_turn_on(int fd, _Atomic uint32_t *on, uint32_t number);
void trace_turn_off(_Atomic uint32_t *on);

// ---- Reading -----------------------------------------------------------------------------------------------

struct trace_record {
    enum trace_kind kind;
    uint64_t begin_ns, end_ns;
    uint32_t process, feed, slot;
};

struct trace_reader {
    const struct trace_region *region;
    uint64_t counts[TRACE_RINGS]; // events of each ring that have been read or lost
    bool known[TRACE_RINGS];      // the ring has been looked at
    uint64_t lost;
};

// Of the statistics file at `path`, which has been found to be one (stats_open).
int trace_reader_open(const char *path, struct trace_reader *reader, struct error *error);
void trace_reader_close(struct trace_reader *reader);

// Hands all new events of a ring to `take`. At the first look there are none: what is in a ring then is from an earlier
// time. Events that no process could have written are left out.
void trace_read(struct trace_reader *reader, uint32_t number,
                void (*take)(const struct trace_record *record, void *context), void *context);

#endif

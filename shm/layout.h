// Every structure in shared memory: the ring of one feed, and the statistics region. There are no pointers.
// Offsets are asserted in layout.c, and README.md draws both regions.
//
// The comment at each shared word names its writer. Orderings are named at the operations, in ring*.c and
// stats*.c, and listed in README.md. "Once" means: before any other process has the descriptor.
#ifndef FEEDD_SHM_LAYOUT_H
#define FEEDD_SHM_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/sizes.h"
#include "shm/latency.h"

#define RING_MAGIC         0x31474e4952444546u // "FEDRING1"
#define RING_VERSION       6u
#define RING_MAX_FIELDS    16u
#define RING_MAX_DIMS      8u
#define RING_MAX_SLOTS     4096u
#define RING_MAX_CHUNKS    4096u // a batch is cut into at most this many chunks
#define RING_FIELD_NAME    32u
#define RING_PAGE          4096u
#define RING_MAX_CONSUMERS 64u       // of a device pool: bits in ring_slot.unread
#define RING_VALUES_ALIGN  256u      // the values of each ragged field begin at a multiple of this
#define CHUNK_MAX_SAMPLES  0xffffffu // a batch, and therefore a chunk, has at most this many samples

struct ring_field {
    char name[RING_FIELD_NAME];
    uint32_t dtype;
    uint32_t dimensions;           // of one sample; a batch has one more, the first
    uint64_t shape[RING_MAX_DIMS]; // of one sample
    uint64_t sample_bytes;         // 0 of a ragged field
    uint64_t slot_offset;          // where the field's [batch, ...] array starts in a slot
    // 0: a sample has sample_bytes. Otherwise the field is ragged, and this is its number among the ragged ones, from
    // 1. A sample has any number of values, one after another: one dimension, with shape[0] = 0. What starts at
    // slot_offset are int64 offsets[batch + 1], in values. ring_header.places_offset says where the values lie.
    uint32_t ragged;
    uint32_t reserved;
};

// A chunk word: the state of one piece of a batch, and who has it.
//   bits 0..7 state, 8..31 samples skipped in it (valid in CHUNK_DONE), 32..63 owner (valid in CHUNK_CLAIMED)
// The owner is the serial number of a loader, or of a transfer process in the ring of a device pool. No number is
// used twice in the life of a ring.
enum chunk_state {
    CHUNK_IDLE = 0, // not part of the slot's batch, or the slot is free. Written by the supervisor
    CHUNK_FREE = 1, // to be claimed. Written by the supervisor at dispatch
    CHUNK_CLAIMED =
        2, // being filled. Written by the claiming loader, by compare-and-swap from FREE or RECOVERED
    CHUNK_DONE = 3,   // bytes in place. Written by the owner
    CHUNK_FAILED = 4, // see ring_control.failure. Written by the owner
    // Free again: its owner died. To be claimed before anything in the queue. Written by the supervisor
    CHUNK_RECOVERED = 5,
};

// Which batch is in a slot. Written by the supervisor while no chunk of the slot is FREE, CLAIMED or RECOVERED,
// except `repair`, `unread` and `recovered`; read by loaders after they claim a chunk of it and by clients after
// they are granted it.
struct ring_slot {
    uint64_t sequence; // number among the batches of its rank in this run
    uint64_t rank;
    uint64_t epoch;
    uint64_t index;          // of the global batch in the epoch
    uint64_t first_position; // in the epoch's order
    uint64_t consumed;       // for the resume token: see struct batch_place
    uint32_t count;          // samples dispatched
    uint32_t skipped;        // of these, unreadable and left out; the batch holds count - skipped samples
    uint32_t chunk_count;
    uint32_t last_of_epoch;
    // One more chunk word: closing the holes of a batch with skipped samples is a job like any chunk. Same states
    // and writers, except that it is never RECOVERED: a repair is in no queue, so a FREE one is as urgent.
    // CHUNK_IDLE unless such a job is wanted.
    _Atomic uint64_t repair;
    // How often this slot has been given a batch, from 1; in the ring of a device pool the value of its sequence words.
    // No other word of the record is written before it.
    uint64_t fill;
    // `unread` and `source` only in the ring of a device pool; see ring_dispatch_copy.
    // Bit c: consumer c was granted fill - 1 and must first release it on its stream. Set by the supervisor at
    // dispatch. It takes out the bit of a consumer that has left at any time, also while the transfer process has
    // the chunk.
    _Atomic uint64_t unread;
    uint32_t source; // slot of the feed's ring to copy from
    // How many chunks of this batch were ever RECOVERED: loaders look for RECOVERED chunks only where it is not 0.
    // Written by the supervisor: 0 at dispatch, up at recovery, also while chunks are FREE or CLAIMED.
    _Atomic uint32_t recovered;
    // The run that the batch belongs to. A restart numbers batches from 0 again in the same ring, so rank and
    // sequence do not tell batches of two runs apart.
    uint64_t run;
    uint64_t reserved[3];
};

// Why a chunk failed. Written by the loader that takes `state` from 0 to its own number (compare-and-swap); it
// sets RING_FAILURE_COMPLETE when the rest is in place. The supervisor reads the rest after it has seen that, and
// then sets 0 again, as it does when the writer died before it was complete.
#define RING_FAILURE_COMPLETE UINT32_MAX
struct ring_failure {
    _Atomic uint32_t state;
    int32_t code; // negative errno
    uint32_t file;
    uint32_t slot;
    uint64_t offset;
    uint64_t sample;
};

// What a ring is: written once, by the supervisor, `magic` last, with release. Loaders can write to the page that it
// lies in, so nothing relies on what is there: ring_map copies it and checks the copy, which all processes use.
struct ring_header {
    _Atomic uint64_t magic;
    uint32_t version;
    uint32_t header_bytes; // of struct ring_control
    uint64_t total_bytes;
    uint32_t slot_count;
    uint32_t chunks_per_slot; // stride of the chunk-word array
    uint32_t chunk_samples;   // samples in every chunk but the last
    uint32_t batch_size;      // most samples of a batch
    uint32_t field_count;
    uint32_t queue_entries; // a power of two
    uint64_t slots_offset;  // struct ring_slot[slot_count]
    uint64_t chunks_offset; // _Atomic uint64_t[slot_count][chunks_per_slot]
    uint64_t skips_offset;  // _Atomic uint64_t[slot_count][skip_words]: one bit per sample of the batch
    uint32_t skip_words;
    uint32_t order_version;
    uint64_t queue_offset; // _Atomic uint32_t[queue_entries]: slot numbers
    uint64_t data_offset;  // slot_count slots of slot_bytes, unless:
    uint64_t slot_bytes;   // a multiple of RING_PAGE
    uint32_t on_device;    // 1: the slots lie in a device pool, and this object ends at data_offset
    uint32_t ragged_count; // fields that are ragged
    uint64_t samples;
    uint64_t seed;
    uint64_t fingerprint;
    uint64_t world_size;
    // Values of ragged fields lie between this and the slot's end. The places say where: _Atomic uint64_t
    // [slot_count][chunks_per_slot + 2][ragged_count], in bytes from the start of the slot. Those of a batch with c
    // chunks: number i < c is where the values of chunk i begin, number c is where those of the last chunk end, and
    // number c + 1 is where they end as they are delivered: earlier, if samples were left out.
    uint64_t values_offset;
    uint64_t places_offset;
    // With ragged fields and on_error = replace; otherwise 0. _Atomic uint8_t[slot_count][batch_size]: at each place of
    // the batch stands the sample of this attempt (order/replace.h), 0: the one that the order names.
    uint64_t attempts_offset;
    // Of slot_bytes, what each slot has in any case: a multiple of RING_PAGE. The rest is there once a batch has needed
    // it. Only with ragged fields.
    uint64_t slot_allocated_bytes;
    struct ring_field fields[RING_MAX_FIELDS];
};

// The first page of a ring.
struct ring_control {
    struct ring_header header;

    // Dispatch: written only by the supervisor.
    _Alignas(CACHE_LINE) _Atomic uint64_t queue_head; // entries ever put into the queue

    // Where the next claim looks: queue entry * chunks_per_slot + chunk. Loaders advance it by compare-and-swap, and
    // take chunks of their own stripes after it. A hint that never passes over a FREE chunk; the chunk word alone
    // decides a claim.
    _Alignas(CACHE_LINE) _Atomic uint64_t claim_cursor;

    // Sleep of loaders: `work` is the futex word, incremented by the supervisor; `loaders_asleep` is set by a
    // loader before it sleeps and taken back by the supervisor when it wakes them.
    _Alignas(CACHE_LINE) _Atomic uint32_t work;
    _Atomic uint32_t loaders_asleep;
    _Atomic uint32_t
        urgent_wanted; // repairs set FREE and chunks set RECOVERED, ever; written by the supervisor

    // Sleep of the supervisor, which sets it before it looks for finished batches. A loader that finishes one sets
    // it to 0 and, if it was 1, writes the eventfd.
    _Alignas(CACHE_LINE) _Atomic uint32_t supervisor_asleep;

    _Alignas(CACHE_LINE) struct ring_failure failure;
};

#define STATS_MAGIC       0x3153544154534446u // "FDSTATS1"
#define STATS_VERSION     9u
#define STATS_MAX_FEEDS   64u
#define STATS_MAX_LOADERS 512u
#define STATS_MAX_GPUS    16u
#define STATS_NAME        64u

// Each record is whole pages, so that a loader maps only the record that it may write.
// Counters are listed in shm/counters.def. They only grow; each has one writer, which writes it relaxed.
enum loader_counter {
#define LOADER_COUNTER(name, unit, text) LOADER_##name,
#define FEED_COUNTER(name, unit, text)
#define GPU_COUNTER(name, unit, text)
#include "shm/counters.def"
    LOADER_COUNTERS
};

enum feed_counter {
#define LOADER_COUNTER(name, unit, text)
#define FEED_COUNTER(name, unit, text) FEED_##name,
#define GPU_COUNTER(name, unit, text)
#include "shm/counters.def"
    FEED_COUNTERS
};

enum gpu_counter {
#define LOADER_COUNTER(name, unit, text)
#define FEED_COUNTER(name, unit, text)
#define GPU_COUNTER(name, unit, text) GPU_##name,
#include "shm/counters.def"
    GPU_COUNTERS
};

// Latencies are listed in shm/latencies.def, and are counters too.
enum loader_latency {
#define LOADER_LATENCY(name, text) LOADER_LATENCY_##name,
#define FEED_LATENCY(name, text)
#define GPU_LATENCY(name, text)
#include "shm/latencies.def"
    LOADER_LATENCIES
};

enum feed_latency {
#define LOADER_LATENCY(name, text)
#define FEED_LATENCY(name, text) FEED_LATENCY_##name,
#define GPU_LATENCY(name, text)
#include "shm/latencies.def"
    FEED_LATENCIES
};

enum gpu_latency {
#define LOADER_LATENCY(name, text)
#define FEED_LATENCY(name, text)
#define GPU_LATENCY(name, text) GPU_LATENCY_##name,
#include "shm/latencies.def"
    GPU_LATENCIES
};

// What became of a sample that could not be read.
enum bad_fate {
    BAD_FATAL,    // the feed failed
    BAD_SKIPPED,  // it was left out
    BAD_REPLACED, // another one took its place, or was to take it
    BAD_FATES
};

#define STATS_BAD_SAMPLES  32u // that a loader can report between two ticks of the supervisor
#define STATS_CONDEMNED    32u // samples of a feed that have ended loaders
#define STATS_REASON_BYTES 72u

// One of them. Written by the loader, relaxed, before bad_count.
struct stats_bad_sample {
    _Atomic uint64_t sample;  // of the dataset
    _Atomic uint64_t offset;  // in the file
    _Atomic uint32_t file;    // its index in the dataset
    _Atomic uint32_t code;    // positive errno
    _Atomic uint32_t fate;    // enum bad_fate
    _Atomic uint32_t refused; // 1: by a stage, after it had been read
    // The stage's sentence, as far as it fits: bytes in the order of memory, the last one 0.
    _Atomic uint64_t reason[STATS_REASON_BYTES / 8];
};

// Written by one loader process (counters, heartbeat, reader) and, while no process has the record, by the
// supervisor.
struct stats_loader {
    _Alignas(RING_PAGE) _Atomic uint64_t pid;
    // Monotonic, several times per second, except while the process waits for reads and none comes back. If later reads
    // come back and one does not, the heartbeat falls behind by as much as it has been overtaken.
    _Atomic uint64_t heartbeat_ns;
    _Atomic uint32_t reader; // enum reader_kind, for `feedctl status`
    _Atomic uint32_t reader_reason;
    // The oldest read that has not come back.
    _Atomic uint64_t read_since_ns; // monotonic; 0: since the heartbeat
    _Atomic uint32_t read_file;     // its file's index in the dataset, plus 1; 0: no read
    uint32_t reserved;
    _Atomic uint64_t counters[LOADER_COUNTERS];
    _Atomic uint64_t confined; // a word of shm/confinement.h, which the process claims; 0: not yet
    // Samples that could not be read, ever: number i is in bad[i % STATS_BAD_SAMPLES]. Written by the loader.
    _Atomic uint64_t bad_count;
    _Atomic uint64_t bad_totals[BAD_FATES];
    struct stats_bad_sample bad[STATS_BAD_SAMPLES];
    // The sample that a slow stage works on, plus 1; 0: none. Written by the loader; the supervisor reads it once the
    // loader has died.
    _Atomic uint64_t staged_sample;
    // Samples that have ended two loaders, which slow stages refuse. Written by the supervisor, the count last.
    _Atomic uint64_t condemned[STATS_CONDEMNED];
    _Atomic uint64_t condemned_count;
    // What the supervisor wants of the loader, which looks several times per second. Written by the supervisor.
    _Atomic uint64_t stripe;  // of each slot's chunks, that it claims first: STATS_STRIPE
    _Atomic uint64_t retires; // 1: it is to end when it has filled what it has claimed
    struct latency latencies[LOADER_LATENCIES];
};

#define STATS_LOADER_BYTES (2 * RING_PAGE)
_Static_assert(sizeof(struct stats_loader) == STATS_LOADER_BYTES, "a record of a loader is two pages");

// The word for stripe `number` of `count`.
#define STATS_STRIPE(number, count) ((uint64_t)(count) << 32 | (number))

// Written only by the supervisor, under `version` as a seqlock (odd: being rewritten). Counters and gauges may be
// read without looking at `version`; names and identity may not.
struct stats_feed {
    _Alignas(RING_PAGE) _Atomic uint32_t version;
    uint32_t reserved;
    uint64_t id; // 0: unused; a daemon uses no id twice
    // Both are empty where users who may not see each other's names could read them.
    char name[STATS_NAME];
    char dataset[STATS_NAME];
    uint64_t started_ns;
    uint64_t batch_size;
    uint64_t world_size;
    uint64_t slot_count;
    uint64_t ring_bytes;
    // Gauges.
    _Atomic uint64_t slots_ready; // filled, not yet released by all
    _Atomic uint64_t slots_filling;
    _Atomic uint64_t consumers;
    _Atomic uint64_t loaders;
    _Atomic uint64_t counters[FEED_COUNTERS];
    _Atomic uint64_t retired[LOADER_COUNTERS]; // counters of loaders that are gone
    _Atomic uint64_t gpus;                     // bit i: it has a pool on the GPU of record i
    struct latency latencies[FEED_LATENCIES];
    struct latency retired_latencies[LOADER_LATENCIES];
};

enum gpu_state {
    GPU_STARTING, // its transfer process is opening the GPU, which can take seconds
    GPU_RUNNING,
    GPU_BACKING_OFF, // its transfer process died or the GPU failed; another process is started after a while
    GPU_STOPPING,
    GPU_STATES
};

// A GPU in use. Identity, `state` and `pools` are written by the supervisor, the identity under `version` as a
// seqlock; the rest is written by the GPU's transfer process and, while there is none, by the supervisor.
struct stats_gpu {
    _Alignas(RING_PAGE) _Atomic uint32_t version;
    uint32_t reserved;
    uint64_t used; // monotonic time since when; 0: record unused
    char uuid[STATS_NAME];
    char name[STATS_NAME];
    _Atomic uint64_t pid;
    _Atomic uint32_t state; // enum gpu_state
    _Atomic uint32_t pools; // one per feed that is delivered to this GPU

    _Alignas(CACHE_LINE) _Atomic uint64_t heartbeat_ns;
    // Gauges.
    _Atomic uint64_t pinned_bytes;    // of rings, registered with this GPU
    _Atomic uint64_t pool_bytes;      // GPU memory of all pools
    _Atomic uint64_t bus_bytes_per_s; // measured when its first ring is registered; 0: not yet
    _Atomic uint64_t counters[GPU_COUNTERS];
    _Atomic uint64_t confined; // a word of shm/confinement.h, which the process claims; 0: not yet
    // Written by the transfer process, and by the supervisor before it starts one. 1 while the process waits for the
    // driver, which can take minutes in which its heartbeat stands still. Release: a new heartbeat comes before the 0;
    // pairs with the acquire in transfer_process.c.
    _Atomic uint64_t in_driver;
    struct latency latencies[GPU_LATENCIES];
};

// Written only by the supervisor; everything except the atomic words once, before `magic`.
struct stats_header {
    _Alignas(RING_PAGE) _Atomic uint64_t magic; // last, with release
    uint32_t version;
    uint32_t header_bytes;
    uint64_t total_bytes;
    uint32_t max_feeds;
    uint32_t max_loaders;
    uint32_t max_gpus;
    uint32_t reserved;
    uint64_t pid;
    uint64_t started_ns;
    _Atomic uint64_t heartbeat_ns; // by the supervisor, a few times a second
    _Atomic uint64_t stopped;      // 1 once it has stopped cleanly
    _Atomic uint64_t sessions;
    _Atomic uint64_t ring_bytes; // of all feeds
    uint64_t ring_memory;        // the limit
};

// Which feed the loaders' records belong to, by its id; 0: unused. Written only by the supervisor, with release: no
// loader can write to this page, and so none can add its counters to those of another feed.
struct stats_owners {
    _Alignas(RING_PAGE) _Atomic uint64_t feed[STATS_MAX_LOADERS];
};

struct stats_region {
    struct stats_header header;
    struct stats_owners owners;
    struct stats_feed feeds[STATS_MAX_FEEDS];
    struct stats_loader loaders[STATS_MAX_LOADERS];
    struct stats_gpu gpus[STATS_MAX_GPUS];
};

#endif

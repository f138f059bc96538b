// What a child process inherits from the supervisor: descriptors with fixed numbers and a block of settings.
#ifndef FEEDD_DAEMON_HERITAGE_H
#define FEEDD_DAEMON_HERITAGE_H

#include "base/fdpass.h"
#include "base/scope.h"
#include "daemon/dataset/dataset.h"
#include "gpu/gpu.h"
#include "order/mix_run.h"
#include "shm/block_share.h"

enum heritage_fd {
    // 0 is /dev/null, 1 and 2 are the supervisor's
    HERITAGE_SETTINGS =
        3,             // memfd: struct loader_settings with the dataset's layout, or struct transfer_settings
    HERITAGE_RING = 4, // shared memory, read-write
    HERITAGE_STATS = 5, // statistics region, read-write
    HERITAGE_EVENT = 6, // eventfd that wakes the supervisor
    // write end of a pipe; end of file tells the supervisor that this process and every read that it submitted are gone
    // (a loader registers it with its io_uring)
    HERITAGE_LIFE = 7,
    HERITAGE_LIST = 8,   // struct dataset_list of a dataset or view that has one; /dev/null for others
    HERITAGE_INDEX = 9,  // the dataset's index; /dev/null where there is none
    HERITAGE_PARTS = 10, // struct dataset_parts of a mix; /dev/null for others
    HERITAGE_BLOCKS =
        11, // decoded blocks that the loaders of a feed share, read-write; /dev/null where they share none
    // The cache of decoded images (shm/sample_cache.h), read-write: its memory and its file. /dev/null where there is
    // none.
    HERITAGE_CACHE = 12,
    HERITAGE_CACHE_FILE = 13,
    // The dataset's files, in order; after them the list, the index and the two of the cache of each part of a mix.
    HERITAGE_FILES = 14,
};

// For a loader that is started before there is a feed for it. HERITAGE_LIFE is as any loader's.
enum heritage_prepared_fd {
    // seqpacket socket: brings offers, then one struct loader_assignment, or ends
    HERITAGE_ASSIGNMENT = 4,
};

// Its descriptors lie below this number, so that its own do not get into their way. With more, a loader is started with
// them.
#define ASSIGNMENT_FDS 256u

// What it is prepared for: with other settings it is replaced.
struct prepared_settings {
    uint64_t bytes; // of this structure
    uint64_t supervisor_pid;
    uint32_t queue_depth;
    uint32_t log_level;
    uint32_t confine;
    uint32_t unused; // 0, so that structures can be compared
};

// Comes with `count` descriptors: descriptor i becomes number numbers[i] of the process. All other numbers from
// HERITAGE_SETTINGS to fd_count are /dev/null, apart from HERITAGE_LIFE. After that, it is a loader as any other.
//
// With feed 0 it is an offer: the one descriptor is of memory that may become the ring of the next feed, with so many
// `bytes`. The loader maps it and waits on. A later offer replaces it.
struct loader_assignment {
    uint64_t feed;
    uint64_t bytes; // 0 unless it is an offer
    uint32_t fd_count, count;
    uint8_t numbers[FDPASS_MOST];
};

// For a transfer process.
enum heritage_transfer_fd {
    HERITAGE_CONTROL = 4,        // seqpacket socket to the supervisor: daemon/control.h
    HERITAGE_TRANSFER_STATS = 5, // statistics region, read-write
    HERITAGE_WAKE = 6,           // eventfd by which the supervisor wakes it
};

struct transfer_settings {
    uint64_t bytes; // of this structure
    uint64_t supervisor_pid;
    uint32_t stats_record;
    uint32_t log_level;
    uint32_t confine;
    uint32_t decodes; // 1: some dataset has images that the GPU's engine is to decode
    char uuid[GPU_UUID_BYTES];
};

struct loader_settings {
    uint64_t bytes; // of this structure including the layout
    uint64_t feed;
    uint32_t serial; // owner number in chunk words
    uint32_t stats_record;
    uint32_t io;          // enum io_mode
    uint32_t queue_depth; // reads in flight
    uint32_t io_delay_us;
    uint32_t on_error; // enum on_error
    uint32_t io_direct;
    uint32_t log_level;
    uint32_t confine;     // whether to give up what it does not need
    uint32_t share_arena; // of `share`: this loader's
    uint64_t supervisor_pid;
    uint64_t mapped_limit;
    struct block_share_plan share; // zeros: this loader shares no blocks
    struct mix_run mix;            // of a mix: the run
    uint32_t mix_shuffle;          // ... and whether its sources are shuffled
    uint32_t stripe;               // of each slot's chunks, that it claims first ...
    uint32_t stripes;              // ... of so many
    uint32_t gpu_images;           // 1: images that a GPU can make are made there
    struct dataset_layout layout;
};

#endif

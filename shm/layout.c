// Compile-time proof that the shared layouts are what other builds expect.
#include "shm/layout.h"

#include <assert.h>

static_assert(sizeof(_Atomic uint64_t) == 8, "64-bit atomics are plain words");
static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics work between processes");

static_assert(sizeof(struct ring_field) == 128, "ring_field");
static_assert(sizeof(struct ring_slot) == 128, "a slot takes two cache lines");
static_assert(offsetof(struct ring_slot, count) == 48, "ring_slot");
static_assert(offsetof(struct ring_slot, repair) == 64, "ring_slot");
static_assert(offsetof(struct ring_slot, fill) == 72, "ring_slot");
static_assert(offsetof(struct ring_slot, unread) == 80, "ring_slot");
static_assert(offsetof(struct ring_slot, source) == 88, "ring_slot");
static_assert(offsetof(struct ring_slot, recovered) == 92, "ring_slot");
static_assert(offsetof(struct ring_slot, run) == 96, "ring_slot");
static_assert(8 * sizeof(((struct ring_slot *)NULL)->unread) == RING_MAX_CONSUMERS, "one bit per consumer");

static_assert(offsetof(struct ring_control, header) == 0, "the header comes first");
static_assert(offsetof(struct ring_header, magic) == 0, "magic comes first");
static_assert(offsetof(struct ring_header, version) == 8, "then the version");
static_assert(offsetof(struct ring_header, total_bytes) == 16, "ring_header");
static_assert(offsetof(struct ring_header, slots_offset) == 48, "ring_header");
static_assert(offsetof(struct ring_header, data_offset) == 88, "ring_header");
static_assert(offsetof(struct ring_header, on_device) == 104, "ring_header");
static_assert(offsetof(struct ring_header, fields) == 176, "ring_header");
static_assert(offsetof(struct ring_control, queue_head) % CACHE_LINE == 0, "own cache line");
static_assert(offsetof(struct ring_control, claim_cursor) % CACHE_LINE == 0, "own cache line");
static_assert(offsetof(struct ring_control, work) % CACHE_LINE == 0, "own cache line");
static_assert(offsetof(struct ring_control, supervisor_asleep) % CACHE_LINE == 0, "own cache line");
static_assert(sizeof(struct ring_control) <= RING_PAGE, "the header fits the first page");

static_assert(sizeof(struct stats_loader) % RING_PAGE == 0, "a loader's record is pages of its own");
static_assert(offsetof(struct stats_loader, reader) == 16, "stats_loader");
static_assert(offsetof(struct stats_loader, read_since_ns) == 24, "stats_loader");
static_assert(offsetof(struct stats_loader, read_file) == 32, "stats_loader");
static_assert(offsetof(struct stats_loader, counters) == 40, "stats_loader");
static_assert(sizeof(struct stats_feed) == RING_PAGE, "a feed's record is a page");
static_assert(sizeof(struct stats_owners) == RING_PAGE, "the owners of loaders' records fill a page");
static_assert(sizeof(struct stats_header) == RING_PAGE, "the statistics header is a page");
static_assert(sizeof(struct stats_gpu) == RING_PAGE, "a GPU's record is a page of its own");
static_assert(offsetof(struct stats_header, max_gpus) == 32, "stats_header");
static_assert(offsetof(struct stats_gpu, uuid) == 16, "stats_gpu");
static_assert(offsetof(struct stats_gpu, pid) == 144, "stats_gpu");
static_assert(offsetof(struct stats_gpu, heartbeat_ns) % CACHE_LINE == 0, "own cache line");
static_assert(offsetof(struct stats_region, loaders) % RING_PAGE == 0,
              "loader records can be mapped one by one");
static_assert(offsetof(struct stats_region, gpus) % RING_PAGE == 0, "GPU records can be mapped singly");

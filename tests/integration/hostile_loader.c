// Linked into a feedd of its own, tests/hostile_feedd: loaders of a dataset whose first file is called hostile.bin play
// one that has been taken over. Once such a loader has mapped its memory and begins to work, a thread of it writes
// anything anywhere it can: into the ring, its record of the statistics, and every descriptor, which it also tries to
// resize. Half of what it writes is random, and half is what a loader could well write, but at the wrong time.
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sizes.h"
#include "base/time.h"
#include "shm/layout.h"
#include "tests/integration/hostile.h"

#define FIRST_FILE 14 // HERITAGE_FILES
#define SETTINGS   3  // its own, which nobody else maps
#define FDS_MOST   64

struct area {
    uint8_t *at;
    uint64_t bytes;
};

static struct area ring, record;
static struct ring_header geometry; // as it was before
// ---- What there is to write to -----------------------------------------------------------------------------

static bool is_interesting_map(const char *line) {
    return strstr(line, " rw-s ") && !strstr(line, "io_uring") && !strstr(line, "loader-settings");
}

// The largest shared map is the ring; the one of two pages is the record. False: the loader is not there yet.
static bool find_areas(void) {
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    ring = record = (struct area){0};
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (!is_interesting_map(line) || sscanf(line, "%lx-%lx", &from, &to) != 2)
            continue;
        struct area found = {(uint8_t *)from, to - from};
        if (found.bytes == STATS_LOADER_BYTES && !record.at)
            record = found;
        else if (found.bytes > ring.bytes)
            ring = found;
    }
    if (maps)
        fclose(maps);
    if (!ring.at || !record.at)
        return false;
    memcpy(&geometry, ring.at, sizeof geometry);
    return geometry.magic == RING_MAGIC && geometry.slot_count && geometry.chunks_per_slot;
}

// ---- Writing -----------------------------------------------------------------------------------------------

static void write_word(uint8_t *at) {
    uint64_t word = interesting();
    memcpy(at, &word, below(2) ? 8 : 4);
}

static void write_chunk(void) {
    uint64_t *chunks = (uint64_t *)(void *)(ring.at + geometry.chunks_offset);
    uint64_t chunk = below((uint64_t)geometry.slot_count * geometry.chunks_per_slot);
    chunks[chunk] = below(7) | (below(4) ? 0 : below(200) << 8) | below(20) << 32;
}

static void write_slot(void) {
    uint64_t at = geometry.slots_offset + below(geometry.slot_count) * sizeof(struct ring_slot);
    if (below(3) == 0) {
        struct ring_slot *slot = (struct ring_slot *)(void *)(ring.at + at);
        atomic_store(&slot->repair, below(7) | below(20) << 32);
        return;
    }
    write_word(ring.at + at + 4 * below(sizeof(struct ring_slot) / 4 - 1));
}

static void write_failure(void) {
    struct ring_failure *failure = &((struct ring_control *)(void *)ring.at)->failure;
    failure->code = (int32_t)interesting();
    failure->file = (uint32_t)interesting();
    failure->slot = (uint32_t)below(8);
    failure->sample = interesting();
    atomic_store(&failure->state, below(2) ? RING_FAILURE_COMPLETE : (uint32_t)below(20));
}

// Where the values of ragged fields lie, and the offsets that consumers get.
static void write_places(void) {
    uint64_t places = geometry.slot_count * (geometry.chunks_per_slot + 2ull) * geometry.ragged_count;
    uint64_t word = below(2) ? geometry.values_offset + below(2 * geometry.slot_bytes) : interesting();
    if (!geometry.ragged_count)
        return;
    memcpy(ring.at + geometry.places_offset + 8 * below(places), &word, sizeof word);
    uint64_t offsets = geometry.data_offset + below(geometry.slot_count) * geometry.slot_bytes +
                       geometry.fields[0].slot_offset;
    word = interesting();
    memcpy(ring.at + offsets + 8 * below(geometry.batch_size + 1ull), &word, sizeof word);
}

// Says that a sample is bad which is not, and counts it as a loader should.
static void write_skip(void) {
    uint64_t slot = below(geometry.slot_count), chunk = below(geometry.chunks_per_slot);
    uint64_t sample =
        min_u64(chunk * geometry.chunk_samples + below(geometry.chunk_samples), geometry.batch_size - 1);
    uint64_t *skips = (uint64_t *)(void *)(ring.at + geometry.skips_offset) + slot * geometry.skip_words;
    uint64_t *chunks =
        (uint64_t *)(void *)(ring.at + geometry.chunks_offset) + slot * geometry.chunks_per_slot;
    skips[sample / 64] |= UINT64_C(1) << (sample % 64);
    chunks[chunk] = CHUNK_DONE | 1 << 8;
}

static void write_control(void) {
    static const uint16_t words[] = {
        offsetof(struct ring_control, queue_head),     offsetof(struct ring_control, claim_cursor),
        offsetof(struct ring_control, work),           offsetof(struct ring_control, loaders_asleep),
        offsetof(struct ring_control, urgent_wanted),  offsetof(struct ring_control, supervisor_asleep),
        offsetof(struct ring_header, slots_offset),    offsetof(struct ring_header, chunks_offset),
        offsetof(struct ring_header, slot_count),      offsetof(struct ring_header, skips_offset),
        offsetof(struct ring_header, chunks_per_slot), offsetof(struct ring_header, queue_entries),
        offsetof(struct ring_header, places_offset),   offsetof(struct ring_header, values_offset),
        offsetof(struct ring_header, ragged_count),    offsetof(struct ring_header, slot_allocated_bytes),
    };
    write_word(ring.at + words[below(COUNT_OF(words))]);
    syscall(SYS_futex, ring.at + offsetof(struct ring_control, work), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void write_somewhere(void) {
    uint64_t control = min_u64(geometry.data_offset, ring.bytes);
    switch (below(21)) {
    case 0:
    case 1:
    case 2:
    case 3:
        write_chunk();
        return;
    case 4:
    case 5:
        write_slot();
        return;
    case 6:
        write_failure();
        return;
    case 7:
        write_control();
        return;
    case 8:
        write_word(record.at + 4 * below(STATS_LOADER_BYTES / 4 - 1));
        return;
    case 9:
        *(_Atomic uint64_t *)(void *)(record.at + offsetof(struct stats_loader, heartbeat_ns)) =
            monotonic_ns();
        return;
    case 10:
    case 11:
    case 12:
        write_places();
        return;
    case 13:
    case 14:
        write_skip();
        return;
    case 15:
        ring.at[below(ring.bytes)] = (uint8_t)any();
        return;
    default:
        write_word(ring.at + 4 * below(control / 4 - 1));
    }
}

// ---- Descriptors -------------------------------------------------------------------------------------------

static void use_descriptor(void) {
    int fd = (int)below(FDS_MOST), flags = fcntl(fd, F_GETFL);
    uint8_t bytes[64];
    if (flags < 0 || fd == STDOUT_FILENO || fd == STDERR_FILENO || fd == SETTINGS)
        return;
    memset(bytes, (int)any(), sizeof bytes);
    fcntl(fd, F_SETFL, below(2) ? flags | O_NONBLOCK : flags & ~O_NONBLOCK);
    (void)!ftruncate(fd, (off_t)(below(2) ? 0 : interesting() >> 20));
    (void)!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)below(1 << 20) & -4096, 4096);
    fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE);
    if (below(8) == 0) {
        fcntl(fd, F_SETFL, flags | O_NONBLOCK); // so that this thread is not caught in it
        (void)!write(fd, bytes, below(2) ? 8 : sizeof bytes);
        (void)!read(fd, bytes, sizeof bytes);
    }
    if (below(400) == 0)
        close(fd);
}

// ---- Life --------------------------------------------------------------------------------------------------

static void *play(void *unused) {
    while (!find_areas())
        nap(500);
    // Now and then one behaves for a while, so that there are feeds to spoil.
    nap(below(4) ? below(3000) : below(200000));
    for (;;) {
        for (uint64_t left = below(50); left; left--)
            write_somewhere();
        if (below(20) == 0)
            use_descriptor();
        nap(1 + below(2000));
    }
    return unused;
}

static bool is_hostile(void) {
    char path[64], file[4096] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", FIRST_FILE);
    return hostile_has_role("role=loader") && readlink(path, file, sizeof file - 1) > 0 &&
           strstr(file, "hostile.bin");
}

__attribute__((constructor)) static void begin(void) {
    if (is_hostile())
        hostile_begin(play);
}

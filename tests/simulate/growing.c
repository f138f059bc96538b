#include "tests/simulate/growing.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "shm/ring_make.h"
#include "tests/simulate/defects.h"
#include "tests/simulate/plan.h"

#define PARTS_MOST 4096u

static struct part {
    ino_t file;
    uint64_t from, to;
} parts[PARTS_MOST];
static uint32_t part_count;

// How many slots of each ring are allocated.
#define RINGS_MOST 256u
static struct slots {
    ino_t file;
    uint32_t count;
} rings[RINGS_MOST];

int __real_ring_allocate(const struct ring_plan *plan, int fd, uint32_t first, uint32_t count,
                         struct error *error);
int __wrap_ring_allocate(const struct ring_plan *plan, int fd, uint32_t first, uint32_t count,
                         struct error *error);
int __real_ring_grow(int fd, uint64_t offset, uint64_t bytes, struct error *error);
int __wrap_ring_grow(int fd, uint64_t offset, uint64_t bytes, struct error *error);

void growing_begin(void) {
    part_count = 0;
    memset(rings, 0, sizeof rings);
}

// The number of a file may be that of another one that is gone: its ring had all of its slots when it was last here.
static struct slots *slots_of(ino_t file) {
    struct slots *slots = rings;
    while (slots->file && slots->file != file)
        SIM_MUST(++slots < rings + RINGS_MOST);
    slots->file = file;
    return slots;
}

int __wrap_ring_allocate(const struct ring_plan *made, int fd, uint32_t first, uint32_t count,
                         struct error *error) {
    struct stat status;
    int err = first && sim_fault(plan.no_growth)
                  ? error_set(error, -ENOSPC, "there are no more slots in this scenario")
                  : __real_ring_allocate(made, fd, first, count, error);
    sim_trace("%u slots are allocated, from %u on: %d", count, first, err);
    SIM_MUST(fstat(fd, &status) == 0);
    if (!err)
        slots_of(status.st_ino)->count = first + count;
    return err;
}

int __wrap_ring_grow(int fd, uint64_t offset, uint64_t bytes, struct error *error) {
    struct stat status;
    int err = sim_fault(plan.no_growth) ? error_set(error, -ENOSPC, "there is no memory in this scenario")
                                        : __real_ring_grow(fd, offset, bytes, error);
    sim_trace("a slot grows by %" PRIu64 " bytes: %d", bytes, err);
    if (err)
        return defect_is(DEFECT_GROWTH_LOST) ? 0 : err;
    SIM_MUST(fstat(fd, &status) == 0 && part_count < PARTS_MOST);
    parts[part_count++] = (struct part){status.st_ino, offset, offset + bytes};
    return 0;
}

void growing_check(ino_t file, const struct ring_header *header, uint32_t slot, uint64_t bytes) {
    if (slot >= slots_of(file)->count)
        sim_violated("a loader writes to slot %u, of which nothing is allocated", slot);
    const uint64_t start = header->data_offset + slot * header->slot_bytes;
    uint64_t end = start + header->slot_allocated_bytes;
    for (uint32_t i = 0; i < part_count; i++)
        if (parts[i].file == file && parts[i].from == end && end < start + header->slot_bytes)
            end = parts[i].to;
    if (start + bytes > end)
        sim_violated("a loader writes to byte %" PRIu64 " of slot %u, of which %" PRIu64 " are allocated",
                     bytes, slot, end - start);
}

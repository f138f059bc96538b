#include "tests/simulate/growing.h"

#include <inttypes.h>
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

int __real_ring_grow(int fd, uint64_t offset, uint64_t bytes, struct error *error);
int __wrap_ring_grow(int fd, uint64_t offset, uint64_t bytes, struct error *error);

void growing_begin(void) {
    part_count = 0;
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
    const uint64_t start = header->data_offset + slot * header->slot_bytes;
    uint64_t end = start + header->slot_allocated_bytes;
    for (uint32_t i = 0; i < part_count; i++)
        if (parts[i].file == file && parts[i].from == end && end < start + header->slot_bytes)
            end = parts[i].to;
    if (start + bytes > end)
        sim_violated("a loader writes to byte %" PRIu64 " of slot %u, of which %" PRIu64 " are allocated",
                     bytes, slot, end - start);
}

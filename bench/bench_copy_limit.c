// The most that reading from the page cache through a map can give: P processes that copy samples in shuffled
// order from a read-only map into a ring, with nobody to hand them to.
#include "bench/limit.h"

static void copy_batches(const struct limit *limit, struct limit_shared *shared, uint32_t process) {
    uint64_t bytes = limit->samples * limit->record;
    const uint8_t *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, limit->fd, 0);
    if (map == MAP_FAILED)
        bench_die("map", errno);
    limit_start(shared);
    uint64_t start = bench_ns(), done = 0;
    for (uint64_t batch = process; !atomic_load_explicit(&shared->stop, memory_order_relaxed);
         batch += limit->processes) {
        uint8_t *place = limit_place(limit, batch, 0);
        uint64_t position = batch * limit->batch % limit->samples;
        for (uint64_t i = 0; i < limit->batch; i++, place += limit->record) {
            memcpy(place, map + limit->order[position] * limit->record, limit->record);
            position = position + 1 == limit->samples ? 0 : position + 1;
        }
        done += limit->batch;
    }
    shared->ns[process] = bench_ns() - start;
    shared->done[process] = done;
}

int main(int argc, char **argv) {
    struct limit limit;
    limit_options(&limit, argc, argv);
    limit_open(&limit);
    return limit_run(&limit, copy_batches);
}

// The limit for reading from the page cache through a map: P processes copy samples in shuffled order from a read-only
// map into a ring, without handing them to anyone. --ahead: the best known loop, which prefetches the next sample while
// it copies one.
#include "base/sizes.h"
#include "bench/limit.h"

#define BLOCK_BYTES 512u

static void copy_ahead(uint8_t *to, const uint8_t *from, const uint8_t *next, uint64_t bytes) {
    for (uint64_t done = 0; done < bytes; done += BLOCK_BYTES) {
        uint64_t block = min_u64(BLOCK_BYTES, bytes - done);
        for (uint64_t i = 0; i < block; i += CACHE_LINE)
            __builtin_prefetch(next + done + i);
        __asm__("" : "+r"(block)); // a call, and no `rep movs`, which waits for the fetches
        memcpy(to + done, from + done, block);
    }
}

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
            const uint8_t *sample = map + limit->order[position] * limit->record;
            position = position + 1 == limit->samples ? 0 : position + 1;
            if (limit->ahead)
                copy_ahead(place, sample, map + limit->order[position] * limit->record, limit->record);
            else
                memcpy(place, sample, limit->record);
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

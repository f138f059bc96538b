// For GenMC: a loader that finds nothing to do falls asleep while the supervisor gives it something: a batch, or with
// RECOVERED, a chunk of a loader that died. It does not stay asleep while there is work.
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/model/genmc/ring.h"

static long futex(_Atomic uint32_t *word, int operation, uint32_t value);
#define syscall(number, word, operation, value, ...) futex(word, operation, value)

#include "shm/ring_loader.c"
#include "shm/ring_supervisor.c"

RING_MEMORY(memory, 1, 1, 2, 0);
static bool slept, filled;
static uint32_t slept_on;

// The kernel compares and falls asleep in one step. A wake-up after that follows a change of the word.
static long futex(_Atomic uint32_t *word, int operation, uint32_t value) {
    if (operation == FUTEX_WAKE)
        return 1;
    if (atomic_fetch_add(word, 0) != value)
        return -1;
    slept = true;
    slept_on = value;
    __VERIFIER_thread_exit(NULL);
}

static void *loader(void *unused) {
    struct ring ring = RING_OF(memory);
    struct ring_claim claim;
    for (int i = 0; i < 3 && !filled; i++) {
        filled = ring_claim(&ring, 1, &claim);
        if (!filled)
            ring_wait_for_work(&ring, 0);
    }
    return unused;
}

int main(void) {
    struct ring ring = RING_OF_SUPERVISOR(memory);
    struct ring_batch name = {.run = 1, .rank = 0, .sequence = 0};
    struct batch_place place = {.first_position = 0, .count = 1};
#ifdef RECOVERED
    CHECK(ring_dispatch(&ring, 0, &name, &place));
    struct ring dead = RING_OF(memory);
    struct ring_claim claim;
    CHECK(ring_claim(&dead, 2, &claim));
    long thread = spawn(loader, NULL);
    CHECK(ring_recover(&ring, 2) == 1);
#else
    long thread = spawn(loader, NULL);
    CHECK(ring_dispatch(&ring, 0, &name, &place));
    ring_wake_loaders(&ring, 1);
#endif
    join(thread);
    CHECK(!slept || atomic_load(&memory.control.work) != slept_on);
    return 0;
}

#include "tests/simulate/leaks.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/simulate/sim.h"

static struct taken { int64_t descriptors, pages, blocks; } taken, before;

void *__real_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_munmap(void *address, size_t bytes);
int __wrap_munmap(void *address, size_t bytes);

static int64_t pages(size_t bytes) {
    return (int64_t)divide_up(bytes, 4096);
}

void *__wrap_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset) {
    void *memory = __real_mmap(address, bytes, protection, flags, fd, offset);
    taken.pages += memory == MAP_FAILED ? 0 : pages(bytes);
    return memory;
}

int __wrap_munmap(void *address, size_t bytes) {
    taken.pages -= pages(bytes); // perhaps of a part
    return __real_munmap(address, bytes);
}

// ---- Blocks of memory --------------------------------------------------------------------------------------

#ifdef __SANITIZE_ADDRESS__
#define COUNTS_BLOCKS 0
#elif defined(__has_feature)
#define COUNTS_BLOCKS (!__has_feature(address_sanitizer) && __GLIBC__)
#else
#define COUNTS_BLOCKS __GLIBC__
#endif

// In place of the C library's, also for its own use.
#if COUNTS_BLOCKS
#define EXPORTED __attribute__((visibility("default")))
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

EXPORTED void *malloc(size_t bytes) {
    taken.blocks++;
    return __libc_malloc(bytes);
}

EXPORTED void *calloc(size_t count, size_t bytes) {
    taken.blocks++;
    return __libc_calloc(count, bytes);
}

EXPORTED void *realloc(void *block, size_t bytes) {
    taken.blocks += !block;
    taken.blocks -= block && !bytes;
    return __libc_realloc(block, bytes);
}

EXPORTED void *aligned_alloc(size_t alignment, size_t bytes) {
    taken.blocks++;
    return __libc_memalign(alignment, bytes);
}

EXPORTED void free(void *block) {
    taken.blocks -= block != NULL;
    __libc_free(block);
}
#endif

// ---- Of a seed ---------------------------------------------------------------------------------------------

static int64_t count_descriptors(void) {
    int64_t count = 0;
    DIR *folder = opendir("/proc/self/fd");
    SIM_MUST(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

void leaks_begin(void) {
    if (!taken.descriptors) // else no more and no fewer than after the last seed
        taken.descriptors = count_descriptors();
    before = taken;
}

void leaks_check(void) {
    taken.descriptors = count_descriptors();
    if (taken.descriptors == before.descriptors && taken.pages == before.pages &&
        taken.blocks == before.blocks)
        return;
    sim_violated(
        "left behind: %" PRId64 " descriptors, %" PRId64 " mapped pages, %" PRId64 " blocks of memory",
        taken.descriptors - before.descriptors, taken.pages - before.pages, taken.blocks - before.blocks);
}

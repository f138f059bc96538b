#include "daemon/dataset/index_memory.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/scope.h"

struct index_memory {
    LIST_ENTRY(index_memory) link;
    ino_t inode; // of the memory: descriptors are told apart by it
    uint64_t bytes, hash;
    uint32_t users; // datasets with a descriptor of it
    int fd;         // one more
};

static LIST_HEAD(, index_memory) memories = LIST_HEAD_INITIALIZER(memories);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static const void *map(int fd, uint64_t bytes) {
    const void *memory = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

// Users who write the files can make hashes collide.
static bool are_equal(int one, int other, uint64_t bytes) {
    const void *first = map(one, bytes), *second = map(other, bytes);
    const bool equal = first && second && memcmp(first, second, bytes) == 0;
    if (first)
        munmap((void *)first, bytes);
    if (second)
        munmap((void *)second, bytes);
    return equal;
}

static struct index_memory *find(ino_t inode) {
    struct index_memory *memory;
    LIST_FOREACH(memory, &memories, link)
        if (memory->inode == inode)
            break;
    return memory;
}

// Another descriptor of memory that is probably equal, or -1.
static int find_candidate(uint64_t bytes, uint64_t hash) {
    struct index_memory *memory;
    int fd = -1;
    pthread_mutex_lock(&lock);
    LIST_FOREACH(memory, &memories, link)
        if (memory->bytes == bytes && memory->hash == hash)
            break;
    if (memory)
        fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&lock);
    return fd;
}

// Its datasets may have been closed meanwhile.
static bool use(int fd) {
    struct stat status;
    if (fstat(fd, &status) < 0)
        return false;
    pthread_mutex_lock(&lock);
    struct index_memory *memory = find(status.st_ino);
    if (memory)
        memory->users++;
    pthread_mutex_unlock(&lock);
    return memory;
}

static void add(int fd, uint64_t bytes, uint64_t hash) {
    struct stat status;
    struct index_memory *memory = malloc(sizeof *memory);
    const int another = memory && fstat(fd, &status) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (another < 0) {
        free(memory);
        return;
    }
    *memory = (struct index_memory){
        .inode = status.st_ino, .bytes = bytes, .hash = hash, .users = 1, .fd = another};
    pthread_mutex_lock(&lock);
    LIST_INSERT_HEAD(&memories, memory, link);
    pthread_mutex_unlock(&lock);
}

void index_memory_share(int *fd, uint64_t bytes, uint64_t hash) {
    // Compared without the lock: the event loop must not wait for that.
    AUTO_CLOSE int candidate = find_candidate(bytes, hash);
    if (candidate < 0 || !are_equal(candidate, *fd, bytes) || !use(candidate)) {
        add(*fd, bytes, hash);
        return;
    }
    const int own = *fd;
    *fd = candidate;
    candidate = own; // closed
}

void index_memory_release(int fd) {
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return;
    pthread_mutex_lock(&lock);
    struct index_memory *memory = find(status.st_ino);
    if (memory && --memory->users == 0) {
        LIST_REMOVE(memory, link);
        close(memory->fd);
        free(memory);
    }
    pthread_mutex_unlock(&lock);
}

// A whole file of a folder at once: linked entries open it in a place of the ring's table of files, read it and close
// it. That costs neither a descriptor nor a system call to look at it, since one byte more than it should have is asked
// for. A file that is not in the page cache, or not what the index says, is left to be opened by itself, which waits
// for storage and finds out what is wrong.
#ifndef FEEDD_DAEMON_LOADER_READ_FOLDER_CHAIN_H
#define FEEDD_DAEMON_LOADER_READ_FOLDER_CHAIN_H

#include "daemon/loader/read/request.h"
#include "daemon/loader/read/uring_queues.h"

#define FOLDER_CHAIN_ENTRIES 3u

struct folder_chain {
    struct read_request *request; // NULL: the place is free
    int32_t returned;             // by the read
    struct iovec pieces[2];       // where the file goes, and the byte that it should not have
};

struct folder_chains {
    struct folder_chain *chains; // one per place in the table, the first of which is first_place; NULL: none
    uint32_t *free;
    uint32_t free_count;
    uint32_t first_place;
    uint32_t alone; // so many more files are opened by themselves, since one had to be
    uint8_t beyond; // a byte that no file should have
};

// Without places in the table there are none, and nothing takes a chain. -ENOMEM.
int folder_chains_make(struct folder_chains *chains, const struct uring_queues *queues);
void folder_chains_free(struct folder_chains *chains);

// Whether the request, whose file is not open yet, can be served by a chain.
bool folder_chains_take(struct folder_chains *chains, const struct read_request *request,
                        const struct index_extent *extent);

// Fills FOLDER_CHAIN_ENTRIES entries, which there must be room for, for a request that folder_chains_take agreed to.
void folder_chains_ask(struct folder_chains *chains, struct io_uring *uring, struct read_request *request,
                       int folder, const char *path);

// Whether a completion with data is that of a chain; those of requests are pointers, and the last value is liburing's.
static inline bool folder_chain_owns(uint64_t data) {
    return (data & 3) == 1 || (data & 3) == 2;
}

// Returns the request when its chain has ended: *whole says if all of it has been read, and nothing else. Otherwise
// NULL.
struct read_request *folder_chains_complete(struct folder_chains *chains, uint64_t data, int returned,
                                            bool *whole);

#endif

// A whole file of a folder at once: linked entries open it in a place of the ring's table of files, and read it. That
// costs neither a descriptor nor a system call to look at it, since one byte more than it should have is asked for. A
// file that is not in the page cache, or not what the index says, is left to be opened by itself, which waits for
// storage and finds out what is wrong.
//
// Nothing closes the file at once: the next one that is opened in its place does, which costs the kernel less than an
// entry of its own. A file that is kept open keeps its space on disk if it is deleted, and its file system from being
// unmounted, so whoever has chains must have the rest closed several times per second.
#ifndef FEEDD_DAEMON_LOADER_READ_FOLDER_CHAIN_H
#define FEEDD_DAEMON_LOADER_READ_FOLDER_CHAIN_H

#include "daemon/dataset/folder_file.h"
#include "daemon/loader/read/request.h"
#include "daemon/loader/read/uring_queues.h"

#define FOLDER_CHAIN_ENTRIES 2u
#define FOLDER_CHAIN_PATHS   (64u << 10)

struct folder_chain {
    struct read_request *request; // NULL: none is under way
    bool keeps;                   // its place may have a file that is open
    bool cut;                     // see folder_chains_submitted
    struct iovec pieces[2];       // where the file goes, and the byte that it should not have
};

struct folder_chains {
    struct folder_chain *chains; // one per place in the table, the first of which is first_place; NULL: none
    uint32_t *free;
    uint32_t free_count;
    uint32_t keeping; // chains that keep a file or are under way
    uint32_t first_place;
    // Paths of entries not yet submitted, one after another: the kernel copies a path when it takes the entry.
    char *paths; // FOLDER_CHAIN_PATHS bytes
    size_t paths_used;
    uint32_t alone; // so many more files are opened by themselves, since one had to be
    uint8_t beyond; // a byte that no file should have
};

// Without places in the table there are none, and nothing takes a chain; nor before Linux 5.18, where an entry that is
// refused may separate those around it; nor after -ENOMEM. `paths` is the caller's.
int folder_chains_make(struct folder_chains *chains, const struct uring_queues *queues,
                       char paths[FOLDER_CHAIN_PATHS]);
void folder_chains_free(struct folder_chains *chains);

// Whether another path fits; if not, entries must be submitted first. folder_chains_path is where the next path goes,
// PATH_MAX bytes; folder_chains_keep_path keeps it.
static inline bool folder_chains_has_room(const struct folder_chains *chains) {
    return FOLDER_CHAIN_PATHS - chains->paths_used >= PATH_MAX;
}
static inline char *folder_chains_path(const struct folder_chains *chains) {
    return chains->paths + chains->paths_used;
}

// To be called once an entry that opens the file has been filled.
static inline void folder_chains_keep_path(struct folder_chains *chains, const struct folder_file *file) {
    chains->paths_used = (size_t)(file->path - chains->paths) + file->path_length + 1;
}

// Whether the request, whose file is there and not open yet, can be served by a chain.
bool folder_chains_take(struct folder_chains *chains, const struct read_request *request,
                        const struct folder_file *file);

// Fills FOLDER_CHAIN_ENTRIES entries, which there must be room for, for a request that folder_chains_take agreed to.
void folder_chains_ask(struct folder_chains *chains, struct io_uring *uring, struct read_request *request,
                       const struct folder_file *file);

// Whether a completion with data is that of a chain; those of requests are pointers, and the last value is liburing's.
static inline bool folder_chain_owns(uint64_t data) {
    return (data & 3) == 1 || (data & 3) == 2;
}

// To be called after entries are submitted: forgets their paths if the kernel has taken all entries. For lack of
// memory, it may take the first entry of a chain and not the second, which would then read whatever file is in its
// place when it is submitted: it is made to fail.
void folder_chains_submitted(struct folder_chains *chains, struct io_uring *uring);

// Closes the files that chains keep which are not under way. Returns whether entries are left to be submitted for that.
bool folder_chains_rest(struct folder_chains *chains, struct io_uring *uring);

// Returns the request when its chain has ended: *whole says if all of it has been read, and nothing else. Otherwise
// NULL.
struct read_request *folder_chains_complete(struct folder_chains *chains, uint64_t data, int returned,
                                            bool *whole);

#endif

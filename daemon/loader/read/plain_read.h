// Reads with preadv(2), in the calling thread: what the pread reader's threads do, and what the mapped reader does with
// files that cannot be mapped.
#ifndef FEEDD_DAEMON_LOADER_READ_PLAIN_READ_H
#define FEEDD_DAEMON_LOADER_READ_PLAIN_READ_H

#include "daemon/dataset/folder_file.h"
#include "daemon/loader/read/reader.h"

// What reads have cost so far: as in struct reader.
struct plain_read_cost {
    uint64_t reads, storage_bytes;
};

// Reads all of a request, with as many calls as that takes, and sets its result. `memory` is the request's bounce
// memory, or NULL if it needs none (bounce_needed). `scratch`, READER_SCRATCH_BYTES of the calling thread's own, takes
// what is to be discarded.
void plain_read(int fd, const struct dataset_file *file, struct read_request *request, void *memory,
                uint8_t *scratch, struct plain_read_cost *cost);

// The same for a request's file in a folder, which is opened and closed.
void plain_read_in_folder(const struct folder_files *folder, int first_fd, const struct dataset_file *file,
                          struct read_request *request, uint8_t *scratch, struct plain_read_cost *cost);

#endif

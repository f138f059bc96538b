// What each role gives up, in the order in which it does so. Nothing here fails: what the kernel, a container or this
// build refuses is left out, and the result says so. ARCHITECTURE.md, "Isolation", has the reasons.
#ifndef FEEDD_DAEMON_CONFINE_CONFINE_H
#define FEEDD_DAEMON_CONFINE_CONFINE_H

#include <stdbool.h>
#include <stdint.h>

// The option `confine`, for this process and those that it starts.
void confine_set(bool wanted);
bool confine_is_wanted(void);

// In words, why some restrictions are not attempted; "": all of them are.
const char *confine_note(void);

// What of a word of shm/confinement.h was wanted but not achieved, as a list. False: nothing.
#define CONFINE_TEXT 160u
bool confine_describe_missing(uint64_t confined, char text[CONFINE_TEXT]);

// Each returns a word of shm/confinement.h, 0 if nothing is wanted.

// Before there are threads. Children inherit it.
uint64_t confine_supervisor(void);

// Early: once all paths have been opened, what is not needed after that. Then, before there are threads, the rest.
// `early` is what the first call returned.
// A loader may still read files beneath the folders that are its descriptors from `first_folder` on.
uint64_t confine_loader_early(int first_folder, uint32_t folder_count);
// Ahead of both, what confine_loader will most likely need, since that takes a while. It confines nothing.
void confine_loader_prepare(void);
struct confine_loader {
    bool uring;            // it has queues
    bool uring_restricted; // and they only read
    bool threads;          // it may still start some
    bool opens;            // ... open files, by another way than its queues
    uint32_t descriptors;  // ... have as many, to open files in a folder; 0: none but those that it has
};
uint64_t confine_loader(const struct confine_loader *loader, uint64_t early);

// Early: before the GPU is opened, what its driver tolerates and its threads must inherit. Then the rest.
uint64_t confine_transfer_early(void);
uint64_t confine_transfer(uint64_t early);

#endif

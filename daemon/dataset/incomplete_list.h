// Samples of a dataset that are incomplete (incomplete.h), for people.
#ifndef FEEDD_DAEMON_DATASET_INCOMPLETE_LIST_H
#define FEEDD_DAEMON_DATASET_INCOMPLETE_LIST_H

#include <errno.h>
#include <stdint.h>

#define INCOMPLETE_LISTED 64u

// What a loader says of one that nothing can replace; no storage reports it.
#define INCOMPLETE_ERROR ENOMSG

struct incomplete_sample {
    uint64_t sample;
    uint32_t file; // in the layout
    char *reason;
};

struct incomplete_list {
    uint64_t count; // of all
    uint32_t listed;
    struct incomplete_sample first[INCOMPLETE_LISTED];
};

// NULL is fine.
void incomplete_list_free(struct incomplete_list *list);

#endif

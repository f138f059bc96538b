// What a view chooses of its dataset: the samples that its file lists (indices), or all of them; and of these, a part
// (samples, split_seed), as if the list were a dataset.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_CHOICE_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_CHOICE_H

#include "daemon/source/build/view_memory.h"

struct choice {
    uint64_t of;                // samples of the dataset
    struct selection part;      // of the list, or of the dataset; SELECTION_ALL: all of it
    uint64_t count;             // samples that are chosen
    struct view_memory numbers; // the list; fd -1: there is none
};

#define CHOICE_NONE ((struct choice){.numbers = VIEW_MEMORY_NONE})
#define AUTO_CHOICE CLEANUP(choice_release)
void choice_release(struct choice *choice);

// `choice` is CHOICE_NONE.
int builder_choose(struct builder *builder, struct choice *choice);

// Replaces the list with the part of it that is chosen. Both are in memory until that is done.
int choice_cut_list(struct builder *builder, struct choice *choice);

// How often each sample of the dataset is chosen, in memory to be freed; the list is released. *times stays NULL if
// the view takes the whole dataset: once each.
int choice_count(struct builder *builder, struct choice *choice, uint32_t **times);

#endif

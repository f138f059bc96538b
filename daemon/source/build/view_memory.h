// Memory for a view's sample numbers, or for the weights of its dataset's samples. It becomes the dataset's list_fd
// when it is complete.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_VIEW_MEMORY_H
#define FEEDD_DAEMON_SOURCE_BUILD_VIEW_MEMORY_H

#include "daemon/source/build/builder.h"

struct view_memory {
    const char *what; // for messages: "sample numbers"
    int fd;
    uint64_t bytes;            // header included
    struct dataset_list *list; // mapped until it is kept
};

#define VIEW_MEMORY_NONE ((struct view_memory){.fd = -1})
#define AUTO_VIEW_MEMORY CLEANUP(view_memory_release)
void view_memory_release(struct view_memory *memory);

// Allocates memory for that many bytes of words.
int view_memory_allocate(struct builder *builder, const char *what, uint64_t bytes,
                         struct view_memory *memory);

// Seals it and hands it over to the dataset.
int view_memory_keep(struct builder *builder, struct view_memory *memory);

#endif

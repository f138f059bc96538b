// What the readers share: first-in first-out lists of requests, and where a short read continues.
#ifndef FEEDD_DAEMON_LOADER_READ_REQUEST_H
#define FEEDD_DAEMON_LOADER_READ_REQUEST_H

#include "daemon/loader/read/bounce.h"

struct request_list {
    struct read_request *first;
    struct read_request **end; // where the next one is linked in; NULL while the list is empty
};

static inline void request_list_add(struct request_list *list, struct read_request *request) {
    request->next = NULL;
    *(list->first ? list->end : &list->first) = request;
    list->end = &request->next;
}

static inline struct read_request *request_list_take(struct request_list *list) {
    struct read_request *request = list->first;
    if (request)
        list->first = request->next;
    return request;
}

// What to ask the kernel for next, after request->done bytes: into contiguous memory, or, if `memory` is NULL, into
// pieces[0..piece_count-1]. A piece that was cut short is finished alone, so pieces need not be changed.
struct request_rest {
    uint64_t offset;
    uint32_t bytes;
    uint32_t piece_count;
    void *memory;
    const struct iovec *pieces;
};

// `bounce` is the request's memory for its span, or NULL.
struct request_rest request_rest(const struct dataset_file *file, const struct read_request *request,
                                 void *bounce);

enum request_step {
    REQUEST_COMPLETE, // request->result is set
    REQUEST_CONTINUE, // ask for the rest
};

// Records what a read returned: a number of bytes or negative errno.
enum request_step request_advance(const struct dataset_file *file, struct read_request *request, void *bounce,
                                  int64_t returned);

#endif

#include "daemon/loader/read/folder_chain.h"

#include <errno.h>

// In the low bits of the data of an entry, above which its place stands.
#define READ_ENDED  1u
#define CLOSE_ENDED 2u

// Where files come from storage, each attempt at one that is not in the page cache is in vain.
#define ALONE 32u

int folder_chains_make(struct folder_chains *chains, const struct uring_queues *queues) {
    *chains = (struct folder_chains){.first_place = queues->first_place};
    uint32_t count = queues->place_count;
    if (!count)
        return 0;
    chains->chains = calloc(count, sizeof *chains->chains);
    chains->free = calloc(count, sizeof *chains->free);
    if (!chains->chains || !chains->free) {
        folder_chains_free(chains);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++)
        chains->free[chains->free_count++] = i;
    return 0;
}

void folder_chains_free(struct folder_chains *chains) {
    free(chains->chains);
    free(chains->free);
    *chains = (struct folder_chains){0};
}

bool folder_chains_take(struct folder_chains *chains, const struct read_request *request,
                        const struct index_extent *extent) {
    if (!chains->free_count || request->done || request->offset || request->piece_count != 1 ||
        request->bytes != extent->bytes)
        return false;
    if (!chains->alone)
        return true;
    chains->alone--;
    return false;
}

// The close runs whatever the read returns, which always looks like a short read to the kernel. If the open fails,
// neither does.
void folder_chains_ask(struct folder_chains *chains, struct io_uring *uring, struct read_request *request,
                       int folder, const char *path) {
    uint32_t index = chains->free[--chains->free_count], place = chains->first_place + index;
    struct folder_chain *chain = &chains->chains[index];
    chain->request = request;
    chain->returned = -ECANCELED;
    chain->pieces[0] = request->pieces[0];
    chain->pieces[1] = (struct iovec){&chains->beyond, 1};
    struct io_uring_sqe *entry = io_uring_get_sqe(uring);
    io_uring_prep_openat2_direct(entry, folder, path, (struct open_how *)&folder_file_how_direct, place);
    entry->flags |= IOSQE_IO_LINK;
    io_uring_sqe_set_data64(entry, 0);
    entry = io_uring_get_sqe(uring);
    io_uring_prep_readv(entry, (int)place, chain->pieces, 2, 0);
    entry->flags |= IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;
    io_uring_sqe_set_data64(entry, (uint64_t)index << 2 | READ_ENDED);
    entry = io_uring_get_sqe(uring);
    io_uring_prep_close_direct(entry, place);
    io_uring_sqe_set_data64(entry, (uint64_t)index << 2 | CLOSE_ENDED);
}

struct read_request *folder_chains_complete(struct folder_chains *chains, uint64_t data, int returned,
                                            bool *whole) {
    uint32_t index = (uint32_t)(data >> 2);
    struct folder_chain *chain = &chains->chains[index];
    if ((data & 3) == READ_ENDED) {
        chain->returned = returned;
        return NULL;
    }
    struct read_request *request = chain->request;
    *whole = chain->returned >= 0 && (uint32_t)chain->returned == request->bytes;
    if (!*whole)
        chains->alone = ALONE;
    chain->request = NULL;
    chains->free[chains->free_count++] = index;
    return request;
}

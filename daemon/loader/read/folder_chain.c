#include "daemon/loader/read/folder_chain.h"

#include <errno.h>

// In the low bits of the data of an entry, above which its place stands.
#define OPEN_FAILED 1u
#define READ_ENDED  2u

// Where files come from storage, each attempt at one that is not in the page cache is in vain.
#define ALONE 32u

int folder_chains_make(struct folder_chains *chains, const struct uring_queues *queues,
                       char paths[FOLDER_CHAIN_PATHS]) {
    *chains = (struct folder_chains){.first_place = queues->first_place, .paths = paths};
    uint32_t count = queues->place_count;
    if (!count || !(queues->uring.features & IORING_FEAT_CQE_SKIP) ||
        !(queues->uring.flags & IORING_SETUP_SUBMIT_ALL))
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
    *chains = (struct folder_chains){.paths = chains->paths};
}

bool folder_chains_take(struct folder_chains *chains, const struct read_request *request,
                        const struct folder_file *file) {
    if (!chains->free_count || request->done || request->offset || request->piece_count != 1 ||
        request->bytes != file->bytes || !folder_path_descends(file->path))
        return false;
    if (!chains->alone)
        return true;
    chains->alone--;
    return false;
}

static uint64_t data_of(uint32_t index, uint32_t kind) {
    return (uint64_t)index << 2 | kind;
}

// A read of a byte more than there should be always looks like a short one to the kernel, and completes with what it
// returned. An open only completes if it fails, and then nothing else does.
void folder_chains_ask(struct folder_chains *chains, struct io_uring *uring, struct read_request *request,
                       const struct folder_file *file) {
    uint32_t index = chains->free[--chains->free_count], place = chains->first_place + index;
    struct folder_chain *chain = &chains->chains[index];
    chain->request = request;
    chains->keeping += !chain->keeps;
    chain->keeps = true;
    chain->pieces[0] = request->pieces[0];
    chain->pieces[1] = (struct iovec){&chains->beyond, 1};
    struct io_uring_sqe *entry = io_uring_get_sqe(uring);
    io_uring_prep_openat2_direct(entry, file->folder, file->path, (struct open_how *)&folder_file_how_direct,
                                 place);
    entry->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(entry, data_of(index, OPEN_FAILED));
    entry = io_uring_get_sqe(uring);
    io_uring_prep_readv(entry, (int)place, chain->pieces, 2, 0);
    entry->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data64(entry, data_of(index, READ_ENDED));
    folder_chains_keep_path(chains, file);
}

// An entry that the kernel has not taken may still be changed.
void folder_chains_submitted(struct folder_chains *chains, struct io_uring *uring) {
    const bool left = io_uring_sq_ready(uring);
    chains->paths_used = left ? chains->paths_used : 0;
    if (!chains->chains || !left)
        return;
    struct io_uring_sqe *first = &uring->sq.sqes[*uring->sq.khead & uring->sq.ring_mask];
    if ((first->user_data & 3) != READ_ENDED)
        return;
    first->fd = -1; // no place
    chains->chains[first->user_data >> 2].cut = true;
}

static bool make_room(struct folder_chains *chains, struct io_uring *uring) {
    if (!io_uring_sq_space_left(uring)) {
        io_uring_submit(uring);
        folder_chains_submitted(chains, uring);
    }
    return io_uring_sq_space_left(uring);
}

static void close_place(struct folder_chains *chains, uint32_t index, struct io_uring *uring) {
    struct folder_chain *chain = &chains->chains[index];
    struct io_uring_sqe *entry = make_room(chains, uring) ? io_uring_get_sqe(uring) : NULL;
    if (!entry)
        return; // the next time
    io_uring_prep_close_direct(entry, chains->first_place + index);
    entry->flags |= IOSQE_CQE_SKIP_SUCCESS;
    io_uring_sqe_set_data64(entry, 0);
    chain->keeps = chain->cut;
    chains->keeping -= !chain->keeps;
}

bool folder_chains_rest(struct folder_chains *chains, struct io_uring *uring) {
    const uint32_t before = chains->keeping;
    uint32_t left = before;
    for (uint32_t index = 0; left; index++) {
        left -= chains->chains[index].keeps;
        if (chains->chains[index].keeps && !chains->chains[index].request)
            close_place(chains, index, uring);
    }
    return before > 0;
}

// A chain that was cut gives up its place: its file may be opened there at any time, even after its read has failed.
struct read_request *folder_chains_complete(struct folder_chains *chains, uint64_t data, int returned,
                                            bool *whole) {
    uint32_t index = (uint32_t)(data >> 2);
    struct folder_chain *chain = &chains->chains[index];
    if (chain->cut && (data & 3) == OPEN_FAILED)
        return NULL; // its read completes, too
    struct read_request *request = chain->request;
    *whole = (data & 3) == READ_ENDED && returned >= 0 && (uint32_t)returned == request->bytes;
    if (!*whole)
        chains->alone = ALONE;
    chain->request = NULL;
    if (!chain->cut)
        chains->free[chains->free_count++] = index;
    return request;
}

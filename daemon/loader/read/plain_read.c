#include "daemon/loader/read/plain_read.h"

#include "base/error.h"
#include "daemon/loader/read/request.h"

#define PIECES_PER_CALL 256u

// One system call for the rest of a request: a number of bytes, or negative errno.
static int64_t read_some(int fd, const struct request_rest *rest, uint8_t *scratch, uint64_t *asked) {
    struct iovec pieces[PIECES_PER_CALL];
    uint32_t count = rest->piece_count < PIECES_PER_CALL ? rest->piece_count : PIECES_PER_CALL;
    ssize_t got;
    if (rest->memory) {
        *asked += rest->bytes;
        got = pread(fd, rest->memory, rest->bytes, (off_t)rest->offset);
        return got < 0 ? -errno : got;
    }
    for (uint32_t i = 0; i < count; i++) {
        pieces[i] = rest->pieces[i];
        if (pieces[i].iov_base == reader_scratch)
            pieces[i].iov_base = scratch;
        *asked += pieces[i].iov_len;
    }
    got = preadv(fd, pieces, (int)count, (off_t)rest->offset);
    return got < 0 ? -errno : got;
}

void plain_read(int fd, const struct dataset_file *file, struct read_request *request, void *memory,
                uint8_t *scratch, struct plain_read_cost *cost) {
    int64_t returned;
    request->done = 0;
    do {
        struct request_rest rest = request_rest(file, request, memory);
        returned = read_some(fd, &rest, scratch, &cost->storage_bytes);
        cost->reads++;
    } while (request_advance(file, request, memory, returned) == REQUEST_CONTINUE);
}

void plain_read_in_folder(const struct folder_files *folder, int first_fd, const struct dataset_file *file,
                          struct read_request *request, uint8_t *scratch, struct plain_read_cost *cost) {
    AUTO_CLOSE int fd = folder_files_open(folder, first_fd, request->file);
    if (fd < 0)
        request->result = fd;
    else
        plain_read(fd, file, request, NULL, scratch, cost);
}

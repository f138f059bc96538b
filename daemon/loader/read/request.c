#include "daemon/loader/read/request.h"

struct request_rest request_rest(const struct dataset_file *file, const struct read_request *request,
                                 void *bounce) {
    if (bounce) {
        struct bounce_span span = bounce_span(file, request);
        return (struct request_rest){.offset = span.offset + request->done,
                                     .bytes = span.bytes - request->done,
                                     .memory = (uint8_t *)bounce + request->done};
    }
    uint64_t within = request->done; // ... the piece
    uint32_t index = 0;
    while (within >= request->pieces[index].iov_len)
        within -= request->pieces[index++].iov_len;
    const struct iovec *piece = &request->pieces[index];
    struct request_rest rest = {.offset = request->offset + request->done};
    if (within > 0 || index + 1 == request->piece_count) {
        rest.memory = (uint8_t *)piece->iov_base + within;
        rest.bytes = (uint32_t)(piece->iov_len - within);
    } else {
        rest.pieces = piece;
        rest.piece_count = request->piece_count - index;
        rest.bytes = request->bytes - request->done;
    }
    return rest;
}

enum request_step request_advance(const struct dataset_file *file, struct read_request *request, void *bounce,
                                  int64_t returned) {
    if (returned == -EINTR || returned == -EAGAIN)
        return REQUEST_CONTINUE;
    request->result = returned < 0 ? (int32_t)returned : 0;
    if (returned < 0)
        return REQUEST_COMPLETE;
    // The span of a direct read may end beyond the end of the file; the wanted bytes do not.
    uint64_t wanted = request->bytes + (bounce ? bounce_span(file, request).skip : 0);
    request->done += (uint32_t)returned;
    if (request->done >= wanted) {
        if (bounce)
            bounce_scatter(file, request, bounce);
        return REQUEST_COMPLETE;
    }
    // A direct read that stops within a block is at the end of the file, and could not continue from there.
    if (returned == 0 || (file->direct_memory && request->done % file->direct_offset != 0)) {
        request->result = -ENODATA;
        return REQUEST_COMPLETE;
    }
    return REQUEST_CONTINUE;
}

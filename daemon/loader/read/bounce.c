#include "daemon/loader/read/bounce.h"

#include <string.h>

#include "base/sizes.h"

bool bounce_needed(const struct dataset_file *file, const struct read_request *request) {
    if (file->direct_memory == 0)
        return false;
    return request->piece_count != 1 || request->offset % file->direct_offset != 0 ||
           request->bytes % file->direct_offset != 0 ||
           (uintptr_t)request->pieces->iov_base % file->direct_memory != 0;
}

struct bounce_span bounce_span(const struct dataset_file *file, const struct read_request *request) {
    uint64_t block = file->direct_offset;
    uint64_t offset = request->offset / block * block;
    return (struct bounce_span){.offset = offset,
                                .bytes =
                                    (uint32_t)(align_up(request->offset + request->bytes, block) - offset),
                                .skip = (uint32_t)(request->offset - offset)};
}

static uint32_t blocks_of(const struct dataset_file *file, const struct read_request *request) {
    return (uint32_t)divide_up(bounce_span(file, request).bytes, BOUNCE_BLOCK);
}

// The first of `count` free blocks within [from, to), starting at a multiple of `step`; BOUNCE_BLOCKS: none.
static uint32_t find_run(const struct bounce *bounce, uint32_t count, uint32_t step, uint32_t from,
                         uint32_t to) {
    for (uint32_t start = (uint32_t)align_up(from, step), run = 0; start + count <= to;) {
        if (!bounce->used[start + run]) {
            if (++run == count)
                return start;
        } else {
            start = (uint32_t)align_up(start + run + 1, step);
            run = 0;
        }
    }
    return BOUNCE_BLOCKS;
}

int bounce_take(struct bounce *bounce, const struct dataset_file *file, const struct read_request *request,
                void **memory) {
    uint32_t count = blocks_of(file, request);
    uint64_t alignment = max_u64(BOUNCE_BLOCK, file->direct_memory);
    if (count > BOUNCE_BLOCKS || alignment > BOUNCE_ALIGN)
        return -EOVERFLOW;
    if (!bounce->memory) {
        void *arena = NULL;
        if (posix_memalign(&arena, BOUNCE_ALIGN, BOUNCE_BLOCKS * BOUNCE_BLOCK) != 0)
            return -ENOMEM;
        bounce->memory = arena;
    }
    uint32_t step = (uint32_t)(alignment / BOUNCE_BLOCK);
    uint32_t start = find_run(bounce, count, step, bounce->next, BOUNCE_BLOCKS);
    if (start == BOUNCE_BLOCKS)
        start = find_run(bounce, count, step, 0, BOUNCE_BLOCKS);
    if (start == BOUNCE_BLOCKS)
        return -EAGAIN;
    memset(bounce->used + start, true, count);
    bounce->next = (start + count) % BOUNCE_BLOCKS;
    *memory = bounce->memory + (size_t)start * BOUNCE_BLOCK;
    return 0;
}

void bounce_give(struct bounce *bounce, const struct dataset_file *file, const struct read_request *request,
                 void *memory) {
    size_t start = (size_t)((uint8_t *)memory - bounce->memory) / BOUNCE_BLOCK;
    memset(bounce->used + start, false, blocks_of(file, request));
}

void bounce_scatter(const struct dataset_file *file, const struct read_request *request, const void *memory) {
    const uint8_t *from = (const uint8_t *)memory + bounce_span(file, request).skip;
    for (uint32_t i = 0; i < request->piece_count; i++) {
        const struct iovec *piece = &request->pieces[i];
        if (piece->iov_base != reader_scratch)
            memcpy(piece->iov_base, from, piece->iov_len);
        from += piece->iov_len;
    }
}

void bounce_free(struct bounce *bounce) {
    free(bounce->memory);
    *bounce = (struct bounce){0};
}

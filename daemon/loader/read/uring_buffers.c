#include "daemon/loader/read/uring_buffers.h"

#include <stdlib.h>
#include <sys/syscall.h>

#include "base/scope.h"
#include "base/sizes.h"
#include "base/time.h"

// Whole slots, so that no read lies in two pieces, unless they are larger than the second. A MiB takes 0.2 to 1 ms.
#define PIECE_LEAST (1ull * MIB)
#define PIECE_MOST  (16ull * MIB)
#define COUNT_MOST  16384u              // the kernel's bound on buffers
#define BYTES_MOST  (UINT64_C(1) << 30) // ... and on the size of one

#define FIRST_NS (5 * NS_PER_MS)  // after the first read, in which a feed's first batches are read
#define BUSY_NS  (10 * NS_PER_MS) // between two pieces of a loader that always has something to read

static uint64_t choose_piece(const struct ring_header *header) {
    const uint64_t slot = header->slot_bytes, bytes = slot * header->slot_count;
    if (header->ragged_count)
        return slot;
    uint64_t piece = slot < PIECE_LEAST ? slot * (PIECE_LEAST / slot) : min_u64(slot, PIECE_MOST);
    while (divide_up(bytes, piece) > COUNT_MOST)
        piece *= 2;
    return piece;
}

void uring_buffers_open(struct uring_buffers *buffers, struct io_uring *uring, const struct ring *ring) {
    *buffers = (struct uring_buffers){0};
    const struct ring_header *header = ring->header;
    if (!ring->data)
        return;
    const uint64_t piece = choose_piece(header),
                   held_bytes = header->ragged_count ? header->slot_allocated_bytes : piece;
    const uint64_t count = divide_up(header->slot_bytes * header->slot_count, piece);
    AUTO_FREE struct iovec *nothing = calloc(count, sizeof *nothing);
    bool *held = calloc(count, sizeof *held);
    if (held_bytes > BYTES_MOST || !nothing || !held ||
        io_uring_register_buffers(uring, nothing, (unsigned)count) < 0) {
        free(held);
        return;
    }
    *buffers = (struct uring_buffers){
        .ring = ring, .piece_bytes = piece, .held_bytes = held_bytes, .count = (uint32_t)count, .held = held};
}

void uring_buffers_close(struct uring_buffers *buffers) {
    free(buffers->held);
    *buffers = (struct uring_buffers){0};
}

// Relaxed: the supervisor writes `fill` when it gives the slot its first batch, long after it has allocated the slot.
static bool has_been_used(const struct uring_buffers *buffers, uint32_t piece) {
    const struct ring_header *header = buffers->ring->header;
    const uint64_t from = piece * buffers->piece_bytes;
    const uint64_t to = min_u64(from + buffers->piece_bytes, header->slot_bytes * header->slot_count);
    for (uint64_t slot = from / header->slot_bytes; slot < divide_up(to, header->slot_bytes); slot++)
        if (!__atomic_load_n(&ring_slot(buffers->ring, (uint32_t)slot)->fill, __ATOMIC_RELAXED))
            return false;
    return true;
}

// Not through liburing: some versions declare this call without exporting it.
static int update(const struct io_uring *uring, uint32_t piece, struct iovec memory) {
    const struct io_uring_rsrc_update2 wanted = {
        .offset = piece, .data = (uint64_t)(uintptr_t)&memory, .nr = 1};
    long done = syscall(SYS_io_uring_register, uring->ring_fd, IORING_REGISTER_BUFFERS_UPDATE, &wanted,
                        sizeof wanted);
    return done < 0 ? -errno : 0;
}

static int hold(struct uring_buffers *buffers, const struct io_uring *uring, uint32_t piece) {
    const struct ring_header *header = buffers->ring->header;
    const uint64_t from = piece * buffers->piece_bytes;
    const uint64_t left = header->slot_bytes * header->slot_count - from;
    int err =
        update(uring, piece, (struct iovec){buffers->ring->data + from, min_u64(left, buffers->held_bytes)});
    if (err)
        return err;
    buffers->held[piece] = true;
    buffers->registered++;
    return 0;
}

// The user's other processes may share the limit on locked memory: a loader that cannot register the whole ring leaves
// all of it to those that can.
static void give_back(struct uring_buffers *buffers, const struct io_uring *uring) {
    for (uint32_t piece = 0; piece < buffers->count; piece++)
        if (buffers->held[piece] && update(uring, piece, (struct iovec){0}) == 0) {
            buffers->held[piece] = false;
            buffers->registered--;
        }
}

static bool is_time(struct uring_buffers *buffers, uint64_t now, bool idle) {
    if (!buffers->due_ns)
        buffers->may_ns = buffers->due_ns = now + FIRST_NS;
    return now >= (idle ? buffers->may_ns : buffers->due_ns);
}

// Not while a read that the kernel has yet to see may name a piece, since that may be given back.
bool uring_buffers_add(struct uring_buffers *buffers, struct io_uring *uring, uint64_t now, bool idle) {
    if (buffers->registered == buffers->count || buffers->err || io_uring_sq_ready(uring) ||
        !is_time(buffers, now, idle))
        return false;
    uint64_t added = 0; // pieces of a MiB, or as many smaller ones as make one
    for (uint32_t piece = 0; piece < buffers->count && !buffers->err; piece++) {
        if (buffers->held[piece] || !has_been_used(buffers, piece))
            continue;
        if (added && added + buffers->held_bytes > PIECE_LEAST)
            break;
        buffers->err = hold(buffers, uring, piece);
        added += buffers->held_bytes;
    }
    buffers->due_ns = now + BUSY_NS;
    buffers->may_ns = added ? now : buffers->due_ns;
    if (buffers->err)
        give_back(buffers, uring);
    return added > 0;
}

bool uring_buffers_are_complete(const struct uring_buffers *buffers) {
    for (uint32_t piece = 0; buffers->registered < buffers->count && piece < buffers->count; piece++)
        if (!buffers->held[piece] && has_been_used(buffers, piece))
            return false;
    return buffers->registered > 0;
}

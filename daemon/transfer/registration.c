#include "daemon/transfer/registration.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/sizes.h"

static int plan_pieces(struct registration *registration, const struct ring_header *header,
                       struct error *error) {
    registration->slot_bytes = header->slot_bytes;
    registration->slot_count = header->slot_count;
    if (!header->ragged_count) {
        registration->bytes = header->slot_bytes * header->slot_count;
        registration->piece_bytes = GPU_REGISTER_MOST / header->slot_bytes * header->slot_bytes;
        registration->piece_step = registration->piece_bytes;
        return 0;
    }
    registration->bytes = header->slot_allocated_bytes * header->slot_count;
    registration->piece_bytes = header->slot_allocated_bytes;
    registration->piece_step = header->slot_bytes;
    registration->tails = calloc(header->slot_count, sizeof *registration->tails);
    return registration->tails ? 0 : error_set(error, -ENOMEM, "out of memory");
}

int registration_begin(struct registration *registration, struct gpu *gpu, const struct ring *ring,
                       struct error *error) {
    uint64_t slot_bytes = ring->header->slot_bytes;
    if (slot_bytes > GPU_REGISTER_MOST)
        return error_set(error, -EOVERFLOW,
                         "a batch of %" PRIu64
                         " MiB is too large for a GPU: at most %u MiB; ask for smaller batches",
                         divide_up(slot_bytes, 1u << 20), GPU_REGISTER_MOST >> 20);
    *registration = (struct registration){.gpu = gpu, .data = ring->data};
    return plan_pieces(registration, ring->header, error);
}

// Of the piece that begins with that byte of `bytes`.
static uint8_t *piece_address(const struct registration *registration, uint64_t at) {
    return registration->data + at / registration->piece_bytes * registration->piece_step;
}

int registration_step(struct registration *registration, struct error *error) {
    uint64_t left = registration->bytes - registration->done_bytes;
    uint64_t bytes = min_u64(left, registration->piece_bytes);
    uint64_t address; // the GPU's; unused, as copies take host addresses
    if (!left)
        return 0;
    int err = gpu_host_register(registration->gpu, piece_address(registration, registration->done_bytes),
                                bytes, true, &address, error);
    if (err) {
        registration_end(registration);
        return err;
    }
    registration->done_bytes += bytes;
    return registration->done_bytes < registration->bytes;
}

static uint8_t *tail_address(const struct registration *registration, uint32_t slot) {
    return registration->data + slot * registration->slot_bytes + registration->piece_bytes;
}

static void drop_tail(struct registration *registration, uint32_t slot) {
    if (!registration->tails[slot])
        return;
    gpu_host_unregister(registration->gpu, tail_address(registration, slot));
    registration->tail_bytes -= registration->tails[slot];
    registration->tails[slot] = 0;
}

int registration_cover(struct registration *registration, uint32_t slot, uint64_t bytes, uint64_t *first,
                       struct error *error) {
    uint64_t address;
    *first = bytes;
    if (!registration->tails || bytes <= registration->piece_bytes)
        return 0;
    *first = registration->piece_bytes;
    uint64_t tail = align_up(bytes, RING_PAGE) - registration->piece_bytes;
    if (tail <= registration->tails[slot])
        return 0;
    drop_tail(registration, slot);
    int err =
        gpu_host_register(registration->gpu, tail_address(registration, slot), tail, true, &address, error);
    if (err)
        return err;
    registration->tails[slot] = tail;
    registration->tail_bytes += tail;
    return 0;
}

void registration_end(struct registration *registration) {
    for (uint64_t at = 0; at < registration->done_bytes; at += registration->piece_bytes)
        gpu_host_unregister(registration->gpu, piece_address(registration, at));
    for (uint32_t slot = 0; registration->tails && slot < registration->slot_count; slot++)
        drop_tail(registration, slot);
    free(registration->tails);
    registration->tails = NULL;
    registration->done_bytes = 0;
}

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
    uint64_t slot_bytes = ring_first_bytes(ring->header);
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

// Of the tail, what lies at `from` and behind it.
static void drop_tail(struct registration *registration, uint32_t slot, uint64_t from) {
    for (uint64_t at = from; at < registration->tails[slot]; at += GPU_REGISTER_MOST)
        gpu_host_unregister(registration->gpu, tail_address(registration, slot) + at);
    registration->tail_bytes -= registration->tails[slot] - from;
    registration->tails[slot] = from;
}

int registration_cover(struct registration *registration, uint32_t slot, uint64_t bytes,
                       struct error *error) {
    uint64_t address;
    if (!registration->tails || bytes <= registration->piece_bytes)
        return 0;
    uint64_t *tail = &registration->tails[slot];
    const uint64_t wanted = align_up(bytes, RING_PAGE) - registration->piece_bytes;
    if (wanted <= *tail)
        return 0;
    drop_tail(registration, slot, *tail - *tail % GPU_REGISTER_MOST); // a piece that is to be larger
    while (*tail < wanted) {
        const uint64_t more = min_u64(wanted - *tail, GPU_REGISTER_MOST);
        int err = gpu_host_register(registration->gpu, tail_address(registration, slot) + *tail, more, true,
                                    &address, error);
        if (err)
            return err;
        *tail += more;
        registration->tail_bytes += more;
    }
    return 0;
}

uint64_t registration_run(const struct registration *registration, uint64_t at) {
    if (!registration->tails)
        return UINT64_MAX;
    if (at < registration->piece_bytes)
        return registration->piece_bytes - at;
    return GPU_REGISTER_MOST - (at - registration->piece_bytes) % GPU_REGISTER_MOST;
}

int registration_judge(struct gpu *gpu, int err, struct error *error) {
    struct error lost = {0};
    uint64_t bytes;
    if (err == -ENOMEM)
        return PINNING_LACKS;
    err = gpu_free_bytes(gpu, &bytes, &lost); // fails if the GPU is lost, as all calls do
    return err ? error_set(error, err, "%s", lost.text) : POOL_REFUSED;
}

void registration_end(struct registration *registration) {
    for (uint64_t at = 0; at < registration->done_bytes; at += registration->piece_bytes)
        gpu_host_unregister(registration->gpu, piece_address(registration, at));
    for (uint32_t slot = 0; registration->tails && slot < registration->slot_count; slot++)
        drop_tail(registration, slot, 0);
    free(registration->tails);
    registration->tails = NULL;
    registration->done_bytes = 0;
}

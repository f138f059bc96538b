// The control part of a small valid ring, for targets that change it.
#ifndef FEEDD_TESTS_FUZZ_RING_IMAGE_H
#define FEEDD_TESTS_FUZZ_RING_IMAGE_H

#include "base/dtype.h"
#include "base/error.h"
#include "order/order.h"
#include "shm/ring.h"
#include "shm/ring_make.h"
#include "tests/fuzz/fuzz.h"

#define IMAGE_SLOTS   8u
#define IMAGE_BATCH   70u // so that the samples of a batch have more than one word of skip bits
#define IMAGE_SAMPLES 1000u

// Where the header and the records of slots, skips and the queue are.
static const uint16_t ring_pages[] = {0, 1, 2};

struct ring_image {
    uint8_t *bytes; // plan.data_offset of them
    struct ring_plan plan;
};

// With a ragged field, a slot has memory for less than its largest batch.
static inline void ring_image_make(struct ring_image *image, bool on_device, bool ragged) {
    struct ring ring;
    struct error error = {0};
    int fd, read_fd;
    image->plan = (struct ring_plan){.slot_count = IMAGE_SLOTS,
                                     .batch_size = IMAGE_BATCH,
                                     .field_count = 2,
                                     .samples = IMAGE_SAMPLES,
                                     .seed = 7,
                                     .fingerprint = 0xfeed,
                                     .world_size = 1,
                                     .order_version = ORDER_FEISTEL_1,
                                     .on_device = on_device};
    image->plan.fields[0] = (struct ring_field){"image", DTYPE_U8, 2, {4, 5}, 20, 0};
    image->plan.fields[1] = (struct ring_field){"label", DTYPE_I64, 0, {0}, 8, 0};
    if (ragged) {
        image->plan.fields[image->plan.field_count++] =
            (struct ring_field){.name = "text", .dtype = DTYPE_U16, .dimensions = 1, .ragged = 1};
        image->plan.ragged_mean = 8000; // several chunks
        image->plan.ragged_usual = 6000;
        image->plan.ragged_most = 20000;
    }
    FUZZ_CHECK(ring_plan(&image->plan, &error) == 0);
    FUZZ_CHECK(ring_create(&image->plan, &fd, &read_fd, &error) == 0);
    FUZZ_CHECK(ring_allocate_control(&image->plan, fd, &error) == 0);
    FUZZ_CHECK(ring_map(&ring, read_fd, RING_READ, &error) == 0);
    image->bytes = malloc(image->plan.data_offset);
    FUZZ_CHECK(image->bytes);
    memcpy(image->bytes, ring.control, image->plan.data_offset);
    ring_unmap(&ring);
    close(fd);
    close(read_fd);
}

#endif

// The weights, or places, that resize one axis of an image: the formulas of daemon/image/resize.h. Pure.
#ifndef FEEDD_DAEMON_IMAGE_RESIZE_AXIS_H
#define FEEDD_DAEMON_IMAGE_RESIZE_AXIS_H

#include <stdbool.h>

#include "daemon/image/resize.h"

#define RESIZE_PRECISION                                                                                     \
    22u // bits of a weight behind the point: 32, less 8 of a pixel, less 2 for sums beyond its range
#define RESIZE_QUAD 4u  // weights are padded to a multiple of so many
#define RESIZE_TILE 16u // results are padded to a multiple of so many

// What the weights follow from.
struct resize_axis_key {
    uint32_t source;     // pixels along the axis
    uint32_t results;    // of the whole result
    float begin, end;    // of the box
    uint32_t filter;     // enum image_filter, not nearest
    uint32_t part_first; // the results that are wanted
    uint32_t part_count;
    uint32_t layout; // of packed weights, RESIZE_LAYOUT_*
};

enum {
    RESIZE_LAYOUT_ONE = 1,
    RESIZE_LAYOUT_QUAD = 3
};

struct resize_axis {
    struct resize_axis_key key;
    uint32_t first, count; // pixels of the source from which all wanted results are made
    uint32_t taps;         // weights of each result: a multiple of RESIZE_QUAD, 0 behind those that it needs
    uint32_t *begins;      // each result's first pixel, counted from `first`; not decreasing
    uint32_t *used;        // each result's number of pixels, 1..taps
    // Taps of each result; up to a multiple of RESIZE_TILE results that are 0 and begin anywhere.
    int32_t *weights;
    uint32_t *packed;   // as many words, in the order in which an instruction set needs them, or unused
    size_t room;        // of weights and of packed, in words
    size_t result_room; // of begins and used
};

// Whether the axis is not changed: results are pixels, without arithmetic.
bool resize_axis_copies(const struct resize_axis_key *key);

// The pixels that results part_first.. depend on, for any filter.
void resize_axis_needs(const struct resize_axis_key *key, uint32_t *first, uint32_t *count);

// Makes the weights for `key`, with all but `packed`. `axis` may be all zero or hold other weights, whose memory it
// uses again. -ENOMEM.
int resize_axis_make(struct resize_axis *axis, const struct resize_axis_key *key);
void resize_axis_free(struct resize_axis *axis);

// The pixel of the source that each wanted result takes with nearest; key->source where it takes none.
void resize_axis_nearest(const struct resize_axis_key *key, uint32_t *places);

#endif

// What a loader puts into a slot for an image that a GPU makes (`decode gpu`), and what the transfer process makes of
// it. The kernel that finishes images is compiled from this header, too, so it is plain data and arithmetic.
//
// In the feed's ring, a sample of such a field is a record, and then either a JPEG or finished pixels. In a pool, the
// records of a batch come first, all together, and then the pixels of each sample: decoded planes, or finished pixels.
//
// A loader can write anything there. The transfer process copies a record, checks the copy (image_record_fits), and
// writes what it has checked; it could be taken over as well, so the kernel checks again.
#ifndef FEEDD_SHM_IMAGE_RECORD_H
#define FEEDD_SHM_IMAGE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define IMAGE_RECORD_FN static __host__ __device__ __forceinline__
#else
#define IMAGE_RECORD_FN static inline
#endif

#define IMAGE_RECORD_BYTES 128u
// No output pixel depends on more pixels than this along an axis, and a tile of outputs depends on no more than that.
#define IMAGE_RECORD_TAPS    64u
#define IMAGE_RECORD_SPAN    512u
#define IMAGE_RECORD_TILE    32u // outputs
#define IMAGE_RECORD_REDUCED 12u // the greatest reduction, with which both hold
// Engines and libjpeg read a JPEG down to the last row that is needed, however little of that is. So many pixels of a
// photograph take libjpeg 19 ms, and of noise 53 ms (of an AMD EPYC, on 2026-11-23); the 179 million that an image may
// have would take 20 times as long. Larger ones are left to the loaders, whose time is that of their feed alone.
#define IMAGE_RECORD_WHOLE_MOST (1u << 23)

enum image_record_kind {
    IMAGE_RECORD_NONE, // nothing: black
    IMAGE_RECORD_JPEG, // only in the feed's ring: a baseline JPEG, `bytes` long
    IMAGE_RECORD_PLANES,
    IMAGE_RECORD_PIXELS, // finished but for the table: u8[height,width,channels] as delivered
};

enum image_sampling {
    IMAGE_SAMPLING_GREY,
    IMAGE_SAMPLING_444,
    IMAGE_SAMPLING_422, // colours at half the width
    IMAGE_SAMPLING_420, // ... and half the height
};

#define IMAGE_RECORD_MIRRORED      1u
#define IMAGE_RECORD_FLIPPED       2u
#define IMAGE_RECORD_COLUMNS_FIRST 4u
#define IMAGE_RECORD_BICUBIC       8u // else bilinear
// EXIF's orientation, of the JPEG and so of its decoded part: columns are counted from the right and rows from the
// bottom, and then rows become columns (daemon/image/orient.h).
#define IMAGE_RECORD_FROM_RIGHT  16u
#define IMAGE_RECORD_FROM_BOTTOM 32u
#define IMAGE_RECORD_SWAPPED     64u

struct image_record {
    uint32_t kind; // enum image_record_kind
    uint32_t bytes;
    uint32_t sampling;                  // enum image_sampling
    uint32_t flags;                     // IMAGE_RECORD_*
    uint32_t x, y, width, height;       // the part of the JPEG that is decoded; even places
    uint32_t image_width, image_height; // of all of it
    // A crop of the image is resized. It begins at these pixels of the decoded part, outside of which pixels do not
    // matter. Both are turned as EXIF says.
    int32_t crop_x, crop_y;
    uint32_t crop_width, crop_height;
    uint32_t result_width, result_height;             // of the whole crop
    uint32_t part_x, part_y, part_width, part_height; // of the result, which is delivered
    uint32_t left, top;                               // where it lies in what is delivered, after mirroring
    uint8_t fill[4];                                  // around it
    uint32_t reserved[IMAGE_RECORD_BYTES / 4 - 23];
};

#ifdef __cplusplus
static_assert(sizeof(struct image_record) == IMAGE_RECORD_BYTES, "the size of a record");
#else
_Static_assert(sizeof(struct image_record) == IMAGE_RECORD_BYTES, "the size of a record");
#endif

// The planes of the decoded part, one after another: luminance, then two of colours, unless it is grey.
struct image_plane {
    uint64_t offset;
    uint32_t width, height; // the width is also the distance of rows
};

IMAGE_RECORD_FN struct image_plane image_record_plane(const struct image_record *record, uint32_t number) {
    struct image_plane luminance = {0, record->width, record->height}, colour = luminance;
    if (record->sampling >= IMAGE_SAMPLING_422)
        colour.width = (record->width + 1) / 2;
    if (record->sampling == IMAGE_SAMPLING_420)
        colour.height = (record->height + 1) / 2;
    if (number == 0)
        return luminance;
    colour.offset =
        (uint64_t)record->width * record->height + (number - 1) * (uint64_t)colour.width * colour.height;
    return colour;
}

IMAGE_RECORD_FN uint64_t image_record_plane_bytes(const struct image_record *record) {
    struct image_plane last = image_record_plane(record, record->sampling == IMAGE_SAMPLING_GREY ? 0 : 2);
    return last.offset + (uint64_t)last.width * last.height;
}

// Whether a side of the crop can be made into a side of the result.
IMAGE_RECORD_FN bool image_record_side_fits(uint32_t crop, uint32_t result, uint32_t part, uint32_t length) {
    return crop >= 1 && crop <= 65535u && result >= 1 && result <= 65535u &&
           crop <= (uint64_t)result * IMAGE_RECORD_REDUCED && part <= result && length <= result - part;
}

// Whether a record that says IMAGE_RECORD_PLANES, or a JPEG that becomes that, stays within `area` bytes and within the
// limits above.
IMAGE_RECORD_FN bool image_record_fits(const struct image_record *record, uint64_t area) {
    return (uint64_t)record->image_width * record->image_height <= IMAGE_RECORD_WHOLE_MOST &&
           record->sampling <= IMAGE_SAMPLING_420 && record->width >= 3 && record->width <= 65535u &&
           record->height >= 1 && record->height <= 65535u && image_record_plane_bytes(record) <= area &&
           image_record_side_fits(record->crop_width, record->result_width, record->part_x,
                                  record->part_width) &&
           image_record_side_fits(record->crop_height, record->result_height, record->part_y,
                                  record->part_height);
}

#endif

// From the plan of an image to a record for a GPU: which part its engine decodes, and what the kernel makes of that.
#ifndef FEEDD_DAEMON_IMAGE_GPU_PLAN_H
#define FEEDD_DAEMON_IMAGE_GPU_PLAN_H

#include "daemon/image/geometry.h"
#include "daemon/image/jpeg.h"
#include "daemon/image/orient.h"
#include "shm/image_record.h"

// Whether a GPU can make an image, or why the CPU has to.
enum image_gpu_fit {
    IMAGE_GPU_FITS,
    IMAGE_GPU_FORMAT,  // it is not a JPEG,
    IMAGE_GPU_CODING,  // ... nor a baseline one in one scan
    IMAGE_GPU_COLOURS, // neither grey nor YCbCr, or subsampled in another way
    IMAGE_GPU_ENDING,  // it is damaged, or does not end with its end
    IMAGE_GPU_SIZE,    // it is tiny, or what is stored or decoded of it needs too many bytes
    IMAGE_GPU_STEPS,   // its plan has more than one pass or reduces it too much
};

// The plan is of the image after that orientation. `area`: bytes that what is decoded of it may need. If it fits, the
// record is of a JPEG, without `bytes`.
enum image_gpu_fit image_gpu_plan(const struct image_plan *plan, const struct image_jpeg_survey *survey,
                                  struct image_orientation turned, uint64_t area,
                                  struct image_record *record);

// Whether the engine takes such a JPEG at all, whatever is needed of it.
enum image_gpu_fit image_gpu_takes(const struct image_jpeg_survey *survey);

#endif

// From the plan of an image to a record for a GPU: which part its engine decodes, and what the kernel makes of that.
#ifndef FEEDD_DAEMON_IMAGE_GPU_PLAN_H
#define FEEDD_DAEMON_IMAGE_GPU_PLAN_H

#include "daemon/image/geometry.h"
#include "daemon/image/jpeg.h"
#include "shm/image_record.h"

// False: the CPU has to make this image. Its plan has more than one pass or reduces the image too much, it is tiny, it
// is not a plain JPEG, or what is decoded of it needs more than `area` bytes. The record is of a JPEG, without `bytes`.
bool image_gpu_plan(const struct image_plan *plan, const struct image_jpeg_survey *survey, uint64_t area,
                    struct image_record *record);

#endif

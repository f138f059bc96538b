// Fields of images that a GPU can make (`decode gpu`): what stands for a sample in the feed's ring and in a pool.
//
// In the ring: a record and as many bytes as an encoded image usually has, or as the finished pixels need. In a pool: a
// record and what is decoded of an image. Whatever does not fit, loaders decode.
#ifndef FEEDD_DAEMON_DATASET_GPU_IMAGES_H
#define FEEDD_DAEMON_DATASET_GPU_IMAGES_H

#include "daemon/dataset/dataset.h"

// Of an image of 4:2:0; one of 4:4:4 has half as many.
#define GPU_IMAGE_PIXELS (1u << 18)

// Whether the field is one that a GPU can make.
bool gpu_images_has(const struct dataset_layout *layout, uint32_t field);

// The kernel that finishes a batch has a block in the third dimension for each sample, of which CUDA takes so many.
#define GPU_IMAGES_BATCH_MOST 65535u

// Whether the dataset has such a field; of a mix, one of its sources.
bool gpu_images_wanted(const struct dataset *dataset);

// Whether loaders decode the images of a dataset with such fields for every consumer; `text` says why.
bool gpu_images_obstacle(const struct dataset *dataset, char *text, size_t bytes);

// Whether it has such fields, and no obstacle.
bool gpu_images_possible(const struct dataset *dataset);

// Which of the fields a GPU can make, and how. The layout of a mix does not say that; those of its sources are alike
// unless there is an obstacle.
const struct dataset_layout *gpu_images_layout(const struct dataset *dataset);

// Of a sample, behind its record. In the ring of a mix, there is room for the images of any source.
uint64_t gpu_images_mix_area(const struct dataset *mix, uint32_t field);
uint64_t gpu_images_ring_area(const struct dataset_layout *layout, uint32_t field);
uint64_t gpu_images_pool_area(const struct dataset_layout *layout, uint32_t field);

// Changes the fields as delivered into what stands for them in the feed's ring, or in a pool.
void gpu_images_in_ring(const struct dataset *dataset, struct ring_field *fields);
void gpu_images_in_pool(const struct dataset *dataset, struct ring_field *fields);

// -EINVAL and a sentence if the values cannot be looked up in a table.
int gpu_images_check(const struct dataset_image *image, const struct transform *transform,
                     struct error *error);

#endif

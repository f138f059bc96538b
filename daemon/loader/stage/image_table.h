// What stages of images share.
#ifndef FEEDD_DAEMON_LOADER_STAGE_IMAGE_TABLE_H
#define FEEDD_DAEMON_LOADER_STAGE_IMAGE_TABLE_H

#include "daemon/dataset/transform.h"
#include "daemon/image/finish.h"

#define IMAGE_TABLE_CHANNELS 3u
#define IMAGE_TABLE_ELEMENT  4u // bytes of the largest type that is looked up
#define IMAGE_TABLE_BYTES    (IMAGE_TABLE_CHANNELS * IMAGE_TABLE_VALUES * IMAGE_TABLE_ELEMENT)

// The table of struct image_finish: what the values 0..255 of each channel become. The transform is one of values
// (transform_is_of_values), to a type of at most IMAGE_TABLE_ELEMENT bytes.
void image_table_make(const struct transform *transform, uint32_t channels, uint8_t table[IMAGE_TABLE_BYTES]);

// The code with which stage_refuse is called after such an error of image_pipeline_run.
int image_refusal_code(int err);

#endif

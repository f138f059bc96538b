#include "daemon/loader/stage/image_table.h"

#include "base/error.h"
#include "daemon/dataset/dataset.h"
#include "daemon/loader/stage/transform_run.h"

// One sample that has every value in every channel.
void image_table_make(const struct transform *transform, uint32_t channels,
                      uint8_t table[IMAGE_TABLE_BYTES]) {
    uint8_t values[IMAGE_TABLE_CHANNELS * IMAGE_TABLE_VALUES];
    for (uint32_t i = 0; i < channels * IMAGE_TABLE_VALUES; i++)
        values[i] = (uint8_t)i;
    struct transform planes = *transform;
    transform_fit_planes(&planes, channels, IMAGE_TABLE_VALUES);
    transform_run(&planes, values, table, 1);
}

// What tells clients why, without the sentence.
int image_refusal_code(int err) {
    switch (err) {
    case -EBADMSG:
        return -IMAGE_DAMAGED_ERROR;
    case -ENOTSUP:
        return -IMAGE_UNKNOWN_ERROR;
    case -EFBIG:
        return -IMAGE_LARGE_ERROR;
    case -EINVAL:
        return -IMAGE_SIZE_ERROR;
    default:
        return err;
    }
}

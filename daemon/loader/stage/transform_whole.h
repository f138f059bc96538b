// Loops of transforms to integer types: see daemon/dataset/transform.h for rounding and limits.
#ifndef FEEDD_DAEMON_LOADER_STAGE_TRANSFORM_WHOLE_H
#define FEEDD_DAEMON_LOADER_STAGE_TRANSFORM_WHOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether it is bool or an integer type.
bool transform_is_whole(uint32_t dtype);

// Memory that is `from` a slot or goes `to` one need not be aligned. From such a type; values of u64 above INT64_MAX
// become that, because every other type ends there or earlier.
void transform_load_whole(uint32_t dtype, int64_t *to, const void *from, size_t count);

// To an integer type, within its limits.
void transform_store_whole(uint32_t dtype, void *to, const int64_t *from, size_t count);

// The same for numbers that are to be rounded.
void transform_store_rounded(uint32_t dtype, void *to, const double *from, size_t count);

#endif

// `pad.NAME = LENGTH VALUE`: fields whose samples differ in length are delivered with one length.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_PAD_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_PAD_H

#include "daemon/source/build/builder.h"

// The `pad.NAME` of that field: sets *length, in values, which is at least 1, and *pad to the bytes of VALUE, repeated;
// or *length to 0 if it has none, which makes it a ragged field.
int builder_pad(struct builder *builder, const char *field, uint32_t dtype, uint64_t *length, uint64_t *pad);

// Refuses a `pad.NAME` of a field that is not one of the dataset's `count` ragged ones.
int builder_check_pads(struct builder *builder, const char *const *ragged, uint32_t count);

#endif

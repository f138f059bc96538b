// `pad.NAME = LENGTH VALUE`: fields whose samples differ in length are delivered with one length.
#ifndef FEEDD_DAEMON_SOURCE_BUILDER_PAD_H
#define FEEDD_DAEMON_SOURCE_BUILDER_PAD_H

#include "daemon/source/builder.h"

// The `pad.NAME` of that field; sets *length, which is at least 1, and *value. Refuses a field that has none.
int builder_pad(struct builder *builder, const char *field, uint64_t *length, uint32_t *value);

// Refuses a `pad.NAME` of a field that is not one of the dataset's `count` ragged ones.
int builder_check_pads(struct builder *builder, const char *const *ragged, uint32_t count);

#endif

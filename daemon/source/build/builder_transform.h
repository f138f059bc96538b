// The transforms of a dataset's fields: from the words of the configuration to what the loaders do and the ring holds.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_TRANSFORM_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_TRANSFORM_H

#include "daemon/source/build/builder.h"

int builder_transform(struct builder *builder);

// Only reads the words, where the fields are not known before their files are opened.
int builder_check_transforms(struct builder *builder);

#endif

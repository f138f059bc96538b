// Which decoded samples a dataset's cache keeps, and what the cache is known by.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_CACHE_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_CACHE_H

#include "daemon/source/build/builder.h"

// After transforms have been fitted and files opened.
int builder_cache(struct builder *builder);

#endif

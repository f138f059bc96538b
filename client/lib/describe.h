// What a handle can tell without the daemon: its description, its place in the order, the samples of a batch. Besides
// describe(), these are functions of feed.h.
#ifndef FEEDD_CLIENT_LIB_DESCRIBE_H
#define FEEDD_CLIENT_LIB_DESCRIBE_H

#include "client/lib/attachment.h"

struct described {
    struct feed_description about;
    char names[FEED_MAX_FIELDS][RING_FIELD_NAME];
};

void describe(struct described *described, const struct attachment *attachment, const struct gpu *gpu);

#endif

#include "client/ctl/feed_images.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/ctl/render.h"
#include "client/ctl/text.h"

bool feed_images_by_loaders(const Feedd__Feed *feed) {
    return *feed->images && strcmp(feed->images, "engine") != 0;
}

const char *feed_images_text(const Feedd__Feed *feed, char text[FEED_IMAGES_TEXT]) {
    text[0] = 0;
    if (!*feed->images)
        return text;
    text_clean(feed->dataset);
    text_clean(feed->images);
    if (feed_images_by_loaders(feed))
        snprintf(text, FEED_IMAGES_TEXT, "feed %" PRIu64 " (%s): decoded by loaders: %s", feed->id,
                 feed->dataset, feed->images);
    else
        snprintf(text, FEED_IMAGES_TEXT, "feed %" PRIu64 " (%s): decoded by the GPU's engine", feed->id,
                 feed->dataset);
    return text;
}

json_t *feed_images_json(const Feedd__Feed *feed) {
    return *feed->images ? ctl_json_text(feed->images) : json_null();
}

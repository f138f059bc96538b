// Whether the engine or loaders decode the images of feeds over datasets with `decode gpu`, as the daemon says.
#ifndef FEEDD_CLIENT_CTL_FEED_IMAGES_H
#define FEEDD_CLIENT_CTL_FEED_IMAGES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "proto/codec.h"

// Whether loaders decode them.
bool feed_images_by_loaders(const Feedd__Feed *feed);

// "feed 3 (photos): decoded by loaders: field name is ragged"; "" if there are none, or the daemon does not say.
#define FEED_IMAGES_TEXT 512
const char *feed_images_text(const Feedd__Feed *feed, char text[FEED_IMAGES_TEXT]);

// "engine", or why loaders decode them; null if there are none, or the daemon does not say.
json_t *feed_images_json(const Feedd__Feed *feed);

#endif

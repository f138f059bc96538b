// One field of a sample, for people or as JSON.
#ifndef FEEDD_CLIENT_CTL_SHOW_FIELD_H
#define FEEDD_CLIENT_CTL_SHOW_FIELD_H

#include <stdio.h>

#include "client/ctl/element.h"
#include "client/ctl/image.h"
#include "client/feed.h"

struct show_style {
    uint32_t width;    // of lines; 0: any
    uint64_t values;   // at most; UINT64_MAX: all
    bool values_given; // otherwise people get one line of them
    bool true_colour;
};

struct shown_field {
    const struct feed_array *array; // of a batch of one sample
    struct summary summary;
    struct image image; // without pixels: do not draw
    const char *file;   // that the image is written to; NULL: none
};

// A block: name, dtype and shape; values, or text and its bytes; summary; image. -ENOMEM
int show_field_print(const struct shown_field *field, const struct show_style *style, FILE *out);

// See feedctl(1), JSON. NULL when out of memory.
json_t *show_field_json(const struct shown_field *field, const struct show_style *style);

// "image u8[28,28]", with `gap` between the name and the rest, cut to `bytes`.
void show_field_title(const struct feed_array *array, const char *gap, char *text, size_t bytes);

#endif

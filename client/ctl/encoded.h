// Images as they are stored, in fields of bytes: recognised by their first bytes, not decoded.
#ifndef FEEDD_CLIENT_CTL_ENCODED_H
#define FEEDD_CLIENT_CTL_ENCODED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "client/feed.h"

enum encoding {
    ENCODED_NOT,
    ENCODED_JPEG,
    ENCODED_PNG,
    ENCODED_WEBP,
};

struct encoded {
    enum encoding encoding;
    uint32_t width, height; // as its header says; 0: unknown, as of every WebP
};

// Whether samples of the field may be encoded images: any number of bytes.
bool encoded_may_be(const struct feed_array *field);

// What the field is in a batch of one sample.
struct encoded encoded_find(const struct feed_array *field);

// "JPEG" and "jpg". Of ENCODED_NOT: an empty string.
const char *encoding_name(enum encoding encoding);
const char *encoding_ending(enum encoding encoding);

// What a file with this name should have; PNG if its ending says nothing.
enum encoding encoding_of_path(const char *path);

// The length of a name without ".png" or another ending that says what the file has.
size_t encoding_stem(const char *path);

// Writes the bytes of a batch of one sample as they are. A negative errno and a sentence.
int encoded_write(const struct feed_array *field, const char *path, struct error *error);

#endif

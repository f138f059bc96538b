#include "client/ctl/encoded.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/sizes.h"

#define PNG_HEADER 24u // signature, length and name of the first chunk, width, height

static const struct ending {
    const char *text;
    enum encoding encoding;
} endings[] = {
    {".png", ENCODED_PNG}, {".jpg", ENCODED_JPEG}, {".jpeg", ENCODED_JPEG}, {".webp", ENCODED_WEBP}};

const char *encoding_name(enum encoding encoding) {
    static const char *const names[] = {"", "JPEG", "PNG", "WebP"};
    return names[encoding];
}

const char *encoding_ending(enum encoding encoding) {
    static const char *const texts[] = {"", "jpg", "png", "webp"};
    return texts[encoding];
}

static const struct ending *find_ending(const char *path) {
    const size_t length = strlen(path);
    for (size_t i = 0; i < COUNT_OF(endings); i++) {
        const size_t tail = strlen(endings[i].text);
        if (length > tail && strcasecmp(path + length - tail, endings[i].text) == 0)
            return &endings[i];
    }
    return NULL;
}

enum encoding encoding_of_path(const char *path) {
    const struct ending *ending = find_ending(path);
    return ending ? ending->encoding : ENCODED_PNG;
}

size_t encoding_stem(const char *path) {
    const struct ending *ending = find_ending(path);
    return strlen(path) - (ending ? strlen(ending->text) : 0);
}

bool encoded_may_be(const struct feed_array *field) {
    return field->ragged && field->dtype == FEED_U8;
}

static uint32_t big_16(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

// JPEG: the segment that begins a frame has the size; others before it are skipped by their lengths.
static void find_frame(const uint8_t *bytes, size_t count, struct encoded *encoded) {
    for (size_t at = 2; at + 9 <= count && bytes[at] == 0xff;) {
        const uint8_t marker = bytes[at + 1];
        if (marker == 0xff) { // padding
            at++;
            continue;
        }
        // 0xc0 to 0xcf begin frames, except those for tables and for what is reserved.
        if ((marker & 0xf0) == 0xc0 && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
            encoded->height = big_16(bytes + at + 5);
            encoded->width = big_16(bytes + at + 7);
            return;
        }
        at += 2 + big_16(bytes + at + 2);
    }
}

struct encoded encoded_find(const struct feed_array *field) {
    static const uint8_t png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, jpeg[] = {0xff, 0xd8, 0xff};
    const uint8_t *bytes = field->data;
    const size_t count = field->bytes;
    struct encoded encoded = {.encoding = ENCODED_NOT};
    if (!encoded_may_be(field) || count < PNG_HEADER)
        return encoded;
    if (memcmp(bytes, jpeg, sizeof jpeg) == 0) {
        encoded.encoding = ENCODED_JPEG;
        find_frame(bytes, count, &encoded);
    } else if (memcmp(bytes, png, sizeof png) == 0) {
        encoded = (struct encoded){.encoding = ENCODED_PNG,
                                   .width = big_16(bytes + 16) << 16 | big_16(bytes + 18),
                                   .height = big_16(bytes + 20) << 16 | big_16(bytes + 22)};
    } else if (memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0) {
        encoded.encoding = ENCODED_WEBP;
    }
    return encoded;
}

int encoded_write(const struct feed_array *field, const char *path, struct error *error) {
    FILE *file = fopen(path, "wb");
    if (!file)
        return error_set(error, -errno, "cannot write %s: %s", path, strerror(errno));
    const bool written = fwrite(field->data, 1, field->bytes, file) == field->bytes;
    int err = written ? 0 : -errno;
    if (fclose(file) != 0 && !err)
        err = -errno;
    return err ? error_set(error, err, "cannot write %s: %s", path, strerror(-err)) : 0;
}

#include "daemon/image/exif.h"

#include <stdbool.h>
#include <string.h>

#define UPRIGHT     1u
#define ORIENTATION 0x0112u
#define SHORT       3u
#define ENTRY       12u // bytes of an entry of a directory

// Some bytes, and the order in which TIFF says that numbers are in them.
struct bytes {
    const uint8_t *at;
    size_t count;
    bool big;
};

// Past the end, everything is 0.
static uint32_t number(const struct bytes *bytes, size_t offset, unsigned size) {
    uint32_t value = 0;
    if (offset > bytes->count || bytes->count - offset < size)
        return 0;
    for (unsigned i = 0; i < size; i++)
        value = value << 8 | bytes->at[offset + (bytes->big ? i : size - 1 - i)];
    return value;
}

static bool has(const struct bytes *bytes, size_t offset, const void *wanted, size_t size) {
    return offset <= bytes->count && bytes->count - offset >= size &&
           memcmp(bytes->at + offset, wanted, size) == 0;
}

// TIFF 6.0, section 2: a header, and at most 65,535 entries in the first directory.
static uint32_t read_tiff(struct bytes tiff) {
    tiff.big = has(&tiff, 0, "MM\0*", 4);
    if (!tiff.big && !has(&tiff, 0, "II*\0", 4))
        return UPRIGHT;
    size_t directory = number(&tiff, 4, 4);
    uint32_t entries = number(&tiff, directory, 2);
    for (uint32_t i = 0; i < entries; i++) {
        size_t entry = directory + 2 + i * (size_t)ENTRY;
        if (entry >= tiff.count)
            break;
        if (number(&tiff, entry, 2) != ORIENTATION || number(&tiff, entry + 2, 2) != SHORT)
            continue;
        uint32_t value = number(&tiff, entry + 8, 2);
        return value >= 1 && value <= 8 ? value : UPRIGHT;
    }
    return UPRIGHT;
}

// EXIF as such begins with this; in PNG and WebP it may be missing.
static const char exif_prefix[6] = "Exif\0";

static uint32_t read_exif(struct bytes exif) {
    if (has(&exif, 0, exif_prefix, sizeof exif_prefix)) {
        exif.at += sizeof exif_prefix;
        exif.count -= sizeof exif_prefix;
    }
    return read_tiff(exif);
}

static struct bytes part(const struct bytes *bytes, size_t offset, size_t count) {
    size_t left = offset < bytes->count ? bytes->count - offset : 0;
    return (struct bytes){bytes->at + (left ? offset : 0), count < left ? count : left, false};
}

uint32_t exif_of_jpeg(const uint8_t *bytes, size_t count) {
    enum {
        TEM = 0x01,
        FILL = 0xff,
        RST0 = 0xd0,
        SOI = 0xd8,
        EOI = 0xd9,
        SOS = 0xda,
        APP1 = 0xe1
    };
    const struct bytes jpeg = {bytes, count, true};
    for (size_t at = 2; at + 4 <= count && bytes[at] == FILL;) {
        uint8_t marker = bytes[at + 1];
        if (marker == FILL || marker == TEM || (marker >= RST0 && marker <= SOI)) {
            at += marker == FILL ? 1 : 2;
            continue;
        }
        uint32_t length = number(&jpeg, at + 2, 2);
        if (marker == SOS || marker == EOI || length < 2)
            break;
        if (marker == APP1 && length >= 2 + sizeof exif_prefix &&
            has(&jpeg, at + 4, exif_prefix, sizeof exif_prefix))
            return read_exif(part(&jpeg, at + 4, length - 2));
        at += 2 + length;
    }
    return UPRIGHT;
}

uint32_t exif_of_png(const uint8_t *bytes, size_t count) {
    const struct bytes png = {bytes, count, true};
    for (size_t at = 8; at < count && count - at >= 12;) {
        size_t length = number(&png, at, 4);
        if (has(&png, at + 4, "eXIf", 4))
            return read_exif(part(&png, at + 8, length));
        at += 12 + length;
    }
    return UPRIGHT;
}

uint32_t exif_of_webp(const uint8_t *bytes, size_t count) {
    const struct bytes webp = {bytes, count, false};
    for (size_t at = 12; at < count && count - at >= 8;) {
        size_t length = number(&webp, at + 4, 4);
        if (has(&webp, at, "EXIF", 4))
            return read_exif(part(&webp, at + 8, length));
        at += 8 + length + (length & 1);
    }
    return UPRIGHT;
}

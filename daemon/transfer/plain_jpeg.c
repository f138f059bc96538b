#include "daemon/transfer/plain_jpeg.h"

#include <string.h>

enum {
    MARKER_SOF0 = 0xC0, // baseline
    MARKER_SOF1 = 0xC1, // the same for engines, with more tables
    MARKER_DHT = 0xC4,
    MARKER_JPG = 0xC8,
    MARKER_DAC = 0xCC,
    MARKER_SOF15 = 0xCF,
    MARKER_RST0 = 0xD0,
    MARKER_RST7 = 0xD7,
    MARKER_SOI = 0xD8,
    MARKER_EOI = 0xD9,
    MARKER_SOS = 0xDA,
    MARKER_DNL = 0xDC,
};

#define CODED_BYTES 256 // checked at a time

struct walk {
    const uint8_t *next, *end;
    const struct image_record *record;
    uint32_t components;
    bool has_frame;
};

static uint32_t number_at(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

static bool is_frame(struct walk *walk, const uint8_t *segment, uint32_t length) {
    static const uint8_t first[] = {
        [IMAGE_SAMPLING_444] = 0x11, [IMAGE_SAMPLING_422] = 0x21, [IMAGE_SAMPLING_420] = 0x22};
    const struct image_record *record = walk->record;
    const bool grey = record->sampling == IMAGE_SAMPLING_GREY;
    const uint32_t wanted = grey ? 1 : 3;
    if (walk->has_frame || length != 8 + 3 * wanted || segment[2] != 8 || segment[7] != wanted ||
        number_at(segment + 3) != record->image_height || number_at(segment + 5) != record->image_width)
        return false;
    walk->has_frame = true;
    walk->components = wanted;
    if (grey)
        return true;
    return segment[9] == first[record->sampling] && segment[12] == 0x11 && segment[15] == 0x11;
}

// Whether no byte here begins a marker. Written so that compilers vectorize it. Reads the byte behind them, too.
static bool is_coded(const uint8_t *bytes) {
    uint8_t markers = 0;
    for (int i = 0; i < CODED_BYTES; i++)
        markers |= (uint8_t)((bytes[i] == 0xFF) & (bytes[i + 1] != 0));
    return !markers;
}

// The coded pixels: up to the end, with no other markers than restarts.
static bool is_scan(const struct walk *walk) {
    const uint8_t *next = walk->next;
    const uint8_t *marked = next; // the bytes before it were checked together, and have a marker
    for (;;) {
        while (next >= marked && walk->end - next > CODED_BYTES && is_coded(next))
            next += CODED_BYTES;
        if (next >= marked)
            marked = walk->end - next > CODED_BYTES ? next + CODED_BYTES : walk->end;
        next = memchr(next, 0xFF, (size_t)(walk->end - next));
        if (!next || walk->end - next < 2)
            return false;
        const uint8_t code = next[1];
        if (code == MARKER_EOI)
            return next + 2 == walk->end;
        if (code != 0 && (code < MARKER_RST0 || code > MARKER_RST7))
            return false;
        next += 2;
    }
}

// One segment. *over: it was the last one, and all is as it should be.
static bool step(struct walk *walk, bool *over) {
    if (walk->end - walk->next < 4 || walk->next[0] != 0xFF)
        return false;
    const uint8_t code = walk->next[1], *segment = walk->next + 2;
    const uint32_t length = number_at(segment);
    if (length < 2 || length > (size_t)(walk->end - segment))
        return false;
    walk->next = segment + length;
    if (code == MARKER_SOS) {
        *over = true;
        return walk->has_frame && length >= 3 && segment[2] == walk->components && is_scan(walk);
    }
    if (code == MARKER_SOF0 || code == MARKER_SOF1)
        return is_frame(walk, segment, length);
    const bool other_frame = code >= MARKER_SOF0 && code <= MARKER_SOF15 && code != MARKER_DHT;
    return code >= MARKER_SOF0 && !other_frame && !(code >= MARKER_RST0 && code <= MARKER_EOI) &&
           code != MARKER_DNL;
}

bool plain_jpeg_is(const uint8_t *bytes, size_t count, const struct image_record *record) {
    struct walk walk = {.next = bytes + 2, .end = bytes + count, .record = record};
    bool over = false;
    // From odd places on, there is one more column or row of colours than the planes have.
    if (record->x % 2 || record->y % 2)
        return false;
    if (count < 4 || bytes[0] != 0xFF || bytes[1] != MARKER_SOI || record->x > record->image_width ||
        record->width > record->image_width - record->x || record->y > record->image_height ||
        record->height > record->image_height - record->y)
        return false;
    while (!over)
        if (!step(&walk, &over))
            return false;
    return true;
}

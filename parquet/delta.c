#include "parquet/delta.h"

#include <string.h>

#include "base/sizes.h"

#define MOST_GROUPS 4096u
#define MOST_BLOCK  (1u << 24)
#define AT_ONCE     512u

static bool take_varint(struct delta *delta, uint64_t *value) {
    *value = 0;
    for (uint32_t shift = 0; shift < 64 && delta->at < delta->end; shift += 7) {
        uint8_t byte = *delta->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool take_zigzag(struct delta *delta, uint64_t *value) {
    uint64_t raw;
    bool taken = take_varint(delta, &raw);
    *value = taken ? raw >> 1 ^ -(raw & 1) : 0;
    return taken;
}

bool delta_open(struct delta *delta, const uint8_t *bytes, uint64_t count) {
    uint64_t block, groups;
    *delta = (struct delta){.at = bytes, .end = bytes + count};
    if (!take_varint(delta, &block) || !take_varint(delta, &groups) || !take_varint(delta, &delta->count) ||
        !take_zigzag(delta, &delta->value))
        return false;
    if (!groups || groups > MOST_GROUPS || !block || block > MOST_BLOCK || block % groups)
        return false;
    delta->group = block / groups;
    delta->groups = delta->next = (uint32_t)groups;
    return delta->group % 32 == 0;
}

static bool begin_group(struct delta *delta) {
    if (delta->next == delta->groups) {
        if (!take_zigzag(delta, &delta->least) || (uint64_t)(delta->end - delta->at) < delta->groups)
            return false;
        delta->widths = delta->at;
        delta->at += delta->groups;
        delta->next = 0;
    }
    delta->width = delta->widths[delta->next++];
    const uint64_t bytes = delta->group / 8 * delta->width;
    if (delta->width > 64 || bytes > (uint64_t)(delta->end - delta->at))
        return false;
    delta->bits = delta->at;
    delta->bit = 0;
    delta->at += bytes;
    delta->left = delta->group;
    return true;
}

// The next difference of the present group.
static uint64_t unpack(struct delta *delta) {
    const uint32_t width = delta->width;
    if (!width)
        return 0;
    const uint8_t *from = delta->bits + delta->bit / 8;
    const uint32_t shift = delta->bit % 8;
    const uint64_t there = (uint64_t)(delta->at - from);
    uint64_t word = 0;
    memcpy(&word, from, min_u64(sizeof word, there));
    word >>= shift;
    if (shift && width > 64 - shift)
        word |= (uint64_t)from[sizeof word] << (64 - shift);
    delta->bit += width;
    return width == 64 ? word : word & ((UINT64_C(1) << width) - 1);
}

uint64_t delta_read(struct delta *delta, uint64_t *values, uint64_t count) {
    uint64_t done = 0;
    while (done < count && delta->count) {
        values[done++] = delta->value;
        if (--delta->count == 0)
            break; // there is no difference to a next one
        if (!delta->left && !begin_group(delta)) {
            delta->count = 0;
            delta->at = NULL;
            break;
        }
        delta->value += delta->least + unpack(delta);
        delta->left--;
    }
    return done;
}

const uint8_t *delta_finish(struct delta *delta) {
    uint64_t values[AT_ONCE];
    while (delta->count)
        delta_read(delta, values, AT_ONCE);
    return delta->at;
}

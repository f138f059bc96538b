#include "parquet/rle.h"

#include <string.h>

#include "base/sizes.h"

#define AT_ONCE 512u

struct rle rle_open(const uint8_t *bytes, uint64_t count, uint32_t width) {
    struct rle rle = {.at = bytes, .end = bytes, .width = width};
    if (count && width <= 32)
        rle.end += count;
    return rle;
}

static bool take_varint(struct rle *rle, uint64_t *value) {
    *value = 0;
    for (uint32_t shift = 0; shift < 35 && rle->at < rle->end; shift += 7) {
        uint8_t byte = *rle->at++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static bool begin_packed(struct rle *rle, uint64_t groups) {
    uint64_t bytes = groups * rle->width, there = (uint64_t)(rle->end - rle->at);
    rle->packed = true;
    rle->left = groups * 8;
    // The last run may be cut after the last value that counts.
    if (bytes > there) {
        rle->left = there * 8 / rle->width;
        bytes = there;
    }
    rle->bits = rle->at;
    rle->bit = 0;
    rle->at += bytes;
    return rle->left > 0;
}

static bool begin_same(struct rle *rle, uint64_t count) {
    const uint32_t bytes = (rle->width + 7) / 8;
    if (bytes > (uint64_t)(rle->end - rle->at))
        return false;
    rle->packed = false;
    rle->value = 0;
    memcpy(&rle->value, rle->at, bytes);
    rle->at += bytes;
    rle->left = count;
    return count > 0;
}

static bool begin_run(struct rle *rle) {
    uint64_t head;
    const bool begun =
        take_varint(rle, &head) && (head & 1 ? begin_packed(rle, head >> 1) : begin_same(rle, head >> 1));
    if (!begun)
        rle->at = rle->end; // what follows makes no sense, either
    return begun;
}

// Of a packed run, `count` <= left.
static void unpack(struct rle *rle, uint32_t *values, uint64_t count) {
    const uint32_t width = rle->width;
    const uint64_t mask = (UINT64_C(1) << width) - 1;
    const uint64_t there = (uint64_t)(rle->at - rle->bits);
    uint64_t bit = rle->bit, i = 0;
    for (; i < count && bit / 8 + sizeof(uint64_t) <= there; i++, bit += width) {
        uint64_t word;
        memcpy(&word, rle->bits + bit / 8, sizeof word);
        values[i] = (uint32_t)(word >> bit % 8 & mask);
    }
    for (; i < count; i++, bit += width) {
        uint64_t word = 0;
        memcpy(&word, rle->bits + bit / 8, min_u64(sizeof word, there - bit / 8));
        values[i] = (uint32_t)(word >> bit % 8 & mask);
    }
    rle->bit = bit;
}

uint64_t rle_read(struct rle *rle, uint32_t *values, uint64_t count) {
    uint64_t done = 0;
    while (done < count) {
        if (!rle->left && !begin_run(rle))
            break;
        uint64_t some = min_u64(count - done, rle->left);
        if (rle->packed)
            unpack(rle, values + done, some);
        else
            for (uint64_t i = 0; i < some; i++)
                values[done + i] = rle->value;
        rle->left -= some;
        done += some;
    }
    return done;
}

uint64_t rle_run(struct rle *rle, uint32_t *value) {
    if ((!rle->left && !begin_run(rle)) || rle->packed)
        return 0;
    *value = rle->value;
    return rle->left;
}

bool rle_count(struct rle *rle, uint64_t count, uint32_t value, uint64_t *equal) {
    uint32_t values[AT_ONCE];
    while (count) {
        if (!rle->left && !begin_run(rle))
            return false;
        uint64_t some = min_u64(count, rle->left);
        if (rle->packed) {
            some = min_u64(some, AT_ONCE);
            unpack(rle, values, some);
            for (uint64_t i = 0; i < some; i++)
                *equal += values[i] == value;
        } else if (rle->value == value) {
            *equal += some;
        }
        rle->left -= some;
        count -= some;
    }
    return true;
}

// A token bucket: a burst at once, and then a number per second. Pure: the caller passes the time.
#ifndef FEEDD_BASE_BUCKET_H
#define FEEDD_BASE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

struct bucket {
    uint64_t token_ns; // a token comes back after this long
    uint64_t capacity; // tokens at most
    uint64_t tokens;
    uint64_t filled_ns; // up to when tokens have been counted
};

// Full. `per_second` is from 1 to 10^9.
void bucket_init(struct bucket *bucket, uint64_t per_second, uint64_t capacity, uint64_t now);

// Takes one token; false: there is none yet.
bool bucket_take(struct bucket *bucket, uint64_t now);

// It is like a new one: nothing has to be remembered of it.
bool bucket_is_full(struct bucket *bucket, uint64_t now);

#endif

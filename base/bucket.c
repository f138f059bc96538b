#include "base/bucket.h"

#include "base/sizes.h"
#include "base/time.h"

void bucket_init(struct bucket *bucket, uint64_t per_second, uint64_t capacity, uint64_t now) {
    *bucket = (struct bucket){
        .token_ns = NS_PER_S / per_second, .capacity = capacity, .tokens = capacity, .filled_ns = now};
}

static void fill(struct bucket *bucket, uint64_t now) {
    uint64_t earned = (now - bucket->filled_ns) / bucket->token_ns;
    bucket->tokens = min_u64(bucket->capacity, bucket->tokens + min_u64(earned, bucket->capacity));
    bucket->filled_ns += earned * bucket->token_ns; // what is left of a token counts for the next
}

bool bucket_take(struct bucket *bucket, uint64_t now) {
    fill(bucket, now);
    if (!bucket->tokens)
        return false;
    bucket->tokens--;
    return true;
}

bool bucket_is_full(struct bucket *bucket, uint64_t now) {
    fill(bucket, now);
    return bucket->tokens == bucket->capacity;
}

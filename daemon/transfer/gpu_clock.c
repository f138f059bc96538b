#include "daemon/transfer/gpu_clock.h"

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"
#include "daemon/log.h"

#define ALIGN_NS   (250 * NS_PER_MS) // at 50 parts per million, clocks drift apart by 12 us in that time
#define OLD_NS     (2 * NS_PER_S)    // after which an alignment is no longer good for anything
#define RETRY_NS   (10 * NS_PER_MS)  // the GPU or this process had something else to do
#define ATTEMPTS   4u                // the quickest counts
#define ATTEMPT_NS UINT64_C(50000)   // most that one may take

static bool fail(struct gpu_clock *clock, const struct error *error) {
    log_debug("the timeline has no times of the GPU: %s", error->text);
    clock->failed = true;
    return false;
}

static int open_clock(struct gpu_clock *clock, struct gpu *gpu, struct error *error) {
    clock->gpu = gpu;
    int err = gpu_stream_create(gpu, &clock->stream, error);
    if (!err)
        err = gpu_mark_create(gpu, &clock->base, error);
    return err ? err : gpu_mark_create(gpu, &clock->next, error);
}

// 1: the GPU reached the mark between `before` and `after`; 0: it takes too long.
static int attempt(struct gpu_clock *clock, uint64_t *before, uint64_t *after, struct error *error) {
    int64_t none;
    int passed = 0;
    *before = *after = monotonic_ns();
    int err = gpu_mark_put(clock->gpu, clock->stream, clock->next, error);
    while (!err && !passed && *after < *before + ATTEMPT_NS) {
        passed = gpu_mark_span(clock->gpu, clock->next, clock->next, &none, error);
        *after = monotonic_ns();
    }
    return err ? err : passed && *after <= *before + ATTEMPT_NS;
}

static void swap(gpu_mark *one, gpu_mark *other) {
    gpu_mark mark = *one;
    *one = *other;
    *other = mark;
}

static int align(struct gpu_clock *clock, struct error *error) {
    uint64_t before, after, least_ns = UINT64_MAX;
    for (uint32_t i = 0; i < ATTEMPTS; i++) {
        int passed = attempt(clock, &before, &after, error);
        if (passed <= 0)
            return passed;
        if (after - before >= least_ns)
            continue;
        least_ns = after - before;
        clock->base_ns = before + least_ns / 2;
        clock->aligned_ns = after;
        swap(&clock->base, &clock->next);
    }
    return 0;
}

static bool is_aligned(const struct gpu_clock *clock, uint64_t now) {
    return !clock->failed && clock->base_ns && now < clock->aligned_ns + OLD_NS;
}

bool gpu_clock_is_aligned(struct gpu_clock *clock, struct gpu *gpu) {
    struct error error = {0};
    const uint64_t now = monotonic_ns();
    if (clock->failed)
        return false;
    if (now < clock->aligned_ns + ALIGN_NS || now < clock->tried_ns + RETRY_NS)
        return is_aligned(clock, now);
    clock->tried_ns = now;
    if (!clock->gpu && open_clock(clock, gpu, &error) < 0)
        return fail(clock, &error);
    if (align(clock, &error) < 0)
        return fail(clock, &error);
    return is_aligned(clock, now);
}

void gpu_clock_put(struct gpu_clock *clock, gpu_stream stream, gpu_mark mark) {
    struct error error = {0};
    if (!clock->failed && gpu_mark_put(clock->gpu, stream, mark, &error) < 0)
        fail(clock, &error);
}

uint64_t gpu_clock_of(struct gpu_clock *clock, gpu_mark mark) {
    struct error error = {0};
    int64_t span;
    if (!is_aligned(clock, monotonic_ns()))
        return 0;
    int passed = gpu_mark_span(clock->gpu, clock->base, mark, &span, &error);
    if (passed < 0)
        fail(clock, &error);
    return passed > 0 ? clock->base_ns + (uint64_t)span : 0;
}

void gpu_clock_close(struct gpu_clock *clock) {
    if (!clock->gpu)
        return;
    gpu_stream_destroy(clock->gpu, clock->stream);
    gpu_mark_destroy(clock->gpu, clock->base);
    gpu_mark_destroy(clock->gpu, clock->next);
    *clock = (struct gpu_clock){0};
}

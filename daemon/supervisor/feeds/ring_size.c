#include "daemon/supervisor/feeds/ring_size.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/supervisor/feeds/cache.h"
#include "order/order.h"

#define RING_LEAST     (8ull << 20)
#define RING_MOST      (32ull << 20)
#define DIRECT_MOST    (128ull << 20)
#define SLOTS_LEAST    4u
#define SLOTS_MOST     1024u // unless ranks need more; enough to hide the round trips of one-sample batches
#define SLOTS_PER_LANE 3u

// While the ring stays in the last-level cache, bytes reach the bus without a trip to memory; using half of the cache
// leaves room for other data.
static uint64_t cached_ring_bytes(void) {
    return max_u64(RING_LEAST, min_u64(RING_MOST, cache_last_level_bytes() / 2));
}

// Direct reads come at the speed of the storage. The processor's cache does not matter for that, but the number of
// reads in flight does: the ring has room for all that the loaders may have.
static uint64_t direct_ring_bytes(const struct config *config, const struct dataset_layout *layout,
                                  uint64_t room) {
    uint64_t most = min_u64(DIRECT_MOST, config->ring_memory / 8);
    if (config->user_ring_memory)
        most = min_u64(most, config->user_ring_memory / 8);
    most = min_u64(most, room / 4);
    uint64_t reads = config->loaders * config->queue_depth;
    return min_u64(most, reads * min_u64(ring_sample_bytes(layout->fields, layout->field_count), most));
}

static uint64_t default_ring_bytes(const struct config *config, const struct dataset *dataset,
                                   uint64_t room) {
    uint64_t cached = cached_ring_bytes();
    return dataset->io_direct ? max_u64(cached, direct_ring_bytes(config, dataset->layout, room)) : cached;
}

static void describe_plan(const struct attach_request *request, struct ring_plan *plan) {
    const struct dataset_layout *layout = request->shape.dataset->layout;
    *plan = (struct ring_plan){
        .slot_count = 1,
        .batch_size = request->shape.batch_size,
        .field_count = layout->field_count,
        .samples = layout->samples,
        .seed = request->shape.seed,
        .fingerprint = layout->fingerprint,
        .world_size = request->shape.world_size,
        .order_version = request->shape.shuffle ? ORDER_FEISTEL_1 : ORDER_SEQUENTIAL,
    };
    memcpy(plan->fields, layout->fields, sizeof plan->fields);
}

int ring_size_check_batch(const struct attach_request *request, struct ring_plan *plan, struct error *error) {
    describe_plan(request, plan);
    int err = ring_plan(plan, error);
    if (!err && *request->device && plan->slot_bytes > GPU_REGISTER_MOST)
        err = error_set(error, -EOVERFLOW,
                        "a batch of %" PRIu64
                        " MiB is too large for a GPU: at most %u MiB; ask for smaller batches",
                        divide_up(plan->slot_bytes, 1u << 20), GPU_REGISTER_MOST >> 20);
    return err;
}

// `request->prefetch` batches each, and one more that is being filled.
static int refuse_lanes(const struct attach_request *request, struct error *error) {
    uint64_t ranks = request->local_world_size, most = RING_MAX_SLOTS / ranks;
    if (most < SLOTS_PER_LANE)
        return error_set(error, -EINVAL,
                         "local_world_size %" PRIu64
                         " is too large: a ring has at most %u batches, and each rank"
                         " needs %u",
                         ranks, RING_MAX_SLOTS, SLOTS_PER_LANE);
    return error_set(
        error, -EINVAL,
        "prefetch %" PRIu32 " is too large: at most %" PRIu64 " with %" PRIu64
        " rank%s here, as a ring has at most %u batches and each rank needs one more than it holds",
        request->prefetch, most - 1, ranks, ranks == 1 ? "" : "s", RING_MAX_SLOTS);
}

int ring_size_plan(const struct config *config, const struct attach_request *request, uint64_t room,
                   struct ring_plan *plan, struct error *error) {
    int err = ring_size_check_batch(request, plan, error);
    if (err)
        return err;
    uint64_t target = request->ring_bytes ? request->ring_bytes : config->ring;
    if (!target)
        target = default_ring_bytes(config, request->shape.dataset, room);
    uint64_t per_lane = max_u64(SLOTS_PER_LANE, request->prefetch ? request->prefetch + 1ull : 0);
    uint64_t least = max_u64(SLOTS_LEAST, per_lane * request->local_world_size);
    if (least > RING_MAX_SLOTS)
        return refuse_lanes(request, error);
    // What the feed had before the daemon was lost, so that there is room for all leases that its consumers were
    // promised, whoever returns first.
    least = max_u64(least, min_u64(request->ring_slots, RING_MAX_SLOTS));
    uint64_t slots = min_u64(target / plan->slot_bytes, SLOTS_MOST);
    plan->slot_count = (uint32_t)max_u64(slots, least);
    return ring_plan(plan, error);
}

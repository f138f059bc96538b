#include "daemon/supervisor/feeds/ring_size.h"

#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/dataset/gpu_images.h"
#include "daemon/dataset/mix_sizes.h"
#include "daemon/on_error.h"
#include "daemon/supervisor/feeds/cache.h"
#include "daemon/supervisor/feeds/loader_count.h"
#include "order/order.h"
#include "shm/ring_make.h"

#define RING_LEAST     (8ull << 20)
#define RING_MOST      (32ull << 20)
#define DIRECT_MOST    (128ull << 20)
#define SLOTS_LEAST    4u
#define SLOTS_MOST     1024u // unless ranks need more; enough to hide the round trips of one-sample batches
#define SLOTS_PER_LANE 3u
// The supervisor sums up the sizes of a batch's samples between two other things that it does: some 5 ms.
#define RAGGED_BATCH_MOST 65536u
#define DECODED           8u // pixels are about so much larger than what they are encoded in

// While the ring stays in the last-level cache, bytes reach the bus without a trip to memory; using half of the cache
// leaves room for other data.
static uint64_t cached_ring_bytes(void) {
    return max_u64(RING_LEAST, min_u64(RING_MOST, cache_last_level_bytes() / 2));
}

// Direct reads come at the speed of the storage. The processor's cache does not matter for that, but the number of
// reads in flight does: the ring has room for all that the loaders may have.
static uint64_t direct_ring_bytes(const struct config *config, const struct dataset_layout *layout) {
    uint64_t most = min_u64(DIRECT_MOST, config->ring_memory / 8);
    if (config->user_ring_memory)
        most = min_u64(most, config->user_ring_memory / 8);
    uint64_t reads = (config->loaders ? config->loaders : LOADER_COUNT_FIRST) * config->queue_depth;
    return min_u64(most, reads * min_u64(ring_sample_bytes(layout->fields, layout->field_count), most));
}

// Containers often have 64 MiB in /dev/shm: whoever comes next is to find room, too.
static uint64_t default_ring_bytes(const struct config *config, const struct dataset *dataset,
                                   uint64_t room) {
    uint64_t bytes = cached_ring_bytes();
    if (dataset->io_direct)
        bytes = max_u64(bytes, direct_ring_bytes(config, dataset->layout));
    return min_u64(bytes, room / 4);
}

static uint64_t sum(uint64_t left, uint64_t right) {
    uint64_t total;
    return __builtin_add_overflow(left, right, &total) ? UINT64_MAX : total;
}

static uint64_t most_of(const struct dataset *dataset, const struct size_summary *sizes, uint64_t count) {
    uint32_t kind = dataset->layout->selection.kind;
    bool repeats =
        kind == SELECTION_LIST || kind == SELECTION_WEIGHTED_1 || dataset->on_error == ON_ERROR_REPLACE;
    return size_summary_most(sizes, count, repeats);
}

// A run of a mix may have other weights than the configuration.
static void plan_ragged(struct ring_plan *plan, const struct feed_shape *shape, uint32_t field) {
    const struct dataset *dataset = shape->dataset;
    const struct size_summary *sizes = dataset->sizes[field];
    struct size_summary average;
    uint64_t most;
    if (!dataset->layout->fields[field].ragged)
        return;
    if (dataset->sources) {
        mix_sizes_average(dataset, shape->mix.weights, field, &average);
        sizes = &average;
        most = mix_sizes_most(dataset, shape->mix.weights, field, plan->batch_size);
    } else {
        most = most_of(dataset, sizes, plan->batch_size);
    }
    plan->ragged_most = sum(plan->ragged_most, most);
    plan->ragged_mean = sum(plan->ragged_mean, size_summary_mean(sizes));
    plan->ragged_usual = sum(plan->ragged_usual, min_u64(most, size_summary_usual(sizes, plan->batch_size)));
}

// Of one sample, on its way from an encoded image.
static uint64_t work_mean(const struct dataset *dataset) {
    const struct dataset_layout *layout = dataset->layout;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < layout->part_count; i++)
        bytes = max_u64(bytes, work_mean(dataset->sources[i]));
    for (uint32_t i = 0; i < layout->column_count; i++)
        if (layout->columns[i].varies)
            bytes = sum(bytes, min_u64(layout->columns[i].mean, UINT64_MAX / DECODED) * DECODED);
    return bytes;
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
        .work_mean = request->shape.gpu_images ? 0 : work_mean(request->shape.dataset),
        .replaces = request->shape.dataset->on_error == ON_ERROR_REPLACE,
        .world_size = request->shape.world_size,
        // The samples of a mix are numbered as they stand; its loaders know the order of its sources.
        .order_version = dataset_order(layout, request->shape.shuffle && !layout->part_count),
    };
    memcpy(plan->fields, layout->fields, sizeof plan->fields);
    if (request->shape.gpu_images)
        gpu_images_in_ring(request->shape.dataset, plan->fields);
    for (uint32_t i = 0; i < layout->field_count; i++)
        plan_ragged(plan, &request->shape, i);
}

int ring_size_check_batch(const struct attach_request *request, struct ring_plan *plan, struct error *error) {
    describe_plan(request, plan);
    if (dataset_is_ragged(request->shape.dataset->layout) && plan->batch_size > RAGGED_BATCH_MOST)
        return error_set(error, -EINVAL, "found batch_size %" PRIu32 ", wanted at most %u with ragged fields",
                         plan->batch_size, RAGGED_BATCH_MOST);
    int err = ring_plan(plan, error);
    if (!err && *request->device && plan->slot_allocated_bytes > GPU_REGISTER_MOST)
        err = error_set(error, -EOVERFLOW,
                        "a batch of %" PRIu64
                        " MiB is too large for a GPU: at most %u MiB; ask for smaller batches",
                        divide_up(plan->slot_allocated_bytes, 1u << 20), GPU_REGISTER_MOST >> 20);
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
    uint64_t slots = min_u64(target / plan->slot_allocated_bytes, SLOTS_MOST);
    plan->slot_count = (uint32_t)max_u64(slots, least);
    return ring_plan(plan, error);
}

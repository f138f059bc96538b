#include "client/ctl/earlier.h"

#include <string.h>

static bool same_daemon(const struct stats_snapshot *before, const struct stats_snapshot *now) {
    return before && before->pid == now->pid && before->started_ns == now->started_ns;
}

const struct stats_feed_snapshot *earlier_feed(const struct stats_snapshot *before,
                                               const struct stats_snapshot *now, uint64_t id) {
    if (!same_daemon(before, now))
        return NULL;
    for (uint32_t i = 0; i < before->feed_count; i++)
        if (before->feeds[i].id == id)
            return &before->feeds[i];
    return NULL;
}

const struct stats_gpu_snapshot *earlier_gpu(const struct stats_snapshot *before,
                                             const struct stats_snapshot *now,
                                             const struct stats_gpu_snapshot *gpu) {
    if (!same_daemon(before, now))
        return NULL;
    for (uint32_t i = 0; i < before->gpu_count; i++)
        if (strcmp(before->gpus[i].uuid, gpu->uuid) == 0 && before->gpus[i].started_ns == gpu->started_ns)
            return &before->gpus[i];
    return NULL;
}

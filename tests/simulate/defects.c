#include "tests/simulate/defects.h"

#include <string.h>

#include "client/lib/leases.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "shm/ring_supervisor.h"
#include "tests/simulate/sim.h"

static const char *const names[DEFECTS] = {
    [DEFECT_NONE] = "",
    [DEFECT_LYING_STORAGE] = "lying-storage",
    [DEFECT_LOST_CHUNKS] = "lost-chunks",
    [DEFECT_EARLY_RECOVERY] = "early-recovery",
    [DEFECT_ANY_RUN] = "any-run",
    [DEFECT_LOST_WAKE_UP] = "lost-wake-up",
    [DEFECT_OLD_SKIPS] = "old-skips",
    [DEFECT_COMPANY] = "company",
    [DEFECT_FORWARD_ONLY] = "forward-only",
};
static enum defect chosen;

bool defect_choose(const char *name) {
    for (uint32_t i = 0; i < DEFECTS; i++)
        if (strcmp(name, names[i]) == 0) {
            chosen = (enum defect)i;
            return true;
        }
    return false;
}

bool defect_is(enum defect defect) {
    return chosen == defect;
}

// ---- Functions that can be defective -----------------------------------------------------------------------

int __real_ring_recover(struct ring *ring, uint32_t owner);
int __wrap_ring_recover(struct ring *ring, uint32_t owner);
bool __real_leases_still_ours(const struct attachment *attachment, uint32_t slot);
bool __wrap_leases_still_ours(const struct attachment *attachment, uint32_t slot);
void __real_served_feed_gather(struct served_feed *feed, const struct attach_request *request);
void __wrap_served_feed_gather(struct served_feed *feed, const struct attach_request *request);
int __real_delivery_join(struct delivery *delivery, struct consumer *consumer, uint32_t rank, uint64_t epochs,
                         const struct start_position *start, uint32_t prefetch, struct error *error);
int __wrap_delivery_join(struct delivery *delivery, struct consumer *consumer, uint32_t rank, uint64_t epochs,
                         const struct start_position *start, uint32_t prefetch, struct error *error);

// Samples that the dead loader had marked stay marked.
static int recover_with_old_skips(struct ring *ring, uint32_t owner) {
    const struct ring_header *header = ring->header;
    size_t words = (size_t)header->slot_count * header->skip_words;
    uint64_t *before = malloc(words * sizeof *before);
    SIM_MUST(before);
    memcpy(before, (void *)ring_skips(ring, 0), words * sizeof *before);
    int recovered = __real_ring_recover(ring, owner);
    memcpy((void *)ring_skips(ring, 0), before, words * sizeof *before);
    free(before);
    return recovered;
}

int __wrap_ring_recover(struct ring *ring, uint32_t owner) {
    if (chosen == DEFECT_LOST_CHUNKS)
        return 0;
    if (chosen == DEFECT_OLD_SKIPS)
        return recover_with_old_skips(ring, owner);
    uint32_t asleep = atomic_load(&ring->control->loaders_asleep);
    if (chosen == DEFECT_LOST_WAKE_UP)
        atomic_store(&ring->control->loaders_asleep, 0);
    int recovered = __real_ring_recover(ring, owner);
    if (chosen == DEFECT_LOST_WAKE_UP)
        atomic_store(&ring->control->loaders_asleep, asleep);
    return recovered;
}

// As before slots said which run their batch belongs to, and counted their fills.
bool __wrap_leases_still_ours(const struct attachment *attachment, uint32_t slot) {
    const struct ring_slot *record = ring_slot(&attachment->ring, slot);
    if (chosen == DEFECT_ANY_RUN)
        return record->sequence == attachment->leases[slot].sequence &&
               record->rank == attachment->request->options.rank;
    return __real_leases_still_ours(attachment, slot);
}

void __wrap_served_feed_gather(struct served_feed *feed, const struct attach_request *request) {
    struct attach_request alone = *request;
    if (chosen == DEFECT_COMPANY && request->reconnect)
        alone.wait_for = 1;
    __real_served_feed_gather(feed, &alone);
}

int __wrap_delivery_join(struct delivery *delivery, struct consumer *consumer, uint32_t rank, uint64_t epochs,
                         const struct start_position *start, uint32_t prefetch, struct error *error) {
    struct start_position position = *start;
    if (chosen == DEFECT_FORWARD_ONLY)
        position.goes_back = false;
    return __real_delivery_join(delivery, consumer, rank, epochs, &position, prefetch, error);
}

#include "tests/simulate/defects.h"

#include <string.h>

#include "client/lib/leases.h"
#include "daemon/supervisor/clients/brought.h"
#include "daemon/supervisor/clients/session.h"
#include "daemon/supervisor/clients/user.h"
#include "daemon/supervisor/delivery/abandoned.h"
#include "daemon/supervisor/delivery/window.h"
#include "daemon/supervisor/feeds/bad_samples.h"
#include "daemon/supervisor/feeds/batch_places.h"
#include "daemon/supervisor/feeds/batch_samples.h"
#include "daemon/supervisor/feeds/budget.h"
#include "daemon/supervisor/feeds/kept.h"
#include "daemon/supervisor/feeds/pool_growth.h"
#include "daemon/supervisor/feeds/served_feed.h"
#include "order/sampler.h"
#include "shm/ring_places.h"
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
    [DEFECT_UNCONFIRMED] = "unconfirmed",
    [DEFECT_FORWARD_ONLY] = "forward-only",
    [DEFECT_NO_UNREAD] = "no-unread",
    [DEFECT_EARLY_SOURCE] = "early-source",
    [DEFECT_RELEASED_TWICE] = "released-twice",
    [DEFECT_LOST_COPIES] = "lost-copies",
    [DEFECT_SLEEPY_COPIES] = "sleepy-copies",
    [DEFECT_HUNG_REUSED] = "hung-reused",
    [DEFECT_HUNG_KEPT] = "hung-kept",
    [DEFECT_GROWTH_LOST] = "growth-lost",
    [DEFECT_GROWTH_FREE] = "growth-free",
    [DEFECT_GROWTH_COPIES] = "growth-copies",
    [DEFECT_GROWTH_FORGOT] = "growth-forgotten",
    [DEFECT_PLACES_OF_NEXT] = "places-of-next",
    [DEFECT_OLD_PLACES] = "old-places",
    [DEFECT_BAD_TWICE] = "bad-twice",
    [DEFECT_LATER_ATTEMPT] = "later-attempt",
    [DEFECT_END_KEPT] = "end-kept",
    [DEFECT_LOST_ATTEMPTS] = "lost-attempts",
    [DEFECT_DRAWS_RESTART] = "draws-restart",
    [DEFECT_UNCUT_WINDOWS] = "uncut-windows",
    [DEFECT_EPOCHS_ALIKE] = "epochs-alike",
    [DEFECT_SIZES_UNSHUFFLED] = "sizes-unshuffled",
    [DEFECT_OTHER_VIEW] = "other-view",
    [DEFECT_LEAKED_RING] = "leaked-ring",
    [DEFECT_LEAKED_MAP] = "leaked-map",
    [DEFECT_LEAKED_BLOCK] = "leaked-block",
    [DEFECT_LEAKED_USER] = "leaked-user",
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
void __real_places_await(struct served_feed *feed, struct member *member);
void __wrap_places_await(struct served_feed *feed, struct member *member);
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
    if (chosen == DEFECT_LOST_CHUNKS || (chosen == DEFECT_LOST_COPIES && ring->header->on_device))
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

void __wrap_places_await(struct served_feed *feed, struct member *member) {
    member->request.confirms &= chosen != DEFECT_UNCONFIRMED;
    __real_places_await(feed, member);
}

int __wrap_delivery_join(struct delivery *delivery, struct consumer *consumer, uint32_t rank, uint64_t epochs,
                         const struct start_position *start, uint32_t prefetch, struct error *error) {
    struct start_position position = *start;
    if (chosen == DEFECT_FORWARD_ONLY)
        position.goes_back = false;
    return __real_delivery_join(delivery, consumer, rank, epochs, &position, prefetch, error);
}

// ---- Pools and loaders that hang ---------------------------------------------------------------------------

bool __real_ring_dispatch_copy(struct ring *ring, uint32_t slot, const struct ring *source, uint32_t from,
                               uint64_t unread);
bool __wrap_ring_dispatch_copy(struct ring *ring, uint32_t slot, const struct ring *source, uint32_t from,
                               uint64_t unread);
bool __real_ring_take_sleeper(struct ring *ring);
bool __wrap_ring_take_sleeper(struct ring *ring);
int __real_delivery_release(struct delivery *delivery, struct consumer *consumer, uint32_t slot);
int __wrap_delivery_release(struct delivery *delivery, struct consumer *consumer, uint32_t slot);
uint32_t __real_abandoned_leave(struct delivery *delivery, uint32_t owner, uint64_t now, uint64_t since_ns);
uint32_t __wrap_abandoned_leave(struct delivery *delivery, uint32_t owner, uint64_t now, uint64_t since_ns);

bool __wrap_ring_dispatch_copy(struct ring *ring, uint32_t slot, const struct ring *source, uint32_t from,
                               uint64_t unread) {
    return __real_ring_dispatch_copy(ring, slot, source, from, chosen == DEFECT_NO_UNREAD ? 0 : unread);
}

bool __wrap_ring_take_sleeper(struct ring *ring) {
    return __real_ring_take_sleeper(ring) && chosen != DEFECT_SLEEPY_COPIES;
}

static struct consumer *another_holder(const struct consumer *consumer, uint32_t slot) {
    struct consumer *other;
    LIST_FOREACH(other, &consumer->lane->consumers, link)
        if (other != consumer && consumer_holds(other, slot))
            break;
    return other;
}

int __wrap_delivery_release(struct delivery *delivery, struct consumer *consumer, uint32_t slot) {
    struct consumer *other = NULL;
    if (chosen == DEFECT_RELEASED_TWICE && delivery->ring->header->on_device &&
        slot < delivery->ring->header->slot_count)
        other = another_holder(consumer, slot);
    int err = __real_delivery_release(delivery, consumer, slot);
    if (other)
        __real_delivery_release(delivery, other, slot);
    if (chosen != DEFECT_EARLY_SOURCE || !consumer->operations || !delivery->slots[slot].copies)
        return err;
    delivery->slots[slot].copies--;
    slot_free_if_unused(delivery, slot);
    delivery->slots[slot].copies++;
    return err;
}

uint32_t __wrap_abandoned_leave(struct delivery *delivery, uint32_t owner, uint64_t now, uint64_t since_ns) {
    if (chosen == DEFECT_HUNG_KEPT)
        return 0;
    uint32_t left = __real_abandoned_leave(delivery, owner, now, since_ns);
    if (chosen == DEFECT_HUNG_REUSED)
        __real_ring_recover(delivery->ring, owner);
    return left;
}

// ---- Ragged fields, bad samples and views ------------------------------------------------------------------

int __real_budget_grow(struct served_feed *feed, uint64_t bytes, struct error *error);
int __wrap_budget_grow(struct served_feed *feed, uint64_t bytes, struct error *error);
uint64_t __real_batch_places_compute(struct batch_places *places, struct ring *ring, uint32_t slot,
                                     const struct batch_place *place);
uint64_t __wrap_batch_places_compute(struct batch_places *places, struct ring *ring, uint32_t slot,
                                     const struct batch_place *place);
uint64_t __real_batch_samples_bytes(const struct batch_samples *samples, uint32_t field, uint32_t i);
uint64_t __wrap_batch_samples_bytes(const struct batch_samples *samples, uint32_t field, uint32_t i);
void __real_batch_places_commit(struct batch_places *places, struct ring *ring, uint32_t slot,
                                const struct batch_place *place);
void __wrap_batch_places_commit(struct batch_places *places, struct ring *ring, uint32_t slot,
                                const struct batch_place *place);
void __real_ring_places_publish(struct ring *ring, uint32_t slot);
void __wrap_ring_places_publish(struct ring *ring, uint32_t slot);
void __real_bad_samples_hear(struct served_feed *feed, struct loader_process *loader);
void __wrap_bad_samples_hear(struct served_feed *feed, struct loader_process *loader);
int __real_brought_hold(struct session *session, const struct brought_want *want, struct brought **held,
                        struct error *error);
int __wrap_brought_hold(struct session *session, const struct brought_want *want, struct brought **held,
                        struct error *error);

int __wrap_budget_grow(struct served_feed *feed, uint64_t bytes, struct error *error) {
    return chosen == DEFECT_GROWTH_FREE ? 0 : __real_budget_grow(feed, bytes, error);
}

uint64_t __wrap_batch_places_compute(struct batch_places *places, struct ring *ring, uint32_t slot,
                                     const struct batch_place *place) {
    struct batch_place next = *place;
    if (chosen == DEFECT_PLACES_OF_NEXT && place->first_position + 2 * place->count <= ring->header->samples)
        next.first_position += place->count;
    return __real_batch_places_compute(places, ring, slot, &next);
}

// Called from elsewhere for samples that are left out alone.
uint64_t __wrap_batch_samples_bytes(const struct batch_samples *samples, uint32_t field, uint32_t i) {
    return chosen == DEFECT_END_KEPT ? 0 : __real_batch_samples_bytes(samples, field, i);
}

void __wrap_batch_places_commit(struct batch_places *places, struct ring *ring, uint32_t slot,
                                const struct batch_place *place) {
    if (chosen != DEFECT_LOST_ATTEMPTS)
        __real_batch_places_commit(places, ring, slot, place);
}

void __wrap_ring_places_publish(struct ring *ring, uint32_t slot) {
    if (chosen != DEFECT_OLD_PLACES || ring->dispatched[slot].fill < 2)
        __real_ring_places_publish(ring, slot);
}

void __wrap_bad_samples_hear(struct served_feed *feed, struct loader_process *loader) {
    if (chosen == DEFECT_BAD_TWICE && loader->process.state == PROCESS_GONE) {
        loader->bad_heard = 0;
        memset(loader->bad_totals, 0, sizeof loader->bad_totals);
    }
    __real_bad_samples_hear(feed, loader);
}

// By what is known before its numbers have come, without their hash.
int __wrap_brought_hold(struct session *session, const struct brought_want *want, struct brought **held,
                        struct error *error) {
    const struct brought *other;
    struct brought_want same = *want;
    TAILQ_FOREACH(other, &session->supervisor->brought, link)
        if (chosen == DEFECT_OTHER_VIEW && other->want.base == want->base &&
            other->want.selection.kind == want->selection.kind &&
            other->want.selection.count == want->selection.count)
            same = other->want;
    return __real_brought_hold(session, &same, held, error);
}

// ---- Shuffle windows ---------------------------------------------------------------------------------------

int __real_window_order_open(const struct window_groups *groups, uint64_t first, uint64_t count,
                             uint64_t seed, struct window_order **order);
int __wrap_window_order_open(const struct window_groups *groups, uint64_t first, uint64_t count,
                             uint64_t seed, struct window_order **order);
void __real_window_order_samples(struct window_order *order, uint64_t epoch, uint64_t first, uint32_t count,
                                 uint64_t *samples);
void __wrap_window_order_samples(struct window_order *order, uint64_t epoch, uint64_t first, uint32_t count,
                                 uint64_t *samples);
int __real_sampler_open(struct sampler *sampler, enum order_version version, uint64_t samples, uint64_t seed,
                        const struct selection *selection, const uint64_t *list, uint64_t list_bytes,
                        struct error *error);
int __wrap_sampler_open(struct sampler *sampler, enum order_version version, uint64_t samples, uint64_t seed,
                        const struct selection *selection, const uint64_t *list, uint64_t list_bytes,
                        struct error *error);

int __wrap_window_order_open(const struct window_groups *groups, uint64_t first, uint64_t count,
                             uint64_t seed, struct window_order **order) {
    return __real_window_order_open(groups, chosen == DEFECT_UNCUT_WINDOWS ? 0 : first, count, seed, order);
}

void __wrap_window_order_samples(struct window_order *order, uint64_t epoch, uint64_t first, uint32_t count,
                                 uint64_t *samples) {
    const uint64_t one_less = epoch - epoch % 2;
    __real_window_order_samples(order, chosen == DEFECT_EPOCHS_ALIKE ? one_less : epoch, first, count,
                                samples);
}

// Only the supervisor wants to know why it fails.
int __wrap_sampler_open(struct sampler *sampler, enum order_version version, uint64_t samples, uint64_t seed,
                        const struct selection *selection, const uint64_t *list, uint64_t list_bytes,
                        struct error *error) {
    if (chosen == DEFECT_SIZES_UNSHUFFLED && version == ORDER_WINDOW_1 && error)
        return __real_sampler_open(sampler, ORDER_FEISTEL_1, samples, seed, selection, NULL, 0, error);
    return __real_sampler_open(sampler, version, samples, seed, selection, list, list_bytes, error);
}

// ---- Slots of pools that grow --------------------------------------------------------------------------------

uint64_t __real_ring_batch_end(const struct ring *ring, uint32_t slot);
uint64_t __wrap_ring_batch_end(const struct ring *ring, uint32_t slot);
uint32_t __real_pool_growth_count(const struct pool *pool);
uint32_t __wrap_pool_growth_count(const struct pool *pool);
void __real_pool_growth_give(const struct pool *pool);
void __wrap_pool_growth_give(const struct pool *pool);

uint64_t __wrap_ring_batch_end(const struct ring *ring, uint32_t slot) {
    return chosen == DEFECT_GROWTH_COPIES ? 0 : __real_ring_batch_end(ring, slot);
}

uint32_t __wrap_pool_growth_count(const struct pool *pool) {
    return chosen == DEFECT_GROWTH_FORGOT ? 0 : __real_pool_growth_count(pool);
}

void __wrap_pool_growth_give(const struct pool *pool) {
    if (chosen != DEFECT_GROWTH_FORGOT)
        __real_pool_growth_give(pool);
}

// ---- Leaks -------------------------------------------------------------------------------------------------

void __real_ring_unmap(struct ring *ring);
void __wrap_ring_unmap(struct ring *ring);
void __real_frame_writer_free(struct frame_writer *writer);
void __wrap_frame_writer_free(struct frame_writer *writer);
void __real_user_put(struct user *user);
void __wrap_user_put(struct user *user);
void __real_kept_take(struct served_feed *feed);
void __wrap_kept_take(struct served_feed *feed);

void __wrap_ring_unmap(struct ring *ring) {
    if (chosen != DEFECT_LEAKED_MAP || !ring->header || !ring->header->on_device)
        __real_ring_unmap(ring);
}

void __wrap_frame_writer_free(struct frame_writer *writer) {
    if (chosen != DEFECT_LEAKED_BLOCK)
        __real_frame_writer_free(writer);
}

void __wrap_user_put(struct user *user) {
    if (chosen != DEFECT_LEAKED_USER || !sim_chance(100))
        __real_user_put(user);
}

void __wrap_kept_take(struct served_feed *feed) {
    if (chosen != DEFECT_LEAKED_RING)
        __real_kept_take(feed);
}

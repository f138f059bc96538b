#include "tests/simulate/oracle.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "order/replace.h"
#include "tests/simulate/chaos.h"
#include "tests/simulate/daemon.h"
#include "tests/simulate/loader.h"
#include "tests/simulate/storage.h"

#define RECONNECT_NS (20 * NS_PER_S)

static bool is_shared(const struct client *client) {
    return *client->group->share && !client->alone;
}

// Batches left over from a daemon that has gone do not count.
static void hear(struct client *client, bool opened, uint32_t generation) {
    if (opened || generation != client->generation) {
        if (client->daemon_ns != daemon_.started_ns)
            client->before_ns = client->heard_ns;
        client->daemon_ns = daemon_.started_ns;
    }
    client->generation = generation;
    if (daemon_.up && client->daemon_ns == daemon_.started_ns)
        client->heard_ns = sim.now_ns;
}

// ---- Where it begins ---------------------------------------------------------------------------------------

static bool same_place(struct reference_place one, struct reference_place other) {
    return one.epoch == other.epoch && one.consumed == other.consumed;
}

void oracle_opened(struct client *client, bool resumed) {
    const struct feed_description *about = feed_describe(client->feed);
    struct reference_place start = {about->start_epoch, about->start_consumed};
    const struct group *group = client->group;
    sim_trace("client %u: attached at %" PRIu64 "/%" PRIu64 "%s, prefetch %u", client->number, start.epoch,
              start.consumed, resumed ? " with a token" : "", about->prefetch);
    // Where the token points, as the first batch from there on.
    struct reference_place want = reference_batch_at(&client->run, client->saved_place).next;
    struct reference_place got = reference_batch_at(&client->run, start).next;
    if (resumed && !same_place(want, got))
        sim_violated("client %u resumes at %" PRIu64 "/%" PRIu64 ", not at %" PRIu64 "/%" PRIu64,
                     client->number, start.epoch, start.consumed, client->saved_place.epoch,
                     client->saved_place.consumed);
    bool first =
        !is_shared(client) || (group->wait_for == group->clients && !group->left && !group->wandered);
    if (!resumed && first && (start.epoch || start.consumed))
        sim_violated("client %u begins at %" PRIu64 "/%" PRIu64, client->number, start.epoch, start.consumed);
    SIM_MUST(group->wandered || start.consumed % (client->run.batch_size * client->run.world_size) == 0);
    hear(client, true, 0);
    client->place = start;
}

// ---- Batches -----------------------------------------------------------------------------------------------

static bool is_among(const struct client *client, const struct reference_batch *expected, uint64_t sample) {
    for (uint64_t i = 0; i < expected->count; i++)
        if (reference_sample(&client->run, expected->epoch, expected->first + i) == sample)
            return true;
    return false;
}

// The stored sample that must lie where one with this number stands at this position.
static uint64_t stored_at(const struct client *client, uint64_t epoch, uint64_t position, uint64_t number) {
    const enum dataset_kind stored = dataset_plans[client->group->dataset].of;
    uint64_t sample = reference_stored(&client->run, epoch, number);
    uint32_t attempt = 0;
    bool replaces = stored == DATASET_REPLACED || stored == DATASET_PATCHED;
    while (replaces && storage_quality(stored, sample) == SAMPLE_BAD && attempt < REPLACE_ATTEMPTS)
        sample = reference_replacement(&client->run, epoch, position, ++attempt);
    return sample;
}

// Each sample of the batch is one of those expected, and can be read; none comes twice.
void oracle_samples(const struct client *client, struct held *held) {
    const struct feed_batch *batch = &held->batch;
    const struct reference_batch *expected = &held->expected;
    const enum dataset_kind stored = dataset_plans[client->group->dataset].of;
    uint64_t seen[2] = {0};
    held->contents = (struct contents){.stored = stored,
                                       .data = batch->field[0].data,
                                       .offsets = batch->field[0].offsets,
                                       .bytes = batch->field[0].bytes,
                                       .count = batch->count};
    SIM_MUST(batch->field[0].ragged == !dataset_plans[stored].sample_bytes);
    for (uint64_t i = 0; i < batch->count; i++) {
        int64_t number = feed_batch_sample(client->feed, batch, i);
        if (number < 0 || !is_among(client, expected, (uint64_t)number) ||
            seen[number / 64] >> (number % 64) & 1)
            sim_violated("client %u: sample %" PRId64 " at place %" PRIu64 " of batch %" PRIu64,
                         client->number, number, i, batch->sequence);
        seen[number / 64] |= 1ull << (number % 64);
        uint64_t sample = stored_at(client, expected->epoch, expected->first + i, (uint64_t)number);
        if (storage_quality(stored, sample) == SAMPLE_BAD)
            sim_violated("client %u: sample %" PRIu64 " cannot be read", client->number, sample);
        held->contents.samples[i] = sample;
    }
    for (uint64_t i = 0; i < expected->count; i++) {
        uint64_t number = reference_sample(&client->run, expected->epoch, expected->first + i);
        if (!(seen[number / 64] >> (number % 64) & 1) &&
            storage_quality(stored, reference_stored(&client->run, expected->epoch, number)) == SAMPLE_GOOD)
            sim_violated("client %u: sample %" PRIu64 " is missing from batch %" PRIu64, client->number,
                         number, batch->sequence);
    }
}

bool oracle_is_intact(const struct held *held) {
    return storage_is_right(&held->contents);
}

void oracle_intact(const struct client *client, const struct held *held) {
    if (!oracle_is_intact(held))
        sim_violated("client %u: the bytes of batch %" PRIu64 " in slot %u are wrong", client->number,
                     held->batch.sequence, held->batch.slot);
}

void oracle_batch(struct client *client, const struct feed_batch *batch) {
    struct held *held = &client->held[client->held_count++];
    struct reference_batch expected = reference_batch_at(&client->run, client->place);
    *held = (struct held){*batch, expected};
    sim_note(batch->sequence << 32 ^ batch->slot ^ client->number);
    sim_trace("client %u: batch %" PRIu64 ", epoch %" PRIu64 ", positions %" PRIu64 "+%" PRIu64 ", slot %u",
              client->number, batch->sequence, batch->epoch, batch->first_position, batch->count,
              batch->slot);
    if (batch->epoch != expected.epoch || batch->index != expected.index ||
        batch->first_position != expected.first || batch->count + batch->skipped != expected.count ||
        batch->last_of_epoch != expected.last_of_epoch)
        sim_violated("client %u got epoch %" PRIu64 ", batch %" PRIu64 ", positions %" PRIu64 "+%" PRIu64
                     "%s; expected epoch %" PRIu64 ", batch %" PRIu64 ", positions %" PRIu64 "+%" PRIu64 "%s",
                     client->number, batch->epoch, batch->index, batch->first_position,
                     batch->count + batch->skipped, batch->last_of_epoch ? ", last" : "", expected.epoch,
                     expected.index, expected.first, expected.count, expected.last_of_epoch ? ", last" : "");
    if (client->place.epoch >= client->group->epochs)
        sim_violated("client %u got a batch after the end", client->number);
    hear(client, false, batch->generation);
    client->place = expected.next;
    client->batches++;
}

void oracle_ended(const struct client *client) {
    if (reference_batch_at(&client->run, client->place).epoch < client->group->epochs)
        sim_violated("client %u was told the end at %" PRIu64 "/%" PRIu64, client->number,
                     client->place.epoch, client->place.consumed);
}

// ---- Errors ------------------------------------------------------------------------------------------------

_Noreturn static void unexpected(const struct client *client, const char *call, int err) {
    sim_violated("client %u: %s returned %d: %s", client->number, call, err, feed_strerror(client->feed));
}

static bool disturbed_within(uint64_t ns) {
    return !daemon_.up || sim.now_ns < daemon_.disturbed_ns + ns;
}

static bool loaders_fail(const struct client *client) {
    return plan.stillborn && strstr(feed_strerror(client->feed), "end as soon as they start");
}

static bool says(const struct client *client, const char *text) {
    return strstr(feed_strerror(client->feed), text) != NULL;
}

// Errors of a GPU that cannot be used, or whose transfer process lies.
static bool transfer_fails(const struct client *client, int err) {
    bool dies = plan.transfer_deaths || plan.stillborn || plan.weights[CHAOS_KILL_TRANSFER];
    if (says(client, "a lie"))
        return plan.lies && (err == -ENOMEM || err == -EIO);
    if (says(client, "damaged the ring of the pool") || says(client, "without sending its descriptor") ||
        says(client, "that was not to grow") || says(client, "the wrong amount of memory"))
        return plan.lies;
    if (err == -ENOMEM && says(client, "more memory than most"))
        return plan.no_growth;
    if (says(client, "has died each time that it opened the pool") ||
        says(client, "has died each time that a slot of the pool was to grow"))
        return err == -EIO && dies;
    return err == -ENODEV && (dies || plan.unspawned) && says(client, "its transfer process failed");
}

// A feed that nobody can read fails. One loader that hangs is not enough for that.
static bool cannot_be_read(const struct client *client) {
    const struct hangs *seen = &hangs[dataset_plans[client->group->dataset].of];
    if (!says(client, "a read of one of its files has not ended for"))
        return false;
    if (says(client, "no other loader has read it since"))
        return seen->stuck >= 2;
    if (says(client, "the ring has no slot left"))
        return seen->left >= 1;
    return says(client, "too many loaders hang") && seen->left > 8;
}

// Where views draw, almost all weight may lie on samples that cannot be read.
static bool attempts_run_out(const struct client *client) {
    const struct reference_run *run = &client->run;
    const enum dataset_kind stored = dataset_plans[client->group->dataset].of;
    if (!says(client, "nor could the samples tried before it"))
        return false;
    for (uint64_t epoch = 0; epoch < client->group->epochs; epoch++)
        for (uint64_t position = 0; position < run->samples; position++) {
            uint64_t number = reference_sample(run, epoch, position);
            if (storage_quality(stored, stored_at(client, epoch, position, number)) == SAMPLE_BAD)
                return true;
        }
    return false;
}

bool oracle_cannot_continue(const struct client *client, int err) {
    const bool strict = client->group->dataset == DATASET_STRICT;
    return err == -EIO && plan.bad && (strict || attempts_run_out(client));
}

// Errors of a feed that cannot be made or filled.
static bool feed_may_fail(const struct client *client, int err) {
    if (client->device && transfer_fails(client, err))
        return true;
    switch (err) {
    case -EIO:
        return oracle_cannot_continue(client, err) || loaders_fail(client) || cannot_be_read(client) ||
               strstr(feed_strerror(client->feed), "the feed was closed") != NULL;
    case -ENOSPC:
        return plan.scarce || plan.no_memory ||
               (plan.no_growth && (says(client, "more memory than most") || says(client, "no more slots")));
    case -EBUSY:
        return plan.scarce;
    case -EAGAIN:
        return plan.unspawned;
    default:
        return false;
    }
}

void oracle_not_opened(const struct client *client, int err, bool resumed) {
    sim_trace("client %u: feed_open: %d: %s", client->number, err, feed_strerror(client->feed));
    bool expected = feed_may_fail(client, err);
    if (err == -ECONNREFUSED || err == -ESHUTDOWN || err == -ECONNRESET)
        expected = disturbed_within(40 * NS_PER_S);
    else if (err == -ETIMEDOUT)
        expected = true; // found out by the limit of the calm
    else if (err == -ESTALE)
        expected = resumed && is_shared(client);
    if (!expected)
        unexpected(client, "feed_open", err);
}

// It may have been detached.
static bool was_slow(const struct client *client) {
    uint64_t batches = feed_describe(client->feed)->prefetch + 1;
    if (client->device && plan.lies)
        return is_shared(client);
    return is_shared(client) && client->longest_pause_ns * batches >= plan.max_lag_s * NS_PER_S / 2;
}

// Nobody who returns in time is shut out, unless a newcomer was first, and batches begin elsewhere for it: with this
// daemon or an earlier one. Then there are two runs, and the first one to return decides which of them continues.
static bool is_late(const struct client *client) {
    const struct group *group = client->group;
    bool newcomer =
        group->opening || group->fresh_ns >= min_u64(daemon_.started_ns, clients_last_together(group));
    bool elsewhere = group->wandered && strstr(feed_strerror(client->feed), "no batch of the running feed");
    return is_shared(client) &&
           ((newcomer && elsewhere) || sim.now_ns >= daemon_.started_ns + plan.max_lag_s * NS_PER_S);
}

void oracle_failed(struct client *client, int err) {
    sim_trace("client %u: feed_next: %d: %s", client->number, err, feed_strerror(client->feed));
    bool expected = feed_may_fail(client, err);
    if (err == -ETIME)
        expected = was_slow(client);
    else if (err == -EPROTO && strstr(feed_strerror(client->feed), "reused a slot"))
        expected =
            was_slow(client) && plan.socket_bytes; // the reason did not fit into the socket, and was dropped
    else if (err == -ECONNRESET || err == -ESHUTDOWN)
        expected =
            client->group->stays_lost || plan.scarce || plan.no_memory || disturbed_within(RECONNECT_NS);
    else if (err == -ESTALE)
        expected = is_late(client);
    if (!expected)
        unexpected(client, "feed_next", err);
}

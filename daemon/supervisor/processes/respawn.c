#include "daemon/supervisor/processes/respawn.h"

#include "base/sizes.h"

#define DOUBLINGS_MOST 20u // keeps the shift defined; every back-off reaches its most before that

void respawn_init(struct respawn *respawn, const struct respawn_policy *policy, uint64_t now) {
    *respawn = (struct respawn){.policy = policy, .bucket = policy->at_once, .refilled_ns = now};
}

static bool take_from_bucket(struct respawn *respawn, uint64_t now) {
    const struct respawn_policy *policy = respawn->policy;
    if (!policy->at_once)
        return true;
    uint64_t earned = (now - respawn->refilled_ns) / policy->refill_ns;
    respawn->bucket = (uint32_t)min_u64(policy->at_once, respawn->bucket + earned);
    respawn->refilled_ns += earned * policy->refill_ns;
    if (!respawn->bucket)
        return false;
    respawn->bucket--;
    return true;
}

static uint64_t pause_after(struct respawn *respawn, uint64_t now, uint64_t lived_ns) {
    const struct respawn_policy *policy = respawn->policy;
    if (respawn->failures > 1) {
        uint64_t doublings = min_u64(respawn->failures - 2, DOUBLINGS_MOST);
        return min_u64(policy->backoff_first_ns << doublings, policy->backoff_most_ns);
    }
    if (lived_ns < policy->short_life_ns && policy->short_pause_ns)
        return policy->short_pause_ns;
    return take_from_bucket(respawn, now) ? 0 : policy->refill_ns;
}

static void wait_for(struct respawn *respawn, uint64_t now, uint64_t pause_ns) {
    if (pause_ns)
        respawn->wait_until_ns = max_u64(respawn->wait_until_ns, now + pause_ns);
}

static void count_failure(struct respawn *respawn, uint64_t now, uint64_t started_ns) {
    bool same_attempt = respawn->failures && started_ns < respawn->failed_ns;
    if (same_attempt)
        return;
    respawn->failures++;
    respawn->failed_ns = now;
}

void respawn_died(struct respawn *respawn, uint64_t now, uint64_t started_ns, bool worked) {
    uint64_t lived_ns = now - started_ns;
    if (!worked && lived_ns < respawn->policy->start_ns)
        count_failure(respawn, now, started_ns);
    else
        respawn->failures = 0;
    wait_for(respawn, now, pause_after(respawn, now, lived_ns));
}

void respawn_unspawned(struct respawn *respawn, uint64_t now) {
    respawn->failures += respawn->policy->unspawned_counts;
    wait_for(respawn, now, respawn->policy->retry_ns);
}

void respawn_worked(struct respawn *respawn) {
    respawn->failures = 0;
}

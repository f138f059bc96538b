#include "tests/simulate/reference.h"

#include <stddef.h>

#include "base/sizes.h"

#define WORD_A      0xbf58476d1ce4e5b9u
#define WORD_B      0x94d049bb133111ebu
#define ROUNDS      12u
#define GROUPS_MOST 16u // groups of a dataset

static uint64_t splitmix(uint64_t word) {
    word += 0x9e3779b97f4a7c15u;
    word = (word ^ word >> 30) * WORD_A;
    word = (word ^ word >> 27) * WORD_B;
    return word ^ word >> 31;
}

static uint64_t halves(uint64_t left, uint64_t right, uint64_t bits, const uint64_t keys[ROUNDS],
                       uint64_t samples) {
    const uint64_t left_bits = bits / 2, right_bits = bits - bits / 2;
    uint64_t result;
    do {
        for (uint32_t round = 0; round < ROUNDS; round++) {
            uint64_t word = ((round % 2 ? left : right) + keys[round]) * WORD_A;
            word = (word ^ word >> 32) * WORD_B;
            if (round % 2)
                right = (right + (word >> (64 - right_bits))) % (1ull << right_bits);
            else
                left = (left + (word >> (64 - left_bits))) % (1ull << left_bits);
        }
        result = left << right_bits | right;
    } while (result >= samples);
    return result;
}

static uint64_t shuffled(uint64_t samples, uint64_t seed, uint64_t epoch, uint64_t position) {
    uint64_t keys[ROUNDS], bits = 8;
    while (bits < 63 && 1ull << bits < samples)
        bits++;
    for (uint64_t round = 0; round < ROUNDS; round++)
        keys[round] = splitmix(splitmix(splitmix(splitmix(round) ^ seed) ^ epoch) ^ samples);
    return halves(position >> (bits - bits / 2), position % (1ull << (bits - bits / 2)), bits, keys, samples);
}

// A group that the run has samples of: the first of these, as the run numbers them, and how many.
struct part {
    uint64_t first, count;
};

static uint64_t find_parts(const struct reference_run *run, struct part parts[GROUPS_MOST]) {
    const uint64_t begin = run->view.kind == VIEW_RANGE ? run->view.first : 0, end = begin + run->samples;
    uint64_t at = 0, found = 0;
    for (const uint8_t *group = run->view.groups; *group; at += *group++) {
        const uint64_t from = max_u64(at, begin), to = min_u64(at + *group, end);
        if (from < to)
            parts[found++] = (struct part){from - begin, to - from};
    }
    return found;
}

static uint64_t in_windows(const struct reference_run *run, uint64_t epoch, uint64_t position) {
    struct part parts[GROUPS_MOST], visited[GROUPS_MOST];
    const uint64_t groups = find_parts(run, parts), window = run->view.window;
    for (uint64_t i = 0; i < groups; i++)
        visited[i] = parts[shuffled(groups, run->seed, epoch, i)];
    for (uint64_t first = 0; first < groups; first += window) {
        uint64_t samples = 0, place;
        for (uint64_t i = first; i < min_u64(first + window, groups); i++)
            samples += visited[i].count;
        if (position >= samples) {
            position -= samples;
            continue;
        }
        place = shuffled(samples, splitmix(splitmix(run->seed) ^ first / window), epoch, position);
        for (uint64_t i = first;; i++) {
            if (place < visited[i].count)
                return visited[i].first + place;
            place -= visited[i].count;
        }
    }
    return UINT64_MAX;
}

// Few orders are used, again and again.
#define KEPT_ORDERS  64u
#define KEPT_SAMPLES 128u

static struct kept {
    uint64_t samples, seed, epoch, window, first;
    uint8_t order[KEPT_SAMPLES];
} kept[KEPT_ORDERS];

uint64_t reference_sample(const struct reference_run *run, uint64_t epoch, uint64_t position) {
    if (!run->shuffle || run->by_position || run->view.kind == VIEW_DRAWS)
        return position;
    const uint64_t window = run->view.window, first = window ? run->view.first : 0;
    struct kept *order = &kept[(run->samples * 5 + run->seed * 4 + epoch + window * 7 + first) % KEPT_ORDERS];
    if (order->samples != run->samples || order->seed != run->seed || order->epoch != epoch ||
        order->window != window || order->first != first) {
        *order = (struct kept){run->samples, run->seed, epoch, window, first, {0}};
        for (uint64_t i = 0; i < run->samples; i++)
            order->order[i] =
                (uint8_t)(window ? in_windows(run, epoch, i) : shuffled(run->samples, run->seed, epoch, i));
    }
    return order->order[position];
}

// ---- Views -------------------------------------------------------------------------------------------------

// Philox4x32-10 for a use, a seed, an epoch and a position: the lower half of what it makes.
static uint64_t counted(uint64_t use, uint64_t seed, uint64_t epoch, uint64_t position) {
    const uint64_t key = splitmix(splitmix(use) ^ seed);
    uint32_t keys[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    uint32_t word[4] = {(uint32_t)position, (uint32_t)(position >> 32), (uint32_t)epoch,
                        (uint32_t)(epoch >> 32)};
    for (uint32_t round = 0; round < 10; round++) {
        const uint64_t one = 0xd2511f53ull * word[0], other = 0xcd9e8d57ull * word[2];
        word[0] = (uint32_t)(other >> 32) ^ word[1] ^ keys[0];
        word[1] = (uint32_t)other;
        word[2] = (uint32_t)(one >> 32) ^ word[3] ^ keys[1];
        word[3] = (uint32_t)one;
        keys[0] += 0x9e3779b9u;
        keys[1] += 0xbb67ae85u;
    }
    return word[0] | (uint64_t)word[1] << 32;
}

static uint64_t times(uint64_t random, uint64_t count) {
    return (uint64_t)((unsigned __int128)random * count >> 64);
}

uint64_t reference_listed(const struct reference_view *view, uint64_t i) {
    return (7 * i + 3 * view->seed + i / 11) % view->of;
}

uint64_t reference_weight(const struct reference_view *view, uint64_t sample) {
    return (sample + view->seed) % 4;
}

static uint64_t weight_of_all(const struct reference_view *view, uint64_t sample) {
    uint64_t times = view->listed ? 0 : 1;
    for (uint64_t i = 0; i < view->listed; i++)
        times += reference_listed(view, i) == sample;
    return times * reference_weight(view, sample);
}

// Small integers are exact as weights: the shares are their multiples, by the power of two that makes the sum one of 63
// digits.
static uint64_t drawn(const struct reference_view *view, uint64_t random) {
    uint64_t sum = 0, before = 0, unit = 1;
    for (uint64_t i = 0; i < view->of; i++)
        sum += weight_of_all(view, i);
    while (sum * unit < 1ull << 62)
        unit *= 2;
    const uint64_t point = times(random, sum * unit);
    for (uint64_t i = 0; i < view->of; i++) {
        before += weight_of_all(view, i);
        if (point < before * unit)
            return i;
    }
    return UINT64_MAX;
}

// A run that is not shuffled has no seed, unless its view draws.
static uint64_t seed_of(const struct reference_run *run) {
    return run->shuffle || run->view.kind == VIEW_DRAWS ? run->seed : 0;
}

uint64_t reference_stored(const struct reference_run *run, uint64_t epoch, uint64_t number) {
    const struct reference_view *view = &run->view;
    switch (view->kind) {
    case VIEW_RANGE:
        return view->first + number;
    case VIEW_SPLIT:
        return shuffled(view->of, view->seed, UINT64_MAX, view->first + number);
    case VIEW_LIST:
        return reference_listed(view, number);
    case VIEW_DRAWS:
        return drawn(view, counted(1, seed_of(run), epoch, number));
    default:
        return number;
    }
}

uint64_t reference_replacement(const struct reference_run *run, uint64_t epoch, uint64_t position,
                               uint32_t attempt) {
    const uint64_t random = counted(2, splitmix(seed_of(run)) + attempt, epoch, position);
    return reference_stored(run, epoch, times(random, run->samples));
}

// ---- Batches -----------------------------------------------------------------------------------------------

struct reference_batch reference_batch_at(const struct reference_run *run, struct reference_place place) {
    const uint64_t global = run->batch_size * run->world_size;
    const bool dropped = run->drop_last && run->samples - place.consumed < global;
    if (place.consumed >= run->samples || dropped)
        place = (struct reference_place){place.epoch + 1, 0};
    const uint64_t here = min_u64(run->samples - place.consumed, global);
    struct reference_batch batch = {.epoch = place.epoch, .index = place.consumed / global};
    batch.first = place.consumed;
    for (uint64_t rank = 0; rank <= run->rank; rank++) {
        batch.first += batch.count;
        batch.count = here / run->world_size + (rank < here % run->world_size);
    }
    const uint64_t after = place.consumed + here, left = run->samples - after;
    batch.last_of_epoch = run->drop_last ? left < global : left == 0;
    batch.next = batch.last_of_epoch ? (struct reference_place){place.epoch + 1, 0}
                                     : (struct reference_place){place.epoch, after};
    return batch;
}

uint64_t reference_word(uint64_t sample) {
    return splitmix(sample ^ 0x6665656464u);
}

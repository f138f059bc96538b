// Which event of one actor another actor may rely on, by the memory orders that the ring's code asks for, not by those
// of the processor that the test runs on. Each actor has a vector clock; a release stores it with the word, and an
// acquire of that value takes it over. Included by ring_schedule.h, which calls it for every atomic operation.
#ifndef FEEDD_TESTS_UNIT_RING_CLOCKS_H
#define FEEDD_TESTS_UNIT_RING_CLOCKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define ACTORS    3   // 0 is the supervisor, the others are loaders; a loader's number is its owner number
#define WORDS_MAX 256 // shared words of the largest ring that is tested, and room to spare

// What an actor knows of each actor's events: all up to this number. Its own number counts its atomic operations.
struct clock {
    uint32_t of[ACTORS];
};

struct event {
    int actor;
    uint32_t number; // 0: there was none
};

struct word_clock {
    const void *word;
    uint32_t schedule;     // the schedule it belongs to: older ones count as empty
    struct clock released; // what an acquire of the present value takes over
    struct clock read;     // the last read by each actor
};

static struct {
    struct clock actors[ACTORS];
    struct word_clock words[WORDS_MAX];
    uint32_t schedule;
} clocks;

static inline void clocks_reset(void) {
    memset(clocks.actors, 0, sizeof clocks.actors);
    clocks.schedule++;
}

static inline bool is_acquire(memory_order order) {
    return order == memory_order_acquire || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

static inline bool is_release(memory_order order) {
    return order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst;
}

static inline void clock_join(struct clock *clock, const struct clock *other) {
    for (int i = 0; i < ACTORS; i++)
        if (clock->of[i] < other->of[i])
            clock->of[i] = other->of[i];
}

static inline struct word_clock *clock_of(const void *word) {
    for (uintptr_t at = (uintptr_t)word / 4, tried = 0; tried < WORDS_MAX; at++, tried++) {
        struct word_clock *found = &clocks.words[at % WORDS_MAX];
        if (found->schedule != clocks.schedule)
            *found = (struct word_clock){.word = word, .schedule = clocks.schedule};
        if (found->word == word)
            return found;
    }
    fail_msg("more than %d shared words", WORDS_MAX);
    return NULL;
}

// The event that is happening: `actor` is in the middle of an atomic operation, or right after one.
static inline struct event event_now(int actor) {
    return (struct event){actor, clocks.actors[actor].of[actor]};
}

static inline bool event_known(int actor, struct event event) {
    return clocks.actors[actor].of[event.actor] >= event.number;
}

static inline void clock_step(int actor) {
    clocks.actors[actor].of[actor]++;
}

static inline void clock_load(int actor, const void *word, memory_order order) {
    struct word_clock *clock = clock_of(word);
    clock->read.of[actor] = clocks.actors[actor].of[actor];
    if (is_acquire(order))
        clock_join(&clocks.actors[actor], &clock->released);
}

// A plain store ends the release sequence before it; `continues`: the store of a read-modify-write does not.
static inline void clock_store(int actor, const void *word, memory_order order, bool continues) {
    struct word_clock *clock = clock_of(word);
    if (!continues)
        clock->released = (struct clock){0};
    if (is_release(order))
        clock_join(&clock->released, &clocks.actors[actor]);
}

#endif

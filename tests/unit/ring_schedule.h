// A deterministic scheduler for the ring's own code: every atomic operation becomes a step at which another
// actor may go on or this one may be killed, and all such schedules up to a number of preemptions are run.
// Included before the ring's .c files; the actors are coroutines of one thread.
#ifndef FEEDD_TESTS_UNIT_RING_SCHEDULE_H
#define FEEDD_TESTS_UNIT_RING_SCHEDULE_H

#include <linux/futex.h>
#include <sys/syscall.h>
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#include "tests/unit/ring_clocks.h"
#include "tests/unit/ring_fixture.h"

#define STACK_BYTES  (64u * 1024u)
#define STEPS_MOST   5000u
#define CHOICES_MOST 5000u

enum actor_state {
    ACTOR_RUNS,
    ACTOR_SLEEPS, // a loader on the futex
    ACTOR_HEARS,  // the supervisor, on its descriptors
    ACTOR_DEAD,
    ACTOR_ENDED
};

struct actor {
    ucontext_t context;
    enum actor_state state;
    bool begun;
    uint8_t *stack;
    void *fake_stack;
};

struct choice {
    uint16_t taken, options;
};

static struct {
    // What this exploration is allowed.
    uint32_t preemptions_most, crashes_most;
    // The path of choices that is being followed, and how far.
    struct choice path[CHOICES_MOST];
    uint32_t depth, length;
    // The present schedule.
    struct actor actors[ACTORS];
    ucontext_t main;
    const void *main_stack;
    size_t main_bytes;
    void *main_fake_stack;
    int current, next;
    uint32_t steps, preemptions, crashes;
    int buried; // the dead loader that the supervisor has not heard of, or 0
    bool event; // the eventfd
    const char *complaint;
    uint64_t schedules;
    bool clearing; // coroutines that were left in the middle give back what the sanitizer keeps for them
} world;

static void play_actor(int actor);

// ---- Switching --------------------------------------------------------------------------------------------

static void enter(int actor) {
    world.current = actor;
    world.actors[actor].begun = true;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&world.main_fake_stack, world.actors[actor].stack, STACK_BYTES);
#endif
    swapcontext(&world.main, &world.actors[actor].context);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(world.main_fake_stack, NULL, NULL);
#endif
}

static void leave(void) {
    struct actor *actor = &world.actors[world.current];
#ifdef __SANITIZE_ADDRESS__
    bool over = actor->state == ACTOR_DEAD || actor->state == ACTOR_ENDED;
    __sanitizer_start_switch_fiber(over ? NULL : &actor->fake_stack, world.main_stack, world.main_bytes);
#endif
    swapcontext(&actor->context, &world.main);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(actor->fake_stack, NULL, NULL);
    if (world.clearing) {
        __sanitizer_start_switch_fiber(NULL, world.main_stack, world.main_bytes);
        swapcontext(&actor->context, &world.main);
    }
#endif
}

static void block(enum actor_state state) {
    world.actors[world.current].state = state;
    world.next = -1;
    leave();
}

static void begin_actor(void) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(NULL, &world.main_stack, &world.main_bytes);
#endif
    play_actor(world.current);
    block(ACTOR_ENDED);
}

// ---- Choosing ---------------------------------------------------------------------------------------------

static uint32_t choose(uint32_t options) {
    if (options < 2)
        return 0;
    if (world.depth == world.length) {
        assert_true(world.length < CHOICES_MOST);
        world.path[world.length++] = (struct choice){0, (uint16_t)options};
    }
    assert_int_equal(world.path[world.depth].options, options); // else the code is not deterministic
    return world.path[world.depth++].taken;
}

// To the next path in depth-first order; false when all have been followed.
static bool next_path(void) {
    while (world.length) {
        struct choice *last = &world.path[world.length - 1];
        if (++last->taken < last->options)
            return true;
        world.length--;
    }
    return false;
}

static bool can_go_on(int actor) {
    enum actor_state state = world.actors[actor].state;
    return state == ACTOR_RUNS || (state == ACTOR_HEARS && (world.event || world.buried));
}

static void complain(const char *what) {
    if (!world.complaint)
        world.complaint = what;
}

// Before every atomic operation, and wherever else a process may be killed or lose the processor.
static void step(void) {
    clock_step(world.current);
    int others[ACTORS] = {0};
    uint32_t count = 0;
    if (world.complaint || ++world.steps > STEPS_MOST) {
        complain("there is no end to it");
        world.actors[world.current].state = ACTOR_DEAD;
        leave();
    }
    for (int i = 0; i < ACTORS && world.preemptions < world.preemptions_most; i++)
        if (i != world.current && can_go_on(i))
            others[count++] = i;
    bool mortal = world.current != 0 && world.crashes < world.crashes_most;
    uint32_t taken = choose(1 + count + mortal);
    if (taken == 0)
        return;
    world.next = -1;
    if (taken <= count) {
        world.preemptions++;
        world.next = others[taken - 1];
    } else {
        world.crashes++;
        world.actors[world.current].state = ACTOR_DEAD;
        world.buried = world.current;
    }
    leave();
}

static void pick_next(void) {
    int able[ACTORS] = {0};
    uint32_t count = 0;
    if (world.next >= 0)
        return;
    for (int i = 0; i < ACTORS; i++)
        if (can_go_on(i))
            able[count++] = i;
    if (count)
        world.next = able[choose(count)];
}

static void prepare_actor(struct actor *actor) {
    actor->state = ACTOR_RUNS;
    actor->begun = false;
    getcontext(&actor->context);
    actor->context.uc_stack.ss_sp = actor->stack;
    actor->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&actor->context, begin_actor, 0);
}

static void clear_actors(void) {
#ifdef __SANITIZE_ADDRESS__
    world.clearing = true;
    for (int i = 0; i < ACTORS; i++)
        if (world.actors[i].begun && world.actors[i].state != ACTOR_DEAD &&
            world.actors[i].state != ACTOR_ENDED)
            enter(i);
    world.clearing = false;
#endif
}

static void play_schedule(void) {
    while (!world.complaint && world.actors[0].state != ACTOR_ENDED) {
        pick_next();
        if (world.next < 0) {
            complain("everybody sleeps and the work is not done");
            return;
        }
        if (world.actors[world.next].state == ACTOR_HEARS)
            world.actors[world.next].state = ACTOR_RUNS;
        enter(world.next);
    }
}

// One schedule, from the start to the supervisor's end. Nobody able to go on before that is a lost wake-up.
static void run_schedule(void) {
    world.depth = world.steps = world.preemptions = world.crashes = 0;
    world.buried = 0;
    world.event = false;
    world.next = 0;
    clocks_reset();
    for (int i = 0; i < ACTORS; i++)
        prepare_actor(&world.actors[i]);
    play_schedule();
    clear_actors();
    world.schedules++;
}

// ---- The ring's atomic operations -------------------------------------------------------------------------

// Every change of a shared word, and every read of one, passes through here.
static void check_change(void *word, uint64_t from, uint64_t to, memory_order order);
static void check_read(const void *word, memory_order order);

static uint64_t raw_load(const void *word, size_t bytes) {
    return bytes == 4 ? *(const volatile uint32_t *)word : *(const volatile uint64_t *)word;
}

static uint64_t read_word(const void *word, size_t bytes, memory_order order) {
    clock_load(world.current, word, order);
    check_read(word, order);
    return raw_load(word, bytes);
}

static void write_word(void *word, size_t bytes, uint64_t value, memory_order order, bool continues) {
    check_change(word, raw_load(word, bytes), value, order);
    clock_store(world.current, word, order, continues);
    if (bytes == 4)
        *(volatile uint32_t *)word = (uint32_t)value;
    else
        *(volatile uint64_t *)word = value;
}

static uint64_t do_load(const void *word, size_t bytes, memory_order order) {
    step();
    return read_word(word, bytes, order);
}

static void do_store(void *word, size_t bytes, uint64_t value, memory_order order) {
    step();
    write_word(word, bytes, value, order, false);
}

static uint64_t do_exchange(void *word, size_t bytes, uint64_t value, memory_order order) {
    step();
    uint64_t old = read_word(word, bytes, order);
    write_word(word, bytes, value, order, true);
    return old;
}

static uint64_t do_change(void *word, size_t bytes, uint64_t keep, uint64_t set, uint64_t add,
                          memory_order order) {
    step();
    uint64_t old = read_word(word, bytes, order);
    write_word(word, bytes, ((old & keep) | set) + add, order, true);
    return old;
}

static bool do_compare(void *word, size_t bytes, void *expected, uint64_t value, memory_order success,
                       memory_order failure) {
    step();
    uint64_t old = raw_load(word, bytes);
    bool equal = old == raw_load(expected, bytes);
    read_word(word, bytes, equal ? success : failure);
    if (equal)
        write_word(word, bytes, value, success, true);
    memcpy(expected, &old, bytes); // little-endian
    return equal;
}

// The kernel's: looks at the word and falls asleep in one step. Time does not pass, so that only a wake-up
// ends it.
static long do_futex(void *word, int operation, uint32_t value, const void *limit) {
    (void)limit;
    step();
    if (operation == FUTEX_WAIT) {
        if (raw_load(word, 4) == value)
            block(ACTOR_SLEEPS);
        return 0;
    }
    long woken = 0;
    for (int i = 0; i < ACTORS && woken < (long)value; i++)
        if (world.actors[i].state == ACTOR_SLEEPS) {
            world.actors[i].state = ACTOR_RUNS;
            woken++;
        }
    return woken;
}

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_or_explicit
#undef atomic_fetch_and_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#define ANY_WORD(word)                                (void *)(uintptr_t)(word), sizeof *(word)
#define atomic_load_explicit(word, order)             do_load(ANY_WORD(word), order)
#define atomic_store_explicit(word, value, order)     do_store(ANY_WORD(word), value, order)
#define atomic_fetch_add_explicit(word, value, order) do_change(ANY_WORD(word), UINT64_MAX, 0, value, order)
#define atomic_fetch_or_explicit(word, bits, order)   do_change(ANY_WORD(word), UINT64_MAX, bits, 0, order)
#define atomic_fetch_and_explicit(word, bits, order)  do_change(ANY_WORD(word), bits, 0, 0, order)
#define atomic_load(word)                             atomic_load_explicit(word, memory_order_seq_cst)
#define atomic_store(word, value)                     atomic_store_explicit(word, value, memory_order_seq_cst)
#define atomic_exchange(word, value)                  do_exchange(ANY_WORD(word), value, memory_order_seq_cst)
#define atomic_fetch_add(word, value)                 atomic_fetch_add_explicit(word, value, memory_order_seq_cst)
#define atomic_compare_exchange_strong(word, expected, value)                                                \
    do_compare(ANY_WORD(word), expected, value, memory_order_seq_cst, memory_order_seq_cst)
#define atomic_compare_exchange_strong_explicit(word, expected, value, success, failure)                     \
    do_compare(ANY_WORD(word), expected, value, success, failure)
#define syscall(number, word, operation, value, limit, ...)                                                  \
    do_futex(word, operation, (uint32_t)(value), limit)

#endif

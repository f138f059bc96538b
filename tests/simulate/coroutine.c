#include "tests/simulate/coroutine.h"

#include <stdint.h>
#include <stdlib.h>
#include <ucontext.h>

#include "tests/simulate/sim.h"

#define STACK_BYTES (256u << 10)
#define KEPT_MOST   16u

// Stacks that are used again: making one costs page faults.
static void *kept[KEPT_MOST];
static uint32_t kept_count;

// makecontext() makes the stack; after that, jumps are enough, and unlike swapcontext() they need no system call.
static void enter(unsigned high, unsigned low) {
    struct coroutine *coroutine = (struct coroutine *)((uintptr_t)high << 32 | low);
    coroutine->run(coroutine->context);
    coroutine->ended = true;
    _longjmp(coroutine->outside, 1);
}

void coroutine_begin(struct coroutine *coroutine, void (*run)(void *context), void *context) {
    *coroutine = (struct coroutine){.run = run, .context = context};
    coroutine->stack = kept_count ? kept[--kept_count] : malloc(STACK_BYTES);
    SIM_MUST(coroutine->stack);
}

static _Noreturn void begin(struct coroutine *coroutine) {
    ucontext_t context;
    uintptr_t self = (uintptr_t)coroutine;
    coroutine->begun = true;
    SIM_MUST(getcontext(&context) == 0);
    context.uc_stack.ss_sp = coroutine->stack;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, (void (*)(void))enter, 2, (unsigned)(self >> 32), (unsigned)self);
    setcontext(&context);
    sim_violated("a coroutine cannot begin");
}

void coroutine_resume(struct coroutine *coroutine) {
    if (_setjmp(coroutine->outside))
        return;
    if (!coroutine->begun)
        begin(coroutine);
    _longjmp(coroutine->inside, 1);
}

void coroutine_yield(struct coroutine *coroutine) {
    if (!_setjmp(coroutine->inside))
        _longjmp(coroutine->outside, 1);
}

void coroutine_free(struct coroutine *coroutine) {
    if (coroutine->stack && kept_count < KEPT_MOST)
        kept[kept_count++] = coroutine->stack;
    else
        free(coroutine->stack);
    coroutine->stack = NULL;
}

#include "tests/simulate/coroutine.h"

#include <stdint.h>
#include <stdlib.h>

#include "tests/simulate/sim.h"

#define STACK_BYTES (256u << 10)
#define KEPT_MOST   16u

// Stacks that are used again: making one costs page faults.
static void *kept[KEPT_MOST];
static uint32_t kept_count;

#ifdef __SANITIZE_ADDRESS__
#define JUMPS 0
#elif defined(__has_feature)
#define JUMPS !__has_feature(address_sanitizer)
#else
#define JUMPS 1
#endif

// makecontext() makes the stack; after that, jumps are enough, and unlike swapcontext() they need no system call.
static void switch_out(struct coroutine *coroutine) {
    if (!JUMPS)
        swapcontext(&coroutine->inside_context, &coroutine->outside_context);
    else if (!_setjmp(coroutine->inside))
        _longjmp(coroutine->outside, 1);
}

static void enter(unsigned high, unsigned low) {
    struct coroutine *coroutine = (struct coroutine *)((uintptr_t)high << 32 | low);
    coroutine->run(coroutine->context);
    coroutine->ended = true;
    switch_out(coroutine);
    abort(); // nobody resumes one that has ended
}

void coroutines_prepare(void) {
    while (kept_count < KEPT_MOST)
        kept[kept_count++] = malloc(STACK_BYTES);
}

void coroutine_begin(struct coroutine *coroutine, void (*run)(void *context), void *context) {
    *coroutine = (struct coroutine){.run = run, .context = context};
    coroutine->stack = kept_count ? kept[--kept_count] : malloc(STACK_BYTES);
    SIM_MUST(coroutine->stack);
}

static void begin(struct coroutine *coroutine) {
    ucontext_t *context = &coroutine->inside_context;
    uintptr_t self = (uintptr_t)coroutine;
    coroutine->begun = true;
    SIM_MUST(getcontext(context) == 0);
    context->uc_stack.ss_sp = coroutine->stack;
    context->uc_stack.ss_size = STACK_BYTES;
    context->uc_link = NULL;
    makecontext(context, (void (*)(void))enter, 2, (unsigned)(self >> 32), (unsigned)self);
}

void coroutine_resume(struct coroutine *coroutine) {
    bool begun = coroutine->begun;
    if (JUMPS && _setjmp(coroutine->outside))
        return;
    if (!begun)
        begin(coroutine);
    if (JUMPS && begun)
        _longjmp(coroutine->inside, 1);
    swapcontext(&coroutine->outside_context, &coroutine->inside_context);
}

void coroutine_yield(struct coroutine *coroutine) {
    switch_out(coroutine);
}

void coroutine_free(struct coroutine *coroutine) {
    if (coroutine->stack && kept_count < KEPT_MOST)
        kept[kept_count++] = coroutine->stack;
    else
        free(coroutine->stack);
    coroutine->stack = NULL;
}

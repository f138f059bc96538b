// Code that waits in the middle, such as a client in feed_next(), runs on a stack of its own: where it would sleep, it
// yields to the scheduler, which resumes it later.
#ifndef FEEDD_TESTS_SIMULATE_COROUTINE_H
#define FEEDD_TESTS_SIMULATE_COROUTINE_H

#include <setjmp.h>
#include <stdbool.h>
#include <ucontext.h>

struct coroutine {
    jmp_buf inside, outside;
    ucontext_t inside_context,
        outside_context; // with the address sanitizer, which does not take jumps between stacks
    void *stack;
    bool begun;
    void (*run)(void *context);
    void *context;
    bool ended;
};

// It begins with the first coroutine_resume.
void coroutine_begin(struct coroutine *coroutine, void (*run)(void *context), void *context);

// Until it yields or ends.
void coroutine_resume(struct coroutine *coroutine);

// From inside: back to coroutine_resume.
void coroutine_yield(struct coroutine *coroutine);

// Once per process: the stacks that are kept.
void coroutines_prepare(void);

// Of one that has ended.
void coroutine_free(struct coroutine *coroutine);

#endif

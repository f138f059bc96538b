// What the harnesses need from GenMC. They are compiled with the system's headers, like the code that they
// check, and not with GenMC's own.
#ifndef FEEDD_TESTS_MODEL_GENMC_GENMC_H
#define FEEDD_TESTS_MODEL_GENMC_GENMC_H

#include <stddef.h>

int __VERIFIER_thread_create(const void *attributes, void *(*begin)(void *), void *argument);
int __VERIFIER_thread_create_symmetric(const void *attributes, void *(*begin)(void *), void *argument,
                                       long like);
void *__VERIFIER_thread_join(long thread);
_Noreturn void __VERIFIER_thread_exit(void *result);
void __VERIFIER_assume(int condition);
void __VERIFIER_assert_fail(const char *condition, const char *file, int line);

#define CHECK(condition) ((condition) ? (void)0 : __VERIFIER_assert_fail(#condition, __FILE__, __LINE__))

static inline long spawn(void *(*begin)(void *), void *argument) {
    return __VERIFIER_thread_create(NULL, begin, argument);
}

static inline void join(long thread) {
    (void)__VERIFIER_thread_join(thread);
}

#endif

// Included before a loader's code: a thread that sets steps_to_live dies before an atomic operation of it.
#ifndef FEEDD_TESTS_MODEL_GENMC_MORTAL_H
#define FEEDD_TESTS_MODEL_GENMC_MORTAL_H

#include <stdatomic.h>
#include <stdint.h>

#include "tests/model/genmc/genmc.h"

static _Thread_local uint32_t steps_to_live; // 0: it does not die

static inline void step(void) {
    if (steps_to_live && --steps_to_live == 0)
        __VERIFIER_thread_exit(NULL);
}

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_exchange
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_strong_explicit
#define atomic_load(word)                 (step(), __c11_atomic_load(word, __ATOMIC_SEQ_CST))
#define atomic_load_explicit(word, order) (step(), __c11_atomic_load(word, order))
#define atomic_store(word, value)         (step(), __c11_atomic_store(word, value, __ATOMIC_SEQ_CST))
#define atomic_exchange(word, value)      (step(), __c11_atomic_exchange(word, value, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong(word, seen, value)                                                    \
    (step(), __c11_atomic_compare_exchange_strong(word, seen, value, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
#define atomic_compare_exchange_strong_explicit(word, seen, value, order, failed)                            \
    (step(), __c11_atomic_compare_exchange_strong(word, seen, value, order, failed))

#endif

// Resume tokens that clients make up: of a dataset that there is, but of any place, and of a mix with any state.
#ifndef FEEDD_TESTS_FUZZ_SESSION_TOKENS_H
#define FEEDD_TESTS_FUZZ_SESSION_TOKENS_H

#include "order/token.h"
#include "tests/fuzz/supervisor_world.h"

// A run that can be, or nearly.
static inline void make_run(struct mix_run *run) {
    const uint32_t weights[] = {1 + fuzz_byte(&world.input) % 8, 1 + fuzz_byte(&world.input)};
    mix_run_begin(run, weights, 2);
    run->base.drawn[0] = fuzz_number(&world.input);
    run->base.drawn[1] = fuzz_number(&world.input);
    run->base.start = run->base.drawn[0] + run->base.drawn[1];
}

static inline void write_token(const Feedd__Attach *attach, char text[RESUME_TOKEN_BYTES]) {
    size_t i;
    bool found = datasets_find(&world.supervisor, attach->dataset, &i);
    struct resume_token token = {.version = attach->shuffle ? ORDER_FEISTEL_1 : ORDER_SEQUENTIAL,
                                 .fingerprint = found ? world.supervisor.datasets[i]->layout->fingerprint : 0,
                                 .seed = attach->seed,
                                 .epoch = fuzz_number(&world.input),
                                 .consumed = fuzz_number(&world.input)};
    if (found && world.supervisor.datasets[i]->sources && fuzz_byte(&world.input) & 1)
        make_run(&token.mix);
    resume_token_format(&token, text);
}

#endif

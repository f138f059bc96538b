// Mixtures and their cursors, opened without an error.
#ifndef FEEDD_TESTS_UNIT_MIX_FIXTURE_H
#define FEEDD_TESTS_UNIT_MIX_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "order/mix.h"

static inline struct mix *open_mix(const uint32_t *weights, uint32_t sources, uint32_t listed) {
    struct mix *mix = NULL;
    struct error error = {0};
    assert_int_equal(mix_open_listed(weights, sources, listed, &mix, &error), 0);
    return mix;
}

static inline struct mix_cursor *open_cursor(const struct mix *mix, const struct mix_base *base) {
    struct mix_cursor *cursor = NULL;
    struct error error = {0};
    assert_int_equal(mix_cursor_open(mix, base, &cursor, &error), 0);
    return cursor;
}

static inline struct mix_draw draw_at(struct mix_cursor *cursor, uint64_t position) {
    struct mix_draw found;
    mix_draws(cursor, position, 1, &found);
    return found;
}

#endif

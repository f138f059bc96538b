// Compares transforms with their reference.
#ifndef FEEDD_TESTS_UNIT_TRANSFORM_CHECK_H
#define FEEDD_TESTS_UNIT_TRANSFORM_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#include "base/error.h"
#include "base/scope.h"
#include "daemon/loader/stage/transform_kernels.h"
#include "daemon/loader/stage/transform_run.h"
#include "tests/unit/transform_reference.h"

#define GUARD    64u
#define ELEMENTS 6000u

static uint64_t random_state = 11;

static inline uint64_t random_number(void) {
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return random_state >> 33;
}

// Any bits, and often special ones.
static inline void fill(uint8_t *bytes, size_t count) {
    static const uint8_t specials[] = {0x00, 0x80, 0x7f, 0xff, 0x01};
    for (size_t i = 0; i < count; i++)
        bytes[i] =
            (uint8_t)(random_number() % 8 ? random_number() : specials[random_number() % sizeof specials]);
}

static inline bool same(uint32_t dtype, const uint8_t *left, const uint8_t *right) {
    if (dtype < DTYPE_F16 || dtype == DTYPE_F64)
        return memcmp(left, right, dtype_bytes(dtype)) == 0;
    uint32_t a = 0, b = 0;
    memcpy(&a, left, dtype_bytes(dtype));
    memcpy(&b, right, dtype_bytes(dtype));
    uint32_t sign = dtype == DTYPE_F32 ? 0x80000000u : 0x8000u;
    uint32_t infinite = dtype == DTYPE_F32 ? 0x7f800000u : dtype == DTYPE_F16 ? 0x7c00u : 0x7f80u;
    bool no_numbers = (a & (sign - 1)) > infinite && (b & (sign - 1)) > infinite;
    return a == b || no_numbers;
}

static inline struct transform make(const char *text, uint32_t dtype, uint32_t dimensions,
                                    const uint64_t *shape) {
    struct transform transform;
    struct error error = {0};
    if (transform_parse(text, &transform, &error) ||
        transform_fit(&transform, dtype, dimensions, shape, &error))
        fail_msg("%s: %s", text, error.text);
    return transform;
}

static inline void compare(const struct transform *transform, const char *text, const char *set,
                           const uint8_t *got, const uint8_t *wanted, uint64_t elements) {
    size_t bytes = dtype_bytes(transform->target);
    for (uint64_t i = 0; i < elements; i++) {
        uint32_t a = 0, b = 0;
        memcpy(&a, got + i * bytes, bytes < sizeof a ? bytes : sizeof a);
        memcpy(&b, wanted + i * bytes, bytes < sizeof b ? bytes : sizeof b);
        if (!same(transform->target, got + i * bytes, wanted + i * bytes))
            fail_msg("%s of %s with %s: element %lu of %lu is %08x, wanted %08x", text,
                     dtype_name(transform->stored), set, (unsigned long)i, (unsigned long)elements, a, b);
    }
}

static inline void check_guard(const uint8_t *guard) {
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(guard[i], 0x5a);
}

// Every set, from memory apart and in place, at an address of any alignment; nothing beside it is written.
static inline void check(const struct transform *transform, const char *text, uint64_t samples,
                         const uint8_t *stored) {
    uint64_t elements = samples * transform->elements;
    size_t in = elements * dtype_bytes(transform->stored), out = elements * dtype_bytes(transform->target);
    size_t off = random_number() % 8;
    AUTO_FREE uint8_t *wanted = malloc(out);
    AUTO_FREE uint8_t *memory = malloc(off + GUARD + out + GUARD);
    assert_true(wanted && memory);
    for (uint64_t i = 0; i < samples; i++)
        reference_sample(transform, stored + i * (in / samples), wanted + i * (out / samples));
    const struct transform_kernels *kernels;
    for (uint32_t set = 0; (kernels = transform_kernels(set)); set++)
        for (int in_place = 0; in_place < (out >= in && !transform_moves(transform) ? 2 : 1); in_place++) {
            uint8_t *to = memory + off + GUARD;
            const uint8_t *from = stored;
            memset(memory, 0x5a, off + GUARD + out + GUARD);
            if (in_place)
                from = memcpy(to + out - in, stored, in);
            transform_run_with(kernels, transform, from, to, samples);
            compare(transform, text, kernels->name, to, wanted, elements);
            check_guard(to - GUARD);
            check_guard(to + out);
        }
}

static inline uint8_t *stored_values(void) {
    static uint8_t bytes[ELEMENTS * 8 + 8];
    fill(bytes, sizeof bytes);
    return bytes + random_number() % 8;
}

static const uint32_t sources[] = {DTYPE_BOOL, DTYPE_U8,  DTYPE_I8,  DTYPE_U16, DTYPE_I16,
                                   DTYPE_U32,  DTYPE_I32, DTYPE_U64, DTYPE_I64, DTYPE_F16,
                                   DTYPE_BF16, DTYPE_F32, DTYPE_F64};

#endif

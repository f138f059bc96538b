#include "order/mix_weight.h"

#include <errno.h>
#include <string.h>

#include "order/mix.h"

#define QUOTED       40            // characters of a text that a sentence repeats
#define EXPONENT_END 1000000000000 // more than any text has digits

typedef unsigned __int128 wide;

static bool is_digit(char letter) {
    return letter >= '0' && letter <= '9';
}

// digits * 10^exponent, where `digits` are the first ones if `significant` is above MIX_WEIGHT_DIGITS.
struct mantissa {
    uint64_t digits;
    uint64_t significant;
    int64_t exponent;
};

static void append(struct mantissa *mantissa, uint32_t digit) {
    if (mantissa->significant++ < MIX_WEIGHT_DIGITS)
        mantissa->digits = mantissa->digits * 10 + digit;
}

// Zeros count as digits only where another digit stands before and after them.
static bool take_mantissa(const char **at, struct mantissa *mantissa) {
    bool point = false, any = false;
    int64_t zeros = 0;
    for (; is_digit(**at) || (**at == '.' && !point); ++*at) {
        if (**at == '.') {
            point = true;
            continue;
        }
        any = true;
        mantissa->exponent -= point;
        zeros++;
        if (**at == '0')
            continue;
        for (zeros--; zeros && mantissa->significant; zeros--)
            append(mantissa, 0);
        append(mantissa, (uint32_t)(**at - '0'));
        zeros = 0;
    }
    mantissa->exponent += zeros;
    return any;
}

static bool take_exponent(const char **at, int64_t *exponent) {
    if (**at != 'e' && **at != 'E')
        return true;
    ++*at;
    const bool down = **at == '-';
    if (**at == '-' || **at == '+')
        ++*at;
    const bool any = is_digit(**at);
    int64_t value = 0;
    for (; is_digit(**at); ++*at)
        if (value < EXPONENT_END)
            value = value * 10 + (**at - '0');
    *exponent += down ? -value : value;
    return any;
}

int mix_weight_parse(const char *text, struct mix_weight *weight, struct error *error) {
    struct mantissa found = {0};
    const char *at = text;
    if (!take_mantissa(&at, &found) || !take_exponent(&at, &found.exponent) || *at)
        return error_set(error, -EINVAL, "found '%.*s', wanted a positive number such as 3, 0.25 or 1e-3",
                         QUOTED, text);
    if (found.significant == 0)
        return error_set(
            error, -EINVAL,
            "found '%.*s', wanted a number above zero (leave out a source that is not to be drawn)", QUOTED,
            text);
    if (found.significant > MIX_WEIGHT_DIGITS)
        return error_set(error, -ERANGE, "found '%.*s', which has %llu significant digits, wanted at most %u",
                         QUOTED, text, (unsigned long long)found.significant, MIX_WEIGHT_DIGITS);
    if (found.exponent < -MIX_WEIGHT_EXPONENT || found.exponent > MIX_WEIGHT_EXPONENT)
        return error_set(error, -ERANGE, "found '%.*s', wanted a number with an exponent from -%u to %u",
                         QUOTED, text, MIX_WEIGHT_EXPONENT, MIX_WEIGHT_EXPONENT);
    *weight = (struct mix_weight){.digits = found.digits, .exponent = (int32_t)found.exponent};
    return 0;
}

static wide common_factor(wide left, wide right) {
    while (right) {
        const wide rest = left % right;
        left = right;
        right = rest;
    }
    return left;
}

// Weights as whole numbers of the smallest power of ten among them. A number that does not fit is more than 10^20
// times as large as the one with that power, which has at most 18 digits, and so is the sum without a common factor.
static bool widen(const struct mix_weight *weights, uint32_t count, wide *whole) {
    int32_t lowest = weights[0].exponent;
    for (uint32_t i = 1; i < count; i++)
        lowest = weights[i].exponent < lowest ? weights[i].exponent : lowest;
    for (uint32_t i = 0; i < count; i++) {
        whole[i] = weights[i].digits;
        for (int32_t power = weights[i].exponent; power > lowest; power--)
            if (__builtin_mul_overflow(whole[i], (wide)10, &whole[i]))
                return false;
    }
    return true;
}

// Divides by the common factor; false if the total is beyond 64 bits.
static bool reduce(wide *whole, uint32_t count, uint64_t *total) {
    wide factor = whole[0];
    for (uint32_t i = 1; i < count; i++)
        factor = common_factor(factor, whole[i]);
    *total = 0;
    for (uint32_t i = 0; i < count; i++) {
        whole[i] /= factor;
        if (__builtin_add_overflow(*total, whole[i], total))
            return false;
    }
    return true;
}

int mix_weights_scale(const struct mix_weight *weights, uint32_t count, uint32_t *whole,
                      struct error *error) {
    wide numbers[MIX_MAX_SOURCES];
    uint64_t total;
    if (count < 1 || count > MIX_MAX_SOURCES)
        return error_set(error, -EINVAL, "found %u weights in a mix, wanted 1 to %u", count, MIX_MAX_SOURCES);
    if (!widen(weights, count, numbers) || !reduce(numbers, count, &total))
        return error_set(
            error, -ERANGE,
            "found weights whose smallest whole numbers have a total of more than %llu, wanted at "
            "most %u: round them to fewer digits",
            (unsigned long long)UINT64_MAX, MIX_MAX_TOTAL);
    if (total > MIX_MAX_TOTAL)
        return error_set(
            error, -ERANGE,
            "found weights whose smallest whole numbers have a total of %llu, wanted at most %u: "
            "round them to fewer digits",
            (unsigned long long)total, MIX_MAX_TOTAL);
    for (uint32_t i = 0; i < count; i++)
        whole[i] = (uint32_t)numbers[i];
    return 0;
}

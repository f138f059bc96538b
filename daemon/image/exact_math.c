#include "daemon/image/exact_math.h"

#include <math.h>
#include <string.h>

// 2^power, for a normal result.
static double power_of_two(int power) {
    const uint64_t bits = (uint64_t)(power + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

double exact_exp(double x) {
    static const double factorials[] = {1,     1,      2,       6,        24,        120,        720,
                                        5040., 40320., 362880., 3628800., 39916800., 479001600., 6227020800.};
    const double k = rint(x / 0x1.62e42fefa39efp-1); // exact: every machine rounds to nearest
    const double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    double sum = 1 / factorials[13];
    for (int i = 12; i >= 0; i--)
        sum = sum * r + 1 / factorials[i];
    return sum * power_of_two((int)k);
}

double exact_log(double x) {
    int k;
    double m = frexp(x, &k); // exact
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        k--;
    }
    const double s = (m - 1) / (m + 1), z = s * s;
    double sum = 1.0 / 21;
    for (int i = 19; i >= 3; i -= 2)
        sum = sum * z + 1.0 / i;
    return k * LN2_HIGH + (2 * s + (k * LN2_LOW + 2 * s * z * sum));
}

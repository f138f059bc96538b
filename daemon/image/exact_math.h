// Functions whose results have the same bits on every machine, which a libm does not promise of its own. They use
// additions, multiplications and divisions of float64 alone, in the order written, so files that use them must not be
// compiled with contraction. tests/unit/test_image_parameters.c compares them with exact values.
#ifndef FEEDD_DAEMON_IMAGE_EXACT_MATH_H
#define FEEDD_DAEMON_IMAGE_EXACT_MATH_H

#include <stdint.h>

// ln 2 in two parts; the first has 32 bits, so that its products with small whole numbers are exact.
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW  0x1.a39ef35793c76p-33

// e^x, for x from -700 to 700, within 1.5 units in the last place. With k = x / 0x1.62e42fefa39efp-1
// rounded to nearest, ties to even, and r = (x - k * LN2_HIGH) - k * LN2_LOW, it is 2^k times the Taylor polynomial of
// degree 13 at r, by Horner's rule.
double exact_exp(double x);

// ln x, for normal x above 0, within 2.5 units in the last place. With x = 2^k * m, sqrt(1/2) <= m < sqrt(2),
// s = (m - 1) / (m + 1) and z = s * s, it is
//   k * LN2_HIGH + (2 * s + (k * LN2_LOW + 2 * s * z * P(z))),
// where P has the coefficients 1/3, 1/5, ... 1/21, by Horner's rule.
double exact_log(double x);

#endif

#include "daemon/source/build/weight_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/dtype.h"
#include "order/shares.h"

const char *weight_text(uint32_t dtype, uint64_t word, int err, char text[WEIGHT_TEXT]) {
    const uint64_t sign = UINT64_C(1) << (8 * dtype_bytes(dtype) - 1);
    struct weight weight = {0};
    if (err == -EDOM)
        return "nan";
    if (err == -EOVERFLOW)
        return word & sign ? "-inf" : "inf";
    if (dtype <= DTYPE_I64) { // all bits are set above those that the number has
        snprintf(text, WEIGHT_TEXT, "%" PRId64, (int64_t)(word | -sign));
        return text;
    }
    weight_decode(dtype, word & ~sign, &weight);
    double size = (double)weight.digits;
    for (; weight.exponent < 0; weight.exponent++)
        size /= 2;
    for (; weight.exponent > 0; weight.exponent--)
        size *= 2;
    snprintf(text, WEIGHT_TEXT, "-%g", size);
    return text;
}

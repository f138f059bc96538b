#include "base/dtype.h"

#include <string.h>

#include "base/sizes.h"

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [DTYPE_BOOL] = {"bool", 1}, [DTYPE_U8] = {"u8", 1},     [DTYPE_I8] = {"i8", 1},
    [DTYPE_U16] = {"u16", 2},   [DTYPE_I16] = {"i16", 2},   [DTYPE_U32] = {"u32", 4},
    [DTYPE_I32] = {"i32", 4},   [DTYPE_U64] = {"u64", 8},   [DTYPE_I64] = {"i64", 8},
    [DTYPE_F16] = {"f16", 2},   [DTYPE_BF16] = {"bf16", 2}, [DTYPE_F32] = {"f32", 4},
    [DTYPE_F64] = {"f64", 8},   [DTYPE_C64] = {"c64", 8},   [DTYPE_C128] = {"c128", 16},
};

const char dtype_names[] = "bool u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64 c64 c128";

size_t dtype_bytes(uint32_t dtype) {
    return dtype < COUNT_OF(dtypes) ? dtypes[dtype].bytes : 0;
}

const char *dtype_name(uint32_t dtype) {
    return dtype < COUNT_OF(dtypes) && dtypes[dtype].name ? dtypes[dtype].name : "?";
}

uint32_t dtype_parse(const char *name) {
    for (uint32_t dtype = 0; dtype < COUNT_OF(dtypes); dtype++)
        if (dtypes[dtype].name && strcmp(dtypes[dtype].name, name) == 0)
            return dtype;
    return 0;
}

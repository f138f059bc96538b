#include "base/dtype.h"

#include <string.h>
#include <strings.h>

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

const char *dtype_nearest(const char *name) {
    static const struct {
        const char *other;
        uint32_t dtype;
    } names[] = {
        {"uint8", DTYPE_U8},     {"byte", DTYPE_U8},       {"uchar", DTYPE_U8},
        {"int8", DTYPE_I8},      {"uint16", DTYPE_U16},    {"ushort", DTYPE_U16},
        {"int16", DTYPE_I16},    {"short", DTYPE_I16},     {"uint32", DTYPE_U32},
        {"uint", DTYPE_U32},     {"int32", DTYPE_I32},     {"int", DTYPE_I32},
        {"uint64", DTYPE_U64},   {"int64", DTYPE_I64},     {"long", DTYPE_I64},
        {"float16", DTYPE_F16},  {"half", DTYPE_F16},      {"bfloat16", DTYPE_BF16},
        {"float32", DTYPE_F32},  {"float", DTYPE_F32},     {"float64", DTYPE_F64},
        {"double", DTYPE_F64},   {"complex64", DTYPE_C64}, {"complex128", DTYPE_C128},
        {"boolean", DTYPE_BOOL},
    };
    const char *dot = strrchr(name, '.'), *word = dot ? dot + 1 : name;
    size_t length = strlen(word);
    if (length > 2 && strcmp(word + length - 2, "_t") == 0)
        length -= 2;
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strlen(names[i].other) == length && strncasecmp(names[i].other, word, length) == 0)
            return dtypes[names[i].dtype].name;
    for (size_t i = 0; i < COUNT_OF(dtypes); i++)
        if (dtypes[i].name && strlen(dtypes[i].name) == length &&
            strncasecmp(dtypes[i].name, word, length) == 0)
            return dtypes[i].name;
    return NULL;
}

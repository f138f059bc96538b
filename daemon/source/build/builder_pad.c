#include "daemon/source/build/builder_pad.h"

#include <inttypes.h>
#include <string.h>

#include "base/dtype.h"
#include "base/repeat.h"
#include "daemon/source/build/text_value.h"

static bool parse_value(const char *text, uint32_t dtype, uint64_t *pad) {
    if (!text_value_takes(dtype)) {
        *pad = 0;
        return strcmp(text, "0") == 0;
    }
    bool good = text_value(text, strlen(text), dtype, pad);
    *pad = repeat_pattern(*pad, dtype_bytes(dtype));
    return good;
}

// "LENGTH" or "LENGTH VALUE".
static bool parse(const char *text, uint32_t dtype, uint64_t *length, uint64_t *pad) {
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *length = strtoull(text, &end, 10);
    if (*length == 0 || *length > BUILDER_MAX_SAMPLE_BYTES / dtype_bytes(dtype) || errno)
        return false;
    *pad = 0;
    const char *rest = end + strspn(end, " \t");
    if (*rest == '\0')
        return *end == '\0';
    return rest != end && parse_value(rest, dtype, pad);
}

int builder_pad(struct builder *builder, const char *field, uint32_t dtype, uint64_t *length, uint64_t *pad) {
    const struct dataset_config *config = builder->config;
    for (size_t i = 0; i < config->pad_count; i++) {
        if (strcmp(config->pads[i].name, field) != 0)
            continue;
        if (parse(config->pads[i].value, dtype, length, pad))
            return 0;
        builder->pad = &config->pads[i];
        return builder_refuse(builder, -EINVAL, NULL,
                              "found \"%s\", wanted a LENGTH from 1 to %" PRIu64
                              " and, if not 0, a VALUE of type %s",
                              config->pads[i].value, (uint64_t)BUILDER_MAX_SAMPLE_BYTES / dtype_bytes(dtype),
                              dtype_name(dtype));
    }
    *length = 0;
    return 0;
}

int builder_check_pads(struct builder *builder, const char *const *ragged, uint32_t count) {
    const struct dataset_config *config = builder->config;
    for (size_t i = 0; i < config->pad_count; i++) {
        uint32_t k = 0;
        while (k < count && strcmp(ragged[k], config->pads[i].name) != 0)
            k++;
        if (k < count)
            continue;
        builder->pad = &config->pads[i];
        return builder_refuse(builder, -EINVAL, NULL,
                              "found no field of that name with samples of different lengths");
    }
    return 0;
}

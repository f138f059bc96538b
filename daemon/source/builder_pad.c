#include "daemon/source/builder_pad.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

// "LENGTH" or "LENGTH VALUE".
static bool parse(const char *text, uint64_t *length, uint32_t *value) {
    char *end;
    errno = 0;
    if (*text < '0' || *text > '9')
        return false;
    *length = strtoull(text, &end, 10);
    if (*length == 0 || *length > BUILDER_MAX_SAMPLE_BYTES || errno)
        return false;
    *value = 0;
    const char *rest = end + strspn(end, " \t");
    if (*rest == '\0')
        return *end == '\0';
    unsigned long number = *rest >= '0' && *rest <= '9' && rest != end ? strtoul(rest, &end, 10) : ULONG_MAX;
    *value = (uint32_t)number;
    return number <= UINT8_MAX && *end == '\0';
}

int builder_pad(struct builder *builder, const char *field, uint64_t *length, uint32_t *value) {
    const struct dataset_config *config = builder->config;
    for (size_t i = 0; i < config->pad_count; i++) {
        if (strcmp(config->pads[i].name, field) != 0)
            continue;
        if (parse(config->pads[i].value, length, value))
            return 0;
        builder->pad = &config->pads[i];
        return builder_refuse(builder, -EINVAL, NULL,
                              "found \"%s\", wanted a LENGTH from 1 to %" PRIu64
                              " bytes and, if not 0, a VALUE up to 255",
                              config->pads[i].value, (uint64_t)BUILDER_MAX_SAMPLE_BYTES);
    }
    return builder_refuse(
        builder, -EINVAL, NULL,
        "found samples of different lengths and no pad.%s, wanted one, such as pad.%s = 65536", field, field);
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

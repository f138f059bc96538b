#include "daemon/config/config_options.h"

#include <inttypes.h>
#include <string.h>

#include "base/names.h"
#include "base/sizes.h"
#include "daemon/config/config_values.h"

#define MEMBER(type, member) offsetof(struct type, member), sizeof(((struct type *)NULL)->member)

const struct config_option config_options[CONFIG_OPTIONS] = {
#define FEEDD_OPTION(key, type, member, min, max, default_text, unit, text)                                  \
    {SECTION_FEEDD, OPTION_##type, #key, MEMBER(config, member), min, max, default_text, unit, "", text},
#define DATASET_OPTION(key, type, member, min, max, default_text, unit, formats, text)                       \
    {SECTION_DATASET, OPTION_##type, #key, MEMBER(dataset_config, member), min, max, default_text, unit,     \
     formats,         text},
#define VIEW_OPTION(key, type, member, min, max, default_text, unit, text)                                   \
    {SECTION_VIEW, OPTION_##type, #key, MEMBER(dataset_config, member), min, max, default_text, unit,        \
     "",           text},
#define MIX_OPTION(key, type, member, min, max, default_text, unit, text)                                    \
    {SECTION_MIX, OPTION_##type, #key, MEMBER(dataset_config, member), min, max, default_text, unit,         \
     "",          text},
#include "daemon/config/options.def"
};

const char *section_title(enum config_section section) {
    static const char *const titles[CONFIG_SECTIONS] = {"no section", "[feedd]", "[dataset NAME]",
                                                        "[view NAME]", "[mix NAME]"};
    return titles[section];
}

const struct config_option *option_find(enum config_section section, const char *key) {
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        if (option->section == section && option->type != OPTION_FIELDS && strcmp(option->key, key) == 0)
            return option;
    }
    return NULL;
}

const struct config_option *option_find_named(enum config_section section, const char *key,
                                              const char **name) {
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        size_t prefix = strcspn(option->key, ".") + 1;
        if (option->section != section || option->type != OPTION_FIELDS ||
            strncmp(key, option->key, prefix) != 0)
            continue;
        *name = key + prefix;
        return option;
    }
    return NULL;
}

struct config_field **option_list(const struct config_option *option, struct dataset_config *dataset,
                                  size_t **count) {
    if (option->offset == offsetof(struct dataset_config, fields)) {
        *count = &dataset->field_count;
        return &dataset->fields;
    }
    if (option->offset == offsetof(struct dataset_config, pads)) {
        *count = &dataset->pad_count;
        return &dataset->pads;
    }
    if (option->offset == offsetof(struct dataset_config, sources)) {
        *count = &dataset->source_count;
        return &dataset->sources;
    }
    *count = &dataset->transform_count;
    return &dataset->transforms;
}

const struct config_option *option_nearest(enum config_section section, const char *key) {
    const char *keys[CONFIG_OPTIONS] = {0};
    for (size_t i = 0; i < CONFIG_OPTIONS; i++)
        if (config_options[i].section == section && config_options[i].type != OPTION_FIELDS)
            keys[i] = config_options[i].key;
    const char *nearest = name_nearest(key, keys, CONFIG_OPTIONS);
    return nearest ? option_find(section, nearest) : NULL;
}

bool option_has_default(const struct config_option *option) {
    return option->default_text[0] != '(';
}

bool option_is_required(const struct config_option *option) {
    return strcmp(option->default_text, "(required)") == 0;
}

bool option_fits_format(const struct config_option *option, const char *format) {
    size_t length = strlen(format);
    if (option->formats[0] == '\0')
        return true;
    for (const char *at = option->formats; *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == length && memcmp(at, format, length) == 0)
            return true;
        at += word;
    }
    return false;
}

static bool has_choices(const struct config_option *option) {
    return strchr(option->unit, '|') != NULL;
}

static int store_string(const struct config_option *option, char **member, const char *text) {
    uint64_t place;
    size_t length = strlen(text);
    if (length < option->min || length > option->max)
        return -EINVAL;
    if (has_choices(option) && !value_parse_choice(text, option->unit, &place))
        return -EINVAL;
    free(*member);
    *member = strdup(text);
    return *member ? 0 : -ENOMEM;
}

static bool parse_number(const struct config_option *option, const char *text, uint64_t *value) {
    bool yes = false;
    switch (option->type) {
    case OPTION_INTEGER:
    case OPTION_INTEGER_OR_AUTO:
        return value_parse_integer(text, value);
    case OPTION_SIZE:
        return value_parse_size(text, value);
    case OPTION_DURATION:
        return value_parse_duration(text, value);
    case OPTION_MODE:
        return value_parse_mode(text, value);
    case OPTION_ENUM:
        return value_parse_choice(text, option->unit, value);
    case OPTION_BOOL:
        if (!value_parse_bool(text, &yes))
            return false;
        *value = yes;
        return true;
    default:
        return false;
    }
}

int option_store(const struct config_option *option, void *base, const char *text) {
    char *member = (char *)base + option->offset;
    if (option->type == OPTION_STRING)
        return store_string(option, (char **)(void *)member, text);
    uint64_t value = 0;
    const bool automatic = option->type == OPTION_INTEGER_OR_AUTO && strcmp(text, "auto") == 0;
    if (!automatic && !parse_number(option, text, &value))
        return -EINVAL;
    bool ranged = option->type != OPTION_ENUM && option->type != OPTION_BOOL && !automatic;
    if (ranged && (value < option->min || value > option->max))
        return -EINVAL;
    if (option->bytes == sizeof(uint64_t))
        memcpy(member, &value, sizeof value);
    else if (option->bytes == sizeof(uint32_t))
        memcpy(member, &(uint32_t){(uint32_t)value}, sizeof(uint32_t));
    else
        memcpy(member, &(bool){value != 0}, sizeof(bool));
    return 0;
}

int option_store_defaults(enum config_section section, void *base) {
    int err = 0;
    for (size_t i = 0; i < CONFIG_OPTIONS && !err; i++) {
        const struct config_option *option = &config_options[i];
        if (option->section == section && option_has_default(option))
            err = option_store(option, base, option->default_text);
    }
    return err;
}

#define CHOICES 16 // the most that any option has

const char *option_nearest_choice(const struct config_option *option, const char *value,
                                  char choice[NAME_LENGTH_MAX + 1]) {
    static const char *const others[][2] = {
        {"webdataset", "tar"}, {"imagefolder", "folder"}, {"mnist", "idx"}, {"numpy", "npy"}};
    char names[CHOICES][NAME_LENGTH_MAX + 1];
    const char *list[CHOICES];
    size_t count = 0;
    for (size_t i = 0; i < COUNT_OF(others) && option == &config_options[DATASET_format]; i++)
        if (strcasecmp(value, others[i][0]) == 0)
            return others[i][1];
    for (const char *at = option->unit; has_choices(option) && *at && count < CHOICES; count++) {
        size_t length = strcspn(at, "|");
        snprintf(names[count], sizeof names[count], "%.*s", (int)length, at);
        list[count] = names[count];
        at += length + (at[length] == '|');
    }
    const char *nearest = name_nearest(value, list, count);
    if (!nearest)
        return NULL;
    snprintf(choice, NAME_LENGTH_MAX + 1, "%s", nearest);
    return choice;
}

const char *option_choices(const char *choices, char *text, size_t bytes) {
    size_t used = 0;
    for (const char *at = choices; *at && used + 3 < bytes; at++) {
        text[used++] = (char)(*at == '|' ? ',' : *at);
        if (*at == '|')
            text[used++] = ' ';
    }
    text[used] = '\0';
    return text;
}

const char *option_describe(const struct config_option *option, char text[DESCRIPTION_TEXT]) {
    char least[VALUE_TEXT], most[VALUE_TEXT], choices[128];
    switch (option->type) {
    case OPTION_INTEGER:
    case OPTION_INTEGER_OR_AUTO:
        snprintf(text, DESCRIPTION_TEXT, "%sa whole number%s%s from %" PRIu64 " to %" PRIu64,
                 option->type == OPTION_INTEGER ? "" : "auto or ", *option->unit ? " of " : "", option->unit,
                 option->min, option->max);
        break;
    case OPTION_SIZE:
        snprintf(text, DESCRIPTION_TEXT, "a size from %s to %s: a whole number with K, M, G or T",
                 value_format_size(option->min, least), value_format_size(option->max, most));
        break;
    case OPTION_DURATION:
        snprintf(text, DESCRIPTION_TEXT,
                 "a time from %" PRIu64 " to %" PRIu64 " seconds: a whole number with s, m or h", option->min,
                 option->max);
        break;
    case OPTION_MODE:
        snprintf(text, DESCRIPTION_TEXT, "octal permissions from 000 to %04" PRIo64, option->max);
        break;
    case OPTION_BOOL:
        snprintf(text, DESCRIPTION_TEXT, "yes or no");
        break;
    case OPTION_ENUM:
        snprintf(text, DESCRIPTION_TEXT, "one of %s", option_choices(option->unit, choices, sizeof choices));
        break;
    case OPTION_STRING:
        if (has_choices(option))
            snprintf(text, DESCRIPTION_TEXT, "one of %s",
                     option_choices(option->unit, choices, sizeof choices));
        else
            snprintf(text, DESCRIPTION_TEXT, "a %s of %" PRIu64 " to %" PRIu64 " bytes", option->unit,
                     option->min, option->max);
        break;
    case OPTION_FIELDS:
        snprintf(text, DESCRIPTION_TEXT, "a %s", option->unit);
        break;
    }
    return text;
}

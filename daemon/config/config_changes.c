#include "daemon/config/config_changes.h"

#include <inttypes.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/config/config_options.h"
#include "daemon/config/config_values.h"

static const char *value_text(const struct config_option *option, const void *base, char *text,
                              size_t bytes) {
    const char *member = (const char *)base + option->offset;
    uint64_t value = 0;
    if (option->type == OPTION_STRING) {
        const char *string = *(const char *const *)(const void *)member;
        return string ? string : "(unset)";
    }
    memcpy(&value, member, option->bytes); // little-endian: a shorter member is the lowest bytes
    switch (option->type) {
    case OPTION_BOOL:
        return value ? "yes" : "no";
    case OPTION_ENUM:
        return value_choice_name(option->unit, value, text, bytes);
    case OPTION_SIZE:
        return value_format_size(value, text);
    case OPTION_MODE:
        snprintf(text, bytes, "%04" PRIo64, value);
        return text;
    case OPTION_DURATION:
        snprintf(text, bytes, "%" PRIu64 "s", value);
        return text;
    case OPTION_INTEGER_OR_AUTO:
        if (value == 0)
            return "auto";
        snprintf(text, bytes, "%" PRIu64, value);
        return text;
    default:
        snprintf(text, bytes, "%" PRIu64, value);
        return text;
    }
}

// ---- Options of the daemon -----------------------------------------------------------------------------------

// The socket is made once, when the daemon starts, and what a process has given up then, it cannot get back.
static bool needs_restart(size_t option) {
    return option == FEEDD_socket || option == FEEDD_socket_group || option == FEEDD_socket_mode ||
           option == FEEDD_confine;
}

static void describe_option(struct change_lines *lines, size_t index, const struct config *old,
                            const struct config *new, bool restart) {
    const struct config_option *option = &config_options[index];
    char before[VALUE_TEXT], after[VALUE_TEXT];
    const char *was = value_text(option, old, before, sizeof before);
    const char *is = value_text(option, new, after, sizeof after);
    if (strcmp(was, is) == 0)
        return;
    if (restart)
        change_lines_add(lines, CONFIG_CHANGES_WARNING "%s = %s (was %s) takes effect after a restart",
                         option->key, is, was);
    else
        change_lines_add(lines, "%s = %s (was %s)", option->key, is, was);
}

static void describe_options(struct change_lines *lines, const struct config *old, const struct config *new,
                             bool restart) {
    for (size_t i = 0; i < CONFIG_OPTIONS; i++)
        if (config_options[i].section == SECTION_FEEDD && i != FEEDD_socket && needs_restart(i) == restart)
            describe_option(lines, i, old, new, restart);
}

// ---- Datasets ------------------------------------------------------------------------------------------------

static bool same_fields(const struct config_field *left, size_t left_count, const struct config_field *right,
                        size_t right_count) {
    if (left_count != right_count)
        return false;
    for (size_t i = 0; i < left_count; i++)
        if (strcmp(left[i].name, right[i].name) != 0 || strcmp(left[i].value, right[i].value) != 0)
            return false;
    return true;
}

static bool is_about_access(size_t option) {
    return option == DATASET_allow_users || option == DATASET_allow_groups;
}

// The first option in which they differ, of those that are about access or of the others; or NULL.
static const char *find_option(const struct dataset_config *old, const struct dataset_config *new,
                               bool about_access) {
    char before[VALUE_TEXT], after[VALUE_TEXT];
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        if (option->section < SECTION_DATASET || option->type == OPTION_FIELDS ||
            is_about_access(i) != about_access)
            continue;
        if (strcmp(value_text(option, old, before, sizeof before),
                   value_text(option, new, after, sizeof after)) != 0)
            return option->key;
    }
    return NULL;
}

static const char *find_difference(const struct dataset_config *old, const struct dataset_config *new) {
    const char *option = find_option(old, new, false);
    if (!option && old->split != new->split)
        option = config_options[VIEW_split_seed].key; // none and 0 are two things
    if (option)
        return option;
    if (!same_fields(old->fields, old->field_count, new->fields, new->field_count))
        return "fields";
    if (!same_fields(old->transforms, old->transform_count, new->transforms, new->transform_count))
        return "transforms";
    if (!same_fields(old->pads, old->pad_count, new->pads, new->pad_count))
        return "pads";
    if (!same_fields(old->sources, old->source_count, new->sources, new->source_count))
        return "sources";
    return NULL;
}

static void describe_datasets(struct change_lines *lines, const struct config *old,
                              const struct config *new) {
    for (size_t i = 0; i < new->dataset_count; i++) {
        const struct dataset_config *dataset = &new->datasets[i],
                                    *before = config_find_dataset(old, dataset->name);
        const char *difference = before ? find_difference(before, dataset) : NULL;
        const char *access = before ? find_option(before, dataset, true) : NULL;
        if (!before)
            change_lines_add(lines, "%s %s: added", config_kind(dataset), dataset->name);
        else if (difference)
            change_lines_add(lines, "%s %s: changed (%s); feeds in use keep the old version",
                             config_kind(dataset), dataset->name, difference);
        if (access)
            change_lines_add(lines, "%s %s: changed (%s); consumers that are attached stay",
                             config_kind(dataset), dataset->name, access);
    }
    for (size_t i = 0; i < old->dataset_count; i++)
        if (!config_find_dataset(new, old->datasets[i].name))
            change_lines_add(lines, "%s %s: removed; feeds in use continue", config_kind(&old->datasets[i]),
                             old->datasets[i].name);
}

void config_describe_changes(const struct config *old, const struct config *new, const char *listening_on,
                             struct change_lines *lines) {
    if (strcmp(new->socket, listening_on) != 0)
        change_lines_add(
            lines, CONFIG_CHANGES_WARNING "socket = %s takes effect after a restart; still listening on %s",
            new->socket, listening_on);
    describe_options(lines, old, new, true);
    describe_options(lines, old, new, false);
    describe_datasets(lines, old, new);
}

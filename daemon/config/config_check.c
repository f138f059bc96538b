#include "daemon/config/config_check.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sentence.h"
#include "base/sizes.h"
#include "daemon/config/config_mix.h"
#include "daemon/config/config_values.h"
#include "daemon/config/config_view.h"
#include "daemon/io_mode.h"

#define CHECK_KEY 64

int config_refuse(struct error *error, const char *file, uint32_t line, const struct dataset_config *dataset,
                  const char *key, const char *format, ...) {
    char sentence[sizeof error->text];
    va_list arguments;
    va_start(arguments, format);
    sentence_format(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return error_set(error, -EINVAL, "%s:%u: [%s%s%s]%s%s: %s", file, line,
                     dataset ? config_kind(dataset) : "feedd", dataset ? " " : "",
                     dataset ? dataset->name : "", key ? " " : "", key ? key : "", sentence);
}

// The line of the option, 0 if it is absent. `key` is the key on that line: the first of several names.
static uint32_t find_line(const struct config_option *option, struct dataset_config *dataset,
                          const struct config_lines *lines, char key[CHECK_KEY]) {
    snprintf(key, CHECK_KEY, "%s", option->key);
    if (option->type != OPTION_FIELDS)
        return lines->option[option - config_options];
    size_t *count;
    struct config_field **fields = option_list(option, dataset, &count);
    if (*count == 0)
        return 0;
    snprintf(key, CHECK_KEY, "%.*s.%s", (int)strcspn(option->key, "."), option->key, (*fields)->name);
    return (*fields)->line;
}

// What to do about an option that the format does not have; "" where that is obvious.
static const char *advice_on(const struct config_option *option, const char *format) {
    if (option == &config_options[DATASET_path])
        return "; its files are those of its fields: field.NAME = FILES";
    if (option != &config_options[DATASET_pack] && option != &config_options[DATASET_cu_seqlens])
        return "";
    if (strcmp(format, "packed") == 0)
        return "; set it in the dataset that feedctl pack reads, and make the shards again";
    return "; write the documents to flat files of tokens, with offsets";
}

// How fields of this format are declared; the description of OPTION_FIELDS covers all formats.
static const char *describe_fields(const char *format) {
    static const struct {
        const char *format, *wanted;
    } all[] = {
        {"idx", "a path or glob pattern for each field"},
        {"npy", "a path or glob pattern for each field"},
        {"records", "DTYPE[SHAPE] @ OFFSET for each field, such as field.image = u8[3,32,32] @ 2"},
        {"tar", "TYPE @ EXTENSION for each field, such as field.image = bytes @ jpg|jpeg or field.cls = i64"},
        {"arrow",
         "TYPE @ COLUMN for each field, such as field.text = bytes or field.image = bytes @ image.bytes"},
        {"parquet",
         "TYPE @ COLUMN for each field, such as field.text = bytes or field.image = bytes @ image.bytes"},
        {"folder",
         "TYPE @ SOURCE for each field, such as field.image = bytes @ file or field.label = i64 @ class"},
    };
    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (strcmp(format, all[i].format) == 0)
            return all[i].wanted;
    return NULL;
}

static int check_option(const struct config_option *option, struct dataset_config *dataset,
                        const struct config_lines *lines, struct error *error) {
    char wanted[DESCRIPTION_TEXT], key[CHECK_KEY];
    uint32_t line = find_line(option, dataset, lines, key);
    bool given = line != 0;
    bool fits = option_fits_format(option, dataset->format);
    if (given && !fits)
        return config_refuse(error, dataset->file, line, dataset, key,
                             "found in a dataset of format %s, wanted with format %s only%s", dataset->format,
                             option->formats, advice_on(option, dataset->format));
    const char *fields = option->type == OPTION_FIELDS ? describe_fields(dataset->format) : NULL;
    if (!given && fits && option_is_required(option))
        return config_refuse(error, dataset->file, lines->section, dataset, option->key,
                             "found nothing, wanted %s, because format %s needs it",
                             fields ? fields : option_describe(option, wanted), dataset->format);
    return 0;
}

// Settings that exclude each other are refused; none of them silently loses.
static int check_reading(const struct dataset_config *dataset, const struct config_lines *lines,
                         struct error *error) {
    if (dataset->io_direct && dataset->io == IO_MAPPED)
        return config_refuse(error, dataset->file, lines->option[DATASET_io_direct], dataset, "io_direct",
                             "found \"yes\" with io = mapped, wanted io = uring, pread or auto, because a map"
                             " reads through the page cache");
    if (dataset->io_delay_us && (dataset->io == IO_MAPPED || dataset->io == IO_PREAD))
        return config_refuse(
            error, dataset->file, lines->option[DATASET_io_delay_us], dataset, "io_delay_us",
            "found with io = %s, wanted io = uring or auto, because only io_uring can add the delay",
            io_mode_name(dataset->io));
    return 0;
}

// What says where samples begin and end: one of two settings, of which one has others that go with it.
static int check_lengths(const struct dataset_config *dataset, const struct config_lines *lines,
                         struct error *error) {
    const size_t fixed = strcmp(dataset->format, "tokens") == 0 ? DATASET_length : DATASET_record_bytes;
    const struct config_option *option = &config_options[fixed];
    char wanted[DESCRIPTION_TEXT];
    if (!option_fits_format(option, dataset->format))
        return 0;
    if (dataset->offsets && lines->option[fixed])
        return config_refuse(error, dataset->file, lines->option[fixed], dataset, option->key,
                             "found together with offsets, wanted one of them");
    if (!dataset->offsets && dataset->pack)
        return config_refuse(error, dataset->file, lines->option[DATASET_pack], dataset, "pack",
                             "found without offsets, which say where documents begin; for windows over tokens"
                             " that are not in documents, set length%s",
                             fixed == DATASET_length ? "" : ", in format tokens");
    if (!dataset->offsets && !lines->option[fixed])
        return config_refuse(error, dataset->file, lines->section, dataset, option->key,
                             "found nothing, wanted %s, because format %s needs it or offsets",
                             option_describe(option, wanted), dataset->format);
    return 0;
}

static int check_windows(const struct dataset_config *dataset, const struct config_lines *lines,
                         struct error *error) {
    if (!dataset->cu_seqlens || dataset->pack)
        return 0;
    return config_refuse(
        error, dataset->file, lines->option[DATASET_cu_seqlens], dataset, "cu_seqlens",
        "found \"yes\" without pack, wanted both: it describes the windows of packed documents");
}

static int resolve(enum allow_kind kind, const char *text, struct allow_list *list,
                   const struct dataset_config *dataset, uint32_t line, const char *key,
                   struct error *error) {
    struct error cause = {0}, refusal = {0};
    int err = text ? allow_list_resolve(kind, text, list, &cause) : 0;
    if (!err)
        return 0;
    config_refuse(&refusal, dataset->file, line, dataset, key, "%s", cause.text);
    return error_set(error, err, "%s", refusal.text);
}

static int check_access(struct dataset_config *dataset, const struct config_lines *lines,
                        struct error *error) {
    int err = resolve(ALLOW_USERS, dataset->allow_users, &dataset->users, dataset,
                      lines->option[DATASET_allow_users], "allow_users", error);
    return err ? err
               : resolve(ALLOW_GROUPS, dataset->allow_groups, &dataset->groups, dataset,
                         lines->option[DATASET_allow_groups], "allow_groups", error);
}

// What is kept in memory; half of the machine's is not known here. With cache = 0, the other settings may stay.
static int check_cache(const struct config *config, const struct dataset_config *dataset,
                       const struct config_lines *lines, struct error *error) {
    static const size_t others[] = {DATASET_cache_size, DATASET_cache_path};
    char found[VALUE_TEXT], most[VALUE_TEXT];
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (lines->option[others[i]] && !lines->option[DATASET_cache])
            return config_refuse(error, dataset->file, lines->option[others[i]], dataset,
                                 config_options[others[i]].key,
                                 "found without cache, wanted both: cache = SIZE keeps decoded images");
    if (!config->cache_memory || dataset->cache_path || dataset->cache <= config->cache_memory)
        return 0;
    return config_refuse(error, dataset->file, lines->option[DATASET_cache], dataset, "cache",
                         "found \"%s\", wanted at most cache_memory, which is %s, or a cache_path",
                         value_format_size(dataset->cache, found),
                         value_format_size(config->cache_memory, most));
}

// A folder whose fields are not declared is one of images in classes.
static int add_fields(struct dataset_config *dataset, const struct config_lines *lines) {
    static const struct {
        const char *name, *value;
    } fields[] = {{"image", "bytes @ file"}, {"label", "i64 @ class"}};
    if (strcmp(dataset->format, "folder") != 0 || dataset->csv || dataset->field_count)
        return 0;
    dataset->fields = calloc(COUNT_OF(fields), sizeof *dataset->fields);
    for (size_t i = 0; dataset->fields && i < COUNT_OF(fields); i++) {
        struct config_field *field = &dataset->fields[dataset->field_count++];
        *field = (struct config_field){strdup(fields[i].name), strdup(fields[i].value), lines->section};
        if (!field->name || !field->value)
            return -ENOMEM;
    }
    return dataset->fields ? 0 : -ENOMEM;
}

static int check_dataset(const struct config *config, struct dataset_config *dataset,
                         const struct config_lines *lines, struct error *error) {
    char wanted[DESCRIPTION_TEXT];
    if (!dataset->format)
        return config_refuse(error, dataset->file, lines->section, dataset, "format",
                             "found nothing, wanted %s",
                             option_describe(&config_options[DATASET_format], wanted));
    if (add_fields(dataset, lines))
        return error_set(error, -ENOMEM, "%s: out of memory", dataset->file);
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        int err = option->section == SECTION_DATASET ? check_option(option, dataset, lines, error) : 0;
        if (err)
            return err;
    }
    dataset->index_folder = config->index_folder;
    dataset->io_set = lines->option[DATASET_io] != 0;
    if (!dataset->io_set)
        dataset->io = config->io;
    int err = check_cache(config, dataset, lines, error);
    if (!err)
        err = check_lengths(dataset, lines, error);
    if (!err)
        err = check_windows(dataset, lines, error);
    if (!err)
        err = check_reading(dataset, lines, error);
    return err ? err : check_access(dataset, lines, error);
}

// `value` of the option `index` is at most that of the option `bound_key`.
static int check_bound(const struct config *config, const struct config_lines *lines, size_t index,
                       uint64_t value, const char *bound_key, uint64_t bound, struct error *error) {
    char found[VALUE_TEXT], most[VALUE_TEXT];
    if (value <= bound)
        return 0;
    return config_refuse(error, config->file, lines->option[index], NULL, config_options[index].key,
                         "found \"%s\", wanted at most %s, which is %s", value_format_size(value, found),
                         bound_key, value_format_size(bound, most));
}

int config_check(struct config *config, const struct config_lines *lines, struct error *error) {
    int err =
        check_bound(config, &lines[0], FEEDD_ring, config->ring, "ring_memory", config->ring_memory, error);
    if (!err)
        err = check_bound(config, &lines[0], FEEDD_user_ring_memory, config->user_ring_memory, "ring_memory",
                          config->ring_memory, error);
    if (!err)
        err = check_bound(config, &lines[0], FEEDD_user_view_memory, config->user_view_memory, "view_memory",
                          config->view_memory, error);
    if (!err)
        err = check_bound(config, &lines[0], FEEDD_user_device_memory, config->user_device_memory,
                          "device_memory", config->device_memory, error);
    if (!err && config->cache_memory)
        err = check_bound(config, &lines[0], FEEDD_user_cache_memory, config->user_cache_memory,
                          "cache_memory", config->cache_memory, error);
    for (size_t i = 0; i < config->dataset_count && !err; i++)
        if (!config->datasets[i].view && !config->datasets[i].mix)
            err = check_dataset(config, &config->datasets[i], &lines[1 + i], error);
    for (size_t i = 0; i < config->dataset_count && !err; i++)
        if (config->datasets[i].view)
            err = config_resolve_view(config, &config->datasets[i], &lines[1 + i], error);
    for (size_t i = 0; i < config->dataset_count && !err; i++)
        if (config->datasets[i].mix)
            err = config_resolve_mix(config, &config->datasets[i], &lines[1 + i], error);
    return err;
}

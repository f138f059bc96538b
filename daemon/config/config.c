#include "daemon/config/config.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/sentence.h"
#include "daemon/config/config_file.h"
#include "daemon/config/config_include.h"
#include "daemon/config/config_parse.h"

static void free_strings(enum config_section section, void *base) {
    for (size_t i = 0; i < CONFIG_OPTIONS; i++)
        if (config_options[i].section == section && config_options[i].type == OPTION_STRING)
            free(*(char **)(void *)((char *)base + config_options[i].offset));
}

struct config *config_defaults(void) {
    struct config *config = calloc(1, sizeof *config);
    if (config)
        atomic_store_explicit(&config->references, 1, memory_order_relaxed);
    if (config && option_store_defaults(SECTION_FEEDD, config)) {
        config_free(config);
        config = NULL;
    }
    return config;
}

static void free_fields(struct config_field *fields, size_t count) {
    for (size_t i = 0; i < count; i++) {
        free(fields[i].name);
        free(fields[i].value);
    }
    free(fields);
}

static void free_dataset(struct dataset_config *dataset) {
    free_strings(SECTION_DATASET, dataset);
    free_strings(SECTION_VIEW, dataset);
    free_fields(dataset->fields, dataset->field_count);
    free_fields(dataset->transforms, dataset->transform_count);
    free_fields(dataset->pads, dataset->pad_count);
    free_fields(dataset->sources, dataset->source_count);
    free(dataset->source_numbers);
    free(dataset->source_weights);
    allow_list_free(&dataset->users);
    allow_list_free(&dataset->groups);
    free(dataset->option_lines);
    free(dataset->name);
}

struct config *config_ref(struct config *config) {
    atomic_fetch_add_explicit(&config->references, 1, memory_order_relaxed);
    return config;
}

void config_free(struct config *config) {
    // The last one pairs with the others: what they read is read.
    if (!config || atomic_fetch_sub_explicit(&config->references, 1, memory_order_acq_rel) > 1)
        return;
    for (size_t i = 0; i < config->dataset_count; i++)
        free_dataset(&config->datasets[i]);
    free(config->datasets);
    free_strings(SECTION_FEEDD, config);
    for (size_t i = 0; i < config->included_count; i++) {
        free(config->included[i].path);
        free(config->included[i].folder);
    }
    free(config->included);
    free(config->file);
    free(config->called);
    free(config->folder);
    free(config);
}

const struct dataset_config *config_find_dataset(const struct config *config, const char *name) {
    for (size_t i = 0; i < config->dataset_count; i++)
        if (strcmp(config->datasets[i].name, name) == 0)
            return &config->datasets[i];
    return NULL;
}

const char *config_kind(const struct dataset_config *dataset) {
    return dataset->mix ? "mix" : dataset->view ? "view" : "dataset";
}

uint32_t config_key_line(const struct dataset_config *dataset, const char *key) {
    for (size_t i = 0; dataset->option_lines && i < CONFIG_OPTIONS; i++)
        if (dataset->option_lines[i] && strcmp(config_options[i].key, key) == 0)
            return dataset->option_lines[i];
    return dataset->line;
}

void config_place(const struct dataset_config *dataset, uint32_t line, char *text, size_t bytes) {
    *text = '\0';
    if (dataset->called)
        sentence_write(text, bytes, "%s: ", dataset->called);
    else if (dataset->file)
        sentence_write(text, bytes, "%s:%" PRIu32 ": ", dataset->file, line);
}

// Files that are included are the user's own.
static int take_name(struct config *config, struct error *error) {
    const char *name = getenv(CONFIG_NAME_VARIABLE);
    if (!name || !*name)
        return 0;
    config->called = strdup(name);
    if (!config->called)
        return error_set(error, -ENOMEM, "%s: out of memory", config->file);
    for (size_t i = 0; i < config->dataset_count; i++)
        if (config->datasets[i].file == config->file)
            config->datasets[i].called = config->called;
    return 0;
}

static int keep_lines(struct config *config, const struct config_lines *lines, struct error *error) {
    for (size_t i = 0; i < config->dataset_count; i++) {
        uint32_t *kept = malloc(sizeof lines->option);
        if (!kept)
            return error_set(error, -ENOMEM, "%s: out of memory", config->file);
        config->datasets[i].option_lines = memcpy(kept, lines[1 + i].option, sizeof lines->option);
    }
    return 0;
}

int config_load(const char *path, struct config **config, struct error *error) {
    *config = NULL;
    AUTO_FREE char *text = NULL;
    int err = config_file_read(path, &text, error);
    if (err)
        return err;
    AUTO_FREE struct config_lines *lines = NULL;
    struct config *loaded = config_defaults();
    if (loaded) {
        loaded->file = strdup(path);
        loaded->folder = config_file_folder(path);
    }
    if (!loaded || !loaded->file)
        err = error_set(error, -ENOMEM, "%s: out of memory", path);
    else if (!loaded->folder)
        err = error_set(error, -errno, "%s: its folder cannot be found: %s", path, strerror(errno));
    if (!err)
        err = config_parse(loaded, &(struct config_text){loaded->file, loaded->folder, text, false}, &lines,
                           error);
    if (!err && loaded->include)
        err = config_include(loaded, &lines, error);
    if (!err)
        err = config_check(loaded, lines, error);
    if (!err)
        err = keep_lines(loaded, lines, error);
    if (!err)
        err = take_name(loaded, error);
    if (err) {
        config_free(loaded);
        return err;
    }
    loaded->socket_line = lines[0].option[FEEDD_socket];
    loaded->socket_group_line = lines[0].option[FEEDD_socket_group];
    *config = loaded;
    return 0;
}

#include "daemon/config/config.h"

#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "base/sizes.h"
#include "daemon/access.h"
#include "daemon/config/config_parse.h"

#define CONFIG_MAX_BYTES (4u << 20)

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
    free(dataset->source_places);
    free(dataset->source_weights);
    allow_list_free(&dataset->users);
    allow_list_free(&dataset->groups);
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
    free(config->file);
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

static int read_text(const char *path, char **text, struct error *error) {
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        char reason[300];
        int err = errno;
        return error_set(error, -err, "%s: the configuration cannot be opened: %s", path,
                         access_reason(err, path, reason, sizeof reason));
    }
    AUTO_FREE char *buffer = malloc(CONFIG_MAX_BYTES + 1);
    if (!buffer)
        return error_set(error, -ENOMEM, "%s: out of memory", path);
    size_t bytes = 0;
    while (bytes <= CONFIG_MAX_BYTES) {
        ssize_t got = read(fd, buffer + bytes, CONFIG_MAX_BYTES + 1 - bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set(error, -errno, "%s: the configuration cannot be read: %s", path,
                             strerror(errno));
        if (got == 0)
            break;
        bytes += (size_t)got;
    }
    if (bytes > CONFIG_MAX_BYTES)
        return error_set(error, -EFBIG, "%s: found more than %u bytes, wanted a configuration", path,
                         CONFIG_MAX_BYTES);
    buffer[bytes] = '\0';
    if (strlen(buffer) != bytes)
        return error_set(error, -EINVAL, "%s: found a NUL byte, wanted text", path);
    *text = buffer;
    buffer = NULL;
    return 0;
}

static char *folder_of(const char *path) {
    AUTO_FREE char *copy = strdup(path);
    return copy ? realpath(dirname(copy), NULL) : NULL;
}

int config_load(const char *path, struct config **config, struct error *error) {
    *config = NULL;
    AUTO_FREE char *text = NULL;
    int err = read_text(path, &text, error);
    if (err)
        return err;
    AUTO_FREE struct config_lines *lines = NULL;
    struct config *loaded = config_defaults();
    if (loaded) {
        loaded->file = strdup(path);
        loaded->folder = folder_of(path);
    }
    if (!loaded || !loaded->file)
        err = error_set(error, -ENOMEM, "%s: out of memory", path);
    else if (!loaded->folder)
        err = error_set(error, -errno, "%s: its folder cannot be found: %s", path, strerror(errno));
    if (!err)
        err = config_parse(loaded, text, &lines, error);
    if (!err)
        err = config_check(loaded, lines, error);
    if (err) {
        config_free(loaded);
        return err;
    }
    loaded->socket_line = lines[0].option[FEEDD_socket];
    loaded->socket_group_line = lines[0].option[FEEDD_socket_group];
    *config = loaded;
    return 0;
}

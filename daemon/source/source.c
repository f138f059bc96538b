#include "daemon/source/source.h"

#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_base.h"
#include "daemon/source/build/builder_finish.h"
#include "daemon/source/build/builder_transform.h"
#include "daemon/source/source_arrow.h"
#include "daemon/source/source_folder.h"
#include "daemon/source/source_idx.h"
#include "daemon/source/source_megatron.h"
#include "daemon/source/source_npy.h"
#include "daemon/source/source_packed.h"
#include "daemon/source/source_parquet.h"
#include "daemon/source/source_records.h"
#include "daemon/source/source_tar.h"
#include "daemon/source/source_tokens.h"

static const struct source_format *const formats[] = {
    &source_idx,      &source_records, &source_npy,    &source_tokens, &source_tar,
    &source_megatron, &source_arrow,   &source_folder, &source_packed, &source_parquet};

const struct source_format *source_find_format(const char *name) {
    for (size_t i = 0; i < COUNT_OF(formats); i++)
        if (strcmp(formats[i]->name, name) == 0)
            return formats[i];
    return NULL;
}

static struct dataset *new_dataset(const struct dataset_config *config, const struct source_format *format) {
    struct dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset)
        return NULL;
    *dataset = (struct dataset){
        .references = 1,
        .name = strdup(config->name),
        .of = config->view ? strdup(config->of) : NULL,
        .format = format->name,
        .layout = calloc(1, sizeof *dataset->layout),
        .list_fd = -1,
        .index_fd = -1,
        .parts_fd = -1,
        .io = config->io,
        .io_direct = config->io_direct,
        .io_delay_us = (uint32_t)config->io_delay_us,
        .on_error = config->on_error,
    };
    if (dataset->name && (dataset->of || !config->view) && dataset->layout)
        return dataset;
    dataset_unref(dataset);
    return NULL;
}

static int begin(struct builder *builder, const struct dataset_config *config,
                 const struct source_format **format, struct error *error) {
    *builder = (struct builder){.config = config, .key = "path", .error = error};
    *format = source_find_format(config->format);
    if (!*format)
        return error_set(error, -EINVAL,
                         "[dataset %s] format: found \"%s\", wanted idx, records, npy, tokens, tar, "
                         "megatron, arrow, parquet, folder or packed",
                         config->name, config->format);
    builder->dataset = new_dataset(config, *format);
    if (!builder->dataset)
        return error_set(error, -ENOMEM, "[dataset %s]: out of memory", config->name);
    return (*format)->describe ? (*format)->describe(builder) : 0;
}

static int check_dataset(const struct dataset_config *config, struct error *error) {
    const struct source_format *format;
    struct builder builder;
    int err = begin(&builder, config, &format, error);
    if (!err)
        err = format->describe ? builder_transform(&builder) : builder_check_transforms(&builder);
    dataset_unref(builder.dataset);
    return err;
}

int source_check_config(const struct config *config, struct error *error) {
    int err = 0;
    for (size_t i = 0; i < config->dataset_count && !err; i++)
        err = config->datasets[i].mix ? 0 : check_dataset(&config->datasets[i], error);
    return err;
}

int source_open_indexed(const struct dataset_config *config, const struct source_index *index,
                        struct dataset **dataset, struct error *error) {
    *dataset = NULL;
    struct error discarded = {0};
    const struct source_format *format;
    struct builder builder;
    int err = begin(&builder, config, &format, error ? error : &discarded);
    builder.known_index_only = index->known_only;
    builder.progress = index->progress;
    if (!err)
        err = index->base ? builder_base(&builder, index->base) : format->open(&builder);
    index_progress_end(index->progress);
    if (!err)
        err = builder_finish(&builder);
    free(builder.groups);
    if (err)
        dataset_unref(builder.dataset);
    else
        *dataset = builder.dataset;
    return err;
}

int source_open_dataset(const struct dataset_config *config, struct dataset **dataset, struct error *error) {
    return source_open_indexed(config, &(struct source_index){0}, dataset, error);
}

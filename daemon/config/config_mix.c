#include "daemon/config/config_mix.h"

#include <inttypes.h>
#include <string.h>

#include "base/names.h"
#include "base/sizes.h"
#include "daemon/io_mode.h"
#include "order/mix.h"
#include "order/mix_weight.h"
#include "proto/limits.h"

#define SOURCE_KEY (PROTO_MAX_NAME + 16)

static const char *key_of(const struct config_field *source, char key[SOURCE_KEY]) {
    snprintf(key, SOURCE_KEY, "source.%s", source->name);
    return key;
}

static int refuse_source(const struct config *config, const struct dataset_config *mix,
                         const struct config_field *source, const struct dataset_config *of,
                         struct error *error) {
    char key[SOURCE_KEY];
    AUTO_FREE const char **names = calloc(config->dataset_count, sizeof *names);
    key_of(source, key);
    if (of)
        return config_refuse(error, mix->file, source->line, mix, key,
                             "found a mix, wanted a dataset or a view: mixes cannot be nested");
    for (size_t i = 0; names && i < config->dataset_count; i++)
        names[i] = config->datasets[i].mix ? NULL : config->datasets[i].name;
    const char *near = names ? name_nearest(source->name, names, config->dataset_count) : NULL;
    if (near)
        return config_refuse(error, mix->file, source->line, mix, key,
                             "there is no dataset or view named \"%s\"; perhaps you mean \"%s\"",
                             source->name, near);
    return config_refuse(error, mix->file, source->line, mix, key, "there is no dataset or view named \"%s\"",
                         source->name);
}

// A map reads through the page cache, which a source with io_direct is to bypass, and cannot add a delay.
static int check_reading(const struct dataset_config *mix, const struct config_field *source,
                         const struct dataset_config *of, struct error *error) {
    char key[SOURCE_KEY];
    if (of->io_direct && mix->io == IO_MAPPED)
        return config_refuse(
            error, mix->file, source->line, mix, key_of(source, key),
            "found a source with io_direct in a mix with io = mapped, wanted io = uring, pread"
            " or auto");
    if (of->io_delay_us && (mix->io == IO_MAPPED || mix->io == IO_PREAD))
        return config_refuse(
            error, mix->file, source->line, mix, key_of(source, key),
            "found a source with io_delay_us in a mix with io = %s, wanted io = uring or auto",
            io_mode_name(mix->io));
    return 0;
}

static int find_source(const struct config *config, struct dataset_config *mix, size_t i,
                       struct mix_weight *weight, struct error *error) {
    char key[SOURCE_KEY];
    struct error cause = {0};
    const struct config_field *source = &mix->sources[i];
    const struct dataset_config *of = config_find_dataset(config, source->name);
    if (!of || of->mix)
        return refuse_source(config, mix, source, of, error);
    mix->source_numbers[i] = (size_t)(of - config->datasets);
    if (mix_weight_parse(source->value, weight, &cause) < 0)
        return config_refuse(error, mix->file, source->line, mix, key_of(source, key), "%s", cause.text);
    return check_reading(mix, source, of, error);
}

int config_resolve_mix(const struct config *config, struct dataset_config *mix,
                       const struct config_lines *lines, struct error *error) {
    struct mix_weight weights[MIX_MAX_SOURCES];
    struct error cause = {0};
    if (mix->source_count == 0)
        return config_refuse(error, mix->file, lines->section, mix, "source.NAME",
                             "found nothing, wanted the weight of at least one dataset or view");
    if (!lines->option[MIX_epoch_samples])
        return config_refuse(error, mix->file, lines->section, mix, "epoch_samples",
                             "found nothing, wanted the number of samples in an epoch of the mix");
    mix->io_set = lines->option[MIX_io] != 0;
    if (!mix->io_set)
        mix->io = config->io;
    mix->format = strdup("mix");
    mix->source_numbers = calloc(mix->source_count, sizeof *mix->source_numbers);
    mix->source_weights = calloc(mix->source_count, sizeof *mix->source_weights);
    if (!mix->format || !mix->source_numbers || !mix->source_weights)
        return error_set(error, -ENOMEM, "%s: out of memory", mix->file);
    for (size_t i = 0; i < mix->source_count; i++) {
        int err = find_source(config, mix, i, &weights[i], error);
        if (err)
            return err;
    }
    if (mix_weights_scale(weights, (uint32_t)mix->source_count, mix->source_weights, &cause) < 0)
        return config_refuse(error, mix->file, lines->section, mix, "source.NAME", "%s", cause.text);
    return 0;
}

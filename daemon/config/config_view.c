#include "daemon/config/config_view.h"

#include <string.h>

#include "base/names.h"

static int refuse_of(const struct config *config, const struct dataset_config *view, uint32_t line,
                     const struct dataset_config *of, struct error *error) {
    AUTO_FREE const char **names = calloc(config->dataset_count, sizeof *names);
    if (of && of->mix)
        return config_refuse(error, view->file, line, view, "of",
                             "found \"%s\", which is a mix, wanted a dataset", view->of);
    if (of)
        return config_refuse(error, view->file, line, view, "of",
                             "found \"%s\", which is a view, wanted a dataset: views cannot be nested",
                             view->of);
    for (size_t i = 0; names && i < config->dataset_count; i++)
        names[i] = config->datasets[i].view || config->datasets[i].mix ? NULL : config->datasets[i].name;
    const char *near = names ? name_nearest(view->of, names, config->dataset_count) : NULL;
    if (near)
        return config_refuse(error, view->file, line, view, "of",
                             "there is no dataset named \"%s\"; perhaps you mean \"%s\"", view->of, near);
    return config_refuse(error, view->file, line, view, "of", "there is no dataset named \"%s\"", view->of);
}

// The options of a dataset; fields and transforms follow.
static int copy_options(struct dataset_config *view, const struct dataset_config *of) {
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        const struct config_option *option = &config_options[i];
        const char *from = (const char *)of + option->offset;
        char *to = (char *)view + option->offset;
        if (option->section != SECTION_DATASET || option->type == OPTION_FIELDS)
            continue;
        if (option->type != OPTION_STRING) {
            memcpy(to, from, option->bytes);
            continue;
        }
        const char *text = *(const char *const *)(const void *)from;
        char *copy = text ? strdup(text) : NULL;
        *(char **)(void *)to = copy;
        if (text && !copy)
            return -ENOMEM;
    }
    return 0;
}

static bool has_field(const struct config_field *fields, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0)
            return true;
    return false;
}

// Appends what the view does not have.
static int copy_fields(struct config_field **fields, size_t *count, const struct config_field *from,
                       size_t from_count) {
    struct config_field *grown = reallocarray(*fields, *count + from_count + 1, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    *fields = grown;
    for (size_t i = 0; i < from_count; i++) {
        if (has_field(grown, *count, from[i].name))
            continue;
        struct config_field *field = &grown[*count];
        *field = (struct config_field){strdup(from[i].name), strdup(from[i].value), from[i].line};
        ++*count;
        if (!field->name || !field->value)
            return -ENOMEM;
    }
    return 0;
}

// Where a view's samples lie anywhere in its dataset, there are no groups to go through.
static bool has_groups(const struct dataset_config *view) {
    return !view->split && !view->indices && !view->weights;
}

static int inherit(struct dataset_config *view, const struct dataset_config *of, bool own_window) {
    const uint64_t window = own_window || !has_groups(view) ? view->shuffle_window : of->shuffle_window;
    int err = copy_options(view, of);
    view->shuffle_window = window;
    view->io_set = of->io_set;
    view->index_folder = of->index_folder;
    if (!err)
        err = copy_fields(&view->fields, &view->field_count, of->fields, of->field_count);
    if (!err)
        err = copy_fields(&view->transforms, &view->transform_count, of->transforms, of->transform_count);
    if (!err)
        err = copy_fields(&view->pads, &view->pad_count, of->pads, of->pad_count);
    if (!err)
        err = allow_list_copy(&view->users, &of->users);
    return err ? err : allow_list_copy(&view->groups, &of->groups);
}

// The other way round makes sense: from a number of samples up to a percentage of them.
static int check_end(const struct dataset_config *view, const struct config_lines *lines,
                     struct error *error) {
    if (!view->part_text || !view->part.begin.relative || view->part.end.relative)
        return 0;
    return config_refuse(
        error, view->file, lines->option[VIEW_part_text], view, "samples",
        "found \"%s\", wanted a percentage after one, such as 0%%..90%%, or numbers of samples",
        view->part_text);
}

static int check_draws(const struct dataset_config *view, const struct config_lines *lines,
                       struct error *error) {
    if (lines->option[VIEW_epoch_samples] && !view->weights)
        return config_refuse(error, view->file, lines->option[VIEW_epoch_samples], view, "epoch_samples",
                             "found without weights, wanted both: it is the number of draws in an epoch");
    return 0;
}

// As for a dataset: an option that would have no effect is refused.
static int check_pads(const struct dataset_config *view, const struct dataset_config *of,
                      struct error *error) {
    const struct config_option *option = &config_options[DATASET_pads];
    char key[NAME_LENGTH_MAX + 8];
    if (view->pad_count == 0 || option_fits_format(option, of->format))
        return 0;
    snprintf(key, sizeof key, "pad.%s", view->pads->name);
    return config_refuse(error, view->file, view->pads->line, view, key,
                         "found in a view of a dataset of format %s, wanted with format %s only", of->format,
                         option->formats);
}

static int check_window(const struct dataset_config *view, const struct dataset_config *of,
                        const struct config_lines *lines, struct error *error) {
    const struct config_option *option = &config_options[DATASET_shuffle_window];
    const uint32_t line = lines->option[VIEW_shuffle_window];
    if (view->shuffle_window == 0)
        return 0;
    if (!option_fits_format(option, of->format))
        return config_refuse(error, view->file, line, view, "shuffle_window",
                             "found in a view of a dataset of format %s, wanted with format %s only",
                             of->format, option->formats);
    if (!has_groups(view))
        return config_refuse(error, view->file, line, view, "shuffle_window",
                             "found together with %s, wanted one of them: samples that lie anywhere in the"
                             " dataset are shuffled as a whole",
                             view->split     ? "split_seed"
                             : view->indices ? "indices"
                                             : "weights");
    return 0;
}

int config_resolve_view(const struct config *config, struct dataset_config *view,
                        const struct config_lines *lines, struct error *error) {
    if (!view->of)
        return config_refuse(error, view->file, lines->section, view, "of",
                             "found nothing, wanted the name of a dataset");
    const struct dataset_config *of = config_find_dataset(config, view->of);
    if (!of || of->view || of->mix)
        return refuse_of(config, view, lines->option[VIEW_of], of, error);
    if (view->part_text && !part_parse(view->part_text, &view->part))
        return config_refuse(error, view->file, lines->option[VIEW_part_text], view, "samples",
                             "found \"%s\", wanted BEGIN..END, each a number of samples or a percentage, such"
                             " as 0%%..90%%",
                             view->part_text);
    view->of_number = (size_t)(of - config->datasets);
    view->split = lines->option[VIEW_split_seed] != 0;
    int err = check_end(view, lines, error);
    if (!err)
        err = check_draws(view, lines, error);
    if (!err)
        err = check_pads(view, of, error);
    if (!err)
        err = check_window(view, of, lines, error);
    if (err)
        return err;
    return inherit(view, of, lines->option[VIEW_shuffle_window] != 0)
               ? error_set(error, -ENOMEM, "%s: out of memory", view->file)
               : 0;
}

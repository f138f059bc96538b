#include "daemon/source/build/builder_base.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sizes.h"
#include "daemon/source/build/builder_pad.h"

// ---- Of the dataset ------------------------------------------------------------------------------------------

static bool has_pad(const struct dataset_config *config, const char *field) {
    for (size_t i = 0; i < config->pad_count; i++)
        if (strcmp(config->pads[i].name, field) == 0)
            return true;
    return false;
}

int builder_keep_stored(struct builder *builder) {
    struct dataset *dataset = builder->dataset;
    const struct dataset_layout *layout = dataset->layout;
    const size_t bytes = min_u64(builder->group_count, WINDOW_MAX_GROUPS) * sizeof *builder->groups;
    struct dataset_stored *stored = dataset->stored = calloc(1, sizeof *stored + bytes);
    if (!stored)
        return builder_out_of_memory(builder);
    memcpy(stored->fields, layout->fields, sizeof stored->fields);
    memcpy(stored->columns, layout->columns, sizeof stored->columns);
    for (uint32_t i = 0; i < layout->field_count; i++)
        stored->padded |= (uint32_t)has_pad(builder->config, layout->fields[i].name) << i;
    stored->group_count = builder->group_count;
    if (bytes)
        memcpy(stored->groups, builder->groups, bytes);
    return 0;
}

// ---- Of the view ---------------------------------------------------------------------------------------------

// Copies the dataset's layout as it was before any selection or transform.
static bool take_layout(struct dataset *view, const struct dataset *base) {
    const size_t bytes = sizeof *base->layout + base->layout->file_count * sizeof *base->layout->files;
    struct dataset_layout *layout = malloc(bytes);
    if (!layout)
        return false;
    memcpy(layout, base->layout, bytes);
    memcpy(layout->fields, base->stored->fields, sizeof layout->fields);
    memcpy(layout->columns, base->stored->columns, sizeof layout->columns);
    memset(layout->transforms, 0, sizeof layout->transforms);
    memset(layout->images, 0, sizeof layout->images);
    layout->cache = (struct dataset_cache){0};
    layout->selection = (struct selection){0};
    layout->window = layout->groups = 0;
    layout->groups_hash = 0;
    free(view->layout);
    view->layout = layout;
    return true;
}

// Groups beyond the limit are only counted.
static bool take_groups(struct builder *builder, const struct dataset_stored *stored) {
    const size_t count = min_u64(stored->group_count, WINDOW_MAX_GROUPS);
    if (!count)
        return true;
    builder->groups = calloc(count, sizeof *builder->groups);
    if (!builder->groups)
        return false;
    memcpy(builder->groups, stored->groups, count * sizeof *builder->groups);
    builder->group_count = stored->group_count;
    builder->group_room = count;
    return true;
}

static void borrow(struct dataset *view, struct dataset *base) {
    view->base = dataset_ref(base);
    view->paths = base->paths;
    view->fds = base->fds;
    view->index_fd = base->index_fd;
    view->incomplete = base->incomplete;
    view->files_written = base->files_written;
    view->unended = base->unended;
    view->first_unended = base->first_unended;
    if (base->layout->index_bytes)
        snprintf(view->index_note, sizeof view->index_note, "the index is that of dataset %s", base->name);
}

static struct dataset_column *column_of(struct dataset_layout *layout, uint32_t field) {
    for (uint32_t i = 0; i < layout->column_count; i++)
        if (layout->columns[i].field == field)
            return &layout->columns[i];
    return NULL;
}

// Adding a pad that the view has from its dataset changes nothing.
static int add_pad(struct builder *builder, struct ring_field *field, struct dataset_column *column) {
    uint64_t length, pad;
    int err = builder_pad(builder, field->name, field->dtype, &length, &pad);
    if (err || !length)
        return err;
    field->ragged = 0;
    field->dimensions = 1;
    field->shape[0] = length;
    field->sample_bytes = column->bytes = length * dtype_bytes(field->dtype);
    column->pad = pad;
    column->mean = 0;
    return 0;
}

static int add_pads(struct builder *builder, const struct dataset_stored *stored) {
    struct dataset_layout *layout = builder->dataset->layout;
    const char *names[RING_MAX_FIELDS];
    uint32_t count = 0;
    int err = 0;
    for (uint32_t i = 0; i < layout->field_count && !err; i++) {
        struct dataset_column *column = column_of(layout, i);
        if (!column || !(layout->fields[i].ragged || stored->padded >> i & 1))
            continue;
        names[count++] = layout->fields[i].name;
        err = add_pad(builder, &layout->fields[i], column);
    }
    return err ? err : builder_check_pads(builder, names, count);
}

int builder_base(struct builder *builder, struct dataset *base) {
    struct dataset *view = builder->dataset;
    if (!take_layout(view, base))
        return builder_out_of_memory(builder);
    borrow(view, base);
    if (!take_groups(builder, base->stored))
        return builder_out_of_memory(builder);
    int err = add_pads(builder, base->stored);
    for (uint32_t i = 0; i < view->layout->field_count && !err; i++)
        if (view->layout->fields[i].ragged)
            view->sizes[i] = base->sizes[i];
    return err;
}

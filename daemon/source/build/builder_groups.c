#include "daemon/source/build/builder_groups.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "base/sizes.h"
#include "daemon/dataset/list_memory.h"

// Beyond the limit they are only counted.
int builder_add_group(struct builder *builder, uint64_t first_sample) {
    if (builder->group_count >= WINDOW_MAX_GROUPS) {
        builder->group_count++;
        return 0;
    }
    if (builder->group_count == builder->group_room) {
        const size_t room = max_u64(64, 2 * builder->group_room);
        uint64_t *grown = reallocarray(builder->groups, room, sizeof *grown);
        if (!grown)
            return builder_out_of_memory(builder);
        builder->groups = grown;
        builder->group_room = room;
    }
    builder->groups[builder->group_count++] = first_sample;
    return 0;
}

static int add_files(struct builder *builder) {
    const struct dataset_layout *layout = builder->dataset->layout;
    const struct dataset_stream *stream = &layout->streams[0];
    int err = 0;
    for (uint32_t i = 0; i < stream->file_count && !err; i++) {
        const struct dataset_file *file = &layout->files[stream->first_file + i];
        if (file->samples)
            err = builder_add_group(builder, file->first_sample);
    }
    return err;
}

// The first column whose samples lie in blocks that have to be decoded; those of other columns begin with them. NULL:
// none.
static const struct dataset_column *coded_column(const struct dataset_layout *layout) {
    for (uint32_t i = 0; i < layout->column_count; i++)
        if (layout->columns[i].kind == COLUMN_BLOCKS)
            return &layout->columns[i];
    return NULL;
}

// A row group may have several blocks of a column.
static bool belong_together(const struct index_block *left, const struct index_block *right) {
    return left->file == right->file && left->first_row == right->first_row;
}

// A group is a row group or a record batch.
static int add_blocks(struct builder *builder, const struct dataset_column *column) {
    const struct dataset *dataset = builder->dataset;
    const uint64_t samples = dataset_stored_samples(dataset->layout), bytes = dataset->layout->index_bytes;
    const uint8_t *index = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, dataset->index_fd, 0);
    if (index == MAP_FAILED)
        return builder_out_of_memory(builder);
    const struct index_extent *extents = (const void *)(index + column->offset);
    const struct index_block *blocks = (const void *)(index + dataset->layout->blocks.offset);
    int err = builder_add_group(builder, 0);
    for (uint64_t i = 1; i < samples && !err; i++)
        if (extents[i].file != extents[i - 1].file &&
            !belong_together(&blocks[extents[i].file], &blocks[extents[i - 1].file]))
            err = builder_add_group(builder, i);
    munmap((void *)index, bytes);
    return err;
}

static int find_groups(struct builder *builder) {
    const struct dataset_column *coded = coded_column(builder->dataset->layout);
    if (builder->group_count)
        return 0;
    return coded ? add_blocks(builder, coded) : add_files(builder);
}

static int refuse_memory(struct builder *builder, int err) {
    return builder_refuse(builder, err, NULL, "cannot keep the groups in memory: %s", strerror(-err));
}

static int write_groups(struct builder *builder, struct window_groups *groups) {
    struct dataset_layout *layout = builder->dataset->layout;
    groups->window = builder->config->shuffle_window;
    groups->count = builder->group_count;
    memcpy(groups->bounds, builder->groups, builder->group_count * sizeof *groups->bounds);
    groups->bounds[groups->count] = dataset_stored_samples(layout);
    const uint64_t bytes = window_groups_bytes(groups->count);
    struct error cause = {0};
    if (window_groups_check(groups, bytes, dataset_stored_samples(layout), &cause))
        return builder_refuse(builder, -EINVAL, NULL, "%s", cause.text);
    layout->window = (uint32_t)groups->window;
    layout->groups = (uint32_t)groups->count;
    layout->groups_hash = XXH3_64bits(groups, bytes);
    return 0;
}

static int make_list(struct builder *builder) {
    int *fd = &builder->dataset->list_fd;
    const uint64_t bytes = sizeof(struct dataset_list) + window_groups_bytes(builder->group_count);
    struct dataset_list *list = NULL;
    *fd = list_memory_create();
    int err = *fd < 0 ? *fd : list_memory_map(*fd, bytes, NULL, &list);
    if (err)
        return refuse_memory(builder, err);
    err = write_groups(builder, (struct window_groups *)list->words);
    list_memory_unmap(&list, bytes);
    if (err)
        return err;
    err = list_memory_seal(*fd);
    return err ? refuse_memory(builder, err) : 0;
}

int builder_groups(struct builder *builder) {
    const uint32_t kind = builder->dataset->layout->selection.kind;
    const char *key = builder->key;
    if (!builder->config->shuffle_window || (kind != SELECTION_ALL && kind != SELECTION_RANGE))
        return 0;
    builder->key = "shuffle_window";
    int err = find_groups(builder);
    if (!err && builder->group_count > WINDOW_MAX_GROUPS)
        err = builder_refuse(builder, -E2BIG, NULL, "found %zu groups in the dataset, wanted at most %u",
                             builder->group_count, WINDOW_MAX_GROUPS);
    if (!err)
        err = make_list(builder);
    if (!err)
        builder->key = key;
    return err;
}

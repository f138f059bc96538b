#include "daemon/source/build/builder_fingerprint.h"

#include <string.h>
#include <xxhash.h>

#include "base/sizes.h"
#include "daemon/dataset/folder_file.h"
#include "daemon/source/build/builder_direct.h"
#include "daemon/source/build/builder_files.h"

#define FINGERPRINT_VERSION 1u
#define FINGERPRINT_EDGE    4096u // bytes hashed at the front and at the end of a file's data
#define FINGERPRINT_FILES   64u   // files whose data is hashed

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are hashed as they lie in memory");

static void hash_number(XXH3_state_t *state, uint64_t number) {
    XXH3_64bits_update(state, &number, sizeof number);
}

static void hash_fields(XXH3_state_t *state, const struct dataset_layout *layout) {
    hash_number(state, layout->field_count);
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct ring_field *field = &layout->fields[i];
        XXH3_64bits_update(state, field->name, sizeof field->name); // padded with zeros
        hash_number(state, field->dtype);
        hash_number(state, field->dimensions);
        for (uint32_t dimension = 0; dimension < field->dimensions; dimension++)
            hash_number(state, field->shape[dimension]);
    }
}

// Nothing is hashed where there are none, so that such datasets keep the fingerprint they have always had.
static void hash_transforms(XXH3_state_t *state, const struct dataset_layout *layout) {
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct transform *transform = &layout->transforms[i];
        if (!transform->stored)
            continue;
        hash_number(state, i);
        hash_number(state, transform->stored);
        if (transform_moves(transform))
            hash_number(state, UINT64_MAX);
        hash_number(state, transform->step_count);
        for (uint32_t k = 0; k < transform->step_count; k++) {
            const struct transform_step *step = &transform->steps[k];
            hash_number(state, step->kind);
            hash_number(state, step->count);
            XXH3_64bits_update(state, step->values, step->count * sizeof step->values[0]);
        }
    }
}

// As for transforms.
static void hash_images(XXH3_state_t *state, const struct dataset_layout *layout) {
    for (uint32_t i = 0; i < layout->field_count; i++) {
        const struct image_steps *steps = &layout->images[i].steps;
        if (!layout->images[i].used)
            continue;
        hash_number(state, i);
        hash_number(state, steps->count);
        hash_number(state, steps->channels);
        hash_number(state, steps->flags & ~IMAGE_STEPS_GPU); // which delivers the same
        if (steps->side)
            hash_number(state, (uint64_t)steps->side << 32 | steps->side_filter);
        XXH3_64bits_update(state, steps->steps, steps->count * sizeof steps->steps[0]);
    }
}

// As for transforms.
static void hash_index(XXH3_state_t *state, const struct dataset_layout *layout) {
    if (layout->column_count)
        hash_number(state, layout->index_hash);
    for (uint32_t i = 0; i < layout->column_count; i++)
        hash_number(state, layout->columns[i].pad);
}

// As for transforms. The weights are not hashed: a run continues after they have changed.
static void hash_selection(XXH3_state_t *state, const struct builder *builder) {
    const struct selection *selection = &builder->dataset->layout->selection;
    if (selection->kind == SELECTION_ALL)
        return;
    hash_number(state, selection->kind);
    hash_number(state, selection->of);
    hash_number(state, selection->first);
    hash_number(state, selection->count);
    hash_number(state, selection->kind == SELECTION_WEIGHTED_1 ? 0 : selection->seed);
    if (builder->chosen_hash)
        hash_number(state, builder->chosen_hash);
}

// As for transforms. A token that was made in one window would mean other samples in another.
static void hash_window(XXH3_state_t *state, const struct dataset_layout *layout) {
    if (layout->window)
        hash_number(state, layout->groups_hash);
}

// A view's dataset may already have made the file direct; `direct` says how to read it then.
static int hash_edge(struct builder *builder, XXH3_state_t *state, const struct source_file *file,
                     const struct dataset_file *direct, uint64_t bytes, uint64_t offset) {
    char edge[FINGERPRINT_EDGE];
    int err = direct && direct->direct_memory
                  ? builder_read_direct(builder, file, direct, edge, bytes, offset)
                  : builder_read(builder, file, edge, bytes, offset, "its data");
    if (!err)
        XXH3_64bits_update(state, edge, bytes);
    return err;
}

static int hash_edges(struct builder *builder, XXH3_state_t *state, const struct source_file *file,
                      const struct dataset_file *direct, uint64_t data_offset) {
    uint64_t bytes = min_u64(file->size - data_offset, FINGERPRINT_EDGE);
    int err = hash_edge(builder, state, file, direct, bytes, data_offset);
    return err ? err : hash_edge(builder, state, file, direct, bytes, file->size - bytes);
}

// What cannot be opened because of what it is now, or because it is gone; else something else is wrong, and may pass.
static bool is_of_the_file(int code) {
    switch (-code) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case EPERM:
    case ELOOP:
    case EXDEV:
    case EISDIR:
    case ENXIO:
    case ENAMETOOLONG:
    case ESTALE: // its size
        return true;
    default:
        return false;
    }
}

// Paths and sizes are in the index, and hashed with it. A file that has changed is found when it is read.
static int hash_folder(struct builder *builder, XXH3_state_t *state) {
    const struct dataset *dataset = builder->dataset;
    uint64_t samples = dataset_stream_samples(dataset->layout, dataset->layout->streams);
    uint64_t looked_at = min_u64(samples, FINGERPRINT_FILES);
    struct index_extent extent;
    char path[PATH_MAX];
    for (uint64_t i = 0; i < looked_at; i++) {
        int err = folder_file_find(dataset, i * samples / looked_at, &extent, path);
        if (err)
            return err == -ENODATA ? 0 : builder_out_of_memory(builder); // no field reads files
        AUTO_CLOSE int fd = folder_file_open(dataset->fds[extent.file], path);
        err = fd < 0 ? fd : folder_file_check(fd, extent.bytes);
        if (err && !is_of_the_file(err))
            return builder_refuse_open(builder, err, path);
        if (err)
            continue;
        const struct source_file file = {fd, path, extent.bytes};
        err = hash_edges(builder, state, &file, NULL, 0);
        if (err)
            return err;
    }
    return 0;
}

static int hash_files(struct builder *builder, XXH3_state_t *state) {
    const struct dataset *dataset = builder->dataset;
    const struct dataset_layout *layout = dataset->layout;
    if (layout->folder_count)
        return hash_folder(builder, state);
    hash_number(state, layout->file_count);
    for (uint32_t i = 0; i < layout->file_count; i++) {
        hash_number(state, layout->files[i].samples);
        hash_number(state, layout->files[i].bytes - layout->files[i].data_offset);
    }
    uint64_t looked_at = min_u64(layout->file_count, FINGERPRINT_FILES);
    for (uint64_t i = 0; i < looked_at; i++) {
        uint64_t index = looked_at > 1 ? i * (layout->file_count - 1) / (looked_at - 1) : 0;
        const struct dataset_file *file = &layout->files[index];
        const struct source_file source = {dataset->fds[index], dataset->paths[index], file->bytes};
        int err = hash_edges(builder, state, &source, file, file->data_offset);
        if (err)
            return err;
    }
    return 0;
}

int builder_fingerprint(struct builder *builder) {
    struct dataset_layout *layout = builder->dataset->layout;
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return builder_out_of_memory(builder);
    XXH3_64bits_reset(state);
    hash_number(state, FINGERPRINT_VERSION);
    hash_number(state, layout->samples);
    hash_fields(state, layout);
    hash_transforms(state, layout);
    hash_images(state, layout);
    hash_selection(state, builder);
    hash_index(state, layout);
    hash_window(state, layout);
    int err = hash_files(builder, state);
    layout->fingerprint = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return err;
}

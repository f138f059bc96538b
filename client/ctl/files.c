#include "client/ctl/files.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/repeat.h"
#include "base/sizes.h"
#include "client/ctl/files_fd.h"
#include "client/ctl/grow.h"
#include "client/ctl/query.h"

static int add_part(struct files *files, const Feedd__File *file, const Feedd__File__Extent *extent,
                    struct file_parts *parts) {
    if (!grow((void **)&parts->parts, parts->count, &parts->room, sizeof *parts->parts))
        return -ENOMEM;
    parts->transformed |= extent->transformed;
    parts->parts[parts->count++] = (struct file_part){.file = (uint32_t)(files->path_count - 1),
                                                      .first_sample = file->first_sample,
                                                      .samples = file->samples,
                                                      .data_offset = file->data_offset + extent->offset,
                                                      .record_bytes = file->record_bytes,
                                                      .bytes = extent->bytes};
    return 0;
}

static int add_file(struct files *files, const Feedd__File *file, struct error *error) {
    static const Feedd__File__Extent all = FEEDD__FILE__EXTENT__INIT;
    char *path = strdup(file->path);
    if (!path || !grow((void **)&files->paths, files->path_count, &files->path_room, sizeof *files->paths)) {
        free(path);
        return error_set(error, -ENOMEM, "out of memory");
    }
    files->paths[files->path_count++] = path;
    int err = add_part(files, file, &all, &files->whole);
    for (size_t k = 0; k < file->n_extents && !err; k++) {
        const Feedd__File__Extent *extent = file->extents[k];
        if (extent->field >= files->field_count)
            return error_set(error, -EPROTO, "file %s has a field that the dataset does not have",
                             file->path);
        err = add_part(files, file, extent, &files->fields[extent->field]);
    }
    return err ? error_set(error, err, "out of memory") : 0;
}

static int take_files(const Feedd__Answer *page, void *context, struct error *error) {
    struct files *files = context;
    int err = page->selection ? files_list_take(&files->list, page->selection, error) : 0;
    files->replaces = page->replaces;
    if (!err)
        err = files_index_take(&files->index, files->field_count, page, error);
    for (size_t i = 0; i < page->n_files && !err; i++)
        err = add_file(files, page->files[i], error);
    return err;
}

static int by_first_sample(const void *left, const void *right) {
    const struct file_part *a = left, *b = right;
    if (a->first_sample != b->first_sample)
        return a->first_sample > b->first_sample ? 1 : -1;
    return (a->samples > b->samples) - (a->samples < b->samples); // one without samples comes first
}

// Every sample in exactly one file. `field` is for messages; NULL: the files as a whole.
static int check_parts(struct file_parts *parts, const char *field, uint64_t bytes, uint64_t samples,
                       struct error *error) {
    uint64_t next = 0;
    if (parts->count)
        qsort(parts->parts, parts->count, sizeof *parts->parts, by_first_sample);
    for (size_t i = 0; i < parts->count; i++) {
        if (parts->parts[i].first_sample != next || (parts->parts[i].bytes != bytes && !parts->transformed))
            break;
        next += parts->parts[i].samples;
    }
    if (next == samples)
        return 0;
    return error_set(error, -EPROTO, "the files that feedd names hold %" PRIu64 " of %" PRIu64 " samples%s%s",
                     next, samples, field ? " of field " : "", field ? field : "");
}

// Every sample of every field, in the files or in the index.
static int check_fields(struct files *files, const struct feed_description *description, uint64_t samples,
                        struct error *error) {
    int err = files->index.known ? check_parts(&files->whole, NULL, 0, samples, error) : 0;
    for (uint32_t i = 0; i < files->field_count && !err; i++) {
        const struct feed_array *array = &description->field[i];
        const struct files_column *column = &files->index.columns[i];
        if (column->known) {
            files->fields[i].transformed = column->transformed;
            err = files_index_check(&files->index, i, array, samples, files->path_count, error);
            const bool blocks = column->kind == FEEDD__COLUMN__KIND__BLOCKS ||
                                (column->kind == FEEDD__COLUMN__KIND__WINDOWS && column->block_count);
            if (!err && blocks && !column->transformed)
                err = files_blocks_open(&files->blocks, &files->index, column, error);
        } else if (array->ragged) {
            err = error_set(error, -EPROTO, "feedd does not say where the samples of field %s are",
                            array->name);
        } else {
            err = check_parts(&files->fields[i], array->name, array->bytes / array->shape[0], samples, error);
        }
    }
    return err;
}

int files_open(struct files *files, const struct ctl *ctl, const struct feed_description *description,
               uint64_t seed, bool windows, struct error *error) {
    struct connection connection CLEANUP(connection_close) = {.socket = -1};
    *files = (struct files){.field_count = description->field_count, .seed = seed, .open_most = FILES_OPEN};
    for (uint32_t i = 0; i < FILES_OPEN; i++)
        files->open[i].fd = -1;
    int err = query_open(&connection, ctl, error);
    if (err == 0)
        err =
            query_ask(&connection, FEEDD__QUERY__KIND__FILES, description->dataset, take_files, files, error);
    const struct selection *selection = &files->list.selector.selection;
    if (err == 0)
        err = files_list_ask(&files->list, &connection, description->dataset, windows, error);
    bool view = selection->kind != SELECTION_ALL;
    if (err == 0 && view && selection->count != description->samples)
        err = error_set(error, -EPROTO, "feedd describes a different view from the one that was opened");
    if (err == 0 && files->index.known)
        err = files_index_ask(&files->index, &connection, description->dataset, error);
    uint64_t stored = view ? selection->of : description->samples;
    return err ? err : check_fields(files, description, stored, error);
}

void files_close(struct files *files) {
    for (uint32_t i = 0; i < FILES_OPEN; i++)
        close_fd(&files->open[i].fd);
    for (size_t i = 0; i < files->path_count; i++)
        free(files->paths[i]);
    for (uint32_t i = 0; i < files->field_count; i++)
        free(files->fields[i].parts);
    free(files->whole.parts);
    files_blocks_close(&files->blocks);
    files_index_free(&files->index);
    files_list_free(&files->list);
    free(files->paths);
}

static int descriptor_of(struct files *files, uint32_t file, struct error *error) {
    uint32_t place = file % files->open_most;
    if (files->open[place].fd >= 0 && files->open[place].file == file)
        return files->open[place].fd;
    close_fd(&files->open[place].fd);
    int fd = open(files->paths[file], O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, -errno, "cannot open %s to verify against it: %s", files->paths[file],
                         strerror(errno));
    files->open[place].file = file;
    files->open[place].fd = fd;
    return fd;
}

static const struct file_part *find_part(const struct file_parts *field, uint64_t sample) {
    size_t low = 0, high = field->count; // the last part that begins at or before the sample
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (field->parts[middle].first_sample <= sample)
            low = middle;
        else
            high = middle;
    }
    return &field->parts[low];
}

uint64_t files_sample(const struct files *files, uint64_t epoch, uint64_t sample) {
    selector_map(&files->list.selector, files->seed, epoch, &sample, 1);
    return sample;
}

static int read_file(struct files *files, uint32_t file, uint64_t offset, void *bytes, size_t count,
                     struct error *error) {
    int fd = descriptor_of(files, file, error);
    return fd < 0 ? fd : files_fd_read(fd, files->paths[file], offset, bytes, count, error);
}

// A file of a folder.
static int read_beneath(struct files *files, uint32_t folder, const char *name, void *bytes, size_t count,
                        struct error *error) {
    char *path = files->opened;
    int length = name ? snprintf(path, sizeof files->opened, "%s/%s", files->paths[folder], name) : -1;
    if (length < 0 || (size_t)length >= sizeof files->opened)
        return error_set(error, -EPROTO, "the index that feedd sends has a path without a final zero");
    AUTO_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return error_set(error, -errno, "cannot open %s to verify against it: %s", path, strerror(errno));
    return files_fd_read(fd, path, 0, bytes, count, error);
}

// For messages. Its file exists.
static const char *name_block(struct files *files, const struct index_block *block) {
    snprintf(files->opened, sizeof files->opened, "the block at offset %" PRIu64 " of %s, decoded,",
             block->stored[0].offset, files->paths[block->file]);
    return files->opened;
}

// A sample in a block, which is decoded unless it is plain.
static int read_in_block(struct files *files, const struct files_column *column, uint64_t sample, void *bytes,
                         size_t count, const char **path, uint64_t *offset, struct error *error) {
    const struct file_part *part = find_part(&files->whole, sample);
    const char *name = files->paths[part->file];
    struct files_block_place place;
    int err = files_blocks_find(&files->blocks, &files->index, column, sample, part->file,
                                sample - part->first_sample, &place, error);
    if (err)
        return err;
    const size_t stored = min_u64(place.bytes, count);
    const uint64_t begin = place.block.stored[0].offset;
    const bool plain = place.block.codec == BLOCK_PLAIN;
    repeat((uint8_t *)bytes + stored, column->pad, count - stored);
    *path = plain ? name : files->opened;
    *offset = plain ? begin + place.offset : place.offset;
    if (plain)
        return read_file(files, part->file, *offset, bytes, stored, error);
    name_block(files, &place.block);
    if (!stored)
        return 0;
    const uint8_t *decoded;
    int fd = descriptor_of(files, part->file, error);
    err = fd < 0 ? fd : files_blocks_decode(&files->blocks, &place, fd, name, &decoded, error);
    if (!err)
        memcpy(bytes, decoded + place.offset, stored);
    return err;
}

// A part of a window.
struct window_piece {
    bool in_block;
    struct files_block_place place; // if so
    uint32_t file;
    uint64_t offset; // in the file, or in what the block becomes
    uint32_t bytes;
};

// The one that begins with byte `from` of a window, with at most `most` bytes.
static int find_stretch(const struct files *files, const struct files_column *column, uint64_t sample,
                        uint64_t from, uint64_t most, struct window_piece *stretch, struct error *error) {
    const uint64_t at = sample * find_part(&files->whole, sample)->record_bytes + from;
    struct files_extent extent;
    int err = files_index_stretch(&files->index, column, at, most, &extent, error);
    if (err)
        return err;
    *stretch = (struct window_piece){.file = extent.file, .offset = extent.offset, .bytes = extent.bytes};
    if (column->block_count) {
        struct files_block_place *place = &stretch->place;
        err = files_blocks_at(&files->blocks, &files->index, extent.file, extent.offset, extent.bytes, place,
                              error);
        if (err)
            return err;
        stretch->file = place->block.file;
        stretch->in_block = place->block.codec != BLOCK_PLAIN;
        stretch->offset += stretch->in_block ? 0 : place->block.stored[0].offset;
    }
    return stretch->file < files->path_count
               ? 0
               : error_set(error, -EPROTO, "the index that feedd sends names a file that does not exist");
}

static int read_stretch(struct files *files, const struct window_piece *stretch, void *bytes,
                        struct error *error) {
    const char *path = files->paths[stretch->file];
    const uint8_t *decoded;
    if (!stretch->in_block)
        return read_file(files, stretch->file, stretch->offset, bytes, stretch->bytes, error);
    int fd = descriptor_of(files, stretch->file, error);
    int err = fd < 0 ? fd : files_blocks_decode(&files->blocks, &stretch->place, fd, path, &decoded, error);
    if (!err)
        memcpy(bytes, decoded + stretch->offset, stretch->bytes);
    return err;
}

// files_find_byte says where each byte lies.
static int read_window(struct files *files, const struct files_column *column, uint64_t sample, void *bytes,
                       size_t count, struct error *error) {
    for (uint64_t from = 0; from < count;) {
        struct window_piece stretch;
        int err = find_stretch(files, column, sample, from, count - from, &stretch, error);
        if (!err)
            err = read_stretch(files, &stretch, (uint8_t *)bytes + from, error);
        if (err)
            return err;
        from += stretch.bytes;
    }
    return 0;
}

// A field of which the index says where its samples are, or what they are.
static int read_indexed(struct files *files, const struct files_column *column, uint64_t sample, void *bytes,
                        size_t count, const char **path, uint64_t *offset, struct error *error) {
    *path = "";
    *offset = 0;
    if (column->kind == FEEDD__COLUMN__KIND__WITHIN) {
        *path = "feedd's index";
        return files_index_within(&files->index, column, sample, bytes, count, offset, error);
    }
    if (column->kind == FEEDD__COLUMN__KIND__WINDOWS)
        return read_window(files, column, sample, bytes, count, error);
    if (column->kind == FEEDD__COLUMN__KIND__BLOCKS)
        return read_in_block(files, column, sample, bytes, count, path, offset, error);
    if (column->kind != FEEDD__COLUMN__KIND__EXTENTS && column->kind != FEEDD__COLUMN__KIND__NAMES) {
        const struct file_part *part = find_part(&files->whole, sample);
        *path = "feedd's index";
        *offset =
            files_index_values(&files->index, column, sample, part->file, sample - part->first_sample, bytes);
        return 0;
    }
    const struct files_extent extent = files_index_extent(&files->index, column, sample);
    const size_t stored = min_u64(extent.bytes, count);
    if (extent.file >= files->path_count)
        return error_set(error, -EPROTO, "the index that feedd sends names a file that does not exist");
    repeat((uint8_t *)bytes + stored, column->pad, count - stored);
    if (column->kind == FEEDD__COLUMN__KIND__NAMES) {
        *path = files->opened;
        *offset = 0;
        char name[PATH_MAX];
        return read_beneath(files, extent.file, files_index_path(&files->index, column, sample, name), bytes,
                            stored, error);
    }
    *path = files->paths[extent.file];
    *offset = extent.offset;
    return read_file(files, extent.file, extent.offset, bytes, stored, error);
}

uint64_t files_ragged_bytes(const struct files *files, uint32_t field, uint64_t sample) {
    return files_index_extent(&files->index, &files->index.columns[field], sample).bytes;
}

int files_read(struct files *files, uint32_t field, uint64_t sample, void *bytes, size_t count,
               const char **path, uint64_t *offset, struct error *error) {
    if (files->index.columns[field].known)
        return read_indexed(files, &files->index.columns[field], sample, bytes, count, path, offset, error);
    const struct file_part *part = find_part(&files->fields[field], sample);
    *path = files->paths[part->file];
    *offset = part->data_offset + (sample - part->first_sample) * part->record_bytes;
    return read_file(files, part->file, *offset, bytes, count, error);
}

void files_find_byte(struct files *files, uint32_t field, uint64_t sample, uint64_t at, const char **path,
                     uint64_t *offset) {
    const struct files_column *column = &files->index.columns[field];
    struct window_piece stretch;
    if (!column->known || column->kind != FEEDD__COLUMN__KIND__WINDOWS ||
        find_stretch(files, column, sample, at, 1, &stretch, NULL)) {
        *offset += at;
        return;
    }
    *path = stretch.in_block ? name_block(files, &stretch.place.block) : files->paths[stretch.file];
    *offset = stretch.offset;
}

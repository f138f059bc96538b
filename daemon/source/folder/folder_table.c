#include "daemon/source/folder/folder_table.h"

#include <string.h>
#include <xxhash.h>

#include "base/sizes.h"
#include "daemon/source/build/text_value.h"
#include "daemon/source/folder/folder_stems.h"

void folder_table_release(struct folder_table *table) {
    index_rows_release(&table->rows);
    incomplete_part_release(&table->incomplete);
    folder_text_release(&table->text);
    folder_text_release(&table->paths);
}

static int add_text(struct folder_text *text, const char *string, size_t bytes, struct index_extent *extent) {
    if (bytes > UINT32_MAX)
        return -ENOMEM;
    *extent = (struct index_extent){.bytes = (uint32_t)bytes};
    return folder_text_add_string(text, string, bytes, &extent->offset);
}

// A sample's text, each kind of it written at most once.
struct written {
    bool path, name;
    struct index_extent path_extent, name_extent;
};

// With a field of names, most paths must be stored whole anyway.
static int write_path(struct folder_table *table, const struct folder_sample *sample,
                      struct written *written) {
    struct folder_text *text = table->fields->has_names ? &table->text : &table->paths;
    int err = 0;
    if (!written->path)
        err = add_text(text, sample->path, strlen(sample->path), &written->path_extent);
    written->path = true;
    return err;
}

static int write_name(struct folder_table *table, const struct folder_sample *sample,
                      struct written *written) {
    if (strcmp(sample->name, sample->path) == 0) {
        int err = write_path(table, sample, written);
        written->name_extent = written->path_extent;
        return err;
    }
    int err = 0;
    if (!written->name)
        err = add_text(&table->text, sample->name, strlen(sample->name), &written->name_extent);
    written->name = true;
    return err;
}

static int write_class(struct folder_table *table, const struct folder_sample *sample) {
    const char *last = table->class_name;
    if (last && table->class_extent.bytes == sample->class_length &&
        memcmp(last, sample->class_name, sample->class_length) == 0)
        return 0;
    table->class_name = sample->class_name;
    return add_text(&table->text, sample->class_name, sample->class_length, &table->class_extent);
}

static int find_bytes(struct folder_table *table, const struct folder_field *field,
                      const struct folder_sample *sample, struct written *written,
                      struct index_extent *extent) {
    int err = 0;
    switch (field->source) {
    case FOLDER_FILE:
        err = write_path(table, sample, written);
        *extent = (struct index_extent){written->path_extent.offset, sample->root, sample->bytes};
        return err;
    case FOLDER_NAME:
        err = write_name(table, sample, written);
        *extent = written->name_extent;
        return err;
    case FOLDER_CLASS:
        err = write_class(table, sample);
        *extent = table->class_extent;
        return err;
    case FOLDER_COLUMN:
        return add_text(&table->text, sample->cells[field - table->fields->fields].text,
                        sample->cells[field - table->fields->fields].bytes, extent);
    }
    return -EINVAL;
}

static uint64_t length_of(const struct folder_table *table, const struct folder_field *field,
                          const struct folder_sample *sample) {
    switch (field->source) {
    case FOLDER_FILE:
        return sample->bytes;
    case FOLDER_NAME:
        return strlen(sample->name);
    case FOLDER_CLASS:
        return sample->class_length;
    case FOLDER_COLUMN:
        return sample->cells[field - table->fields->fields].bytes;
    }
    return 0;
}

static int add_entry(struct folder_table *table, const struct folder_field *field,
                     const struct folder_sample *sample, struct written *written, uint8_t *row) {
    uint8_t *entry = value_field_entry(&field->value, row);
    struct index_extent extent = {0};
    uint64_t number = sample->class_number;
    if (field->value.kind == VALUE_BYTES) {
        int err = find_bytes(table, field, sample, written, &extent);
        memcpy(entry, &extent, sizeof extent);
        return err;
    }
    if (field->value.kind == VALUE_NUMBER && field->source == FOLDER_COLUMN) {
        const struct csv_cell *cell = &sample->cells[field - table->fields->fields];
        return text_value(cell->text, cell->bytes, field->value.dtype, entry) ? 0 : -EINVAL;
    }
    if (field->value.kind == VALUE_LENGTH)
        number = length_of(table, field, sample);
    memcpy(entry, &number, sizeof number); // little-endian: narrower types are its start
    return 0;
}

int folder_table_add(struct folder_table *table, const struct folder_sample *sample, uint32_t *wrong) {
    _Alignas(8) uint8_t row[RING_MAX_FIELDS * sizeof(struct index_extent)];
    struct written written = {0};
    for (uint32_t i = 0; i < table->fields->count; i++) {
        *wrong = i;
        int err = add_entry(table, &table->fields->fields[i], sample, &written, row);
        if (err)
            return err;
    }
    table->file_bytes += sample->bytes;
    table->written = XXH3_64bits_withSeed(&sample->written_ns, sizeof sample->written_ns, table->written);
    return index_rows_add(&table->rows, row, table->fields->row_bytes) ? 0 : -ENOMEM;
}

bool folder_table_add_incomplete(struct folder_table *table, const char *reason) {
    _Alignas(8) uint8_t row[RING_MAX_FIELDS * sizeof(struct index_extent)] = {0};
    struct written written = {0};
    struct index_extent nothing; // "", as the path and as the text of all fields
    if (write_path(table, &(struct folder_sample){.path = ""}, &written) ||
        add_text(&table->text, "", 0, &nothing) ||
        !incomplete_add(&table->incomplete, table->rows.count, reason))
        return false;
    for (uint32_t i = 0; i < table->fields->count; i++) {
        const struct folder_field *field = &table->fields->fields[i];
        const struct index_extent *extent = field->source == FOLDER_FILE ? &written.path_extent : &nothing;
        if (field->value.kind == VALUE_BYTES)
            memcpy(value_field_entry(&field->value, row), extent, sizeof *extent);
    }
    return index_rows_add(&table->rows, row, table->fields->row_bytes);
}

static int put_paths(struct folder_table *table) {
    const struct folder_fields *fields = table->fields;
    uint32_t entries[RING_MAX_FIELDS], count = 0;
    for (uint32_t i = 0; i < fields->count; i++)
        if (fields->fields[i].source == FOLDER_FILE && fields->fields[i].value.kind == VALUE_BYTES)
            entries[count++] = fields->fields[i].value.index.row_offset;
    if (!count)
        return 0;
    if (fields->has_names)
        return folder_stems_none(&table->text);
    return folder_stems_put(&table->paths, &table->rows, fields->row_bytes, entries, count, &table->text);
}

int folder_table_finish(struct folder_table *table, struct builder *builder) {
    struct index_field columns[RING_MAX_FIELDS];
    for (uint32_t i = 0; i < table->fields->count; i++)
        columns[i] = table->fields->fields[i].value.index;
    if (put_paths(table))
        return builder_out_of_memory(builder);
    folder_text_release(&table->paths);
    const struct index_text text = {table->text.text, table->text.bytes};
    AUTO_FREE uint64_t *incomplete = NULL;
    int err = incomplete_collect(builder, &table->incomplete, &table->rows.count, 1, &incomplete);
    return err ? err
               : builder_index_marked(builder, &table->rows, 1, table->fields->row_bytes, columns,
                                      table->fields->count, &text, incomplete);
}

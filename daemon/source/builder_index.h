// The index of a dataset whose samples lie anywhere and differ in size: from rows, one per sample, as formats find
// them, to columns in sealed memory, as loaders map them.
#ifndef FEEDD_DAEMON_SOURCE_BUILDER_INDEX_H
#define FEEDD_DAEMON_SOURCE_BUILDER_INDEX_H

#include "daemon/source/builder.h"

// As for indices of views: what an archive of tiny members can make the daemon keep in memory.
#define INDEX_MAX_SAMPLES (1u << 27)

// A column, and where its entry lies in a row. An entry takes sizeof(struct index_extent), or the bytes of a value.
struct index_field {
    struct dataset_column column; // `offset` is set by builder_index
    uint32_t row_offset;
};

// The samples of one file, in order.
struct index_rows {
    uint8_t *rows;
    uint64_t count, room;
};

// False: no memory.
bool index_rows_add(struct index_rows *rows, const void *row, size_t row_bytes);
void index_rows_release(struct index_rows *rows);

// Sets the dataset's columns and the size of its index; what follows is to be written there.
void builder_index_place(struct builder *builder, uint64_t samples, const struct index_field *fields,
                         uint32_t field_count);

// Makes the dataset's index and its columns: the samples of parts[0], then those of parts[1], and so on.
int builder_index(struct builder *builder, const struct index_rows *parts, uint32_t part_count,
                  size_t row_bytes, const struct index_field *fields, uint32_t field_count);

#endif

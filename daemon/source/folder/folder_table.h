// From the samples of a folder, one after another, to its index.
#ifndef FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_TABLE_H
#define FEEDD_DAEMON_SOURCE_FOLDER_FOLDER_TABLE_H

#include "daemon/source/folder/csv.h"
#include "daemon/source/folder/folder_fields.h"
#include "daemon/source/folder/folder_text.h"
#include "daemon/source/index/incomplete.h"

struct folder_table {
    const struct folder_fields *fields;
    struct index_rows rows;
    struct incomplete_part incomplete;
    struct folder_text text;  // names and cells; paths too, if has_names
    struct folder_text paths; // until folder_table_finish moves them
    uint64_t file_bytes;      // of all samples
    uint64_t written;         // a hash of when all files were written to
    // The class's name that was written last, and where.
    const char *class_name;
    struct index_extent class_extent;
};

struct folder_sample {
    const char *name; // as people see it
    const char *path; // beneath `root`, without links; may be the same
    int64_t written_ns;
    uint32_t root;
    uint32_t bytes;
    uint32_t class_number;
    const char *class_name;
    size_t class_length;
    const struct csv_cell *cells; // one for each field
};

// -ENOMEM; or -EINVAL, and *wrong is the field whose cell holds no such number.
int folder_table_add(struct folder_table *table, const struct folder_sample *sample, uint32_t *wrong);

// Adds a sample without bytes that is incomplete. False: no memory.
bool folder_table_add_incomplete(struct folder_table *table, const char *reason);

int folder_table_finish(struct folder_table *table, struct builder *builder);
void folder_table_release(struct folder_table *table);

#endif

// A dataset of files of columns, Arrow's or Parquet's, whose samples are found by looking into each of them.
#ifndef FEEDD_DAEMON_SOURCE_ARROW_ARROW_DATASET_H
#define FEEDD_DAEMON_SOURCE_ARROW_ARROW_DATASET_H

#include "daemon/source/arrow/arrow_fields.h"
#include "daemon/source/index/incomplete.h"

// A file, and what is in it.
struct arrow_scan {
    int fd;
    uint64_t bytes;                  // of the file
    uint32_t file;                   // its number in the dataset
    bool listed;                     // incomplete samples are; else they refuse the file
    struct index_progress *progress; // or NULL
    // Results.
    struct index_rows rows;
    struct incomplete_part incomplete;
    struct error error;
};

// Finds all samples of one file, and fills its results. Files are scanned in several threads.
typedef int arrow_scan_file_t(const struct arrow_fields *fields, struct arrow_scan *scan);

// Of the format `name`; `version` is that of what scan_file makes of files and fields.
int arrow_dataset_open(struct builder *builder, const char *name, uint32_t version,
                       arrow_scan_file_t *scan_file);

int arrow_dataset_describe(struct builder *builder);

#endif

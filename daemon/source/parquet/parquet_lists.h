// Columns that are lists of numbers: some values in each row.
#ifndef FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_LISTS_H
#define FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_LISTS_H

#include "daemon/source/parquet/parquet_rows.h"

// A row may begin in one page and end in another, so that all pages of the column together are a block.
int parquet_lists_add(struct parquet_part *part, struct error *error);

#endif

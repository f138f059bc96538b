// Columns that are not lists: a value in each row.
#ifndef FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_FLAT_H
#define FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_FLAT_H

#include "daemon/source/parquet/parquet_rows.h"

int parquet_flat_add(struct parquet_part *part, struct error *error);

#endif

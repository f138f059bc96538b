// From Parquet files to the rows of their samples.
#ifndef FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_SCAN_H
#define FEEDD_DAEMON_SOURCE_PARQUET_PARQUET_SCAN_H

#include "daemon/source/arrow/arrow_dataset.h"

arrow_scan_file_t parquet_scan_file;

#endif

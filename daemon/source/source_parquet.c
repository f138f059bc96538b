#include "daemon/source/source_parquet.h"

#include "daemon/source/parquet/parquet_scan.h"

#define INDEX_VERSION 2u // of what a scan makes of files and fields

static int open_parquet(struct builder *builder) {
    return arrow_dataset_open(builder, "parquet", INDEX_VERSION, parquet_scan_file);
}

const struct source_format source_parquet = {
    .name = "parquet",
    .summary = "Parquet files",
    .describe = arrow_dataset_describe,
    .open = open_parquet,
};

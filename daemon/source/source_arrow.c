#include "daemon/source/source_arrow.h"

#include "daemon/source/arrow/arrow_scan.h"

#define INDEX_VERSION 3u // of what a scan makes of files and fields

static int open_arrow(struct builder *builder) {
    return arrow_dataset_open(builder, "arrow", INDEX_VERSION, arrow_scan_file);
}

const struct source_format source_arrow = {
    .name = "arrow",
    .summary = "Arrow IPC files and streams",
    .describe = arrow_dataset_describe,
    .open = open_arrow,
};

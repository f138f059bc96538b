// A dataset format: how files become streams of records. One file a format, listed in source.c.
// Runs in the supervisor, once a dataset; loaders never see it.
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_H
#define FEEDD_DAEMON_SOURCE_SOURCE_H

#include "base/error.h"
#include "daemon/config/config.h"
#include "daemon/source/dataset.h"

struct builder;

struct source_format {
    const char *name; // as in the configuration; options.def lists it too
    const char *summary;
    // Opens and validates every file and adds fields, streams and files through the builder (builder.h).
    // On failure the caller releases whatever was added.
    int (*open)(struct builder *builder);
};

extern const struct source_format source_idx, source_records, source_npy, source_tokens;

// The format of that name, or NULL.
const struct source_format *source_find_format(const char *name);

// Opens the dataset a configuration section describes: format, files, sizes, fingerprint. Blocks on storage.
// On failure nothing is left open and the error names the section, what was found and what is wanted.
int source_open_dataset(const struct dataset_config *config, struct dataset **dataset, struct error *error);

#endif

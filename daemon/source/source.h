// Opens datasets. Runs in the supervisor, once per dataset; loaders never see it.
#ifndef FEEDD_DAEMON_SOURCE_SOURCE_H
#define FEEDD_DAEMON_SOURCE_SOURCE_H

#include <stdatomic.h>

#include "base/error.h"
#include "daemon/config/config.h"
#include "daemon/dataset/dataset.h"
#include "daemon/dataset/index_progress.h"
#include "daemon/source/source_format.h"

// Files that threads of this process have begun to open, reads that have ended, and steps of making tables of them.
// While it grows, storage answers.
extern _Atomic uint64_t source_progress;

// The format of that name, or NULL.
const struct source_format *source_find_format(const char *name);

// Whether what the configuration says of the datasets makes sense, as far as that shows before a file is opened: fields
// that overlap, transforms that do not exist. -EINVAL with file, line and key.
int source_check_config(const struct config *config, struct error *error);

// Opens the dataset that a configuration section describes: format, files, sizes, fingerprint. Blocks on storage.
// On failure nothing is left open, and the error names the section, what was found and what is wanted.
int source_open_dataset(const struct dataset_config *config, struct dataset **dataset, struct error *error);

// The same, for callers that care how its index is built.
struct source_index {
    bool known_only;                 // an index that would have to be built is refused with -EINPROGRESS
    struct index_progress *progress; // NULL: nobody looks
    // Of a view: its dataset, which is open and whose files and index the view shares. NULL: it opens its own files.
    struct dataset *base;
};
int source_open_indexed(const struct dataset_config *config, const struct source_index *index,
                        struct dataset **dataset, struct error *error);

#endif

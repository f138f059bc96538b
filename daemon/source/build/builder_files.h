// Patterns to paths, paths to open files.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_FILES_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_FILES_H

#include "base/scope.h"
#include "daemon/source/build/builder.h"

struct path_list {
    char **paths; // at least one, in byte order
    size_t count;
};

#define AUTO_PATHS CLEANUP(path_list_release)
void path_list_release(struct path_list *list);

// The path as seen from the configuration's folder, to be freed; NULL: no memory.
char *builder_absolute(const struct builder *builder, const char *path);

// The files that a path or glob pattern of the configuration names. Leading folders that exist as they are written are
// not part of the pattern.
int builder_expand(struct builder *builder, const char *text, struct path_list *list);

// Reports that a file could not be opened. Returns `code`, a negative errno.
int builder_refuse_open(struct builder *builder, int code, const char *path);

// Opens a regular file that is not empty.
int builder_open(struct builder *builder, const char *path, struct source_file *file);

// What a flat file is a sequence of.
struct builder_unit {
    const char *what; // "records"
    uint64_t bytes;   // of one
    const char *size; // these bytes, for messages: "record_bytes = 10"
};

// Opens a file of at least one unit after the configuration's header_bytes; *count of them.
int builder_open_flat(struct builder *builder, const char *path, const struct builder_unit *unit,
                      struct source_file *file, uint64_t *count);

// Reads all of `bytes`, or refuses: the file is too short for `what`, or cannot be read.
int builder_read(struct builder *builder, const struct source_file *file, void *buffer, size_t bytes,
                 uint64_t offset, const char *what);

// "gzip", "zip", ... if the first four bytes of a file say so, else NULL.
const char *builder_compression(const uint8_t head[4]);

#endif

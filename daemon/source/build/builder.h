// A dataset under construction. Formats add fields, streams and files through it, and refuse with a sentence.
// Every function that returns an int returns 0, or a negative errno with the builder's error filled.
//
// The steps of opening a dataset are built on this: builder_files.h, builder_transform.h, builder_fingerprint.h,
// builder_direct.h, and builder_finish.h, which completes it.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_BUILDER_H
#define FEEDD_DAEMON_SOURCE_BUILD_BUILDER_H

#include "base/error.h"
#include "base/scope.h"
#include "daemon/config/config.h"
#include "daemon/dataset/dataset.h"
#include "daemon/dataset/index_progress.h"

#define BUILDER_MAX_SAMPLE_BYTES (1ull << 30)

struct builder {
    const struct dataset_config *config;
    struct dataset *dataset;
    struct error *error;
    uint32_t file_room;                   // entries allocated in the dataset's arrays of files
    const char *key;                      // the key of the configuration at work, for messages
    const struct config_field *field;     // ... when it is a field
    const struct config_field *transform; // ... when it is a field's transform
    const struct config_field *pad;       // ... when it is a field's pad
    uint64_t *groups;                     // where they begin (builder_groups.h)
    size_t group_count, group_room;
    uint64_t chosen_hash;            // of how often each sample is chosen, if draws are from a choice; else 0
    bool known_index_only;           // an index that would have to be built is refused with -EINPROGRESS
    struct index_progress *progress; // of building the index; NULL: nobody looks
};

// A file that is open and not yet part of the dataset.
struct source_file {
    int fd;
    char *path;
    uint64_t size;
};

#define SOURCE_FILE_NONE ((struct source_file){.fd = -1})
#define AUTO_SOURCE_FILE CLEANUP(source_file_release)
void source_file_release(struct source_file *file);

// "CONFIGURATION:LINE: [dataset NAME] KEY: PATH: sentence"; `path` may be NULL. Returns `code`.
int builder_refuse(struct builder *builder, int code, const char *path, const char *format, ...)
    PRINTF_LIKE(4, 5);
int builder_out_of_memory(struct builder *builder);

// A field of one sample; `*index` is its place.
int builder_add_field(struct builder *builder, const char *name, uint32_t dtype, uint32_t dimensions,
                      const uint64_t *shape, uint32_t *index);

// A field whose samples have any number of values of that type.
int builder_add_ragged_field(struct builder *builder, const char *name, uint32_t dtype);

// A stream with no extents and no files. Files are added to the stream that was added last.
int builder_add_stream(struct builder *builder, uint64_t record_bytes);

// Puts a field into the records of the last stream. To be called in the order of offsets.
void builder_add_extent(struct builder *builder, uint32_t field, uint64_t offset);

// Takes the file over (also on failure). `samples` >= 1 records begin at `data_offset` and lie in the file.
int builder_add_file(struct builder *builder, struct source_file *file, uint64_t data_offset,
                     uint64_t samples);

#endif

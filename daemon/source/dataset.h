// A dataset, opened and validated: what the supervisor knows about it and what loaders get.
//
// Every format comes down to streams of fixed-size records: a stream is a sequence of files holding records
// one after another, each record holding one or more fields at byte offsets. idx and npy have one stream per
// field, records and tokens have one stream. Memory: one entry per file, none per sample.
//
// Samples of other formats lie anywhere and differ in size. Those formats have an index instead: tables with one entry
// per sample, a column per field. Their one stream has all files and no extents.
#ifndef FEEDD_DAEMON_SOURCE_DATASET_H
#define FEEDD_DAEMON_SOURCE_DATASET_H

#include "base/scope.h"
#include "daemon/source/transform.h"
#include "order/selection.h"
#include "shm/layout.h"

#define DATASET_MAX_STREAMS RING_MAX_FIELDS
#define DATASET_MAX_FILES   65536u

// One field within the records of a stream. In a stream, extents are sorted by offset and do not overlap.
struct dataset_extent {
    uint32_t field;
    uint32_t reserved;
    uint64_t offset; // in the record
    uint64_t bytes;  // of the field in one sample as it is stored: its sample_bytes unless it is transformed
};

struct dataset_file {
    uint64_t first_sample;
    uint64_t samples;
    uint64_t data_offset;   // of the first record
    uint64_t bytes;         // file size when it was validated
    uint32_t direct_memory; // alignment of memory that O_DIRECT requires; 0: the file is not opened for it
    uint32_t direct_offset; // ... of file offsets and lengths
};

struct dataset_stream {
    // distance from one sample to the next; windows of tokens reach into the next record
    uint64_t record_bytes;
    uint32_t first_file; // files[first_file .. first_file + file_count - 1]; together they hold `samples`
    uint32_t file_count;
    uint32_t extent_count;
    uint32_t reserved;
    struct dataset_extent extents[RING_MAX_FIELDS];
};

// Where the bytes of one field of one sample lie.
struct index_extent {
    uint64_t offset;
    uint32_t file; // in the layout
    uint32_t bytes;
};

enum column_kind {
    COLUMN_EXTENTS, // struct index_extent: the loader reads the bytes
    COLUMN_VALUES,  // the values themselves, one after another
    // Of windows of tokens, made from struct index_documents, one per file of the stream: for each token its place in
    // its document, and its document's number. i32.
    COLUMN_POSITIONS,
    COLUMN_DOCUMENTS,
};

// Where the documents of one file begin.
struct index_documents {
    uint64_t first; // number of the first one
    uint64_t count; // at least 1
    uint64_t
        starts; // offset in the index of u64[count]: where each begins, in tokens, in order; the first is 0
};

// One field of a dataset that has an index.
struct dataset_column {
    uint32_t field;
    uint32_t kind;   // enum column_kind
    uint64_t offset; // of the first sample's or file's entry in the index, a multiple of 8
    // Of the field in one sample, before any transform. An extent with more is cut; one with fewer is filled up with
    // `pad`.
    uint64_t bytes;
    uint32_t pad;
    uint32_t reserved;
};

// Position-independent: copied unchanged into a memfd for the loaders. File i is a loader's descriptor
// HERITAGE_FILES + i.
struct dataset_layout {
    uint64_t bytes;   // of this structure with its files
    uint64_t samples; // as delivered: those of a view, if it is one
    uint64_t fingerprint;
    struct selection selection; // of a view: which of the samples that the files hold
    uint32_t field_count;
    uint32_t stream_count;
    uint32_t file_count;
    uint32_t reserved;
    struct ring_field fields[RING_MAX_FIELDS]; // as delivered; slot_offset unused
    struct transform transforms[RING_MAX_FIELDS];
    struct dataset_stream streams[DATASET_MAX_STREAMS];
    uint64_t index_bytes; // 0: no index
    uint64_t index_hash;  // XXH3-64 of it
    uint32_t column_count;
    uint32_t reserved2;
    struct dataset_column columns[RING_MAX_FIELDS];
    struct dataset_file files[];
};

// What a selection has a list for (selection_list_bytes), as loaders map it.
struct dataset_list {
    uint64_t bytes; // of this structure with its words
    uint64_t words[];
};

// The supervisor's handle. Reference-counted: feeds in use keep theirs across a reload.
struct dataset {
    uint32_t references;
    char *name;
    char *of; // the dataset that this is a view of; NULL: it is none
    const char *format;
    struct dataset_layout *layout;
    char *transforms[RING_MAX_FIELDS]; // as written in the configuration; NULL: none
    char **paths;                      // layout->file_count of them
    int *fds;                          // read-only descriptors, O_DIRECT where direct_memory is set
    int list_fd;                       // sealed memory with a struct dataset_list; -1: none
    char index_note[384];              // for people: where the index is from; "" if there is none
    int index_fd;                      // sealed memory of layout->index_bytes; -1: none
    uint32_t io;                       // enum io_mode
    bool io_direct;
    uint32_t io_delay_us;
    bool skip_errors; // on_error = skip
};

struct dataset *dataset_ref(struct dataset *dataset);
void dataset_unref(struct dataset *dataset);

// The samples that the files hold, which are numbered from 0.
static inline uint64_t dataset_stored_samples(const struct dataset_layout *layout) {
    return layout->selection.kind == SELECTION_ALL ? layout->samples : layout->selection.of;
}

// Whether its samples are drawn by weight, as seed and epoch say, in whatever order it is read.
static inline bool dataset_is_drawn(const struct dataset *dataset) {
    return dataset->layout->selection.kind == SELECTION_WEIGHTED_1;
}

// The file of `stream` that holds `sample` (< dataset_stored_samples), searched from `hint` (any value; the previous
// answer is a good one).
uint32_t dataset_find_file(const struct dataset_layout *layout, const struct dataset_stream *stream,
                           uint64_t sample, uint32_t hint);

// The samples in all files of a stream.
uint64_t dataset_stream_samples(const struct dataset_layout *layout, const struct dataset_stream *stream);

#define DATASET_SHAPE_TEXT 256

// "[3,32,32]"; "" for a scalar.
const char *dataset_shape_text(uint32_t dimensions, const uint64_t *shape, char text[DATASET_SHAPE_TEXT]);

// For `feedd --check`: one line for the dataset and one per field.
void dataset_print(FILE *out, const struct dataset *dataset);

#endif

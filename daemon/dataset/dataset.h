// A dataset, opened and validated: what the supervisor knows about it and what loaders get.
//
// Every format comes down to streams of fixed-size records: a stream is a sequence of files holding records
// one after another, each record holding one or more fields at byte offsets. idx and npy have one stream per
// field, records and tokens have one stream. Memory: one entry per file, none per sample.
//
// Samples of other formats lie anywhere and differ in size. Those formats have an index instead: tables with one entry
// per sample, a column per field. Their one stream has all files and no extents.
//
// A mix has parts instead, one for each of its sources. Its layout has the files of all of them, folders last; all else
// about how a part is stored is in the part's own layout. The stored samples of all parts are numbered together,
// part by part.
#ifndef FEEDD_DAEMON_DATASET_DATASET_H
#define FEEDD_DAEMON_DATASET_DATASET_H

#include <stdatomic.h>

#include "base/scope.h"
#include "block/block.h"
#include "daemon/dataset/size_summary.h"
#include "daemon/dataset/transform.h"
#include "daemon/image/steps_fit.h"
#include "order/selection.h"
#include "order/window.h"
#include "shm/layout.h"
#include "shm/sample_cache.h"

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

// Where the bytes of one field of one sample lie. In a folder, they are a whole file, `file` is the folder that it lies
// beneath, and `offset` says where its path is in the index's text (base/path_text.h). In a column of blocks, `file` is
// the number of a block, and `offset` where the bytes begin in what it becomes.
struct index_extent {
    uint64_t offset;
    uint32_t file; // in the layout
    uint32_t bytes;
};

enum column_kind {
    COLUMN_EXTENTS, // struct index_extent: the loader reads the bytes
    COLUMN_VALUES,  // the values themselves, one after another
    COLUMN_TEXT,    // struct index_extent: the bytes lie in the index itself, at `offset` of its text
    // Of windows of tokens, made from struct index_documents, one per file of the stream, or one for all if windows
    // extend across files: for each token its place in its document, and its document's number. i32.
    COLUMN_POSITIONS,
    COLUMN_DOCUMENTS,
    COLUMN_BLOCKS,  // struct index_extent: the bytes lie in a block, which the loader decodes
    COLUMN_WINDOWS, // one struct index_windows: the loader reads or decodes the stretches that windows lie in
};

// Where the documents of one file begin.
struct index_documents {
    uint64_t first; // number of the first one
    uint64_t count; // at least 1
    // Offset in the index of u64[count]: where each begins, in tokens, in order; the first is 0.
    uint64_t starts;
};

// Tokens that lie in stretches of files or blocks, which together are one sequence, from file to file. A window begins
// `record_bytes` of the stream after the one before it. `count` struct index_stretch follow.
struct index_windows {
    uint64_t bytes; // of the sequence
    uint64_t count; // at least 1
};

// It extends to where the next one begins in the sequence, and is not empty.
struct index_stretch {
    uint64_t first;  // byte of the sequence that it begins with; rises from 0
    uint64_t offset; // in the file, or in what the block becomes
    uint32_t file;   // in the layout; if that has blocks, the number of a block
    uint32_t reserved;
};

// The most that one window may lie in: each costs a read or a block.
#define DATASET_MAX_STRETCHES 1024u

// One field of a dataset that has an index.
struct dataset_column {
    uint32_t field;
    uint32_t kind;   // enum column_kind
    uint64_t offset; // of the first sample's or file's entry in the index, a multiple of 8
    // Of the field in one sample, before any transform. An extent with more is cut; one with fewer is filled up with
    // `pad`. Of a field whose stored samples differ in size: in the largest sample, and a sample has what its extent
    // has.
    uint64_t bytes;
    uint64_t pad;    // a value, repeated until it has 8 bytes
    uint64_t mean;   // where they differ in size: of a sample, rounded up
    uint32_t varies; // they differ, and a stage makes samples of one shape of them: images that are decoded
    // Of windows that extend across files: the most stretches that one of them lies in. 0: each lies in one file.
    uint32_t stretches;
};

// The table of blocks, a struct index_block each, which follows the columns of an index.
struct dataset_blocks {
    uint64_t offset;                               // in the index, a multiple of 8
    uint64_t count;                                // 0: there is none
    uint64_t coded;                                // of them, without plain ones
    uint64_t stored_bytes, decoded_bytes, largest; // of coded ones; the largest when decoded
    uint64_t most_work, most_room;                 // block_work() and block_room() of those that need most
    uint64_t work_memory, memory; // that each loader has: for reading them, and for what they become
};

// The steps on images of one field, before its transform. All zero: there are none.
struct dataset_image {
    uint32_t used; // 1: there are, and the transform is one of pixels as they leave them
    struct image_stored stored;
    struct image_steps steps;
    uint64_t ring_area; // in a part of a mix: gpu_images_ring_area() of the source that needs most; else 0
};

// Decoded images that are kept for all feeds of a user: encoded images, as shm/sample_cache.h has them. Views of a
// dataset that decode alike have the same key.
struct dataset_cache {
    uint64_t bytes; // that it may take; 0: none are kept
    struct sample_cache_key key;
    uint32_t fields; // that are kept
    uint32_t reserved;
    uint32_t number[RING_MAX_FIELDS]; // of each field among them, from 1; 0: it is not kept
};

// Position-independent: copied unchanged into a memfd for the loaders. File i is a loader's descriptor
// HERITAGE_FILES + i.
struct dataset_layout {
    uint64_t bytes;   // of this structure with its files
    uint64_t samples; // as delivered: those of a view, if it is one; of a mix: those of an epoch
    uint64_t fingerprint;
    struct selection selection; // of a view: which of the samples that the files hold
    // Groups of a window, if the shuffled order is ORDER_WINDOW_1; 0: it is ORDER_FEISTEL_1. With the hash of where the
    // groups lie, which are those of the dataset, also in a view.
    uint32_t window;
    uint32_t groups;
    uint64_t groups_hash;
    uint32_t field_count;
    uint32_t stream_count; // of a mix: 0
    uint32_t file_count;
    uint32_t folder_count; // the last ones of the files are folders, whose files loaders open (folder_file.h)
    uint32_t part_count;   // of a mix; 0: it is none
    struct ring_field fields[RING_MAX_FIELDS]; // as delivered; slot_offset unused
    struct transform transforms[RING_MAX_FIELDS];
    struct dataset_image images[RING_MAX_FIELDS]; // what comes before the transform
    struct dataset_stream streams[DATASET_MAX_STREAMS];
    uint64_t index_bytes; // 0: no index
    uint64_t index_hash;  // XXH3-64 of it
    uint64_t
        text_offset; // of the index, where its text begins: what COLUMN_TEXT and paths are in; 0: with it
    uint64_t text_bytes;
    uint64_t incomplete_offset; // of the index: a bit per sample says that it is incomplete; 0: none is
    struct dataset_blocks blocks;
    struct dataset_cache cache;
    uint32_t column_count;
    uint32_t reserved2;
    struct dataset_column columns[RING_MAX_FIELDS];
    struct dataset_file files[];
};

// What a selection has a list for (selection_list_bytes), or a struct window_groups, as loaders map it.
struct dataset_list {
    uint64_t bytes; // of this structure with its words
    uint64_t words[];
};

// Of those words; 0: there is no list.
static inline size_t dataset_list_bytes(const struct dataset_layout *layout) {
    return layout->window ? window_groups_bytes(layout->groups) : selection_list_bytes(&layout->selection);
}

// How it is shuffled.
static inline enum order_version dataset_order(const struct dataset_layout *layout, bool shuffle) {
    if (!shuffle)
        return ORDER_SEQUENTIAL;
    return layout->window ? ORDER_WINDOW_1 : ORDER_FEISTEL_1;
}

// How it is shuffled as a source of a mix. Draws by weight are in random order anyway.
static inline enum order_version dataset_source_order(const struct dataset_layout *layout, bool shuffle) {
    return layout->selection.kind == SELECTION_WEIGHTED_1 ? ORDER_SEQUENTIAL : dataset_order(layout, shuffle);
}

// A source of a mix.
struct dataset_part {
    uint64_t first_sample; // the number of its first stored sample
    uint64_t
        layout; // offset in struct dataset_parts of its struct dataset_layout, which has no files: its streams refer
                // to those of the mix
    uint32_t first_file;   // of the mix's
    uint32_t first_number; // of a folder: the number of the file of its first stored sample
};

// All parts of a mix, as loaders map them. Position-independent.
struct dataset_parts {
    uint64_t bytes;   // of this structure with the layouts
    uint64_t samples; // stored in all parts
    uint32_t count;
    uint32_t reserved;
    struct dataset_part part[];
};

static inline const struct dataset_layout *dataset_part_layout(const struct dataset_parts *parts,
                                                               uint32_t i) {
    return (const struct dataset_layout *)(const void *)((const uint8_t *)parts + parts->part[i].layout);
}

// Fields and columns as the format makes them, before any transform. Views of the dataset start from these.
struct dataset_stored {
    struct ring_field fields[RING_MAX_FIELDS];
    struct dataset_column columns[RING_MAX_FIELDS];
    uint32_t padded; // bits: fields that have a pad, and would be ragged without it
    // Where the first WINDOW_MAX_GROUPS groups begin (builder_groups.h); none: where files or blocks do.
    uint64_t group_count;
    uint64_t groups[];
};

// The supervisor's handle. Reference-counted: feeds in use keep theirs across a reload. Only the count
// changes once it is open, so other threads may also read it, and take and drop references.
struct dataset {
    _Atomic uint32_t references;
    char *name;
    char *of; // the dataset that this is a view of; NULL: it is none
    const char *format;
    struct dataset_layout *layout;
    char *transforms[RING_MAX_FIELDS]; // as written in the configuration; NULL: none
    char **paths;                      // layout->file_count of them; a mix's are its sources'
    int *fds;               // the same: read-only, O_DIRECT where direct_memory is set; of folders, O_PATH
    int list_fd;            // sealed memory with a struct dataset_list; -1: none
    char *cache_path;       // the folder where its cache is kept; NULL: in memory alone
    uint64_t files_written; // of a folder: a hash of when its files were written to, as the index found them
    char index_note[384];   // for people: where the index is from; "" if there is none
    int index_fd;           // sealed memory of layout->index_bytes; -1: none
    const uint8_t *index;   // the same, mapped, if there are ragged fields; else NULL
    struct size_summary *sizes[RING_MAX_FIELDS];     // of fields that are ragged as they are stored; or NULL
    struct size_table *size_tables[RING_MAX_FIELDS]; // of fields that are delivered ragged, or NULL
    uint32_t io;                                     // enum io_mode
    bool io_direct;
    uint32_t io_delay_us;
    uint32_t on_error;                  // enum on_error
    struct incomplete_list *incomplete; // samples of the index; NULL: none
    // Tar archives without the mark of their end, and the number of the first one.
    uint32_t unended, first_unended;
    // Of a view: a reference to the dataset from which it borrows paths, fds, index_fd and more. What is the same in
    // both belongs to that dataset. NULL: everything is its own.
    struct dataset *base;
    bool brought;                  // a view that a client has brought
    struct dataset_stored *stored; // of a dataset, for views of feedd.conf; else NULL
    // Of a mix.
    struct dataset **sources; // layout->part_count references
    uint32_t *weights;        // of each source, without a common factor
    int parts_fd;             // sealed memory with a struct dataset_parts; -1: none
};

struct dataset *dataset_ref(struct dataset *dataset);
void dataset_unref(struct dataset *dataset);

// The samples that the files hold, which are numbered from 0.
static inline uint64_t dataset_stored_samples(const struct dataset_layout *layout) {
    return layout->selection.kind == SELECTION_ALL ? layout->samples : layout->selection.of;
}

// Of its cache; 0: it has none.
static inline uint64_t dataset_cache_entries(const struct dataset_layout *layout) {
    return layout->cache.bytes ? layout->cache.fields * dataset_stored_samples(layout) : 0;
}

// Of a field that is kept, and a stored sample.
static inline uint64_t dataset_cache_entry(const struct dataset_layout *layout, uint32_t field,
                                           uint64_t sample) {
    return (layout->cache.number[field] - 1) * dataset_stored_samples(layout) + sample;
}

// Whether its samples are drawn by weight, as seed and epoch say, in whatever order it is read.
static inline bool dataset_is_drawn(const struct dataset *dataset) {
    return dataset->layout->selection.kind == SELECTION_WEIGHTED_1;
}

// Whether its images, or those of a mix's sources, go through random steps.
bool dataset_is_augmented(const struct dataset *dataset);
// Whether its order, or what random steps make of images, depends on a seed.
bool dataset_needs_seed(const struct dataset *dataset, bool shuffle);
static inline bool dataset_is_ragged(const struct dataset_layout *layout) {
    for (uint32_t i = 0; i < layout->field_count; i++)
        if (layout->fields[i].ragged)
            return true;
    return false;
}

// The file of `stream` that holds `sample` (< dataset_stored_samples), searched from `hint` (any value; the previous
// answer is a good one).
uint32_t dataset_find_file(const struct dataset_layout *layout, const struct dataset_stream *stream,
                           uint64_t sample, uint32_t hint);

// `sample` is one of those stored, and `index` the dataset's.
static inline bool dataset_is_incomplete(const struct dataset_layout *layout, const uint8_t *index,
                                         uint64_t sample) {
    const uint64_t *bits = (const uint64_t *)(const void *)(index + layout->incomplete_offset);
    return layout->incomplete_offset && bits[sample / 64] >> (sample % 64) & 1;
}

// Those that are not folders, which come first.
static inline uint32_t dataset_plain_files(const struct dataset_layout *layout) {
    return layout->file_count - layout->folder_count;
}

// How many numbers loaders give to files: first those of the files that are not folders, then, for each folder dataset,
// those of its stored samples.
uint64_t dataset_file_numbers(const struct dataset *dataset);

// Whether a file with that number is in a folder.
static inline bool dataset_file_in_folder(const struct dataset_layout *layout, uint32_t number) {
    return layout->folder_count && number >= dataset_plain_files(layout);
}

// The dataset or view that has the file with that number: of a mix, a source. *number becomes its number there.
const struct dataset *dataset_of_file(const struct dataset *dataset, uint32_t *number);

// The path of a file, given its number, for people.
#define DATASET_PATH_TEXT 4096u
const char *dataset_file_path(const struct dataset *dataset, uint32_t number, char text[DATASET_PATH_TEXT]);

// Codes with which images are refused: numbers that no read ends with.
#define IMAGE_DAMAGED_ERROR EILSEQ
#define IMAGE_UNKNOWN_ERROR EMEDIUMTYPE
#define IMAGE_LARGE_ERROR   EOVERFLOW
#define IMAGE_SIZE_ERROR    EDOM

// Why a sample cannot be read, given what its read, its block or its stage ended with.
const char *dataset_read_reason(bool in_folder, int code);

// The samples in all files of a stream.
uint64_t dataset_stream_samples(const struct dataset_layout *layout, const struct dataset_stream *stream);

#define DATASET_SHAPE_TEXT 256

// "[3,32,32]"; "" for a scalar.
const char *dataset_shape_text(uint32_t dimensions, const uint64_t *shape, char text[DATASET_SHAPE_TEXT]);

#define DATASET_BYTES_TEXT 32

// "12.3 MiB"
const char *dataset_bytes_text(double bytes, char text[DATASET_BYTES_TEXT]);

// Of one sample as it is delivered, and of all in an epoch: with ragged fields, on average.
uint64_t dataset_sample_bytes(const struct dataset *dataset);
uint64_t dataset_bytes(const struct dataset *dataset);

// For `feedd --check`: one line for the dataset and one per field.
void dataset_print(FILE *out, const struct dataset *dataset);

#endif

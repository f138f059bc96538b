// The index of a dataset whose samples lie anywhere, as the daemon has it. That the daemon read the files correctly is
// believed; that what it says is within bounds is not.
#ifndef FEEDD_CLIENT_CTL_FILES_INDEX_H
#define FEEDD_CLIENT_CTL_FILES_INDEX_H

#include <limits.h>

#include "base/error.h"
#include "client/feed.h"
#include "client/lib/connection.h"

struct files_column {
    bool known;
    bool transformed; // the delivered bytes differ, and nothing else of the column has been checked
    bool ragged;      // samples have the bytes of their extents
    Feedd__Column__Kind kind;
    uint64_t offset;              // in the index, of the first sample's or file's entry
    uint64_t bytes;               // of the field in one sample, unless it is ragged
    uint64_t pad;                 // a value, repeated until it has 8 bytes
    uint64_t text;                // of kinds WITHIN and NAMES: what offsets in the index count from
    uint64_t blocks, block_count; // of kinds BLOCKS and WINDOWS: offset in the index of the blocks
    bool across;                  // of kinds POSITIONS and DOCUMENTS: windows extend across files
};

struct files_index {
    bool known; // some field has a column
    struct files_column columns[FEED_MAX_FIELDS];
    uint64_t *words;
    size_t count, room;
};

// Where the bytes of one sample's field are.
struct files_extent {
    uint64_t offset;
    uint32_t file;
    uint32_t bytes;
};

// Takes the columns that came with a list of files.
int files_index_take(struct files_index *index, uint32_t field_count, const Feedd__Answer *page,
                     struct error *error);

// Asks for the index of a dataset that has one.
int files_index_ask(struct files_index *index, struct connection *connection, const char *dataset,
                    struct error *error);

// Whether the index holds the column of a field for that many samples and files, and describes it as `array` does.
int files_index_check(const struct files_index *index, uint32_t field, const struct feed_array *array,
                      uint64_t samples, uint64_t files, struct error *error);

// Of a column that has been checked, of kind EXTENTS, WITHIN, NAMES or BLOCKS. The file, or block, is any number.
struct files_extent files_index_extent(const struct files_index *index, const struct files_column *column,
                                       uint64_t sample);

// ... of kind WITHIN: writes the `count` bytes that are delivered of a sample, and sets where they lie in the index.
int files_index_within(const struct files_index *index, const struct files_column *column, uint64_t sample,
                       void *bytes, size_t count, uint64_t *offset, struct error *error);

// ... of kind NAMES: writes the path of a sample's file, and returns it. NULL: the index has none there.
const char *files_index_path(const struct files_index *index, const struct files_column *column,
                             uint64_t sample, char path[PATH_MAX]);

// ... of kind WINDOWS: where byte `at` of the sequence lies, and at most `most` bytes from there on. The
// number of the file, or block, is not checked. -EPROTO: the index has that byte nowhere.
int files_index_stretch(const struct files_index *index, const struct files_column *column, uint64_t at,
                        uint64_t most, struct files_extent *stretch, struct error *error);

// ... of any other kind: writes the field of one sample, number `window` among those of its file. Returns the offset in
// the index of what was read.
uint64_t files_index_values(const struct files_index *index, const struct files_column *column,
                            uint64_t sample, uint32_t file, uint64_t window, void *values);

void files_index_free(struct files_index *index);

#endif

// The blocks of a dataset (block/block.h), which feedctl read --verify reads and decodes for itself. Which blocks there
// are, and where in them the samples lie, is what the daemon's index says.
#ifndef FEEDD_CLIENT_CTL_FILES_BLOCKS_H
#define FEEDD_CLIENT_CTL_FILES_BLOCKS_H

#include "base/queue.h"
#include "block/block_decode.h"
#include "client/ctl/files_index.h"

// Of decoded blocks that are kept; one alone may have more.
#define FILES_BLOCK_MEMORY (256u << 20)

struct kept_block;
TAILQ_HEAD(kept_blocks, kept_block);

struct files_blocks {
    uint64_t table; // offset in the index of the blocks, a struct index_block each
    uint64_t count; // of them; 0: there are none
    struct block_decoder decoder;
    // Where each record batch or row group begins: the file in the upper half, the row in the lower one. Sorted.
    uint64_t *groups;
    uint64_t group_count;
    struct kept_block **kept;  // by number of the block; NULL: it is not kept
    struct kept_blocks latest; // those that are; the last one was used last
    uint64_t bytes;            // of those
    uint64_t most_bytes;
};

// A sample in a block.
struct files_block_place {
    struct index_block block;
    uint32_t number; // of the block
    uint64_t offset; // in what it becomes
    uint32_t bytes;  // of the sample, in what it becomes
};

// Of a column of kind BLOCKS, or of kind WINDOWS with blocks, that has been checked. Other columns of the dataset have
// the same blocks. To be closed, also on failure.
int files_blocks_open(struct files_blocks *blocks, const struct files_index *index,
                      const struct files_column *column, struct error *error);
void files_blocks_close(struct files_blocks *blocks);

// Where the index says that a sample lies, which is row `row` of file `file`. -EBADMSG if that is in another file,
// record batch or row group, or outside of the block; or if it is a block that cannot be.
int files_blocks_find(const struct files_blocks *blocks, const struct files_index *index,
                      const struct files_column *column, uint64_t sample, uint32_t file, uint64_t row,
                      struct files_block_place *place, struct error *error);

// Where `bytes` lie at `offset` of block `number`, as the index says of a stretch of windows. -EBADMSG if the block
// does not have them, or is not valid.
int files_blocks_at(const struct files_blocks *blocks, const struct files_index *index, uint32_t number,
                    uint64_t offset, uint32_t bytes, struct files_block_place *place, struct error *error);

// What the block becomes, until the next call. Not of a plain one. `fd` and `path` are its file's.
int files_blocks_decode(struct files_blocks *blocks, const struct files_block_place *place, int fd,
                        const char *path, const uint8_t **decoded, struct error *error);

#endif

// Documents whose tokens lie in stretches of files or blocks, such as the values of a column in each record batch. All
// of them are laid end to end, from file to file, and windows are cut from that one sequence.
#ifndef FEEDD_DAEMON_SOURCE_TOKENS_SEQUENCE_H
#define FEEDD_DAEMON_SOURCE_TOKENS_SEQUENCE_H

#include "daemon/source/build/builder_index.h"
#include "daemon/source/tokens/documents.h"

struct sequence {
    uint32_t dtype;
    struct documents documents; // of all files
    struct index_stretch *stretches;
    uint64_t stretch_count;
    struct index_block *blocks; // that stretches lie in, if any of them has to be decoded
    uint64_t block_count;
    uint64_t *file_ends; // in tokens: how many the sequence has up to the end of each file that was added
    uint32_t file_count;
};

// How much is going to be added, at most.
struct sequence_room {
    uint32_t files;
    uint64_t documents, stretches;
    uint64_t blocks; // 0: stretches lie in files
};

// To be released, also on failure.
int sequence_init(struct builder *builder, struct sequence *sequence, uint32_t dtype,
                  const struct sequence_room *room);
void sequence_release(struct sequence *sequence);

// Adds the blocks of a file, if there is room for any.
void sequence_add_blocks(struct sequence *sequence, const struct index_blocks *blocks);

// `place` is the number of a file, or, if the sequence has blocks, of one of those. The tokens of documents follow each
// other, and lie in stretches that have been added by the end of their file.
void sequence_add_stretch(struct sequence *sequence, uint64_t place, uint64_t offset, uint64_t tokens);
void sequence_add_document(struct sequence *sequence, uint64_t tokens);
void sequence_end_file(struct sequence *sequence);

// Makes the dataset's index, and sets counts[i] to how many windows begin in file i.
int sequence_index(struct builder *builder, const struct sequence *sequence, uint64_t *counts);

#endif

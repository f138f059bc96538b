// How the index of a sequence is laid out: the documents, the stretches, where each document begins, blocks if there
// are any, and cu_seqlens.
#ifndef FEEDD_DAEMON_SOURCE_TOKENS_SEQUENCE_LAYOUT_H
#define FEEDD_DAEMON_SOURCE_TOKENS_SEQUENCE_LAYOUT_H

#include "daemon/source/build/index_writer.h"

// The start of the index, which says how much follows.
struct sequence_head {
    struct dataset_index index;
    struct index_documents documents;
    struct index_windows windows;
    struct index_stretch stretches[];
};

// Where the starts of documents begin, and where they end.
static inline uint64_t sequence_starts_at(uint64_t stretches) {
    return sizeof(struct sequence_head) + stretches * sizeof(struct index_stretch);
}
static inline uint64_t sequence_starts_end(uint64_t stretches, uint64_t documents) {
    return sequence_starts_at(stretches) + documents * sizeof(uint64_t);
}

// Sets the offsets of the columns that window_fields_add has made, except for that of cu_seqlens, and the most
// stretches that one window lies in, as *most says, too. -EFBIG: those are too many.
int sequence_place(struct builder *builder, const struct index_windows *windows,
                   const struct index_stretch *stretches, uint64_t *most);

// If loaders decode blocks, adds a group for each stretch in which windows begin. The dataset is shuffled by these
// groups, and so are its views, one of which may have a shuffle_window that the dataset lacks. `samples` is the number
// of windows.
int sequence_add_groups(struct builder *builder, const struct index_windows *windows,
                        const struct index_stretch *stretches, uint64_t samples);

// How many windows begin in the first `tokens` tokens of a sequence that has `of` windows.
static inline uint64_t sequence_windows_before(const struct builder *builder, uint64_t tokens, uint64_t of) {
    const uint64_t pack = builder->config->pack, begun = tokens / pack + (tokens % pack != 0);
    return begun < of ? begun : of;
}

#endif

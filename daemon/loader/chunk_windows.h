// Windows of tokens that extend across stretches of files: where they lie (struct index_windows).
#ifndef FEEDD_DAEMON_LOADER_CHUNK_WINDOWS_H
#define FEEDD_DAEMON_LOADER_CHUNK_WINDOWS_H

#include "daemon/loader/chunk.h"

struct chunk_stretch {
    bool coded;      // they lie in a block that has to be decoded
    uint32_t block;  // its number, if so
    uint32_t file;   // of the plan's layout
    uint64_t offset; // in the file, or in what the block becomes
    uint64_t bytes;  // of the window that lie there, at least 1
};

// Where byte `from` of a window of the segment's part lies. The window has more bytes than that.
struct chunk_stretch chunk_window_stretch(const struct chunk_plan *plan, const struct chunk_segment *segment,
                                          uint64_t sample, uint64_t from);

// The first byte of the window that lies in that block, which has some of it. The numbers of blocks rise from stretch
// to stretch, and each has one.
uint64_t chunk_window_block(const struct chunk_plan *plan, const struct chunk_segment *segment,
                            uint64_t sample, uint32_t block);

#endif

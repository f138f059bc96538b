// The progress of building an index, in words.
#ifndef FEEDD_DAEMON_SUPERVISOR_INDEX_FIGURES_H
#define FEEDD_DAEMON_SUPERVISOR_INDEX_FIGURES_H

#include <stdint.h>

#define INDEXING_TEXT 160u

// The figures of a dataset whose index is being built.
struct index_figures {
    uint64_t files, files_done;
    uint64_t bytes, bytes_done;
    uint64_t elapsed_ns;
    uint64_t silent_ns; // time since any of the above has grown
};

// "12 of 100 files, 0.40 of 3.20 GB, 0.12 GB/s, about 25 s left"
const char *index_figures_describe(const struct index_figures *figures, char text[INDEXING_TEXT]);

#endif

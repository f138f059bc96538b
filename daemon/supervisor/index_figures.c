#include "daemon/supervisor/index_figures.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/time.h"
#include "daemon/dataset/dataset.h"

#define SILENT_NS (10 * NS_PER_S) // storage that answers is not silent for that long

const char *index_figures_describe(const struct index_figures *figures, char text[INDEXING_TEXT]) {
    double seconds = (double)figures->elapsed_ns / NS_PER_S, done = (double)figures->bytes_done;
    char some[DATASET_BYTES_TEXT], all[DATASET_BYTES_TEXT];
    size_t used = (size_t)snprintf(text, INDEXING_TEXT, "%" PRIu64 " of %" PRIu64 " files, %s of %s",
                                   figures->files_done, figures->files, dataset_bytes_text(done, some),
                                   dataset_bytes_text((double)figures->bytes, all));
    if (figures->silent_ns >= SILENT_NS)
        snprintf(text + used, INDEXING_TEXT - used, ", nothing read for %" PRIu64 " s",
                 figures->silent_ns / NS_PER_S);
    else if (done > 0 && seconds > 0)
        snprintf(text + used, INDEXING_TEXT - used, ", %s/s, about %.0f s left",
                 dataset_bytes_text(done / seconds, some), seconds * ((double)figures->bytes - done) / done);
    return text;
}

#include "client/ctl/indexing.h"

#include <inttypes.h>

#include "base/error.h"
#include "base/sizes.h"
#include "base/time.h"

#define SILENT_NS (10 * NS_PER_S) // storage that answers is not silent for so long

static uint64_t rate_of(const Feedd__Indexing *indexing) {
    return (uint64_t)((double)indexing->bytes_done / ((double)max_u64(indexing->elapsed_ns, 1) / 1e9));
}

static double rest_s(const Feedd__Indexing *indexing) {
    double done = (double)indexing->bytes_done;
    return done > 0 ? (double)indexing->elapsed_ns / 1e9 * ((double)indexing->bytes - done) / done : -1;
}

const char *indexing_text(const Feedd__Indexing *indexing, char text[INDEXING_TEXT]) {
    char done[CTL_TEXT], all[CTL_TEXT], rate[CTL_TEXT], rest[CTL_TEXT];
    ctl_format_bytes(indexing->bytes_done, done);
    ctl_format_bytes(indexing->bytes, all);
    ctl_format_bytes(rate_of(indexing), rate);
    size_t used = (size_t)snprintf(text, INDEXING_TEXT, "%" PRIu64 " of %" PRIu64 " files, %s of %s",
                                   indexing->files_done, indexing->files, done, all);
    if (indexing->silent_ns >= SILENT_NS) {
        ctl_format_duration(indexing->silent_ns, rest);
        snprintf(text + used, INDEXING_TEXT - used, ", nothing read for %s", rest);
    } else if (indexing->bytes_done) {
        ctl_format_duration((uint64_t)(max_u64(1, (uint64_t)(rest_s(indexing) * 1e9))), rest);
        snprintf(text + used, INDEXING_TEXT - used, ", %s/s, about %s left", rate, rest);
    }
    return text;
}

json_t *indexing_json(const Feedd__Indexing *indexing) {
    if (!indexing)
        return json_null();
    double rest = rest_s(indexing);
    return json_pack("{s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:o}", "files", (json_int_t)indexing->files,
                     "files_done", (json_int_t)indexing->files_done, "bytes", (json_int_t)indexing->bytes,
                     "bytes_done", (json_int_t)indexing->bytes_done, "elapsed_s",
                     (double)indexing->elapsed_ns / 1e9, "silent_s", (double)indexing->silent_ns / 1e9,
                     "bytes_per_s", (json_int_t)rate_of(indexing), "rest_s",
                     rest < 0 ? json_null() : json_real(rest));
}

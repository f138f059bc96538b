// A view that a consumer brings, as one argument:
//   range:BEGIN:END   split:BEGIN:END:SEED   indices:DTYPE:FILE   weights:DTYPE:DRAWS:FILE
// with bounds in millionths, the number of a dtype, and a file of nothing but numbers. Weights may be followed by | and
// the view that draws are from.
#ifndef FEEDD_TESTS_INTEGRATION_VIEW_ARGUMENT_H
#define FEEDD_TESTS_INTEGRATION_VIEW_ARGUMENT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/feed.h"

static inline bool view_read(const char *path, uint32_t dtype, struct feed_view *view) {
    FILE *file = fopen(path, "rb");
    long bytes = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
    void *data = bytes > 0 ? malloc((size_t)bytes) : NULL;
    bool read = data && fseek(file, 0, SEEK_SET) == 0 && fread(data, 1, (size_t)bytes, file) == (size_t)bytes;
    if (file)
        fclose(file);
    view->dtype = (enum feed_dtype)dtype;
    view->count = read ? (uint64_t)bytes / feed_dtype_bytes(view->dtype) : 0;
    view->data = data; // until the process ends
    return read;
}

static inline bool view_parse_one(const char *text, struct feed_view *view) {
    uint32_t dtype;
    int path = 0;
    *view = (struct feed_view){.bytes = sizeof *view};
    if (sscanf(text, "split:%" SCNu32 ":%" SCNu32 ":%" SCNu64, &view->begin, &view->end, &view->seed) == 3) {
        view->kind = FEED_SPLIT;
        return true;
    }
    if (sscanf(text, "range:%" SCNu32 ":%" SCNu32, &view->begin, &view->end) == 2) {
        view->kind = FEED_RANGE;
        return true;
    }
    if (sscanf(text, "indices:%" SCNu32 ":%n", &dtype, &path) == 1 && path) {
        view->kind = FEED_INDICES;
        return view_read(text + path, dtype, view);
    }
    if (sscanf(text, "weights:%" SCNu32 ":%" SCNu64 ":%n", &dtype, &view->epoch_samples, &path) == 2 &&
        path) {
        view->kind = FEED_WEIGHTS;
        return view_read(text + path, dtype, view);
    }
    return false;
}

// NULL is not a view: `view` is untouched. False: it cannot be understood or read.
static inline bool view_parse(const char *text, struct feed_view *view) {
    static struct feed_view part;
    if (!text)
        return true;
    const char *bar = strchr(text, '|');
    char *whole = strndup(text, bar ? (size_t)(bar - text) : strlen(text));
    bool parsed = whole && view_parse_one(whole, view) && (!bar || view_parse_one(bar + 1, &part));
    free(whole);
    if (parsed && bar)
        view->part = &part;
    return parsed;
}

#endif

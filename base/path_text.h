// Paths of files in the text of an index. Most are stored in parts. A stem, which many paths of a directory share, has
// the beginning and the end of the path; the rest, which belongs to this path alone, goes between them.
//
// One number locates a path: its low PATH_REST_BITS are the offset of the rest in the text, and the bits above are the
// number of the stem, counted from 1; 0: no stem. The text ends with a table of stems: a u64 for each, the offset of
// its two parts, which lie one after the other, and then a u64, the number of stems. Each part ends with a 0, and so
// does the text.
#ifndef FEEDD_BASE_PATH_TEXT_H
#define FEEDD_BASE_PATH_TEXT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PATH_REST_BITS  40u
#define PATH_STEMS_MOST ((1u << 24) - 1)

struct path_text {
    const uint8_t *text;
    uint64_t bytes;
};

// Whether the text has a table whose stems lie in the text.
bool path_text_check(const struct path_text *text);

// Whether `where` can locate a path in a text that path_text_check has accepted.
static inline bool path_text_has(const struct path_text *text, uint64_t stems, uint64_t where) {
    return (where & ((UINT64_C(1) << PATH_REST_BITS) - 1)) < text->bytes && where >> PATH_REST_BITS <= stems;
}

// The number of stems; 0 also if the text has no table.
uint64_t path_text_stems(const struct path_text *text);

// Writes the path and returns its length. If there is none or it is too long, writes an empty path and returns 0. Never
// reads outside the text, whatever it contains.
size_t path_text_get(const struct path_text *text, uint64_t where, char path[PATH_MAX]);

#endif

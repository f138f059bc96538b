// Paths of files in the text of an index. Most are in parts: a stem, which many paths of a directory share, says how
// they begin and how they end, and a rest of its own is between the two.
//
// Where a path is, is one number: its low PATH_REST_BITS say where in the text its rest begins, those above which stem
// it has, counted from 1; 0: it has none. The text ends with its table of stems: for each, a u64 says where in the text
// its two parts begin, one after the other; and then a u64 says how many there are. All parts end with a 0, and so does
// the text.
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

// Whether the text has a table, and its stems lie in it.
bool path_text_check(const struct path_text *text);

// Whether that can be where a path is, of a text that path_text_check has accepted.
static inline bool path_text_has(const struct path_text *text, uint64_t stems, uint64_t where) {
    return (where & ((UINT64_C(1) << PATH_REST_BITS) - 1)) < text->bytes && where >> PATH_REST_BITS <= stems;
}

// How many stems there are; 0 also of a text that has no table.
uint64_t path_text_stems(const struct path_text *text);

// Returns the length of the path that is there. 0, and an empty path: there is none, or it is too long. Reads nothing
// outside the text, whatever is in it.
size_t path_text_get(const struct path_text *text, uint64_t where, char path[PATH_MAX]);

#endif

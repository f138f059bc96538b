#include "base/path_text.h"

#include <string.h>

#define REST_MASK ((UINT64_C(1) << PATH_REST_BITS) - 1)

static uint64_t word_at(const struct path_text *text, uint64_t offset) {
    uint64_t word;
    memcpy(&word, text->text + offset, sizeof word);
    return word;
}

// PATH_STEMS_MOST keeps the last byte of the count 0, so every string that begins in the text ends within it.
uint64_t path_text_stems(const struct path_text *text) {
    if (text->bytes < sizeof(uint64_t))
        return 0;
    const uint64_t count = word_at(text, text->bytes - sizeof count);
    return count <= PATH_STEMS_MOST && count < text->bytes / sizeof count ? count : 0;
}

static uint64_t stem_at(const struct path_text *text, uint64_t stems, uint64_t number) {
    return word_at(text, text->bytes - (stems + 2 - number) * sizeof(uint64_t));
}

bool path_text_check(const struct path_text *text) {
    if (text->bytes < sizeof(uint64_t))
        return false;
    const uint64_t stems = path_text_stems(text);
    if (stems != word_at(text, text->bytes - sizeof stems))
        return false;
    for (uint64_t i = 1; i <= stems; i++)
        if (stem_at(text, stems, i) >= text->bytes - (stems + 1) * sizeof stems)
            return false;
    return true;
}

// Returns the offset after the string, or 0 if the string is not in the text or does not fit in the path.
static uint64_t append(const struct path_text *text, uint64_t at, char *path, size_t *used) {
    if (at >= text->bytes)
        return 0;
    const char *part = (const char *)text->text + at;
    const size_t length = strlen(part);
    if (length >= PATH_MAX - *used)
        return 0;
    memcpy(path + *used, part, length + 1);
    *used += length;
    return at + length + 1;
}

size_t path_text_get(const struct path_text *text, uint64_t where, char path[PATH_MAX]) {
    const uint64_t stem = where >> PATH_REST_BITS, rest = where & REST_MASK, stems = path_text_stems(text);
    size_t used = 0;
    uint64_t end = 0;
    bool whole = text->bytes >= sizeof(uint64_t) && text->text[text->bytes - 1] == 0 && stem <= stems;
    if (whole && stem)
        whole = (end = append(text, stem_at(text, stems, stem), path, &used)) != 0;
    if (whole)
        whole = append(text, rest, path, &used) != 0;
    if (whole && stem)
        whole = append(text, end, path, &used) != 0;
    if (!whole)
        used = 0;
    path[used] = '\0';
    return used;
}

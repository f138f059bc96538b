#include "base/sentence.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/sizes.h"
#include "base/text.h"

#define RAW_BYTES   (4 * SENTENCE_BYTES_MOST) // three paths, or all of a sentence that has been escaped
#define WORD_LENGTH 48u                       // words that are no longer stay whole
#define DOTS        "..."
#define DOTS_LENGTH (sizeof DOTS - 1)

// Of the words, which spaces separate, the longest.
static char *longest_word(char *text, size_t *length) {
    char *longest = text;
    *length = 0;
    for (char *word = text; *word;) {
        size_t letters = strcspn(word, " ");
        if (letters > *length) {
            longest = word;
            *length = letters;
        }
        word += letters + strspn(word + letters, " ");
    }
    return longest;
}

static bool begins_character(char byte) {
    return ((unsigned char)byte & 0xc0) != 0x80;
}

// Takes bytes out of the first `length` so that at most `keep` are left, with the dots. A path says more at its end.
static void cut_middle(char *text, size_t length, size_t keep) {
    size_t head = (keep - DOTS_LENGTH) / 3, tail = length - (keep - DOTS_LENGTH - head);
    for (int most = 3; most > 0 && head > 0 && !begins_character(text[head]); most--)
        head--;
    for (int most = 3; most > 0 && tail < length && !begins_character(text[tail]); most--)
        tail++;
    memcpy(text + head, DOTS, DOTS_LENGTH);
    memmove(text + head + DOTS_LENGTH, text + tail, strlen(text + tail) + 1);
}

static void fit(char *text, size_t bytes) {
    for (size_t all; (all = strlen(text)) >= bytes;) {
        const size_t excess = all - (bytes - 1);
        size_t length;
        char *word = longest_word(text, &length);
        if (length <= WORD_LENGTH) {
            cut_middle(text, all, bytes - 1);
            return;
        }
        // At most by half, so that two paths share the room.
        size_t keep = max_u64(length > excess ? length - excess : 0, max_u64(length / 2, WORD_LENGTH));
        cut_middle(word, length, keep);
    }
}

void sentence_format(char *text, size_t bytes, const char *format, va_list arguments) {
    const int saved = errno;
    char whole[RAW_BYTES];
    vsnprintf(whole, sizeof whole, format, arguments);
    fit(whole, bytes);
    text_escape(whole, sizeof whole);
    fit(whole, bytes);
    memcpy(text, whole, strlen(whole) + 1);
    errno = saved;
}

void sentence_write(char *text, size_t bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    sentence_format(text, bytes, format, arguments);
    va_end(arguments);
}

// Bytes of a sample that are text.
#ifndef FEEDD_CLIENT_CTL_SAMPLE_TEXT_H
#define FEEDD_CLIENT_CTL_SAMPLE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// Whether the bytes are UTF-8 that can be printed, of at least one character, and then only zeros. Newlines, carriage
// returns and tabs count as printable; characters that change the direction of writing do not. `*length` is without
// the zeros.
bool sample_text_is(const uint8_t *bytes, size_t count, size_t *length);

// Writes such a text in quotes, where newlines, carriage returns, tabs, quotes and backslashes are escaped. It begins
// at column `at` and continues there in new lines: after a newline, and where the next word would pass `width` (0:
// any). Words that are longer than a line are cut.
void sample_text_print(const uint8_t *text, size_t length, uint32_t at, uint32_t width, FILE *out);

#endif

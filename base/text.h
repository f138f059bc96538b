// Text from outside, made fit for one line of a log or a terminal.
#ifndef FEEDD_BASE_TEXT_H
#define FEEDD_BASE_TEXT_H

#include <stddef.h>

// Replaces each byte of a control character, and each that is not UTF-8, by "\xNN", in place; what no longer fits into
// `bytes` is cut off, but no character in the middle.
void text_escape(char *text, size_t bytes);

#endif

// Text from outside, made fit for one line of a log or a terminal.
#ifndef FEEDD_BASE_TEXT_H
#define FEEDD_BASE_TEXT_H

#include <stddef.h>

// Replaces each control character by "\xNN", in place; what no longer fits into `bytes` is cut off.
void text_escape(char *text, size_t bytes);

#endif

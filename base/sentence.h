// Sentences for people, in memory of a fixed size. They quote paths and other texts from outside, some of which are
// longer than that, and the reason stands behind them.
#ifndef FEEDD_BASE_SENTENCE_H
#define FEEDD_BASE_SENTENCE_H

#include <stdarg.h>
#include <stddef.h>

#include "base/scope.h"

#define SENTENCE_BYTES_MOST 4096u

// Writes a sentence into `text`, which has room for `bytes` (32 to SENTENCE_BYTES_MOST). Control characters are escaped
// (base/text.h). If it is too long, "..." replaces the middle of its longest words, which are its paths; if all words
// are short, "..." replaces a part before its end. errno is as before, also for %m.
void sentence_format(char *text, size_t bytes, const char *format, va_list arguments) PRINTF_LIKE(3, 0);
void sentence_write(char *text, size_t bytes, const char *format, ...) PRINTF_LIKE(3, 4);

#endif

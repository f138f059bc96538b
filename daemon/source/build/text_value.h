// Numbers written as text, as data sets store classes and scores.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_TEXT_VALUE_H
#define FEEDD_DAEMON_SOURCE_BUILD_TEXT_VALUE_H

#include "base/dtype.h"

#include <stdbool.h>

#define TEXT_VALUE_BYTES 64u // of text at most, without blanks around it

// Whether text_value can make that type: integers, f32 and f64.
bool text_value_takes(uint32_t dtype);

// Writes the number in `text`, which need not end with 0, as a value of `dtype`. Blanks and newlines around it are
// ignored. False: not a number, or not one of that type.
bool text_value(const char *text, size_t length, uint32_t dtype, void *value);

#endif

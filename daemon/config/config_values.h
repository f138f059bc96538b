// Values of options, from text and back. Pure functions; false means that the text is no such value.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_VALUES_H
#define FEEDD_DAEMON_CONFIG_CONFIG_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/scope.h"

// Decimal digits and nothing else.
bool value_parse_integer(const char *text, uint64_t *value);

// A whole number with K, M, G or T (powers of 1024) or no unit.
bool value_parse_size(const char *text, uint64_t *value);

// A whole number with s, m or h; seconds where there is no unit.
bool value_parse_duration(const char *text, uint64_t *seconds);

// Three or four octal digits.
bool value_parse_mode(const char *text, uint64_t *mode);

bool value_parse_bool(const char *text, bool *value);

// The place of `text` in "first|second|third".
bool value_parse_choice(const char *text, const char *choices, uint64_t *value);

// The name at place `value` of "first|second|third"; "?" past the end.
const char *value_choice_name(const char *choices, uint64_t value, char *name, size_t bytes);

#define VALUE_TEXT 32

// "4G", "1500", in the largest unit that leaves a whole number.
const char *value_format_size(uint64_t value, char text[VALUE_TEXT]);

#endif

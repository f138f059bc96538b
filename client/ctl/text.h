// Numbers and errors for people, values for JSON.
#ifndef FEEDD_CLIENT_CTL_TEXT_H
#define FEEDD_CLIENT_CTL_TEXT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

// "feedctl: " and the sentence, on standard error. Returns CTL_FAILED.
int ctl_complain(const struct error *error);

#define CTL_TEXT 32

// "1.5 GiB", "640 B": powers of 1024, as memory is measured.
void ctl_format_bytes(uint64_t bytes, char text[CTL_TEXT]);
// "12.3k", "4.56M": powers of 1000, three digits.
void ctl_format_count(double value, char text[CTL_TEXT]);
// "0.3 s", "5 min 2 s", "3 h 12 min", "4 d 1 h".
void ctl_format_duration(uint64_t ns, char text[CTL_TEXT]);

// The width of the terminal if standard output is one, otherwise COLUMNS from the environment, or 0.
uint32_t ctl_terminal_width(void);

// Writes over the line that the cursor is in, on a terminal at standard error; what does not fit into it is cut off.
void ctl_overwrite(const char *text);
// Whether a text fits into a line there.
bool ctl_fits_line(const char *text);

// Puts a JSON value on standard output, in one line or (`pretty`) indented, and releases it.
void ctl_print_json(json_t *value, bool pretty);
// The same in one line, with all digits of every number.
void ctl_print_json_exact(json_t *value);
// A JSON string, even for bytes that are not UTF-8.
json_t *ctl_json_text(const char *text);
// Numbers that do not fit into JSON's integers here (63 bits) are strings.
json_t *ctl_json_word(uint64_t value);

#endif

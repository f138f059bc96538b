// Words of a field's type and place, as feedd.conf has them: "u8[28,28] @ 16".
#ifndef FEEDD_DAEMON_SOURCE_BUILD_FIELD_WORDS_H
#define FEEDD_DAEMON_SOURCE_BUILD_FIELD_WORDS_H

#include <stdbool.h>
#include <stdint.h>

const char *field_skip_blanks(const char *at);

// A decimal number at *at, which then is what follows the blanks behind it. False: there is none, or it is too large.
bool field_take_number(const char **at, uint64_t *number);

// For a field of bytes, a length or numbers: the type that an unknown one resembles most. NULL: it is one, or resembles
// none.
const char *field_nearest_type(const char *type);

#endif

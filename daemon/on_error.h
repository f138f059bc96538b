// What happens when a sample cannot be read, as feedd.conf says it: on_error = fail, skip or replace.
#ifndef FEEDD_DAEMON_ON_ERROR_H
#define FEEDD_DAEMON_ON_ERROR_H

#include <stdint.h>

enum on_error {
    ON_ERROR_FAIL,
    ON_ERROR_SKIP,
    ON_ERROR_REPLACE,
};

// "?" for a number that is none of them.
const char *on_error_name(uint32_t on_error);

#endif

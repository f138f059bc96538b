// Weights that are refused, as text.
#ifndef FEEDD_DAEMON_SOURCE_BUILD_WEIGHT_TEXT_H
#define FEEDD_DAEMON_SOURCE_BUILD_WEIGHT_TEXT_H

#include <stdint.h>

#define WEIGHT_TEXT 48

// What weight_decode refuses with `err`: "nan", "-inf", "-3".
const char *weight_text(uint32_t dtype, uint64_t word, int err, char text[WEIGHT_TEXT]);

#endif

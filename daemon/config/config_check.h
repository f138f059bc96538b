// What can be checked only when the whole configuration is known.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_CHECK_H
#define FEEDD_DAEMON_CONFIG_CONFIG_CHECK_H

#include "base/error.h"
#include "base/scope.h"
#include "daemon/config/config_options.h"

// The line of each option of one section; 0: it is absent.
struct config_lines {
    uint32_t section; // the line of the section itself
    uint32_t option[CONFIG_OPTIONS];
};

// Fills `error` with "FILE:LINE: [section] key: " and the sentence, and returns -EINVAL. `dataset` is NULL
// for [feedd], `key` NULL for the section itself.
int config_refuse(struct error *error, const char *file, uint32_t line, const struct dataset_config *dataset,
                  const char *key, const char *format, ...) PRINTF_LIKE(6, 7);

// Checks for missing keys, keys that the format does not have, and keys that contradict each other. lines[0] is
// [feedd]'s, lines[1 + i] dataset i's. Fills in what datasets inherit from [feedd].
int config_check(struct config *config, const struct config_lines *lines, struct error *error);

#endif

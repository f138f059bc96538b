// From the text of a configuration to its values, line by line.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_PARSE_H
#define FEEDD_DAEMON_CONFIG_CONFIG_PARSE_H

#include "base/error.h"
#include "daemon/config/config_check.h"

// One file of a configuration. The strings last as long as the configuration, except for the text.
struct config_text {
    const char *file;
    const char *folder;
    const char *text;
    bool included; // by another one: it has no [feedd]
};

// Adds what the file says to `config`, which already holds the defaults, and to *lines (also on failure; the caller
// frees it): one entry for [feedd] and one per dataset. With the first file, *lines is NULL.
int config_parse(struct config *config, const struct config_text *from, struct config_lines **lines,
                 struct error *error);

#endif

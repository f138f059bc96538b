// From the text of a configuration to its values, line by line.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_PARSE_H
#define FEEDD_DAEMON_CONFIG_CONFIG_PARSE_H

#include "base/error.h"
#include "daemon/config/config_check.h"

// Fills `config`, which already holds the defaults and the name of the file, and *lines (also on failure; the caller
// frees it): one entry for [feedd] and one per dataset.
int config_parse(struct config *config, const char *text, struct config_lines **lines, struct error *error);

#endif

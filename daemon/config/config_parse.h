// From the text of a configuration to its values, line by line.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_PARSE_H
#define FEEDD_DAEMON_CONFIG_CONFIG_PARSE_H

#include "base/error.h"
#include "daemon/config/config_check.h"

// Fills `config`, which holds the defaults and the file's name already, and *lines (also on failure; to be
// freed), one entry for [feedd] and one a dataset.
int config_parse(struct config *config, const char *text, struct config_lines **lines, struct error *error);

#endif

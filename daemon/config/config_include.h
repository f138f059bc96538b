// The other files of a configuration, which `include` names.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_INCLUDE_H
#define FEEDD_DAEMON_CONFIG_CONFIG_INCLUDE_H

#include "base/error.h"
#include "daemon/config/config_check.h"

// Adds the datasets, views and mixes of these files, in byte order of their names, to `config`, whose own file has been
// parsed. *lines grows as in config_parse().
int config_include(struct config *config, struct config_lines **lines, struct error *error);

#endif

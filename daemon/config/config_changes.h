// What a reload changes in the configuration. Pure.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_CHANGES_H
#define FEEDD_DAEMON_CONFIG_CONFIG_CHANGES_H

#include "daemon/config/change_lines.h"
#include "daemon/config/config.h"

#define CONFIG_CHANGES_WARNING "warning: " // how a line begins that needs attention

// Adds a line for each difference between the configuration in use and the new one: first warnings about options that
// take effect only after a restart, then other options, then datasets. `listening_on` is the socket that is really
// listened on.
void config_describe_changes(const struct config *old, const struct config *new, const char *listening_on,
                             struct change_lines *lines);

#endif

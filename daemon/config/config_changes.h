// What a reload changes, in lines for people. Pure.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_CHANGES_H
#define FEEDD_DAEMON_CONFIG_CONFIG_CHANGES_H

#include "daemon/config/config.h"

#define CONFIG_CHANGES_WARNING "warning: " // how a line begins that needs attention

// Writes a line for each difference between the configuration in use and the new one: first warnings about options that
// take effect only after a restart, then other options, then datasets. `listening_on` is the socket that is really
// listened on. Lines are separated by '\n'; the last has none. Of what does not fit into `bytes` the last line says how
// many lines there are. Returns how many lines there would be; with no difference 0, and `text` is empty.
size_t config_describe_changes(const struct config *old, const struct config *new, const char *listening_on,
                               char *text, size_t bytes);

#endif

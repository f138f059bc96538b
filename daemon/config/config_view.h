// Views: parts of datasets that clients open by names of their own.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_VIEW_H
#define FEEDD_DAEMON_CONFIG_CONFIG_VIEW_H

#include "base/error.h"
#include "daemon/config/config_check.h"

// Gives a view all settings of its dataset, which has been checked, except for the fields that it transforms itself.
// `lines` are the view's. -EINVAL with file, line and key, or -ENOMEM.
int config_resolve_view(const struct config *config, struct dataset_config *view,
                        const struct config_lines *lines, struct error *error);

#endif

// Mixes: samples of several datasets and views by weight, which clients open by a name of their own.
#ifndef FEEDD_DAEMON_CONFIG_CONFIG_MIX_H
#define FEEDD_DAEMON_CONFIG_CONFIG_MIX_H

#include "base/error.h"
#include "daemon/config/config_check.h"

// Finds the sources of a mix among the datasets and views, which have been checked, and its weights as whole numbers.
// `lines` are the mix's. -EINVAL with file, line and key, or -ENOMEM.
int config_resolve_mix(const struct config *config, struct dataset_config *mix,
                       const struct config_lines *lines, struct error *error);

#endif

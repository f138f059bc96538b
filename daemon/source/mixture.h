// Opens mixes: one dataset whose parts are datasets and views that are open already.
#ifndef FEEDD_DAEMON_SOURCE_MIXTURE_H
#define FEEDD_DAEMON_SOURCE_MIXTURE_H

#include "base/error.h"
#include "daemon/config/config.h"
#include "daemon/dataset/dataset.h"

// `opened` are the datasets of the configuration, in its order; the mix keeps references to its sources. -EINVAL if
// their fields differ, -EMFILE or -EOVERFLOW if together they have too many files or samples, -ENOMEM; the error names
// the section and what differs.
int mixture_open(const struct dataset_config *config, struct dataset *const *opened, struct dataset **dataset,
                 struct error *error);

#endif

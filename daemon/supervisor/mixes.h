// Mixes whose sources are not all there yet: opened on the loop, which takes a few milliseconds and no storage.
#ifndef FEEDD_DAEMON_SUPERVISOR_MIXES_H
#define FEEDD_DAEMON_SUPERVISOR_MIXES_H

#include "base/error.h"
#include "daemon/supervisor/supervisor.h"

// Whether it is known of each source of a mix if it will be there. True for all others.
bool mixes_is_settled(const struct supervisor *supervisor, size_t place);

// Whether a dataset or view is a source of the mix at `place`.
bool mixes_uses(const struct supervisor *supervisor, size_t place, size_t source);

// Opens a mix that is not there. If the index of a source could not be built, the error is that one; else as
// mixture_open.
int mixes_open(struct supervisor *supervisor, size_t place, struct error *error);

#endif

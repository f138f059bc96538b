// What feedd-exporter gives up once its socket listens: it can then only read files in one folder and answer
// connections.
#ifndef FEEDD_CLIENT_EXPORTER_CONFINE_H
#define FEEDD_CLIENT_EXPORTER_CONFINE_H

#include "base/error.h"

// `folder` has the statistics file, which each daemon makes anew. Restrictions that this kernel or this build cannot
// apply are left out with a warning on standard error; the service's unit applies the same from outside.
int confine_exporter(const char *folder, struct error *error);

#endif

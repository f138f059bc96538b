// What feedd-exporter gives up once its socket listens: it can then read files in one folder, answer connections, and
// nothing else.
#ifndef FEEDD_CLIENT_EXPORTER_CONFINE_H
#define FEEDD_CLIENT_EXPORTER_CONFINE_H

#include "base/error.h"

// `folder` has the statistics file, which each daemon makes anew. What this kernel or this build cannot do is left out,
// and said on standard error; the service's unit does the same from outside.
int confine_exporter(const char *folder, struct error *error);

#endif

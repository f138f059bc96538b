// The end of a daemon that was killed: its memory and its descriptors go, and nobody is told.
#ifndef FEEDD_TESTS_SIMULATE_TEARDOWN_H
#define FEEDD_TESTS_SIMULATE_TEARDOWN_H

#include "daemon/supervisor/supervisor.h"

void teardown(struct supervisor *supervisor);

#endif

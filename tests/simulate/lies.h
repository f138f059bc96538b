// A faulty transfer process sends the supervisor false reports, or writes nonsense into a pool's ring. At
// worst its pool fails; consumers in host memory notice nothing.
#ifndef FEEDD_TESTS_SIMULATE_LIES_H
#define FEEDD_TESTS_SIMULATE_LIES_H

#include "tests/simulate/transfer.h"

// Perhaps, if the plan has such processes.
void lies_tell(struct transfer *transfer);

#endif

// A transfer process that has gone wrong tells the supervisor what is not so, or writes nonsense into a pool's ring. At
// worst its pool fails; who reads in host memory notices nothing.
#ifndef FEEDD_TESTS_SIMULATE_LIES_H
#define FEEDD_TESTS_SIMULATE_LIES_H

#include "tests/simulate/transfer.h"

// Perhaps, if the plan has such processes.
void lies_tell(struct transfer *transfer);

#endif

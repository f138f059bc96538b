// What a simulated transfer process does while it runs. It may die in the middle: then it jumps to transfer->dying,
// with a signal or TRANSFER_EXITS.
#ifndef FEEDD_TESTS_SIMULATE_TRANSFER_WORK_H
#define FEEDD_TESTS_SIMULATE_TRANSFER_WORK_H

#include "tests/simulate/transfer.h"

#define TRANSFER_EXITS 255 // it was asked to

// All that there is to do now; its actor is woken when there is more.
void transfer_serve(struct transfer *transfer);

#endif

// feedctl doctor: the page cache against the size of a dataset.
#ifndef FEEDD_CLIENT_CTL_DOCTOR_CHECK_DATA_H
#define FEEDD_CLIENT_CTL_DOCTOR_CHECK_DATA_H

#include "client/ctl/doctor/finding.h"

struct dataset_size {
    const char *name;
    uint64_t bytes; // of its files
    bool about;     // of what is delivered instead, because the files cannot be looked at
    bool direct;    // io_direct
};

// `room`: what the page cache can hold, 0: unknown.
void check_dataset(const struct dataset_size *dataset, uint64_t room, struct findings *findings);

#endif

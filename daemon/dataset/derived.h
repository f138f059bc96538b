// Views that clients bring: other samples of a dataset that is open. They borrow its files.
#ifndef FEEDD_DAEMON_DATASET_DERIVED_H
#define FEEDD_DAEMON_DATASET_DERIVED_H

#include "daemon/dataset/dataset.h"

// A dataset with one reference that has these samples of `base`, which is not a view, and is called NAME:KIND. It
// takes over `list_fd`, the sealed memory of the selection's list, or -1. NULL: out of memory; the caller keeps
// `list_fd`.
//
// Its fingerprint follows from that of `base` and the selection, without a look at the files; of draws from a part of
// the samples, also from `chosen_hash`, which says what that part is and else is 0. So it differs from that
// of a [view NAME] with the same samples, but is that of `base` if all samples are selected as they are stored.
struct dataset *derived_open(struct dataset *base, const struct selection *selection, uint64_t chosen_hash,
                             int list_fd);

// What derived_open allocates.
uint64_t derived_bytes(const struct dataset *base);

#endif

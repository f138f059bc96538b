// What views and mixes are made of: a view of its dataset, a mix of its sources. They are opened when those are there,
// which may have to be indexed first.
#ifndef FEEDD_DAEMON_SUPERVISOR_MADE_OF_H
#define FEEDD_DAEMON_SUPERVISOR_MADE_OF_H

#include "base/error.h"
#include "daemon/supervisor/supervisor.h"

// Of the dataset, view or mix at `place`: how many it is made of, and where each is. A dataset: none.
size_t made_of_count(const struct supervisor *supervisor, size_t place);
size_t made_of_place(const struct supervisor *supervisor, size_t place, size_t i);

// Whether nothing that it is made of is still being built: each is there, or has failed.
bool made_of_is_settled(const struct supervisor *supervisor, size_t place);

// Whether it is made of the one at `of`.
bool made_of_uses(const struct supervisor *supervisor, size_t place, size_t of);

// 0, or why one of them is not there, with a sentence.
int made_of_missing(const struct supervisor *supervisor, size_t place, struct error *error);

// Opens a mix whose sources are there, unless it is open. 0, or a negative errno with a sentence.
int made_of_open_mix(struct supervisor *supervisor, size_t place, struct error *error);

#endif

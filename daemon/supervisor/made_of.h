// What views and mixes are made of: a view of its dataset, a mix of its sources. They can be opened once these are
// open, which may have to be indexed first.
#ifndef FEEDD_DAEMON_SUPERVISOR_MADE_OF_H
#define FEEDD_DAEMON_SUPERVISOR_MADE_OF_H

#include "base/error.h"
#include "daemon/supervisor/supervisor.h"

// How many others the dataset, view or mix with that number (datasets.h) is made of, and the number of each. A
// dataset: none.
size_t made_of_count(const struct supervisor *supervisor, size_t number);
size_t made_of_number(const struct supervisor *supervisor, size_t number, size_t i);

// Whether everything that it is made of is open or has failed.
bool made_of_is_settled(const struct supervisor *supervisor, size_t number);

// Whether it is made of the one with number `of`.
bool made_of_uses(const struct supervisor *supervisor, size_t number, size_t of);

// 0, or why one of them is not open: a negative errno with a sentence.
int made_of_missing(const struct supervisor *supervisor, size_t number, struct error *error);

// Opens a mix whose sources are open, unless it is already open. 0, or a negative errno with a sentence.
int made_of_open_mix(struct supervisor *supervisor, size_t number, struct error *error);

#endif

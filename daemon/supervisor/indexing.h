// Indices of datasets: built and checked in a thread, one dataset at a time, while the loop serves the others. A
// dataset without its index is not there yet (supervisor->datasets has NULL), but its state is.
//
// A reload opens all datasets of the new configuration itself, and waits for their indices; until then everything stays
// as it was, and indexing continues.
#ifndef FEEDD_DAEMON_SUPERVISOR_INDEXING_H
#define FEEDD_DAEMON_SUPERVISOR_INDEXING_H

#include "base/error.h"
#include "daemon/dataset/index_progress.h"
#include "daemon/supervisor/index_entry.h"
#include "daemon/supervisor/index_figures.h"
#include "daemon/supervisor/supervisor.h"

// Before the loop: datasets that are not there are queued. 0 or -ENOMEM.
int indexing_open(struct supervisor *supervisor);

// The turn: takes over what has been built, and begins the next one.
void indexing_act(struct supervisor *supervisor);
bool indexing_is_due(const struct supervisor *supervisor);

// The tick: tells the log and systemd how far it is.
void indexing_tick(struct supervisor *supervisor, uint64_t now);

// After a reload, which has opened all datasets. 0 or -ENOMEM, which leaves the states unknown: all count as open.
void indexing_begin_again(struct supervisor *supervisor);

// Before the loop ends.
void indexing_leave(struct supervisor *supervisor);
void indexing_close(struct supervisor *supervisor);

// Has the index of the dataset checked, and built if it does not fit; again if that has failed before. Returns the
// number of the round that is to be waited for, or 0: there is no memory for that. If what a view or mix is made of has
// failed, that is built first.
uint64_t indexing_want(struct supervisor *supervisor, size_t number);

// A client wants to use the dataset. If its index could not be built for a cause that may have passed by now, it is
// built again; so are the indices of what a view or mix is made of.
void indexing_use(struct supervisor *supervisor, size_t number);

// Whether that round has ended. Then *code is 0 or a negative errno, and *text says what was found, until the next
// turn.
// `generation` is what indexing_generation said when it was asked for: after a reload, the outcome is the reload's.
bool indexing_outcome(const struct supervisor *supervisor, size_t number, uint64_t round, int *code,
                      const char **text);
uint64_t indexing_generation(const struct supervisor *supervisor);

enum index_state indexing_state(const struct supervisor *supervisor, size_t number);

// False: its index is not being built now.
bool indexing_figures(const struct supervisor *supervisor, size_t number, uint64_t now,
                      struct index_figures *figures);

// Why the last round failed; "".
const char *indexing_problem(const struct supervisor *supervisor, size_t number);

// Of one that has failed: why, with a sentence.
int indexing_failure(const struct supervisor *supervisor, size_t number, struct error *error);

// Of a dataset that is not there: -EAGAIN, or why its index could not be built, with a sentence.
int indexing_refuse(const struct supervisor *supervisor, size_t number, struct error *error);

#endif

// Filters of system calls (seccomp), made with libseccomp. A call that a filter refuses fails with EPERM, so a process
// that makes one by mistake can report it. Filters cannot be removed, and a child has its parent's as well as its own.
#ifndef FEEDD_DAEMON_CONFINE_FILTER_H
#define FEEDD_DAEMON_CONFINE_FILTER_H

#include "daemon/confine/confine.h"

// False: this build has no libseccomp.
bool filter_is_built(void);

// Each of the others returns 0 or a negative errno, and needs PR_SET_NO_NEW_PRIVS.

// Compiles what filter_loader will load for a loader without threads and folders: half of the work, ahead of it.
void filter_loader_prepare(void);

// All but a few dozen calls are refused; `loader` says which of those it may need are not.
int filter_loader(const struct confine_loader *loader);

// Programs, new processes, other processes and the network are refused.
int filter_transfer(void);

// What the supervisor and the programs that it starts never need is refused.
int filter_supervisor(void);

#endif

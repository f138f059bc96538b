// How the kernel shares the processors between loaders and everybody else.
#ifndef FEEDD_DAEMON_LOADER_SLICE_H
#define FEEDD_DAEMON_LOADER_SLICE_H

// Asks for long time slices: a loader has hours of work and is in no hurry, while those that take batches from it,
// the supervisor and the training process, run for microseconds and are. The kernel lets a process with short slices
// run before one with long ones when both want to; the share of each stays what it was. Linux 6.12 and newer;
// elsewhere, and under real-time policies, nothing changes.
void slice_make_long(void);

#endif

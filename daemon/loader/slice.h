// How the kernel shares the processors between loaders and other processes.
#ifndef FEEDD_DAEMON_LOADER_SLICE_H
#define FEEDD_DAEMON_LOADER_SLICE_H

// Asks for long time slices. A loader has hours of work and is in no hurry; the supervisor and the training processes
// run for microseconds and are. When both are runnable, the kernel runs a process with short slices before one with
// long slices; their shares stay the same. Since Linux 6.12; before, and under real-time policies, nothing changes.
void slice_make_long(void);

#endif

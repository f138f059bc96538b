// Threads beside the loop. They end by themselves or with the process; nothing waits for them.
#ifndef FEEDD_DAEMON_SUPERVISOR_THREAD_H
#define FEEDD_DAEMON_SUPERVISOR_THREAD_H

// Starts a detached thread that blocks all signals: these are the loop's. 0 or a negative errno.
int thread_start(void *(*run)(void *argument), void *argument);

#endif

// The loader process: claims chunks of the ring, reads their samples, runs their stages, reports them.
#ifndef FEEDD_DAEMON_LOADER_LOADER_H
#define FEEDD_DAEMON_LOADER_LOADER_H

// Runs on the descriptors of heritage.h until told to stop; returns the process's exit status. `prepared`: it was
// started before there was a feed, with these arguments, and first waits for one. NULL: it has one.
int loader_run(char **prepared);

#endif

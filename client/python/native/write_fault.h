// A write to a batch in host memory is a segmentation fault, because batches are mapped read-only. A handler of SIGSEGV
// explains that in one line on standard error before the fault takes its course.
//
// The handler is installed once per process. It passes every signal on to the handler that was there before, or to the
// default action, so that faulthandler, debuggers and core dumps see what they would see without it. With
// FEEDD_NO_FAULT_HANDLER=1 in the environment it is not installed.
#ifndef FEEDD_CLIENT_PYTHON_NATIVE_WRITE_FAULT_H
#define FEEDD_CLIENT_PYTHON_NATIVE_WRITE_FAULT_H

#include <stddef.h>

// Installs the handler, the first time that it is called.
void write_fault_watch(void);

// Memory that a batch lies in. Returns its place in the table, or -1 when the table is full: then a fault there is not
// explained. May be called from any thread.
int write_fault_add(const void *memory, size_t bytes);
// Forgets it again; -1 is fine.
void write_fault_remove(int place);

#endif

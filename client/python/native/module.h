// The extension module feedd._feed: Python types over handles and leases. Written for the limited API of Python 3.10,
// so that one wheel serves all later versions.
#ifndef FEEDD_CLIENT_PYTHON_NATIVE_MODULE_H
#define FEEDD_CLIENT_PYTHON_NATIVE_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/python/native/handle.h"

// Raises the exception that feedd.errors makes of a negative errno and its sentence. Returns NULL.
PyObject *raise_code(int code, const char *text);

// lease_put() for a thread that holds the interpreter's lock. The last lease of a feed that was closed closes it. On a
// GPU that waits for all work queued there, which may need that lock. A tensor's deleter cannot do the same: it does
// not know whether its thread holds the lock.
void release_lease(struct lease *lease);

#endif

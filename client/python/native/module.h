// The extension module feedd._feed: Python types over handles and leases. Written for the limited API of Python 3.10,
// so that one wheel serves all later versions.
#ifndef FEEDD_CLIENT_PYTHON_NATIVE_MODULE_H
#define FEEDD_CLIENT_PYTHON_NATIVE_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/python/native/handle.h"

// Raises the exception that feedd.errors makes of a negative errno and its sentence. Returns NULL.
PyObject *raise_code(int code, const char *text);

#endif

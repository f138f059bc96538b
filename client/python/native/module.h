// The extension module feedd._feed: Python types over handles and leases. Written for the limited API of Python 3.10,
// so that one wheel serves all later versions.
#ifndef FEEDD_CLIENT_PYTHON_NATIVE_MODULE_H
#define FEEDD_CLIENT_PYTHON_NATIVE_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "client/python/native/handle.h"

// Raises what feedd.errors makes of a negative errno and its sentence. Always NULL.
PyObject *raise_code(int code, const char *text);

// The types, made once by the module.
extern PyTypeObject *feed_type, *batch_type, *array_type;
extern PyType_Spec feed_spec, batch_spec, array_spec;

// Over one reference of the lease, which they take over also on failure.
PyObject *batch_new(struct lease *lease);
PyObject *array_new(struct lease *lease, uint32_t field);

const char *dtype_numpy_name(enum feed_dtype dtype);
PyObject *shape_tuple(const struct feed_array *array);

#endif

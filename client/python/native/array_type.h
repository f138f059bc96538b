// feedd._feed.Array: one field of a batch, for libraries that support DLPack or an array interface.
#ifndef FEEDD_CLIENT_PYTHON_NATIVE_ARRAY_TYPE_H
#define FEEDD_CLIENT_PYTHON_NATIVE_ARRAY_TYPE_H

#include "client/python/native/module.h"

extern PyTypeObject *array_type; // made once, by the module
extern PyType_Spec array_spec;

// Takes over one reference of the lease, also on failure.
PyObject *array_new(struct lease *lease, struct lease_part part);

const char *dtype_numpy_name(enum feed_dtype dtype);
PyObject *shape_tuple(const struct feed_array *array);

#endif

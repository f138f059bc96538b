// feedd._feed.Batch: a lease on one batch.
#ifndef FEEDD_CLIENT_PYTHON_NATIVE_BATCH_TYPE_H
#define FEEDD_CLIENT_PYTHON_NATIVE_BATCH_TYPE_H

#include "client/python/native/module.h"

extern PyTypeObject *batch_type; // made once, by the module
extern PyType_Spec batch_spec;

// Takes over one reference of the lease, also on failure.
PyObject *batch_new(struct lease *lease);

#endif

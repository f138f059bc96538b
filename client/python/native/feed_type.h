// feedd._feed.Feed: a handle of libfeed.
#ifndef FEEDD_CLIENT_PYTHON_NATIVE_FEED_TYPE_H
#define FEEDD_CLIENT_PYTHON_NATIVE_FEED_TYPE_H

#include "client/python/native/module.h"

extern PyTypeObject *feed_type; // made once, by the module
extern PyType_Spec feed_spec;

#endif

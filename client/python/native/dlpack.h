// A field of a batch as a DLPack tensor. The structures are the ABI of DLPack 1.0 (github.com/dmlc/dlpack,
// include/dlpack/dlpack.h), written down here so that no header has to be installed.
#ifndef FEEDD_CLIENT_PYTHON_NATIVE_DLPACK_H
#define FEEDD_CLIENT_PYTHON_NATIVE_DLPACK_H

#include "client/python/native/handle.h"

enum dlpack_device_type {
    DLPACK_CPU = 1,
    DLPACK_CUDA = 2,
};

enum dlpack_type_code {
    DLPACK_INT = 0,
    DLPACK_UINT = 1,
    DLPACK_FLOAT = 2,
    DLPACK_BFLOAT = 4,
    DLPACK_COMPLEX = 5,
    DLPACK_BOOL = 6,
};

#define DLPACK_FLAG_READ_ONLY 1u
#define DLPACK_FLAG_IS_COPIED 2u

struct dlpack_device {
    int32_t type, number;
};

struct dlpack_type {
    uint8_t code, bits;
    uint16_t lanes;
};

struct dlpack_tensor {
    void *data;
    struct dlpack_device device;
    int32_t dimensions;
    struct dlpack_type type;
    int64_t *shape;
    int64_t *strides; // in elements
    uint64_t byte_offset;
};

struct dlpack_managed { // capsule "dltensor"
    struct dlpack_tensor tensor;
    void *context;
    void (*deleter)(struct dlpack_managed *self);
};

struct dlpack_version {
    uint32_t major, minor;
};

struct dlpack_managed_versioned { // capsule "dltensor_versioned"
    struct dlpack_version version;
    void *context;
    void (*deleter)(struct dlpack_managed_versioned *self);
    uint64_t flags;
    struct dlpack_tensor tensor;
};

// The device of a handle's batches; those of a simulated GPU are in host memory.
struct dlpack_device dlpack_device(const struct handle *handle);
struct dlpack_type dlpack_type(enum feed_dtype dtype);

// A tensor over a field of the batch. It lives until its deleter is called, from any thread. With `copy` it has a copy
// of the bytes in host memory of its own. 0 and *managed: a struct dlpack_managed_versioned if `versioned`, else a
// struct dlpack_managed. Otherwise a negative errno and a sentence.
int dlpack_export(struct lease *lease, struct lease_part part, bool versioned, bool copy, void **managed,
                  char text[HANDLE_TEXT_BYTES]);

#endif

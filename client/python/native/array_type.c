// feedd._feed.Array: one field of a batch, for libraries that support DLPack or an array interface.
#include "client/python/native/array_type.h"
#include "client/python/native/dlpack.h"

struct array {
    PyObject_HEAD struct lease *lease;
    struct lease_part part;
    struct feed_array shown; // the field, or its offsets as an array
};

static const struct feed_array *field_of(const struct array *self) {
    return &self->shown;
}

const char *dtype_numpy_name(enum feed_dtype dtype) {
    static const char *const names[] = {
        [FEED_BOOL] = "bool",   [FEED_U8] = "uint8",      [FEED_I8] = "int8",         [FEED_U16] = "uint16",
        [FEED_I16] = "int16",   [FEED_U32] = "uint32",    [FEED_I32] = "int32",       [FEED_U64] = "uint64",
        [FEED_I64] = "int64",   [FEED_F16] = "float16",   [FEED_BF16] = "bfloat16",   [FEED_F32] = "float32",
        [FEED_F64] = "float64", [FEED_C64] = "complex64", [FEED_C128] = "complex128",
    };
    return names[dtype];
}

PyObject *shape_tuple(const struct feed_array *array) {
    PyObject *shape = PyTuple_New(array->dimensions);
    for (uint32_t i = 0; shape && i < array->dimensions; i++) {
        PyObject *size = PyLong_FromUnsignedLongLong(array->shape[i]);
        if (!size || PyTuple_SetItem(shape, i, size) < 0) {
            Py_DECREF(shape);
            return NULL;
        }
    }
    return shape;
}

PyObject *array_new(struct lease *lease, struct lease_part part) {
    struct array *self = PyObject_New(struct array, array_type);
    if (!self) {
        lease_put(lease);
        return NULL;
    }
    self->lease = lease;
    self->part = part;
    self->shown = lease_array(lease, part);
    return (PyObject *)self;
}

static void array_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    release_lease(((struct array *)object)->lease);
    PyObject_Free(object);
    Py_DECREF(type);
}

// ---- DLPack ------------------------------------------------------------------------------------------------

// A capsule that was not consumed still owns its tensor.
static void drop_plain(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor"))
        return;
    struct dlpack_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    managed->deleter(managed);
}

static void drop_versioned(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned"))
        return;
    struct dlpack_managed_versioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    managed->deleter(managed);
}

// The stream as DLPack numbers them for CUDA: None and 1 are the legacy default stream, 2 the per-thread one, -1 none.
static int wait_on(struct array *self, PyObject *stream) {
    char text[HANDLE_TEXT_BYTES];
    long long number = 1;
    if (stream != Py_None) {
        number = PyLong_AsLongLong(stream);
        if (number == -1 && PyErr_Occurred())
            return -1;
    }
    if (number == -1)
        return 0;
    if (number <= 0) {
        PyErr_Format(PyExc_ValueError,
                     "stream %lld is not valid in DLPack: 1 is the legacy default stream, 2 the per-thread "
                     "one, -1 none",
                     number);
        return -1;
    }
    int err;
    Py_BEGIN_ALLOW_THREADS
    err = lease_wait(self->lease, (void *)(intptr_t)number, text);
    Py_END_ALLOW_THREADS
    if (err)
        raise_code(err, text);
    return err ? -1 : 0;
}

// The stream as DLPack numbers them for CUDA: None and 1 are the legacy default stream, 2 is the thread's, -1 none.
// 0 refused, -1 left to us; set to 2 for a copy on another device.
static int check_device(struct dlpack_device here, PyObject *wanted, int *copy) {
    int type, number;
    if (wanted == Py_None)
        return 0;
    if (!PyTuple_Check(wanted)) {
        PyErr_SetString(PyExc_TypeError, "dl_device is a pair of numbers");
        return -1;
    }
    if (!PyArg_ParseTuple(wanted, "ii;dl_device is a pair of numbers", &type, &number))
        return -1;
    if (type == here.type && number == here.number)
        return 0;
    if (type == DLPACK_CPU && *copy) {
        *copy = 2; // to another device
        return 0;
    }
    PyErr_Format(PyExc_BufferError, "the batch is on device (%d, %d); it can only be copied to (%d, %d)",
                 here.type, here.number, type, number);
    return -1;
}

static PyObject *capsule_of(struct array *self, bool versioned, bool copy) {
    char text[HANDLE_TEXT_BYTES];
    // Without a copy the interpreter's lock is kept. That is quick, and a framework calls us from within its C++ code,
    // through which a thread would be unwound if the end of the program stopped it where it asks for the lock again.
    PyThreadState *let_go = copy ? PyEval_SaveThread() : NULL;
    void *managed;
    int err = dlpack_export(self->lease, self->part, versioned, copy, &managed, text);
    if (let_go)
        PyEval_RestoreThread(let_go);
    if (err)
        return raise_code(err, text);
    PyObject *capsule = versioned ? PyCapsule_New(managed, "dltensor_versioned", drop_versioned)
                                  : PyCapsule_New(managed, "dltensor", drop_plain);
    if (!capsule && versioned)
        ((struct dlpack_managed_versioned *)managed)->deleter(managed);
    else if (!capsule)
        ((struct dlpack_managed *)managed)->deleter(managed);
    return capsule;
}

static PyObject *array_dlpack(PyObject *object, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    struct array *self = (struct array *)object;
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copied = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|$OOOO:__dlpack__", names, &stream, &version,
                                     &device, &copied))
        return NULL;
    int major = 0, minor = 0;
    if (version != Py_None && !PyTuple_Check(version))
        return PyErr_Format(PyExc_TypeError, "max_version is a pair of numbers");
    if (version != Py_None &&
        !PyArg_ParseTuple(version, "ii;max_version is a pair of numbers", &major, &minor))
        return NULL;
    struct dlpack_device here = dlpack_device(self->lease->handle);
    int copy = copied == Py_None ? -1 : PyObject_IsTrue(copied);
    if (copied != Py_None && copy < 0)
        return NULL;
    if (check_device(here, device, &copy) < 0)
        return NULL;
    if (copy == 1 && here.type == DLPACK_CUDA)
        return PyErr_Format(PyExc_BufferError, "let the framework copy a batch on the GPU: tensor.clone()");
    if (here.type == DLPACK_CUDA && wait_on(self, stream) < 0)
        return NULL;
    return capsule_of(self, major >= 1, copy > 0);
}

static PyObject *array_dlpack_device(PyObject *object, PyObject *unused) {
    (void)unused;
    struct dlpack_device device = dlpack_device(((struct array *)object)->lease->handle);
    return Py_BuildValue("(ii)", device.type, device.number);
}

// ---- Attributes --------------------------------------------------------------------------------------------

static PyObject *array_shape(PyObject *object, void *unused) {
    (void)unused;
    return shape_tuple(field_of((struct array *)object));
}

static PyObject *array_dtype(PyObject *object, void *unused) {
    (void)unused;
    return PyUnicode_FromString(dtype_numpy_name(field_of((struct array *)object)->dtype));
}

static PyObject *array_name(PyObject *object, void *unused) {
    (void)unused;
    return PyUnicode_FromString(field_of((struct array *)object)->name);
}

// Of a ragged field; None for others, and for offsets.
static PyObject *array_offsets(PyObject *object, void *unused) {
    (void)unused;
    struct array *self = (struct array *)object;
    if (!self->shown.ragged)
        Py_RETURN_NONE;
    return array_new(lease_get(self->lease), (struct lease_part){self->part.field, true});
}

static PyObject *array_nbytes(PyObject *object, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(field_of((struct array *)object)->bytes);
}

static PyObject *interface_of(struct array *self, int version) {
    static const char *const types[] = {
        [FEED_BOOL] = "|b1", [FEED_U8] = "|u1",  [FEED_I8] = "|i1",  [FEED_U16] = "<u2",   [FEED_I16] = "<i2",
        [FEED_U32] = "<u4",  [FEED_I32] = "<i4", [FEED_U64] = "<u8", [FEED_I64] = "<i8",   [FEED_F16] = "<f2",
        [FEED_F32] = "<f4",  [FEED_F64] = "<f8", [FEED_C64] = "<c8", [FEED_C128] = "<c16", [FEED_BF16] = NULL,
    };
    const struct feed_array *field = field_of(self);
    if (!types[field->dtype])
        return PyErr_Format(PyExc_AttributeError, "the array interface has no bfloat16: use DLPack");
    PyObject *shape = shape_tuple(field);
    if (!shape)
        return NULL;
    return Py_BuildValue("{s:N,s:s,s:(NO),s:i}", "shape", shape, "typestr", types[field->dtype], "data",
                         PyLong_FromVoidPtr((void *)field->data), Py_True, "version", version);
}

// NumPy: read-only; the array it makes keeps this object.
static PyObject *array_interface(PyObject *object, void *unused) {
    (void)unused;
    struct array *self = (struct array *)object;
    if (dlpack_device(self->lease->handle).type != DLPACK_CPU)
        return PyErr_Format(PyExc_AttributeError, "the batch is in GPU memory");
    return interface_of(self, 3);
}

// CuPy and Numba: the legacy default stream waits for the batch.
static PyObject *array_cuda_interface(PyObject *object, void *unused) {
    (void)unused;
    struct array *self = (struct array *)object;
    if (dlpack_device(self->lease->handle).type != DLPACK_CUDA)
        return PyErr_Format(PyExc_AttributeError, "the batch is in host memory");
    if (wait_on(self, Py_None) < 0)
        return NULL;
    PyObject *interface = interface_of(self, 3), *one = PyLong_FromLong(1);
    if (!interface || !one || PyDict_SetItemString(interface, "stream", one) < 0)
        Py_CLEAR(interface);
    Py_XDECREF(one);
    return interface;
}

static PyObject *array_tobytes(PyObject *object, PyObject *unused) {
    (void)unused;
    struct array *self = (struct array *)object;
    char text[HANDLE_TEXT_BYTES];
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)field_of(self)->bytes);
    if (!bytes)
        return NULL;
    char *to = PyBytes_AsString(bytes);
    int err;
    Py_BEGIN_ALLOW_THREADS
    err = lease_fetch(self->lease, self->part, to, text);
    Py_END_ALLOW_THREADS
    if (!err)
        return bytes;
    Py_DECREF(bytes);
    return raise_code(err, text);
}

static PyMethodDef methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS,
     "The field as a read-only DLPack capsule over the batch's own memory. stream, on a GPU, is the one that "
     "waits for the\n"
     "batch; None and 1 are the legacy default stream, -1 none. copy=True, and dl_device=(1, 0) for a batch "
     "on "
     "a GPU, give a\n"
     "writable copy in host memory. BufferError: only the framework can make the copy, or copy=False forbids "
     "it."},
    {"__dlpack_device__", array_dlpack_device, METH_NOARGS, "(type, number): (1, 0) the CPU, (2, N) cuda:N."},
    {"tobytes", array_tobytes, METH_NOARGS, "A copy of the bytes, from host or GPU memory; waits for them."},
    {0},
};

static PyGetSetDef attributes[] = {
    {"name", array_name, NULL, "The field's name.", NULL},
    {"shape", array_shape, NULL, "Sizes, the batch axis first; of a ragged field, its number of values.",
     NULL},
    {"dtype", array_dtype, NULL, "NumPy's name of the type, or bfloat16.", NULL},
    {"nbytes", array_nbytes, NULL, "Size in bytes.", NULL},
    {"offsets", array_offsets, NULL,
     "Of a ragged field, an Array of int64: sample i has values offsets[i] up to offsets[i + 1]. Else None.",
     NULL},
    {"__array_interface__", array_interface, NULL, "For NumPy: read-only, without a copy.", NULL},
    {"__cuda_array_interface__", array_cuda_interface, NULL, "For CuPy and Numba: read-only, without a copy.",
     NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "One field of a batch, in the ring or on the GPU. The batch remains leased while this object or "
     "anything made of it lives."},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};

PyType_Spec array_spec = {
    .name = "feedd._feed.Array",
    .basicsize = sizeof(struct array),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, // only Batch.arrays() makes them
    .slots = slots,
};

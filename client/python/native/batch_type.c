// feedd._feed.Batch: a batch from feed_next(), and its arrays.
#include "client/python/native/batch_type.h"
#include "client/python/native/array_type.h"

#include <stdlib.h>

struct batch {
    PyObject_HEAD struct lease *lease;
};

PyObject *batch_new(struct lease *lease) {
    struct batch *self = PyObject_New(struct batch, batch_type);
    if (!self) {
        lease_put(lease);
        return NULL;
    }
    self->lease = lease;
    return (PyObject *)self;
}

static void batch_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    release_lease(((struct batch *)object)->lease);
    PyObject_Free(object);
    Py_DECREF(type);
}

static PyObject *batch_arrays(PyObject *object, PyObject *unused) {
    (void)unused;
    struct lease *lease = ((struct batch *)object)->lease;
    PyObject *arrays = PyTuple_New(lease->batch.field_count);
    for (uint32_t i = 0; arrays && i < lease->batch.field_count; i++) {
        PyObject *array = array_new(lease_get(lease), (struct lease_part){i, false});
        if (!array || PyTuple_SetItem(arrays, i, array) < 0) {
            Py_DECREF(arrays);
            return NULL;
        }
    }
    return arrays;
}

static PyObject *batch_samples(PyObject *object, PyObject *unused) {
    (void)unused;
    struct lease *lease = ((struct batch *)object)->lease;
    char text[HANDLE_TEXT_BYTES];
    uint64_t count = lease->batch.count;
    int64_t *samples = malloc((count + 1) * sizeof *samples);
    if (!samples)
        return PyErr_NoMemory();
    int err;
    Py_BEGIN_ALLOW_THREADS
    err = lease_samples(lease, samples, text);
    Py_END_ALLOW_THREADS
    PyObject *list = err ? raise_code(err, text) : PyList_New((Py_ssize_t)count);
    for (uint64_t i = 0; list && i < count; i++) {
        PyObject *sample = PyLong_FromLongLong(samples[i]);
        if (!sample || PyList_SetItem(list, (Py_ssize_t)i, sample) < 0)
            Py_CLEAR(list);
    }
    free(samples);
    return list;
}

enum number {
    COUNT,
    SKIPPED,
    EPOCH,
    INDEX,
    FIRST_POSITION,
};

static PyObject *batch_number(PyObject *object, void *which) {
    const struct feed_batch *batch = &((struct batch *)object)->lease->batch;
    const uint64_t numbers[] = {[COUNT] = batch->count,
                                [SKIPPED] = batch->skipped,
                                [EPOCH] = batch->epoch,
                                [INDEX] = batch->index,
                                [FIRST_POSITION] = batch->first_position};
    return PyLong_FromUnsignedLongLong(numbers[(intptr_t)which]);
}

static PyObject *batch_last_of_epoch(PyObject *object, void *unused) {
    (void)unused;
    return PyBool_FromLong(((struct batch *)object)->lease->batch.last_of_epoch);
}

static PyMethodDef methods[] = {
    {"arrays", batch_arrays, METH_NOARGS, "The fields, in order."},
    {"samples", batch_samples, METH_NOARGS, "The numbers of these samples in the dataset."},
    {0},
};

static PyGetSetDef attributes[] = {
    {"count", batch_number, NULL, "Samples in the batch.", (void *)COUNT},
    {"skipped", batch_number, NULL, "Samples that were left out because they could not be read.",
     (void *)SKIPPED},
    {"epoch", batch_number, NULL, "Counted from 0.", (void *)EPOCH},
    {"index", batch_number, NULL, "The global batch's number in the epoch.", (void *)INDEX},
    {"first_position", batch_number, NULL, "Of the first sample in the epoch's order.",
     (void *)FIRST_POSITION},
    {"last_of_epoch", batch_last_of_epoch, NULL, "Whether the epoch ends with this batch.", NULL},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "A lease on one batch. It is given back when this object and everything made of its arrays is gone."},
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};

PyType_Spec batch_spec = {
    .name = "feedd._feed.Batch",
    .basicsize = sizeof(struct batch),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, // only Feed.next() makes them
    .slots = slots,
};

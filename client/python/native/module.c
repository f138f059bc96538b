#include "client/python/native/module.h"

#include "client/python/native/array_type.h"
#include "client/python/native/batch_type.h"
#include "client/python/native/feed_type.h"

PyTypeObject *feed_type, *batch_type, *array_type;

PyObject *raise_code(int code, const char *text) {
    PyObject *errors = PyImport_ImportModule("feedd.errors");
    PyObject *sentence =
        PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"); // it may be cut short
    PyObject *raised =
        errors && sentence ? PyObject_CallMethod(errors, "from_code", "iO", -code, sentence) : NULL;
    if (raised)
        PyErr_SetObject((PyObject *)Py_TYPE(raised), raised);
    Py_XDECREF(raised);
    Py_XDECREF(sentence);
    Py_XDECREF(errors);
    return NULL;
}

void release_lease(struct lease *lease) {
    if (lease->handle->description.device_number < 0) {
        lease_put(lease);
        return;
    }
    Py_BEGIN_ALLOW_THREADS
    lease_put(lease);
    Py_END_ALLOW_THREADS
}

static PyTypeObject *add_type(PyObject *module, PyType_Spec *spec, const char *name) {
    PyObject *type = PyType_FromSpec(spec);
    if (!type)
        return NULL;
    Py_INCREF(type); // one for the module, one for us
    if (PyModule_AddObject(module, name, type) < 0) {
        Py_DECREF(type);
        Py_DECREF(type);
        return NULL;
    }
    return (PyTypeObject *)type;
}

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "feedd._feed",
    .m_doc = "libfeed for Python: see feedd for what to use.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__feed(void); // it is called by the interpreter alone
PyMODINIT_FUNC PyInit__feed(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    feed_type = add_type(module, &feed_spec, "Feed");
    batch_type = add_type(module, &batch_spec, "Batch");
    array_type = add_type(module, &array_spec, "Array");
    if (!feed_type || !batch_type || !array_type ||
        PyModule_AddStringConstant(module, "version", feed_version()) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}

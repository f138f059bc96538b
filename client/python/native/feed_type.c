// feedd._feed.Feed: an attached consumer.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/python/native/array_type.h"
#include "client/python/native/batch_type.h"
#include "client/python/native/dlpack.h"
#include "client/python/native/feed_type.h"

#define SLICE_MS      100  // how often a wait looks whether a signal's handler wants to run
#define WARN_AFTER_MS 5000 // of waiting for a daemon that does not answer

struct feed_object {
    PyObject_HEAD struct handle *handle; // NULL until it is open, and once closed
    bool opening, warned;
    uint64_t opening_since_ms;
    const char *socket; // while it is being opened: what was asked for; NULL is the default
};

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// None is NULL.
static int text_of(PyObject *object, void *result) {
    const char **text = result;
    *text = NULL;
    if (object == Py_None)
        return 1;
    if (!PyUnicode_Check(object)) {
        PyErr_Format(PyExc_TypeError,
                     "%R is not a string, as dataset, socket, share, resume and device must be", object);
        return 0;
    }
    Py_ssize_t bytes;
    *text = PyUnicode_AsUTF8AndSize(object, &bytes);
    if (!*text)
        return 0;
    if (strlen(*text) == (size_t)bytes)
        return 1;
    PyErr_SetString(PyExc_ValueError, "a string for feedd contains the character 0");
    return 0;
}

// A view and, of weights, the view that draws are from.
struct view_and_part {
    struct feed_view view, part;
};

// (kind, begin, end, seed, bytes of the numbers, their dtype, epoch_samples, part), as feedd.view makes it, where the
// part is another one or None. Sets *part to it. False: with an exception.
static bool read_view(PyObject *tuple, struct feed_view *view, PyObject **part) {
    PyObject *bytes;
    char *data;
    Py_ssize_t size;
    unsigned int kind, dtype;
    unsigned long long seed, draws;
    if (!PyTuple_Check(tuple)) {
        PyErr_Format(PyExc_TypeError, "%R is not a view", tuple);
        return false;
    }
    *view = (struct feed_view){.bytes = sizeof *view};
    if (!PyArg_ParseTuple(tuple, "IIIKSIKO:view", &kind, &view->begin, &view->end, &seed, &bytes, &dtype,
                          &draws, part) ||
        PyBytes_AsStringAndSize(bytes, &data, &size) < 0)
        return false;
    view->kind = (enum feed_view_kind)kind;
    view->seed = seed;
    view->data = dtype ? data : NULL; // as long as the caller holds the tuple
    view->dtype = (enum feed_dtype)dtype;
    view->epoch_samples = draws;
    size_t each = feed_dtype_bytes(view->dtype);
    view->count = each ? (uint64_t)size / each : 0;
    return true;
}

// None: no view.
static int view_of(PyObject *object, void *result) {
    struct view_and_part *views = result;
    PyObject *part = Py_None, *none;
    if (object == Py_None)
        return 1;
    if (!read_view(object, &views->view, &part))
        return 0;
    if (part == Py_None)
        return 1;
    if (!read_view(part, &views->part, &none))
        return 0;
    views->view.part = &views->part;
    return 1;
}

// With the interpreter's lock. Negative when the warning was made an exception.
static int warn_of_opening(struct feed_object *self) {
    self->warned = true;
    PyObject *waiting = PyImport_ImportModule("feedd.waiting");
    PyObject *done = waiting ? PyObject_CallMethod(waiting, "warn_of_opening", "z", self->socket) : NULL;
    Py_XDECREF(waiting);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

// Asked by libfeed while it connects and attaches, without the interpreter's lock. True leaves what the handler of a
// signal has raised. After the opening this is asked with the handle's lock held: see handle.h for why only the main
// thread, which is the one that runs the handlers of signals, may then ask for the interpreter's.
static bool interrupted(void *context) {
    struct feed_object *self = context;
    if (!self->opening && gettid() != getpid())
        return false;
    PyGILState_STATE state = PyGILState_Ensure();
    bool raised = PyErr_CheckSignals() < 0;
    if (!raised && self->opening && !self->warned && now_ms() - self->opening_since_ms >= WARN_AFTER_MS)
        raised = warn_of_opening(self) < 0;
    PyGILState_Release(state);
    return raised;
}

static PyObject *feed_object_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"dataset",
                            "batch_size",
                            "socket",
                            "shuffle",
                            "drop_last",
                            "seed",
                            "rank",
                            "world_size",
                            "local_world_size",
                            "device_world_size",
                            "share",
                            "wait_for",
                            "prefetch",
                            "max_lag_s",
                            "ring_bytes",
                            "resume",
                            "device",
                            "client_name",
                            "connect_timeout_ms",
                            "reconnect_timeout_ms",
                            "view",
                            NULL};
    struct view_and_part views = {0};
    struct feed_options options = {.interrupted = interrupted};
    int shuffle = 0, drop_last = 0;
    unsigned long long seed = 0, ring_bytes = 0;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "O&I|$O&ppKIIIIO&IIIKO&O&O&iiO&:Feed", names, text_of, &options.dataset,
            &options.batch_size, text_of, &options.socket, &shuffle, &drop_last, &seed, &options.rank,
            &options.world_size, &options.local_world_size, &options.device_world_size, text_of,
            &options.share, &options.wait_for, &options.prefetch, &options.max_lag_s, &ring_bytes, text_of,
            &options.resume, text_of, &options.device, text_of, &options.client_name,
            &options.connect_timeout_ms, &options.reconnect_timeout_ms, view_of, &views))
        return NULL;
    options.shuffle = shuffle;
    options.drop_last = drop_last;
    options.seed = seed;
    options.ring_bytes = ring_bytes;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct feed_object *self = (struct feed_object *)allocate(type, 0);
    if (!self)
        return NULL;
    options.interrupted_context = self; // it outlives the handle's next()
    self->socket = options.socket;
    self->opening = true;
    self->opening_since_ms = now_ms();
    char text[HANDLE_TEXT_BYTES];
    int err;
    Py_BEGIN_ALLOW_THREADS
    err = handle_open(&self->handle, &options, views.view.kind ? &views.view : NULL, text);
    Py_END_ALLOW_THREADS
    self->opening = false;
    self->socket = NULL;
    if (!err)
        return (PyObject *)self;
    Py_DECREF(self);
    return PyErr_Occurred() ? NULL : raise_code(err, text);
}

static PyObject *feed_close_method(PyObject *object, PyObject *unused) {
    (void)unused;
    struct feed_object *self = (struct feed_object *)object;
    struct handle *handle = self->handle;
    self->handle = NULL;
    if (handle) {
        Py_BEGIN_ALLOW_THREADS
        handle_put(handle);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static void feed_object_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    struct feed_object *self = (struct feed_object *)object;
    struct handle *handle = self->handle;
    if (handle) {
        Py_BEGIN_ALLOW_THREADS
        handle_put(handle);
        Py_END_ALLOW_THREADS
    }
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

// Takes a reference: another thread may close the feed while this one does not hold the interpreter's lock.
static struct handle *open_handle(PyObject *object) {
    struct handle *handle = ((struct feed_object *)object)->handle;
    if (!handle)
        raise_code(-ENOTCONN, "the loader is closed: make another one");
    return handle ? handle_get(handle) : NULL;
}

// Waits in slices, so that Ctrl-C gets through. The caller holds a reference: another thread may close the feed.
static int next_lease(struct handle *handle, struct lease **lease, long timeout_ms, char *text) {
    uint64_t end = now_ms() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0);
    for (;;) {
        uint64_t now = now_ms();
        uint64_t left = timeout_ms < 0 ? SLICE_MS : end > now ? end - now : 0;
        int got;
        Py_BEGIN_ALLOW_THREADS
        got = handle_next(handle, lease, (int)(left < SLICE_MS ? left : SLICE_MS), text);
        Py_END_ALLOW_THREADS
        if (got != -EAGAIN && got != -EINTR)
            return got;
        if (PyErr_Occurred() || PyErr_CheckSignals() < 0)
            return -EINTR;
        if (timeout_ms >= 0 && now_ms() >= end)
            return got == -EINTR ? -EAGAIN : got;
    }
}

static PyObject *feed_next_method(PyObject *object, PyObject *arguments) {
    long timeout_ms = -1, waited_ms = 0;
    if (!PyArg_ParseTuple(arguments, "|ll:next", &timeout_ms, &waited_ms))
        return NULL;
    struct handle *handle = open_handle(object);
    if (!handle)
        return NULL;
    char text[HANDLE_TEXT_BYTES] = "";
    struct lease *lease = NULL;
    int got = next_lease(handle, &lease, timeout_ms, text);
    handle_put(handle);
    if (got == 1)
        return batch_new(lease);
    if (got == 0)
        Py_RETURN_NONE;
    if (PyErr_Occurred())
        return NULL;
    if (got != -EAGAIN || timeout_ms <= 0)
        return raise_code(got, text);
    char late[HANDLE_TEXT_BYTES + 100];
    snprintf(late, sizeof late, "no batch came within %g s: %s", (double)(timeout_ms + waited_ms) / 1000,
             *text ? text : "feedctl feeds and feedctl stats show what it is waiting for");
    return raise_code(got, late);
}

static PyObject *feed_settle_method(PyObject *object, PyObject *unused) {
    (void)unused;
    struct handle *handle = open_handle(object);
    if (!handle)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    handle_settle(handle);
    handle_put(handle);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *feed_connected_method(PyObject *object, PyObject *unused) {
    (void)unused;
    struct handle *handle = open_handle(object);
    if (!handle)
        return NULL;
    bool connected;
    Py_BEGIN_ALLOW_THREADS
    connected = handle_is_connected(handle);
    handle_put(handle);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(connected);
}

static PyObject *token_text(PyObject *object, const struct order_place *place) {
    struct handle *handle = open_handle(object);
    if (!handle)
        return NULL;
    char token[FEED_TOKEN_BYTES], text[HANDLE_TEXT_BYTES];
    int err;
    Py_BEGIN_ALLOW_THREADS
    err = handle_token(handle, place, token, text);
    handle_put(handle);
    Py_END_ALLOW_THREADS
    return err ? raise_code(err, text) : PyUnicode_FromString(token);
}

static PyObject *feed_token_method(PyObject *object, PyObject *unused) {
    (void)unused;
    return token_text(object, NULL);
}

static PyObject *feed_token_at_method(PyObject *object, PyObject *arguments) {
    unsigned long long epoch, consumed;
    if (!PyArg_ParseTuple(arguments, "KK:token_at", &epoch, &consumed))
        return NULL;
    struct order_place place = {epoch, consumed};
    return token_text(object, &place);
}

static PyObject *describe_fields(const struct feed_description *description) {
    PyObject *fields = PyTuple_New(description->field_count);
    for (uint32_t i = 0; fields && i < description->field_count; i++) {
        const struct feed_array *array = &description->field[i];
        PyObject *shape = array->ragged ? Py_BuildValue("(KO)", (unsigned long long)array->shape[0], Py_None)
                                        : shape_tuple(array);
        PyObject *field =
            shape ? Py_BuildValue("(ssN)", array->name, dtype_numpy_name(array->dtype), shape) : NULL;
        if (!field || PyTuple_SetItem(fields, i, field) < 0) {
            Py_DECREF(fields);
            return NULL;
        }
    }
    return fields;
}

static PyObject *describe(const struct feed_description *description) {
    PyObject *fields = describe_fields(description);
    if (!fields)
        return NULL;
    return Py_BuildValue("{s:N,s:s,s:K,s:K,s:K,s:K,s:K,s:I,s:I,s:K,s:s,s:i,s:K}", "fields", fields, "dataset",
                         description->dataset, "samples", (unsigned long long)description->samples,
                         "batches_per_epoch", (unsigned long long)description->batches_per_epoch,
                         "fingerprint", (unsigned long long)description->fingerprint, "start_epoch",
                         (unsigned long long)description->start_epoch, "start_consumed",
                         (unsigned long long)description->start_consumed, "prefetch", description->prefetch,
                         "slots", description->slots, "ring_bytes",
                         (unsigned long long)description->ring_bytes, "device", description->device,
                         "device_number", description->device_number, "pool_bytes",
                         (unsigned long long)description->pool_bytes);
}

static PyObject *feed_describe_method(PyObject *object, PyObject *unused) {
    (void)unused;
    struct handle *handle = open_handle(object);
    if (!handle)
        return NULL;
    struct feed_description description;
    Py_BEGIN_ALLOW_THREADS
    handle_describe(handle, &description);
    Py_END_ALLOW_THREADS
    PyObject *described = describe(&description);
    handle_put(handle);
    return described;
}

static PyMethodDef methods[] = {
    {"next", feed_next_method, METH_VARARGS,
     "next(timeout_ms=-1, waited_ms=0): the next Batch. Negative: waits indefinitely. waited_ms is how long "
     "the caller has\n"
     "waited before, for the message of a timeout."},
    {"connected", feed_connected_method, METH_NOARGS,
     "False while the daemon is lost and next() looks for it."},
    {"settle", feed_settle_method, METH_NOARGS,
     "Gives back what was released on a GPU since the last next()."},
    {"token", feed_token_method, METH_NOARGS, "Where the next batch stands in the order, as text."},
    {"token_at", feed_token_at_method, METH_VARARGS,
     "token_at(epoch, consumed): the same for another place: after that many samples of all ranks in that "
     "epoch."},
    {"describe", feed_describe_method, METH_NOARGS, "The properties of the feed."},
    {"close", feed_close_method, METH_NOARGS,
     "Leaves the feed as soon as everything made of its batches is gone."},
    {0},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "One consumer of a feed. Its methods may be called from any thread."},
    {Py_tp_new, feed_object_new},
    {Py_tp_dealloc, feed_object_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec feed_spec = {
    .name = "feedd._feed.Feed",
    .basicsize = sizeof(struct feed_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

/* Caches: save() and load() of sequences, and how a cache is stored (cache.h). */
#include "array.h"
#include "cache.h"

/* An open file: open(path, mode). */
static PyObject *open_file(PyObject *path, const char *mode) {
    if (py_is_integer(path)) { /* open() would take it for a file that is open, and close that */
        py_raise(PyExc_TypeError, "a path must be a string or os.PathLike, not a number");
        return NULL;
    }
    PyObject *io = PyImport_ImportModule("io");
    PyObject *file = io ? PyObject_CallMethod(io, "open", "Os", path, mode) : NULL;
    Py_XDECREF(io);
    return file;
}

/* Closes it, whether or not something went wrong before; what went wrong first is raised. */
static int close_file(PyObject *file) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *done = PyObject_CallMethod(file, "close", NULL);
    Py_XDECREF(done);
    Py_DECREF(file);
    if (type) {
        PyErr_Restore(type, value, trace);
        return -1;
    }
    return done ? 0 : -1;
}

static PyObject *bytes_of(PyObject *self, int64_t sequence) {
    py_cache *cache = (py_cache *)self;
    size_t needed;
    py_cache_use use;
    if (py_cache_enter(cache, &use, 1, &sequence, false) < 0)
        return NULL;
    fovea_status status = cache->calls->save(cache->library, sequence, NULL, 0, &needed);
    PyObject *bytes = status == FOVEA_OK ? PyBytes_FromStringAndSize(NULL, (Py_ssize_t)needed) : NULL;
    if (bytes) {
        char *data = PyBytes_AsString(bytes);
        PyThreadState *released = PyEval_SaveThread();
        status = cache->calls->save(cache->library, sequence, data, needed, &needed);
        PyEval_RestoreThread(released);
    }
    py_cache_leave(cache, &use);
    if (status != FOVEA_OK) {
        Py_CLEAR(bytes);
        py_raise_status(status);
    }
    return bytes;
}

PyObject *py_cache_save(PyObject *self, PyObject *args, PyObject *keywords) {
    long long sequence;
    PyObject *path = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "L|O:save", py_kvcache_save_names, &sequence, &path))
        return NULL;
    PyObject *bytes = bytes_of(self, sequence);
    if (!bytes || path == Py_None)
        return bytes;
    PyObject *file = open_file(path, "wb");
    if (file) {
        PyObject *written = PyObject_CallMethod(file, "write", "O", bytes);
        Py_XDECREF(written);
        (void)close_file(file);
    }
    Py_DECREF(bytes);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* Bytes themselves, or those of a file: a new reference. */
static PyObject *read_source(PyObject *source) {
    if (PyObject_CheckBuffer(source))
        return Py_NewRef(source);
    PyObject *file = open_file(source, "rb");
    PyObject *bytes = file ? PyObject_CallMethod(file, "read", NULL) : NULL;
    if (file && close_file(file) < 0)
        Py_CLEAR(bytes);
    return bytes;
}

PyObject *py_cache_load(PyObject *self, PyObject *source) {
    const py_cache *cache = (const py_cache *)self;
    PyObject *bytes = read_source(source);
    Py_buffer buffer;
    if (!bytes || PyObject_GetBuffer(bytes, &buffer, PyBUF_SIMPLE) < 0) {
        Py_XDECREF(bytes);
        return NULL;
    }
    int64_t sequence;
    /* Checked bytes must not change, and with the GIL released other threads could write to a buffer that is not
     * read-only. */
    PyThreadState *released = buffer.readonly ? PyEval_SaveThread() : NULL;
    const fovea_status status = cache->calls->load(cache->library, buffer.buf, (size_t)buffer.len, &sequence);
    if (released)
        PyEval_RestoreThread(released);
    PyBuffer_Release(&buffer);
    Py_DECREF(bytes);
    return py_cache_number(cache, status, sequence);
}

PyObject *py_cache_reduce(PyObject *self, PyObject *none) {
    (void)none;
    const py_cache *cache = (const py_cache *)self;
    PyObject *module = PyImport_ImportModule("fovea._stored"), *arguments = cache->arguments;
    PyObject *result = module ? PyObject_CallMethod(module, cache->calls->reduce, "OOOO", self, cache->numbers,
                                                    PyTuple_GetItem(arguments, 0), PyTuple_GetItem(arguments, 1))
                              : NULL;
    Py_XDECREF(module);
    return result;
}

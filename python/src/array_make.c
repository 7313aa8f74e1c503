/* Outputs: arrays of the caller's kind. */
#include "array_private.h"

#include <string.h>

int py_numpy(py_core *core) {
    static const char *const names[] = {
        [PY_F32] = "float32", [PY_F64] = "float64", [PY_F16] = "float16", [PY_BOOL] = "bool",
        [PY_U8] = "uint8",    [PY_I32] = "int32",   [PY_I64] = "int64"};
    if (core->numpy_empty)
        return 0;
    PyObject *numpy = PyImport_ImportModule("numpy");
    if (!numpy)
        return -1;
    PyObject *make = PyObject_GetAttrString(numpy, "dtype");
    for (int i = PY_F32; make && i <= PY_I64; i++)
        if (names[i] && !core->numpy_dtypes[i] && !(core->numpy_dtypes[i] = PyObject_CallFunction(make, "s", names[i])))
            break;
    Py_XDECREF(make);
    if (core->numpy_dtypes[PY_I64])
        core->numpy_empty = PyObject_GetAttrString(numpy, "empty");
    Py_DECREF(numpy);
    return core->numpy_empty ? 0 : -1;
}

/* numpy's type of elements; bfloat16 is of the package ml_dtypes. Borrowed. */
static PyObject *numpy_dtype(py_core *core, py_dtype dtype) {
    if (dtype == PY_BF16 && !core->numpy_dtypes[PY_BF16]) {
        PyObject *package = PyImport_ImportModule("ml_dtypes");
        core->numpy_dtypes[PY_BF16] = package ? PyObject_GetAttrString(package, "bfloat16") : NULL;
        Py_XDECREF(package);
    }
    return core->numpy_dtypes[dtype];
}

static PyObject *tuple_of(int ndim, const int64_t *shape) {
    PyObject *tuple = PyTuple_New(ndim);
    for (int i = 0; tuple && i < ndim; i++) {
        PyObject *size = PyLong_FromLongLong(shape[i]);
        if (!size || PyTuple_SetItem(tuple, i, size) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *numpy_empty(py_core *core, py_dtype dtype, int ndim, const int64_t *shape, py_array *view) {
    if (py_numpy(core) < 0)
        return NULL;
    PyObject *type = numpy_dtype(core, dtype);
    PyObject *sizes = type ? tuple_of(ndim, shape) : NULL;
    PyObject *array = sizes ? PyObject_CallFunctionObjArgs(core->numpy_empty, sizes, type, NULL) : NULL;
    Py_XDECREF(sizes);
    if (array && py_array_open(core, array, "out", view) < 0)
        Py_CLEAR(array);
    return array;
}

static void set_error(void *context, const char *kind, const char *message) {
    (void)context;
    const PyGILState_STATE state = PyGILState_Ensure();
    py_raise(PyExc_MemoryError, "%s: %.*s", kind, (int)strcspn(message, "\n"), message); /* a backtrace follows */
    PyGILState_Release(state);
}

static PyObject *exchange_empty(py_source source, py_dtype dtype, int ndim, const int64_t *shape, py_array *view) {
    int64_t sizes[PY_DIMS];
    for (int i = 0; i < ndim; i++)
        sizes[i] = shape[i];
    DLTensor prototype = {NULL, {DL_CPU, 0}, ndim, py_dtype_type(dtype), sizes, NULL, 0};
    DLManagedTensorVersioned *managed = NULL;
    if (source.api->managed_tensor_allocator(&prototype, &managed, NULL, set_error) != 0)
        return NULL;
    view->held = PY_HELD_NOTHING;
    view->copy = NULL;
    view->source = source;
    view->read_only = false;
    const int status = py_read_dltensor(&managed->dl_tensor, "out", view);
    void *object = NULL;
    if (source.api->managed_tensor_to_py_object_no_sync(managed, &object) != 0 || status < 0) {
        if (object)
            py_unreadable(object, "out");
        Py_XDECREF((PyObject *)object);
        return NULL;
    }
    return object;
}

PyObject *py_array_empty(py_core *core, py_source source, py_dtype dtype, int ndim, const int64_t *shape,
                         py_array *view) {
    if (source.way == PY_WAY_EXCHANGE)
        return exchange_empty(source, dtype, ndim, shape, view);
    return numpy_empty(core, dtype, ndim, shape, view);
}

/* namespace.from_dlpack(made): over the same memory. bfloat16, which numpy does not export, goes as uint16. */
static PyObject *hand_over(PyObject *namespace, PyObject *made, bool bfloat16) {
    PyObject *plain = bfloat16 ? PyObject_CallMethod(made, "view", "s", "uint16") : made;
    PyObject *theirs = plain ? PyObject_CallMethod(namespace, "from_dlpack", "O", plain) : NULL;
    if (bfloat16) {
        Py_XDECREF(plain);
        PyObject *typed = theirs ? PyObject_CallMethod(theirs, "view", "s", "bfloat16") : NULL;
        Py_XDECREF(theirs);
        theirs = typed;
    }
    return theirs;
}

PyObject *py_array_finish(PyObject *like, py_source source, PyObject *made) {
    if (source.way != PY_WAY_DLPACK)
        return made;
    py_array view = {0};
    PyObject *namespace = PyObject_CallMethod(like, "__array_namespace__", NULL), *theirs = NULL;
    if (namespace && py_read_buffer(made, "out", &view) == 0)
        theirs = hand_over(namespace, made, view.dtype == PY_BF16);
    py_array_close(&view);
    Py_XDECREF(namespace);
    if (!theirs) {
        PyErr_Clear();
        return made;
    }
    Py_DECREF(made);
    return theirs;
}

void py_array_fill(const py_array *array, float value) {
    size_t count = 1;
    for (int i = 0; i < array->ndim; i++)
        count *= (size_t)array->shape[i];
    if (value == 0)
        memset(array->data, 0, count * py_dtype_size(array->dtype));
    else
        for (size_t i = 0; i < count; i++)
            ((float *)array->data)[i] = value;
}

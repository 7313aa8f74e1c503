/* fovea.Relative: biases by position, from a small table. */
#include "call.h"
#include "objects.h"

#include <stddef.h>

typedef struct relative_object {
    PyObject_HEAD PyObject *table;
    fovea_relative kind;
    int bidirectional;
    int64_t max_distance, height, width;
} relative_object;

static void dealloc(PyObject *self) {
    Py_CLEAR(((relative_object *)self)->table);
    py_object_free(self);
}

static relative_object *make(PyObject *type, fovea_relative kind, PyObject *table) {
    relative_object *relative = (relative_object *)py_object_new((PyTypeObject *)type);
    if (!relative)
        return NULL;
    Py_INCREF(table);
    relative->table = table;
    relative->kind = kind;
    py_array array; /* so that a wrong table is told where it is made */
    if (py_array_open(PyType_GetModuleState((PyTypeObject *)type), table, "table", &array) == 0) {
        int status = py_array_f32(&array, "table");
        if (status == 0 && (array.ndim < 1 || array.ndim > 3))
            status = py_raise(PyExc_ValueError,
                              "table must have the shape [entries], [heads, entries] or [batch, heads, entries]");
        py_array_close(&array);
        if (status == 0)
            return relative;
    }
    Py_DECREF((PyObject *)relative);
    return NULL;
}

static PyObject *t5(PyObject *type, PyObject *args, PyObject *keywords) {
    PyObject *table;
    int bidirectional = -1;
    long long max_distance = 128;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$pL:t5", py_relative_t5_names, &table, &bidirectional,
                                     &max_distance))
        return NULL;
    if (bidirectional < 0) {
        py_raise(PyExc_TypeError, "t5() needs bidirectional: True for encoders, False for decoders");
        return NULL;
    }
    relative_object *relative = make(type, FOVEA_RELATIVE_T5, table);
    if (relative) {
        relative->bidirectional = bidirectional;
        relative->max_distance = max_distance;
    }
    return (PyObject *)relative;
}

static PyObject *toeplitz(PyObject *type, PyObject *args, PyObject *keywords) {
    PyObject *table;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O:toeplitz", py_relative_toeplitz_names, &table))
        return NULL;
    return (PyObject *)make(type, FOVEA_RELATIVE_TOEPLITZ, table);
}

static PyObject *window_2d(PyObject *type, PyObject *args, PyObject *keywords) {
    PyObject *table;
    long long height = -1, width = -1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$LL:window_2d", py_relative_window_2d_names, &table, &height,
                                     &width))
        return NULL;
    if (height < 0 || width < 0) {
        py_raise(PyExc_TypeError, "window_2d() needs height and width, in tokens");
        return NULL;
    }
    relative_object *relative = make(type, FOVEA_RELATIVE_WINDOW_2D, table);
    if (relative) {
        relative->height = height;
        relative->width = width;
    }
    return (PyObject *)relative;
}

int py_relative_describe(PyObject *object, fovea_attention_desc *desc) {
    const relative_object *relative = (const relative_object *)object;
    py_array array;
    py_core *core = py_core_of_object(object);
    if (py_array_open(core, relative->table, "relative", &array) < 0)
        return -1;
    desc->relative = relative->kind;
    desc->relative_bidirectional = relative->bidirectional;
    desc->relative_buckets = relative->kind == FOVEA_RELATIVE_T5 ? array.shape[array.ndim - 1] : 0;
    desc->relative_max_distance = relative->max_distance;
    desc->relative_height = relative->height;
    desc->relative_width = relative->width;
    py_array_close(&array);
    return 0;
}

int py_call_relative_object(py_call *call, PyObject *object) {
    if (Py_TYPE(object) != call->core->relative_type)
        return py_raise(PyExc_TypeError,
                        "relative must be a fovea.Relative: Relative.t5(...), .toeplitz(...) or .window_2d(...)");
    const relative_object *relative = (const relative_object *)object;
    py_array *array = py_call_open(call, relative->table, "relative");
    if (!array || py_array_f32(array, "relative") < 0 || py_array_compact(array) < 0)
        return -1;
    fovea_tensor *tensor = &call->args.relative;
    *tensor = fovea_tensor_bhtd(array->data, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    const int axes[3] = {0, 1, 3};
    for (int i = 0; i < array->ndim; i++) {
        const int to = axes[3 - array->ndim + i];
        tensor->shape[to] = array->shape[i];
        tensor->stride[to] = array->stride[i];
    }
    return py_relative_describe(object, &call->desc);
}

static const char *maker_of(PyObject *self) {
    const fovea_relative kind = ((relative_object *)self)->kind;
    return kind == FOVEA_RELATIVE_T5 ? "t5" : kind == FOVEA_RELATIVE_TOEPLITZ ? "toeplitz" : "window_2d";
}

static PyObject *get_kind(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(maker_of(self));
}

static PyObject *get_table(PyObject *self, void *unused) {
    (void)unused;
    return Py_NewRef(((relative_object *)self)->table);
}

static PyObject *get_parameters(PyObject *self, void *unused) {
    (void)unused;
    const relative_object *relative = (const relative_object *)self;
    switch (relative->kind) {
    case FOVEA_RELATIVE_T5:
        return Py_BuildValue("{s:N,s:L}", "bidirectional", PyBool_FromLong(relative->bidirectional), "max_distance",
                             (long long)relative->max_distance);
    case FOVEA_RELATIVE_WINDOW_2D:
        return Py_BuildValue("{s:L,s:L}", "height", (long long)relative->height, "width", (long long)relative->width);
    default: return PyDict_New();
    }
}

static PyObject *stored(PyObject *self, const char *function) {
    PyObject *args = PyTuple_Pack(1, ((relative_object *)self)->table), *parameters = get_parameters(self, NULL);
    PyObject *arguments = args && parameters ? py_arguments(args, parameters) : NULL;
    PyObject *result = arguments ? py_stored(function, "Relative", maker_of(self), arguments) : NULL;
    Py_XDECREF(args);
    Py_XDECREF(parameters);
    Py_XDECREF(arguments);
    return result;
}

static PyObject *repr(PyObject *self) { return stored(self, "text"); }

/* Also for copies: its table is the caller's, and may change. */
static PyObject *reduce(PyObject *self, PyObject *none) {
    (void)none;
    return stored(self, "reduce");
}

static PyGetSetDef getters[] = {
    {"kind", get_kind, NULL, "'t5', 'toeplitz' or 'window_2d': the function that made it", NULL},
    {"table", get_table, NULL, "the table, as it was given", NULL},
    {"parameters", get_parameters, NULL, "the other arguments of the function that made it, as a dict", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {"t5", (PyCFunction)(void (*)(void))t5, METH_VARARGS | METH_KEYWORDS | METH_CLASS, py_relative_t5_doc},
    {"toeplitz", (PyCFunction)(void (*)(void))toeplitz, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     py_relative_toeplitz_doc},
    {"window_2d", (PyCFunction)(void (*)(void))window_2d, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     py_relative_window_2d_doc},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)dealloc}, {Py_tp_repr, (void *)repr},           {Py_tp_methods, methods},
    {Py_tp_getset, getters},          {Py_tp_doc, (void *)py_relative_doc}, {0, NULL}};

static PyType_Spec spec = {"fovea.Relative", sizeof(relative_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};

int py_add_relative(PyObject *module) { return py_add_type(module, &spec, &py_core_of(module)->relative_type); }

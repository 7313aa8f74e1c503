/* fovea.Rope (rope.h). */
#include "rope.h"
#include "call.h"
#include "objects.h"
#include "rows_call.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static void dealloc(PyObject *self) {
    fovea_rope_destroy(((py_rope *)self)->library);
    Py_XDECREF(((py_rope *)self)->arguments);
    py_object_free(self);
}

/* The divisors that an array had, which may change. */
static int keep_divisors(PyObject *arguments, const py_array *array) {
    PyObject *module = PyImport_ImportModule("array");
    PyObject *bytes = PyBytes_FromStringAndSize(array->data, (Py_ssize_t)(array->shape[0] * (int64_t)sizeof(float)));
    PyObject *kept = module && bytes ? PyObject_CallMethod(module, "array", "sO", "f", bytes) : NULL;
    const int status = kept ? PyDict_SetItemString(PyTuple_GetItem(arguments, 1), "divisors", kept) : -1;
    Py_XDECREF(module);
    Py_XDECREF(bytes);
    Py_XDECREF(kept);
    return status;
}

static PyObject *rope_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    static const char *const pairings[] = {"halves", "adjacent"};
    static const char *const scalings[] = {"linear", "ntk", "yarn", "llama3"}; /* from FOVEA_ROPE_LINEAR on */
    fovea_rope_desc desc;
    fovea_rope_desc_init(&desc);
    long long rotary_dim;
    PyObject *pairing = NULL, *scaling = Py_None, *divisors = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "L|$dOOdddddddO:Rope", py_rope_names, &rotary_dim, &desc.base,
                                     &pairing, &scaling, &desc.factor, &desc.original_positions, &desc.beta_fast,
                                     &desc.beta_slow, &desc.attention_factor, &desc.low_frequency, &desc.high_frequency,
                                     &divisors))
        return NULL;
    const int pairs = pairing ? py_word(pairing, "pairing", NULL, pairings, 2) : 0,
              scales = pairs < 0            ? -1
                       : scaling == Py_None ? FOVEA_ROPE_UNSCALED
                                            : py_word(scaling, "scaling", "None", scalings, 4) + FOVEA_ROPE_LINEAR;
    if (pairs < 0 || PyErr_Occurred())
        return NULL;
    desc.rotary_dim = rotary_dim;
    desc.pairing = (fovea_rope_pairing)pairs;
    desc.scaling = (fovea_rope_scaling)scales;
    py_array array = {0};
    fovea_dtype dtype;
    if (divisors != Py_None) {
        py_core *core = PyType_GetModuleState(type);
        if (py_vector_open(core, divisors, "divisors", rotary_dim / 2, &array, &dtype) < 0)
            return NULL;
        if (py_array_f32(&array, "divisors") < 0) {
            py_array_close(&array);
            return NULL;
        }
        desc.divisors = array.data;
    }
    py_rope *self = (py_rope *)py_object_new(type);
    if (self) {
        PyThreadState *released = PyEval_SaveThread();
        const fovea_status status = fovea_rope_create(&desc, &self->library);
        PyEval_RestoreThread(released);
        self->rotary_dim = rotary_dim;
        self->arguments = py_arguments(args, keywords);
        if (status != FOVEA_OK)
            py_raise_status(status);
        if (status != FOVEA_OK || !self->arguments || (array.data && keep_divisors(self->arguments, &array) < 0)) {
            Py_DECREF((PyObject *)self);
            self = NULL;
        }
    }
    py_array_close(&array);
    return (PyObject *)self;
}

/* Positions [batch * tokens] from an int, that of the first token of each sequence; from [tokens], the same for all; or
 * from [batch * tokens]. NULL with an exception. */
static int64_t *positions_of(py_core *core, PyObject *given, int64_t batch, int64_t tokens) {
    const int64_t all = batch * tokens;
    int64_t *found = NULL, count = 0;
    const bool one = py_is_integer(given);
    int64_t first = 0;
    if (one ? py_integer(given, "positions", &first) < 0
            : py_integers(core, given, "positions", -1, &found, &count) < 0)
        return NULL;
    if (!one && count == all)
        return found;
    if (!one && count != tokens) {
        py_raise(PyExc_ValueError,
                 "positions are %lld numbers, not %lld, one for each token, nor %lld, one for each of all sequences",
                 (long long)count, (long long)tokens, (long long)all);
        free(found);
        return NULL;
    }
    int64_t *repeated = malloc(((size_t)all + 1) * sizeof *repeated);
    for (int64_t i = 0; repeated && i < all; i++)
        repeated[i] = one ? first + i % tokens : found[i % tokens];
    free(found);
    if (!repeated)
        PyErr_NoMemory();
    return repeated;
}

/* One call: x, rotated by positions. */
typedef struct turn {
    const py_rope *rope;
    fovea_tensor x, y;
    const int64_t *positions;
} turn;

static fovea_status rotate(const fovea_context *ctx, const void *args) {
    const turn *t = args;
    return fovea_rope_apply(ctx, t->rope->library, &t->x, t->positions, &t->y);
}

static int turn_of(py_rows_call *c, turn *t, PyObject *object, PyObject *positions, const py_layout *layout,
                   PyObject *out) {
    fovea_dtype dtype;
    py_array *x = py_rows_floats(c, object, "x", &dtype);
    if (!x || py_layout_view(layout, x, "x", true, &t->x) < 0)
        return -1;
    const int64_t *shape = t->x.shape;
    if (!(t->positions = c->numbers[0] = positions_of(c->core, positions, shape[0], shape[2])))
        return -1;
    c->number_count = 1;
    py_array *y = py_rows_result(c, out, x->ndim, x->shape, &dtype);
    if (!y || py_layout_view(layout, y, "out", false, &t->y) < 0)
        return -1;
    return py_rows_run(shape[0] * shape[1] * shape[2] * shape[3], rotate, t);
}

static PyObject *apply(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *object, *positions, *layout_name = Py_None, *out = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|$OO:apply", py_rope_apply_names, &object, &positions,
                                     &layout_name, &out))
        return NULL;
    const py_layout *layout = py_layout_or_default(layout_name == Py_None ? NULL : layout_name, "layout");
    if (!layout)
        return NULL;
    py_rows_call c;
    turn t = {.rope = (const py_rope *)self};
    py_rows_begin(&c, py_core_of_object(self));
    const int status = turn_of(&c, &t, object, positions, layout, out == Py_None ? NULL : out);
    return py_rows_end(&c, object, out != Py_None, status);
}

static PyObject *repr(PyObject *self) { return py_stored("text", "Rope", NULL, ((py_rope *)self)->arguments); }

static PyObject *reduce(PyObject *self, PyObject *none) {
    (void)none;
    return py_stored("reduce", "Rope", NULL, ((py_rope *)self)->arguments);
}

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    PY_IMMUTABLE_METHODS,
    {"apply", (PyCFunction)(void (*)(void))apply, METH_VARARGS | METH_KEYWORDS, py_rope_apply_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    PY_INT64_GETTER("rotary_dim", py_rope, rotary_dim, "channels of a head that turn"),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {{Py_tp_new, (void *)rope_new},
                              {Py_tp_dealloc, (void *)dealloc},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getters},
                              {Py_tp_doc, (void *)py_rope_doc},
                              {Py_tp_repr, (void *)repr},
                              {0, NULL}};

static PyType_Spec spec = {"fovea.Rope", sizeof(py_rope), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, slots};

int py_add_rope(PyObject *module) { return py_add_type(module, &spec, &py_core_of(module)->rope_type); }

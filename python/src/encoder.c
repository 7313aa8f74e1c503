/* fovea.embedding_sum(), activate(), pool() and normalize(): the operations of encoders besides maps, attention and
 * norms. */
#include "array.h"
#include "context.h"
#include "keywords.h"
#include "linear.h"

#include <stdlib.h>
#include <string.h>

enum { TABLES = 16, ARRAYS = TABLES + 1 };

/* One call: what it has opened, and what it gives. */
typedef struct call {
    py_core *core;
    py_array arrays[ARRAYS];
    int64_t *numbers[TABLES];
    int array_count, number_count;
    PyObject *made; /* the result, a reference, or NULL */
} call;

static void begin(call *c, py_core *core) {
    c->core = core;
    c->array_count = c->number_count = 0;
    c->made = NULL;
}

/* Ends a call with what it returns: the result, of the kind of like; or NULL with an exception. */
static PyObject *end(call *c, PyObject *like, bool given, int status) {
    const py_source source = c->array_count > 0 ? c->arrays[0].source : (py_source){0};
    for (int i = 0; i < c->array_count; i++)
        py_array_close(&c->arrays[i]);
    for (int i = 0; i < c->number_count; i++)
        free(c->numbers[i]);
    if (status < 0)
        Py_CLEAR(c->made);
    return c->made && !given ? py_array_finish(like, source, c->made) : c->made;
}

/* An input of floats, as it was given. NULL with an exception. */
static py_array *open_floats(call *c, PyObject *object, const char *name, fovea_dtype *dtype) {
    py_array *array = &c->arrays[c->array_count];
    if (py_array_open(c->core, object, name, array) < 0)
        return NULL;
    c->array_count++;
    if (py_array_float(array, name, dtype) < 0 || py_array_no_gradient(c->core, object, name, array->source) < 0)
        return NULL;
    return array;
}

/* Opens an input of rows, and checks its shape if one is expected. */
static int open_rows(call *c, PyObject *object, const char *name, int ndim, const int64_t *shape,
                     fovea_tensor *tensor) {
    fovea_dtype dtype;
    py_array *array = open_floats(c, object, name, &dtype);
    if (!array)
        return -1;
    if (shape && (array->ndim != ndim || memcmp(array->shape, shape, (size_t)ndim * sizeof *shape) != 0))
        return py_wrong_shape(name, array, ndim, shape);
    if (array->ndim == 0)
        return py_raise(PyExc_ValueError, "%s is one number, not rows", name);
    return py_rows(array, name, dtype, array->shape[array->ndim - 1], true, tensor);
}

/* The output: given, or made of the kind and type of the first array. */
static int open_out(call *c, PyObject *given, int ndim, const int64_t *shape, fovea_tensor *tensor) {
    const py_array *first = &c->arrays[0];
    py_array *array = &c->arrays[c->array_count];
    fovea_dtype dtype;
    if (given) {
        if (py_array_open_out(c->core, given, "out", array) < 0)
            return -1;
        c->array_count++;
        Py_INCREF(given);
        c->made = given;
        if (array->ndim != ndim || memcmp(array->shape, shape, (size_t)ndim * sizeof *shape) != 0)
            return py_wrong_shape("out", array, ndim, shape);
    } else {
        if (!(c->made = py_array_empty(c->core, first->source, first->dtype, ndim, shape, array)))
            return -1;
        c->array_count++;
    }
    return py_array_float(array, "out", &dtype) < 0 ? -1 : py_rows(array, "out", dtype, shape[ndim - 1], false, tensor);
}

static int open_numbers(call *c, PyObject *object, const char *name, int64_t expected, int64_t *count) {
    if (py_integers(c->core, object, name, expected, &c->numbers[c->number_count], count) < 0)
        return -1;
    c->number_count++;
    return 0;
}

/* Elements from which on other threads of Python may run meanwhile: some 20 us. */
static const int64_t long_call = 1 << 16;

/* Calls the library. 0, or -1 with an exception. */
static int run(int64_t elements, fovea_status (*function)(const fovea_context *ctx, const void *args),
               const void *args) {
    py_context *context = py_context_now();
    if (!context)
        return -1;
    py_context_keep(context);
    PyThreadState *released = elements >= long_call ? PyEval_SaveThread() : NULL;
    const fovea_status status = function(context->library, args);
    if (released)
        PyEval_RestoreThread(released);
    py_context_drop(context);
    if (status != FOVEA_OK)
        py_raise_status(status);
    return status == FOVEA_OK ? 0 : -1;
}

static int64_t elements_of(const fovea_tensor *t) { return t->shape[0] * t->shape[2] * t->shape[3]; }

/* ------------------------------------------------------------------------------------------- fovea.embedding_sum -- */

static fovea_status embedding_sum(const fovea_context *ctx, const void *args) { return fovea_embedding_sum(ctx, args); }

static int sum_of(call *c, PyObject **values) {
    fovea_embedding_table tables[TABLES];
    fovea_embedding_args args;
    fovea_embedding_args_init(&args);
    const Py_ssize_t count = PyTuple_Size(values[0]);
    int64_t channels = 0, tokens = -1, found = 0;
    if (count < 1 || count > TABLES || PyTuple_Size(values[1]) != count)
        return py_raise(PyExc_ValueError, "there are %zd tables and %zd ids: as many of both, from 1 to %d", count,
                        PyTuple_Size(values[1]), TABLES);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *ids = PyTuple_GetItem(values[1], i);
        fovea_dtype dtype;
        py_array *array = open_floats(c, PyTuple_GetItem(values[0], i), "tables", &dtype);
        if (!array || py_array_compact(array) < 0)
            return -1;
        if (array->ndim != 2 || (i > 0 && array->shape[1] != channels))
            return py_raise(PyExc_ValueError, "tables must be [rows, channels], with the same channels");
        channels = array->shape[1];
        const int64_t stride = array->shape[0] > 1 ? array->stride[0] : channels; /* of one row it may be any */
        tables[i] =
            (fovea_embedding_table){.data = array->data, .dtype = dtype, .rows = array->shape[0], .stride = stride};
        if (ids == Py_None)
            continue;
        if (open_numbers(c, ids, "ids", tokens, &found) < 0)
            return -1;
        tokens = found;
        tables[i].ids = c->numbers[c->number_count - 1];
    }
    if (tokens < 0)
        return py_raise(PyExc_ValueError, "ids are None for all tables: no table says how many tokens there are");
    const int64_t shape[2] = {tokens, channels};
    if ((values[2] && py_number(values[2], "scale", &args.scale) < 0) || open_out(c, values[3], 2, shape, &args.y) < 0)
        return -1;
    args.tables = tables;
    args.table_count = count;
    return run(elements_of(&args.y) * count, embedding_sum, &args);
}

PyObject *py_embedding_sum(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *values[4];
    py_core *core = py_core_of(module);
    if (py_parse(core, &py_embedding_sum_signature, args, count, keywords, values) < 0)
        return NULL;
    for (int i = 0; i < 2; i++)
        if (!PyList_Check(values[i]) && !PyTuple_Check(values[i])) {
            PyErr_SetString(PyExc_TypeError, "tables and ids must be lists");
            return NULL;
        }
    PyObject *lists[2] = {PySequence_Tuple(values[0]), PySequence_Tuple(values[1])};
    call c;
    begin(&c, core);
    int status = lists[0] && lists[1] ? 0 : -1;
    if (status == 0)
        status = sum_of(&c, (PyObject *[]){lists[0], lists[1], values[2], values[3]});
    PyObject *result = end(&c, status == 0 ? PyTuple_GetItem(lists[0], 0) : NULL, values[3] != NULL, status);
    Py_XDECREF(lists[0]);
    Py_XDECREF(lists[1]);
    return result;
}

/* ------------------------------------------------------------------------------------------------ fovea.activate -- */

static fovea_status activate(const fovea_context *ctx, const void *args) { return fovea_activate(ctx, args); }

static int activation_of(call *c, PyObject **values) {
    fovea_activate_args args;
    fovea_activate_args_init(&args);
    if (open_rows(c, values[0], "x", 0, NULL, &args.x) < 0 ||
        (values[1] && py_activation_of(values[1], &args.activation) < 0))
        return -1;
    const int ndim = c->arrays[0].ndim;
    const int64_t *shape = c->arrays[0].shape;
    if ((values[2] && open_rows(c, values[2], "up", ndim, shape, &args.up) < 0) ||
        (values[3] && open_rows(c, values[3], "residual", ndim, shape, &args.residual) < 0) ||
        open_out(c, values[4], ndim, shape, &args.y) < 0)
        return -1;
    return run(elements_of(&args.y), activate, &args);
}

PyObject *py_activate(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *values[5];
    py_core *core = py_core_of(module);
    if (py_parse(core, &py_activate_signature, args, count, keywords, values) < 0)
        return NULL;
    call c;
    begin(&c, core);
    return end(&c, values[0], values[4] != NULL, activation_of(&c, values));
}

/* ---------------------------------------------------------------------------------------------------- fovea.pool -- */

static fovea_status pool(const fovea_context *ctx, const void *args) { return fovea_pool_tokens(ctx, args); }

static int pooling_of(PyObject *word, fovea_pooling *pooling) {
    static const char *const words[] = {[FOVEA_POOLING_FIRST] = "first",
                                        [FOVEA_POOLING_LAST] = "last",
                                        [FOVEA_POOLING_MEAN] = "mean",
                                        [FOVEA_POOLING_MEAN_SQRT_LEN] = "mean_sqrt_len",
                                        [FOVEA_POOLING_WEIGHTED_MEAN] = "weighted_mean",
                                        [FOVEA_POOLING_MAX] = "max"};
    for (int i = 0; PyUnicode_Check(word) && i <= FOVEA_POOLING_MAX; i++)
        if (PyUnicode_CompareWithASCIIString(word, words[i]) == 0) {
            *pooling = (fovea_pooling)i;
            return 0;
        }
    return py_raise_not(word, "pooling must be 'first', 'last', 'mean', 'mean_sqrt_len', 'weighted_mean' or 'max'");
}

static int pool_of(call *c, PyObject **values) {
    fovea_pool_tokens_args args;
    fovea_pool_tokens_args_init(&args);
    int64_t sequences;
    if (open_rows(c, values[0], "x", 0, NULL, &args.x) < 0)
        return -1;
    if (c->arrays[0].ndim != 2)
        return py_raise(PyExc_ValueError, "x has %d dimensions, [rows, channels] has 2", c->arrays[0].ndim);
    if (open_numbers(c, values[1], "begin", -1, &sequences) < 0 ||
        open_numbers(c, values[2], "end", sequences, &sequences) < 0 || pooling_of(values[3], &args.pooling) < 0)
        return -1;
    if (values[4]) {
        py_array *weights = &c->arrays[c->array_count];
        fovea_dtype dtype;
        if (py_vector_open(c->core, values[4], "weights", c->arrays[0].shape[0], weights, &dtype) < 0)
            return -1;
        c->array_count++;
        if (py_array_f32(weights, "weights") < 0)
            return -1;
        args.weights = weights->data;
    }
    args.begin = c->numbers[0];
    args.end = c->numbers[1];
    const int64_t shape[2] = {sequences, c->arrays[0].shape[1]};
    if (open_out(c, values[5], 2, shape, &args.y) < 0)
        return -1;
    return run(elements_of(&args.x), pool, &args);
}

PyObject *py_pool(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *values[6];
    py_core *core = py_core_of(module);
    if (py_parse(core, &py_pool_signature, args, count, keywords, values) < 0)
        return NULL;
    call c;
    begin(&c, core);
    return end(&c, values[0], values[5] != NULL, pool_of(&c, values));
}

/* ----------------------------------------------------------------------------------------------- fovea.normalize -- */

static fovea_status normalize(const fovea_context *ctx, const void *tensors) {
    const fovea_tensor *xy = tensors;
    return fovea_normalize_rows(ctx, &xy[0], &xy[1]);
}

static int normalize_of(call *c, PyObject **values) {
    fovea_tensor xy[2];
    if (open_rows(c, values[0], "x", 0, NULL, &xy[0]) < 0 ||
        open_out(c, values[1], c->arrays[0].ndim, c->arrays[0].shape, &xy[1]) < 0)
        return -1;
    return run(elements_of(&xy[0]), normalize, xy);
}

PyObject *py_normalize(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *values[2];
    py_core *core = py_core_of(module);
    if (py_parse(core, &py_normalize_signature, args, count, keywords, values) < 0)
        return NULL;
    call c;
    begin(&c, core);
    return end(&c, values[0], values[1] != NULL, normalize_of(&c, values));
}

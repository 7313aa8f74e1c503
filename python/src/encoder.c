/* fovea.embedding_sum(), activate(), pool(), normalize() and exp(): the operations of encoders besides maps, attention
 * and norms, and of samplers. */
#include "keywords.h"
#include "rows_call.h"

static int64_t elements_of(const fovea_tensor *t) { return t->shape[0] * t->shape[2] * t->shape[3]; }

/* ------------------------------------------------------------------------------------------- fovea.embedding_sum -- */

static fovea_status embedding_sum(const fovea_context *ctx, const void *args) { return fovea_embedding_sum(ctx, args); }

static int sum_of(py_rows_call *c, PyObject **values) {
    fovea_embedding_table tables[PY_ROWS_NUMBERS];
    fovea_embedding_args args;
    fovea_embedding_args_init(&args);
    const Py_ssize_t count = PyTuple_Size(values[0]);
    int64_t channels = 0, tokens = -1, found = 0;
    if (count < 1 || count > PY_ROWS_NUMBERS || PyTuple_Size(values[1]) != count)
        return py_raise(PyExc_ValueError, "there are %zd tables and %zd ids: as many of both, from 1 to %d", count,
                        PyTuple_Size(values[1]), PY_ROWS_NUMBERS);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *ids = PyTuple_GetItem(values[1], i);
        fovea_dtype dtype;
        py_array *array = py_rows_floats(c, PyTuple_GetItem(values[0], i), "tables", &dtype);
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
        if (py_rows_integers(c, ids, "ids", tokens, &found) < 0)
            return -1;
        tokens = found;
        tables[i].ids = c->numbers[c->number_count - 1];
    }
    if (tokens < 0)
        return py_raise(PyExc_ValueError, "ids are None for all tables: no table says how many tokens there are");
    const int64_t shape[2] = {tokens, channels};
    if ((values[2] && py_number(values[2], "scale", &args.scale) < 0) ||
        py_rows_out(c, values[3], 2, shape, &args.y) < 0)
        return -1;
    args.tables = tables;
    args.table_count = count;
    return py_rows_run(elements_of(&args.y) * count, embedding_sum, &args);
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
    py_rows_call c;
    py_rows_begin(&c, core);
    int status = lists[0] && lists[1] ? 0 : -1;
    if (status == 0)
        status = sum_of(&c, (PyObject *[]){lists[0], lists[1], values[2], values[3]});
    PyObject *result = py_rows_end(&c, status == 0 ? PyTuple_GetItem(lists[0], 0) : NULL, values[3] != NULL, status);
    Py_XDECREF(lists[0]);
    Py_XDECREF(lists[1]);
    return result;
}

/* ------------------------------------------------------------------------------------------------ fovea.activate -- */

static fovea_status activate(const fovea_context *ctx, const void *args) { return fovea_activate(ctx, args); }

static int activation_of(py_rows_call *c, PyObject **values) {
    fovea_activate_args args;
    fovea_activate_args_init(&args);
    if (py_rows_open(c, values[0], "x", 0, NULL, &args.x) < 0 ||
        (values[1] && py_activation_of(values[1], &args.activation) < 0))
        return -1;
    const int ndim = c->arrays[0].ndim;
    const int64_t *shape = c->arrays[0].shape;
    if ((values[2] && py_rows_open(c, values[2], "up", ndim, shape, &args.up) < 0) ||
        (values[3] && py_rows_open(c, values[3], "residual", ndim, shape, &args.residual) < 0) ||
        py_rows_out(c, values[4], ndim, shape, &args.y) < 0)
        return -1;
    return py_rows_run(elements_of(&args.y), activate, &args);
}

PyObject *py_activate(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return py_rows_of(module, &py_activate_signature, args, count, keywords, 4, activation_of);
}

/* --------------------------------------------------------------------------------------------- fovea.pool_tokens -- */

static fovea_status pool(const fovea_context *ctx, const void *args) { return fovea_pool_tokens(ctx, args); }

static int pooling_of(PyObject *word, fovea_pooling *pooling) {
    static const char *const words[] = {[FOVEA_POOLING_FIRST] = "first",
                                        [FOVEA_POOLING_LAST] = "last",
                                        [FOVEA_POOLING_MEAN] = "mean",
                                        [FOVEA_POOLING_MEAN_SQRT_LEN] = "mean_sqrt_len",
                                        [FOVEA_POOLING_WEIGHTED_MEAN] = "weighted_mean",
                                        [FOVEA_POOLING_MAX] = "max"};
    const int place = py_word(word, "pooling", NULL, words, FOVEA_POOLING_MAX + 1);
    *pooling = (fovea_pooling)place;
    return place < 0 ? -1 : 0;
}

static int pool_of(py_rows_call *c, PyObject **values) {
    fovea_pool_tokens_args args;
    fovea_pool_tokens_args_init(&args);
    int64_t sequences;
    if (py_rows_open(c, values[0], "x", 0, NULL, &args.x) < 0)
        return -1;
    if (c->arrays[0].ndim != 2)
        return py_raise(PyExc_ValueError, "x has %d dimensions, [rows, channels] has 2", c->arrays[0].ndim);
    if (py_rows_integers(c, values[1], "begin", -1, &sequences) < 0 ||
        py_rows_integers(c, values[2], "end", sequences, &sequences) < 0 || pooling_of(values[3], &args.pooling) < 0)
        return -1;
    if (values[4]) {
        fovea_dtype dtype;
        const py_array *weights = py_rows_vector(c, values[4], "weights", c->arrays[0].shape[0], &dtype);
        if (!weights || py_array_f32(weights, "weights") < 0)
            return -1;
        args.weights = weights->data;
    }
    args.begin = c->numbers[0];
    args.end = c->numbers[1];
    const int64_t shape[2] = {sequences, c->arrays[0].shape[1]};
    if (py_rows_out(c, values[5], 2, shape, &args.y) < 0)
        return -1;
    return py_rows_run(elements_of(&args.x), pool, &args);
}

PyObject *py_pool_tokens(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return py_rows_of(module, &py_pool_tokens_signature, args, count, keywords, 5, pool_of);
}

/* ------------------------------------------------------------------------------------------ fovea.normalize_rows -- */

static fovea_status normalize(const fovea_context *ctx, const void *tensors) {
    const fovea_tensor *xy = tensors;
    return fovea_normalize_rows(ctx, &xy[0], &xy[1]);
}

static int normalize_of(py_rows_call *c, PyObject **values) {
    fovea_tensor xy[2];
    if (py_rows_open(c, values[0], "x", 0, NULL, &xy[0]) < 0 ||
        py_rows_out(c, values[1], c->arrays[0].ndim, c->arrays[0].shape, &xy[1]) < 0)
        return -1;
    return py_rows_run(elements_of(&xy[0]), normalize, xy);
}

PyObject *py_normalize_rows(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return py_rows_of(module, &py_normalize_rows_signature, args, count, keywords, 1, normalize_of);
}

/* ----------------------------------------------------------------------------------------------------- fovea.exp -- */

static fovea_status exp_rows(const fovea_context *ctx, const void *tensors) {
    const fovea_tensor *x = tensors, *y = x + 1;
    fovea_status status = FOVEA_OK;
    (void)ctx;
    for (int64_t b = 0; status == FOVEA_OK && b < x->shape[0]; b++)
        for (int64_t i = 0; status == FOVEA_OK && i < x->shape[2]; i++)
            status = fovea_exp_f32(x->shape[3], (const float *)x->data + b * x->stride[0] + i * x->stride[2],
                                   (float *)y->data + b * y->stride[0] + i * y->stride[2]);
    return status;
}

static int exp_of(py_rows_call *c, PyObject **values) {
    fovea_tensor xy[2];
    if (py_rows_open(c, values[0], "x", 0, NULL, &xy[0]) < 0 || py_array_f32(&c->arrays[0], "x") < 0 ||
        py_rows_out(c, values[1], c->arrays[0].ndim, c->arrays[0].shape, &xy[1]) < 0 ||
        py_array_f32(&c->arrays[1], "out") < 0)
        return -1;
    return py_rows_run(elements_of(&xy[0]), exp_rows, xy);
}

PyObject *py_exp(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return py_rows_of(module, &py_exp_signature, args, count, keywords, 1, exp_of);
}

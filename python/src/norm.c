/* fovea.layer_norm() and fovea.rms_norm(). */
#include "array.h"
#include "context.h"
#include "keywords.h"
#include "linear.h"

#include <string.h>

enum { ARG_x, ARG_weight, ARG_bias, ARG_eps, ARG_out, ARG_COUNT };

/* Rows from which on other threads of Python may run meanwhile, in elements: some 20 us. */
static const int64_t long_norm = 1 << 16;

typedef fovea_status norm_function(const fovea_context *ctx, const fovea_norm_args *args, void *workspace, size_t size);

/* weight or bias. 0, or -1 with an exception. */
static int open_vector(py_core *core, PyObject *object, const char *name, int64_t size, py_array *array,
                       fovea_dtype *dtype, const void **data) {
    if (!object)
        return 0;
    if (py_vector_open(core, object, name, size, array, dtype) < 0) {
        memset(array, 0, sizeof *array);
        return -1;
    }
    *data = array->data;
    return py_array_no_gradient(core, object, name, array->source);
}

static int execute(norm_function *norm, const fovea_norm_args *args) {
    py_context *context = py_context_now();
    if (!context)
        return -1;
    const int64_t *shape = args->x.shape;
    py_context_keep(context);
    PyThreadState *released = shape[0] * shape[2] * shape[3] >= long_norm ? PyEval_SaveThread() : NULL;
    const fovea_status status = norm(context->library, args, NULL, 0);
    if (released)
        PyEval_RestoreThread(released);
    py_context_drop(context);
    if (status != FOVEA_OK)
        py_raise_status(status);
    return status == FOVEA_OK ? 0 : -1;
}

/* The result for an open x, or NULL with an exception. */
static PyObject *run(py_core *core, norm_function *norm, PyObject **values, py_array *x, py_array arrays[3]) {
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    fovea_dtype dtype;
    const int64_t channels = x->ndim ? x->shape[x->ndim - 1] : 1;
    const py_array as_given = *x; /* before what is not contiguous is copied */
    if (py_array_float(x, "x", &dtype) < 0 || py_array_no_gradient(core, values[ARG_x], "x", x->source) < 0 ||
        (values[ARG_eps] && py_number(values[ARG_eps], "eps", &args.eps) < 0) ||
        py_rows(x, "x", dtype, channels, true, &args.x) < 0 ||
        open_vector(core, values[ARG_weight], "weight", channels, &arrays[0], &args.weight_dtype, &args.weight) < 0 ||
        open_vector(core, values[ARG_bias], "bias", channels, &arrays[1], &args.bias_dtype, &args.bias) < 0)
        return NULL;
    PyObject *given = values[ARG_out], *made = NULL;
    if (!given)
        made = py_array_empty(core, x->source, as_given.dtype, as_given.ndim, as_given.shape, &arrays[2]);
    else if (py_given(core, given, "out", dtype, as_given.ndim, as_given.shape, &arrays[2]) == 0) {
        Py_INCREF(given);
        made = given;
    } else
        memset(&arrays[2], 0, sizeof arrays[2]);
    if (made && (py_rows(&arrays[2], "out", dtype, channels, false, &args.y) < 0 || execute(norm, &args) < 0))
        Py_CLEAR(made);
    return made && !given ? py_array_finish(values[ARG_x], x->source, made) : made;
}

static PyObject *call(PyObject *module, const py_signature *signature, norm_function *norm, PyObject *const *args,
                      Py_ssize_t count, PyObject *keywords) {
    PyObject *values[ARG_COUNT];
    py_core *core = py_core_of(module);
    py_array x, arrays[3];
    if (py_parse(core, signature, args, count, keywords, values) < 0 || py_array_open(core, values[ARG_x], "x", &x) < 0)
        return NULL;
    memset(arrays, 0, sizeof arrays);
    PyObject *result = run(core, norm, values, &x, arrays);
    py_array_close(&x);
    for (int i = 0; i < 3; i++)
        py_array_close(&arrays[i]);
    return result;
}

PyObject *py_layer_norm(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return call(module, &py_layer_norm_signature, fovea_norm_layer, args, count, keywords);
}

PyObject *py_rms_norm(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return call(module, &py_rms_norm_signature, fovea_norm_rms, args, count, keywords);
}

/* fovea.layer_norm() and fovea.rms_norm(). */
#include "keywords.h"
#include "rows_call.h"

enum { ARG_x, ARG_weight, ARG_bias, ARG_eps, ARG_out };

static fovea_status layer_norm(const fovea_context *ctx, const void *args) {
    return fovea_norm_layer(ctx, args, NULL, 0);
}

static fovea_status rms_norm(const fovea_context *ctx, const void *args) { return fovea_norm_rms(ctx, args, NULL, 0); }

/* weight or bias, if it is given. 0, or -1 with an exception. */
static int open_vector(py_rows_call *c, PyObject *object, const char *name, fovea_dtype *dtype, const void **data) {
    if (!object)
        return 0;
    const py_array *x = &c->arrays[0], *array = py_rows_vector(c, object, name, x->shape[x->ndim - 1], dtype);
    *data = array ? array->data : NULL;
    return array ? 0 : -1;
}

static int norm_of(py_rows_call *c, PyObject **values,
                   fovea_status (*norm)(const fovea_context *ctx, const void *args)) {
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    if (py_rows_open(c, values[ARG_x], "x", 0, NULL, &args.x) < 0 ||
        (values[ARG_eps] && py_number(values[ARG_eps], "eps", &args.eps) < 0) ||
        open_vector(c, values[ARG_weight], "weight", &args.weight_dtype, &args.weight) < 0 ||
        open_vector(c, values[ARG_bias], "bias", &args.bias_dtype, &args.bias) < 0 ||
        py_rows_out(c, values[ARG_out], c->arrays[0].ndim, c->arrays[0].shape, &args.y) < 0)
        return -1;
    const int64_t *shape = args.x.shape;
    return py_rows_run(shape[0] * shape[2] * shape[3], norm, &args);
}

static int layer_norm_of(py_rows_call *c, PyObject **values) { return norm_of(c, values, layer_norm); }

static int rms_norm_of(py_rows_call *c, PyObject **values) { return norm_of(c, values, rms_norm); }

PyObject *py_layer_norm(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return py_rows_of(module, &py_layer_norm_signature, args, count, keywords, ARG_out, layer_norm_of);
}

PyObject *py_rms_norm(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return py_rows_of(module, &py_rms_norm_signature, args, count, keywords, ARG_out, rms_norm_of);
}

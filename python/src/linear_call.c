/* Execution of fovea.Linear (linear.h). */
#include "keywords.h"
#include "linear.h"
#include "plan_cache.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ARG_x, ARG_residual, ARG_out, ARG_lens, ARG_part, ARG_activation, ARG_COUNT };

typedef struct run {
    const py_linear *linear;
    py_core *core;
    PyObject **values;
    py_array x, arrays[2 * PY_LINEAR_PARTS];
    int opened;
    int64_t first, end;              /* the parts that are computed */
    int several;                     /* as lists, and a tuple */
    PyObject *made[PY_LINEAR_PARTS]; /* references */
    fovea_tensor y[PY_LINEAR_PARTS], residual[PY_LINEAR_PARTS];
    fovea_linear_args args;
    int64_t *lens;
} run;

/* The shape of a part's y, from that of x. */
static int shape_of(const run *r, int64_t part, int64_t *shape) {
    const py_linear *linear = r->linear;
    const int64_t out = linear->out[part], heads = linear->heads[part];
    const fovea_tensor *x = &r->args.x;
    const bool grouped = x->shape[1] > 1;
    if (heads) {
        const int64_t sizes[4] = {x->shape[0], heads, x->shape[2], out / heads};
        memcpy(shape, sizes, sizeof sizes);
        return 4;
    }
    if (grouped) {
        const int64_t sizes[3] = {x->shape[0], x->shape[2], out};
        memcpy(shape, sizes, sizeof sizes);
        return 3;
    }
    memcpy(shape, r->x.shape, (size_t)r->x.ndim * sizeof *shape);
    shape[r->x.ndim - 1] = out;
    return r->x.ndim;
}

/* An array of y's shape as the library sees it: heads as they are, rows whatever the number of axes. */
static int as_y(const run *r, int64_t part, py_array *array, const char *name, bool input, fovea_tensor *tensor) {
    if (!r->linear->heads[part])
        return py_rows(array, name, r->linear->dtype, r->linear->out[part], input, tensor);
    if (input && py_array_compact(array) < 0)
        return -1;
    *tensor = (fovea_tensor){.data = array->data, .dtype = r->linear->dtype};
    memcpy(tensor->shape, array->shape, sizeof tensor->shape);
    memcpy(tensor->stride, array->stride, sizeof tensor->stride);
    return 0;
}

static int open_x(run *r) {
    PyObject *object = r->values[ARG_x];
    if (py_array_open(r->core, object, "x", &r->x) < 0)
        return -1;
    r->opened = 0;
    if (py_array_of(&r->x, "x", r->linear->dtype) < 0 || py_array_no_gradient(r->core, object, "x", r->x.source) < 0 ||
        py_rows(&r->x, "x", r->linear->dtype, r->linear->in_features, true, &r->args.x) < 0)
        return -1;
    if (!r->values[ARG_lens])
        return 0;
    int64_t found;
    if (py_integers(r->core, r->values[ARG_lens], "lens", r->args.x.shape[0], &r->lens, &found) < 0)
        return -1;
    r->args.lens = r->lens;
    return 0;
}

/* y of a part, made or given, and what is added to it. */
static int open_part_outputs(run *r, int64_t part) {
    PyObject *given, *residual;
    const py_linear *list = r->several ? r->linear : NULL;
    if (py_linear_item(list, r->values[ARG_out], "out", part, &given) < 0 ||
        py_linear_item(list, r->values[ARG_residual], "residual", part, &residual) < 0)
        return -1;
    int64_t shape[PY_DIMS];
    const int ndim = shape_of(r, part, shape);
    py_array *array = &r->arrays[r->opened];
    if (given) {
        if (py_given(r->core, given, "out", r->linear->dtype, ndim, shape, array) < 0)
            return -1;
        r->made[part] = Py_NewRef(given);
    } else if (!(r->made[part] = py_array_empty(r->core, r->x.source, r->x.dtype, ndim, shape, array)))
        return -1;
    r->opened++;
    if (as_y(r, part, array, "out", false, &r->y[part]) < 0)
        return -1;
    if (r->lens && !given && r->y[part].data) /* rows past them are not written */
        memset(array->data, 0,
               (size_t)(r->y[part].shape[0] * r->y[part].shape[2] * r->linear->out[part]) *
                   py_dtype_size(array->dtype));
    if (!r->values[ARG_residual])
        return 0;
    if (!residual)
        return py_raise(PyExc_TypeError, "residual has a None: each part has one, or none has");
    array = &r->arrays[r->opened];
    if (py_array_open(r->core, residual, "residual", array) < 0)
        return -1;
    r->opened++;
    if (py_array_of(array, "residual", r->linear->dtype) < 0 ||
        py_array_no_gradient(r->core, residual, "residual", array->source) < 0)
        return -1;
    if (array->ndim != ndim || memcmp(array->shape, shape, (size_t)ndim * sizeof *shape) != 0)
        return py_wrong_shape("residual", array, ndim, shape);
    return as_y(r, part, array, "residual", true, &r->residual[part]);
}

static int execute_library(run *r) {
    const py_linear *linear = r->linear;
    double work = (double)linear->in_features * (double)r->args.x.shape[0] * (double)r->args.x.shape[2], wide = 0;
    for (int64_t i = r->first; i < r->end; i++)
        wide += (double)linear->out[i];
    PyThreadState *released = work * wide >= py_long_work ? PyEval_SaveThread() : NULL;
    void *workspace = py_workspace(linear->workspace_size);
    const fovea_status status = fovea_linear_apply(linear->context->library, linear->library, &r->args, workspace,
                                                   workspace ? linear->workspace_size : 0);
    py_workspace_done(workspace, linear->workspace_size);
    if (released)
        PyEval_RestoreThread(released);
    return py_checked(status);
}

static PyObject *result_of(run *r) {
    for (int64_t i = r->first; i < r->end; i++)
        if (!r->values[ARG_out])
            r->made[i] = py_array_finish(r->values[ARG_x], r->x.source, r->made[i]);
    if (!r->several)
        return Py_NewRef(r->made[r->first]);
    PyObject *tuple = PyTuple_New(r->linear->count);
    for (int64_t i = 0; tuple && i < r->linear->count; i++)
        PyTuple_SetItem(tuple, i, Py_NewRef(r->made[i]));
    return tuple;
}

/* part= and activation= of a call. */
static int open_choices(run *r) {
    PyObject *part = r->values[ARG_part], *activation = r->values[ARG_activation];
    r->first = 0;
    r->several = r->linear->several && !part;
    r->end = r->linear->count;
    if (part && py_linear_part_of(part, r->linear->count, &r->first) < 0)
        return -1;
    if (part)
        r->end = r->first + 1;
    r->args.has_activation = activation != NULL;
    return activation ? py_activation_of(activation, &r->args.activation) : 0;
}

static PyObject *call(PyObject *self, PyObject **values) {
    const py_linear *linear = (py_linear *)self;
    run r;
    memset(&r, 0, offsetof(run, arrays));
    r.linear = linear;
    r.core = py_core_of_object(self);
    r.values = values;
    r.opened = -1; /* not even x */
    r.lens = NULL;
    memset(r.made, 0, sizeof r.made);
    memset(r.y, 0, sizeof r.y);
    fovea_linear_args_init(&r.args);
    r.args.y = r.y;
    r.args.residual = values[ARG_residual] ? r.residual : NULL;
    PyObject *held[2];
    int status = py_hold_list(&values[ARG_out], &held[0]) < 0 ? -1 : 0;
    if (py_hold_list(&values[ARG_residual], &held[1]) < 0)
        status = -1;
    if (status == 0)
        status = open_choices(&r) < 0 ? -1 : open_x(&r);
    for (int64_t i = r.first; status == 0 && i < r.end; i++)
        status = open_part_outputs(&r, i);
    if (status == 0)
        status = execute_library(&r);
    PyObject *result = status == 0 ? result_of(&r) : NULL;
    if (r.opened >= 0)
        py_array_close(&r.x);
    for (int i = 0; i < r.opened; i++)
        py_array_close(&r.arrays[i]);
    for (int64_t i = 0; i < linear->count; i++)
        Py_XDECREF(r.made[i]);
    Py_XDECREF(held[0]);
    Py_XDECREF(held[1]);
    free(r.lens);
    return result;
}

PyObject *py_linear_apply(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *values[ARG_COUNT];
    py_core *core = py_core_of_object(self);
    if (py_parse(core, &py_linear_apply_signature, args, count, keywords, values) < 0)
        return NULL;
    if (!values[ARG_activation] && keywords && PySequence_Contains(keywords, core->names[PY_NAME_activation]) == 1)
        values[ARG_activation] = Py_None; /* which is an activation, unlike nothing */
    return call(self, values);
}

PyObject *py_linear_call(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *values[ARG_COUNT] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O$OOOO:Linear", py_linear_apply_names, &values[ARG_x],
                                     &values[ARG_residual], &values[ARG_out], &values[ARG_lens], &values[ARG_part],
                                     &values[ARG_activation]))
        return NULL;
    for (int i = ARG_residual; i < ARG_activation; i++)
        if (values[i] == Py_None)
            values[i] = NULL;
    return call(self, values);
}

/* fovea.Experts: experts with packed weights; fovea.route(): which of them a token gets. */
#include "experts.h"
#include "keywords.h"
#include "objects.h"
#include "plan_cache.h"
#include "rows_call.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------- apply() -- */

enum { ARG_x, ARG_chosen, ARG_weights, ARG_out, ARG_COUNT };

/* Weights as float32, [rows * k]: the next of the call's arrays. */
static const float *open_weights(py_rows_call *c, PyObject *object, int64_t count) {
    fovea_dtype dtype;
    py_array *array = py_rows_floats(c, object, "weights", &dtype);
    int64_t all = 1;
    if (!array)
        return NULL;
    for (int i = 0; i < array->ndim; i++)
        all *= array->shape[i];
    if (all != count) {
        py_raise(PyExc_ValueError, "weights has %lld numbers, chosen %lld", (long long)all, (long long)count);
        return NULL;
    }
    if (py_array_copy(array) < 0)
        return NULL;
    if (dtype == FOVEA_DTYPE_F32)
        return array->data;
    float *wide = malloc((size_t)count * sizeof *wide + 1);
    if (!wide) {
        PyErr_NoMemory();
        return NULL;
    }
    (void)fovea_convert(count, array->data, dtype, wide, FOVEA_DTYPE_F32);
    free(array->copy);
    array->data = array->copy = wide;
    return wide;
}

/* Numbers of experts, [..., k], as the next numbers of the call. */
static int open_chosen(py_rows_call *c, PyObject *object, int64_t rows, fovea_experts_args *args) {
    py_array array;
    if (py_array_open(c->core, object, "chosen", &array) < 0)
        return -1;
    const int64_t k = array.ndim > 0 ? array.shape[array.ndim - 1] : 0;
    int64_t found = 0;
    int status = py_integers_flat(&array, "chosen", &c->numbers[c->number_count], &found);
    py_array_close(&array);
    if (status < 0)
        return -1;
    args->chosen = c->numbers[c->number_count++];
    args->k = k;
    return k > 0 && found == rows * k ? 0
                                      : py_raise(PyExc_ValueError, "chosen has %lld numbers for %lld rows of x",
                                                 (long long)found, (long long)rows);
}

static int apply(const py_experts *self, py_rows_call *c, PyObject **values) {
    fovea_experts_args args;
    fovea_experts_args_init(&args);
    fovea_dtype dtype;
    py_array *x = py_rows_floats(c, values[ARG_x], "x", &dtype);
    if (!x || py_array_of(x, "x", self->dtype) < 0 ||
        py_rows(x, "x", self->dtype, self->in_features, true, &args.x) < 0)
        return -1;
    int64_t shape[PY_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->ndim - 1] = self->out_features;
    const int64_t rows = args.x.shape[0] * args.x.shape[2];
    const int ndim = x->ndim;
    if (open_chosen(c, values[ARG_chosen], rows, &args) < 0 ||
        !(args.weights = open_weights(c, values[ARG_weights], rows * args.k)))
        return -1;
    py_array *out = py_rows_result(c, values[ARG_out], ndim, shape, &dtype);
    if (!out || py_array_of(out, "out", self->dtype) < 0 ||
        py_rows(out, "out", self->dtype, self->out_features, false, &args.y) < 0)
        return -1;
    const fovea_context *context = self->context->library;
    const size_t size = fovea_experts_apply_workspace_size(context, self->library, rows, args.k);
    PyThreadState *released = PyEval_SaveThread();
    void *workspace = py_workspace(size);
    const fovea_status status = fovea_experts_apply(context, self->library, &args, workspace, workspace ? size : 0);
    py_workspace_done(workspace, size);
    PyEval_RestoreThread(released);
    return py_checked(status);
}

static PyObject *call(PyObject *object, PyObject **values) {
    py_rows_call c;
    py_rows_begin(&c, py_core_of_object(object));
    const int status = apply((py_experts *)object, &c, values);
    return py_rows_end(&c, values[ARG_x], values[ARG_out] != NULL, status);
}

static PyObject *experts_apply(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *values[ARG_COUNT];
    return py_parse(py_core_of_object(self), &py_experts_apply_signature, args, count, keywords, values) < 0
               ? NULL
               : call(self, values);
}

static PyObject *experts_call(PyObject *self, PyObject *args, PyObject *keywords) {
    PyObject *values[ARG_COUNT] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO|$O:Experts", py_experts_apply_names, &values[ARG_x],
                                     &values[ARG_chosen], &values[ARG_weights], &values[ARG_out]))
        return NULL;
    if (values[ARG_out] == Py_None)
        values[ARG_out] = NULL;
    return call(self, values);
}

/* --------------------------------------------------------------------------------------------------- the type -- */

static void dealloc(PyObject *self) {
    py_experts *experts = (py_experts *)self;
    fovea_experts_destroy(experts->library);
    py_context_drop(experts->context);
    py_object_free(self);
}

enum { WORD_DTYPE, WORD_WEIGHT_DTYPE, WORD_ACTIVATION, WORDS };

static PyObject *get_word(PyObject *self, void *which) {
    const py_experts *experts = (const py_experts *)self;
    const char *const words[WORDS] = {py_dtype_name(experts->dtype), py_dtype_name(experts->weight_dtype),
                                      py_activation_name(experts->activation)};
    return Py_BuildValue("z", words[(size_t)which]);
}

static PyObject *get_nbytes(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(fovea_experts_weight_bytes(((const py_experts *)self)->library));
}

static PyObject *repr(PyObject *self) {
    const py_experts *e = (const py_experts *)self;
    return PyUnicode_FromFormat("<fovea.Experts %lld of %lld to %lld to %lld, %s, weights %s, activation %s>",
                                (long long)e->experts, (long long)e->in_features, (long long)e->intermediate,
                                (long long)e->out_features, py_dtype_name(e->dtype), py_dtype_name(e->weight_dtype),
                                py_activation_name(e->activation));
}

/* Weights are not kept as they were given. */
static PyObject *reduce(PyObject *self, PyObject *none) {
    (void)self;
    (void)none;
    PyErr_SetString(PyExc_TypeError, "fovea.Experts cannot be pickled: pickle the weights, and make it of them again");
    return NULL;
}

static PyMethodDef methods[] = {
    {"apply", (PyCFunction)(void (*)(void))experts_apply, METH_FASTCALL | METH_KEYWORDS, py_experts_apply_doc},
    {"__reduce__", reduce, METH_NOARGS, NULL},
    PY_IMMUTABLE_METHODS,
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    PY_INT64_GETTER("experts", py_experts, experts, "how many there are"),
    PY_INT64_GETTER("in_features", py_experts, in_features, "channels of x"),
    PY_INT64_GETTER("intermediate", py_experts, intermediate, "channels between the maps"),
    PY_INT64_GETTER("out_features", py_experts, out_features, "channels of the result"),
    {"dtype", get_word, NULL, "of x and the result", (void *)WORD_DTYPE},
    {"weight_dtype", get_word, NULL, "of the packed weights of up", (void *)WORD_WEIGHT_DTYPE},
    {"activation", get_word, NULL, "a word", (void *)WORD_ACTIVATION},
    {"nbytes", get_nbytes, NULL, "bytes of the packed weights of all experts", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {{Py_tp_new, (void *)py_experts_new},
                              {Py_tp_dealloc, (void *)dealloc},
                              {Py_tp_call, (void *)experts_call},
                              {Py_tp_repr, (void *)repr},
                              {Py_tp_methods, methods},
                              {Py_tp_getset, getters},
                              {Py_tp_doc, (void *)py_experts_doc},
                              {0, NULL}};

static PyType_Spec spec = {"fovea.Experts", sizeof(py_experts), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
                           slots};

int py_add_experts(PyObject *module) { return py_add_type(module, &spec, &py_core_of(module)->experts_type); }

/* ------------------------------------------------------------------------------------------------ fovea.route() -- */

enum {
    R_logits,
    R_k,
    R_score,
    R_after_top_k,
    R_bias,
    R_groups,
    R_groups_used,
    R_group_score,
    R_denominator,
    R_eps,
    R_scale,
    R_COUNT
};

typedef struct routing {
    fovea_router router;
    fovea_tensor logits;
    int64_t *chosen;
    float *weights;
} routing;

static fovea_status route(const fovea_context *ctx, const void *args) {
    const routing *r = args;
    return fovea_experts_route(ctx, &r->router, &r->logits, r->chosen, r->weights);
}

static int read_router(py_rows_call *c, PyObject **values, fovea_router *router) {
    static const char *const scores[] = {"softmax", "sigmoid"}, *const groups[] = {"max", "sum_of_two"},
                             *const denominators[] = {"sum", "at_least"};
    fovea_dtype dtype;
    int score = 0, group = 0, denominator = -1;
    fovea_router_init(router);
    if (py_integer(values[R_k], "k", &router->k) < 0 ||
        (values[R_groups] && py_integer(values[R_groups], "groups", &router->groups) < 0) ||
        (values[R_groups_used] && py_integer(values[R_groups_used], "groups_used", &router->groups_used) < 0) ||
        (values[R_eps] && py_number(values[R_eps], "eps", &router->eps) < 0) ||
        (values[R_scale] && py_number(values[R_scale], "scale", &router->scale) < 0) ||
        (values[R_score] && (score = py_word(values[R_score], "score", NULL, scores, 2)) < 0) ||
        (values[R_group_score] && (group = py_word(values[R_group_score], "group_score", NULL, groups, 2)) < 0) ||
        (values[R_denominator] &&
         (denominator = py_word(values[R_denominator], "denominator", "None", denominators, 2)) < 0))
        return -1;
    router->after_top_k = values[R_after_top_k] ? PyObject_IsTrue(values[R_after_top_k]) : 0;
    router->score = (fovea_router_score)score;
    router->group_score = (fovea_group_score)group;
    router->denominator = (fovea_denominator)(denominator + 1);
    if (router->after_top_k < 0 || !values[R_bias])
        return router->after_top_k < 0 ? -1 : 0;
    const py_array *logits = &c->arrays[0];
    const py_array *bias = py_rows_vector(c, values[R_bias], "bias", logits->shape[logits->ndim - 1], &dtype);
    if (!bias || py_array_f32(bias, "bias") < 0)
        return -1;
    router->bias = bias->data;
    return 0;
}

/* The next array of the call, made of the kind of logits. */
static PyObject *result(py_rows_call *c, py_dtype dtype, const int64_t *shape, void **data) {
    py_array *array = &c->arrays[c->array_count];
    PyObject *made = py_array_empty(c->core, c->arrays[0].source, dtype, c->arrays[0].ndim, shape, array);
    if (made) {
        c->array_count++;
        *data = array->data;
    }
    return made;
}

PyObject *py_route(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    PyObject *values[R_COUNT] = {NULL}, *chosen = NULL, *weights = NULL;
    py_core *core = py_core_of(module);
    if (py_parse(core, &py_route_signature, args, count, keywords, values) < 0)
        return NULL;
    py_rows_call c;
    py_rows_begin(&c, core);
    routing r;
    int64_t shape[PY_DIMS];
    int status = py_rows_open(&c, values[R_logits], "logits", 0, NULL, &r.logits);
    if (status == 0)
        status = read_router(&c, values, &r.router);
    if (status == 0) {
        memcpy(shape, c.arrays[0].shape, sizeof shape);
        shape[c.arrays[0].ndim - 1] = r.router.k < 0 ? 0 : r.router.k;
        chosen = result(&c, PY_I64, shape, (void **)&r.chosen);
        weights = chosen ? result(&c, PY_F32, shape, (void **)&r.weights) : NULL;
        status = weights ? py_rows_run(r.logits.shape[0] * r.logits.shape[2] * r.logits.shape[3], route, &r) : -1;
    }
    const py_source source = c.array_count > 0 ? c.arrays[0].source : (py_source){0};
    (void)py_rows_end(&c, NULL, true, status);
    if (status == 0) {
        chosen = py_array_finish(values[R_logits], source, chosen);
        weights = py_array_finish(values[R_logits], source, weights);
    }
    PyObject *both = status == 0 ? PyTuple_Pack(2, chosen, weights) : NULL;
    Py_XDECREF(chosen);
    Py_XDECREF(weights);
    return both;
}

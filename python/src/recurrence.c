/* fovea.gated_delta_rule(), selective_scan() and causal_conv(). */
#include "cache.h"
#include "call.h"
#include "keywords.h"
#include "rows_call.h"

#include <string.h>

/* One call: rows.made is the output. */
typedef struct call {
    py_rows_call rows;
    const py_layout *layout;
    PyObject *state; /* a reference, or NULL */
    fovea_states states;
    py_cache *cache; /* its sequences are in use; or NULL */
    py_cache_use use;
} call;

/* An input of a layout. One with an axis less has one channel. NULL is left absent. */
static int open_tensor(call *c, PyObject *object, const char *name, fovea_tensor *tensor) {
    fovea_dtype dtype;
    if (!object)
        return 0;
    py_array *array = py_rows_floats(&c->rows, object, name, &dtype);
    if (!array)
        return -1;
    if (array->ndim == c->layout->ndim - 1 && array->ndim < PY_DIMS) {
        array->shape[array->ndim] = array->stride[array->ndim] = 1;
        array->ndim++;
    }
    return py_layout_view(c->layout, array, name, true, tensor);
}

/* count float32 numbers, of any shape. */
static int open_vector(call *c, PyObject *object, const char *name, int64_t count, const float **data) {
    fovea_dtype dtype;
    if (!object)
        return 0;
    py_array *array = py_rows_floats(&c->rows, object, name, &dtype);
    if (!array || py_array_f32(array, name) < 0 || py_array_copy(array) < 0)
        return -1;
    int64_t all = 1;
    for (int i = 0; i < array->ndim; i++)
        all *= array->shape[i];
    if (all != count)
        return py_raise(PyExc_ValueError, "%s has %lld numbers, not %lld", name, (long long)all, (long long)count);
    *data = array->data;
    return 0;
}

/* [sequences, heads, rows, columns], or without heads. */
static int state_view(py_array *array, const char *name, int ndim, const int64_t *shape, fovea_tensor *tensor) {
    fovea_dtype dtype;
    if (py_array_float(array, name, &dtype) < 0)
        return -1;
    if (array->ndim != ndim || memcmp(array->shape, shape, (size_t)ndim * sizeof *shape) != 0)
        return py_wrong_shape(name, array, ndim, shape);
    *tensor =
        fovea_tensor_bhtd(array->data, dtype, shape[0], ndim == 4 ? shape[1] : 1, shape[ndim - 2], shape[ndim - 1]);
    tensor->stride[0] = array->stride[0];
    tensor->stride[1] = ndim == 4 ? array->stride[1] : 0;
    tensor->stride[2] = array->stride[ndim - 2];
    tensor->stride[3] = array->stride[ndim - 1];
    return 0;
}

/* Arguments that all functions have in a row. */
enum {
    STATE_lens,
    STATE_cu_seqlens,
    STATE_state,
    STATE_state_out,
    STATE_cache,
    STATE_cache_state,
    STATE_sequences,
    STATE_COUNT
};

/* The states of a cache's sequences. */
static int open_cache(call *c, PyObject *const *values, int64_t count) {
    fovea_states *s = &c->states;
    int64_t found;
    for (int i = STATE_cache; i <= STATE_sequences; i++)
        if (!values[i])
            return py_raise(PyExc_TypeError, "cache, cache_state and sequences come together");
    if (values[STATE_state] || values[STATE_state_out])
        return py_raise(PyExc_ValueError, "the states are those of the cache: leave state and state_out out");
    if (Py_TYPE(values[STATE_cache]) != c->rows.core->state_cache_type)
        return py_raise(PyExc_TypeError, "cache must be a fovea.StateCache");
    if (py_integer(values[STATE_cache_state], "cache_state", &s->cache_state) < 0 ||
        py_cache_integers(c->rows.core, values[STATE_sequences], "sequences", count,
                          &c->rows.numbers[c->rows.number_count], &found) < 0)
        return -1;
    s->cache_sequences = c->rows.numbers[c->rows.number_count++];
    py_cache *cache = (py_cache *)values[STATE_cache];
    if (py_cache_enter(cache, &c->use, count, s->cache_sequences, true) < 0)
        return -1;
    c->cache = cache;
    s->cache = cache->library;
    c->state = Py_NewRef(Py_None);
    return 0;
}

/* The sequences of a call, and their states: [sequences, heads, rows, columns], or transposed; heads 0: without that
 * axis. */
static int open_states(call *c, PyObject *const *values, bool transposed, int64_t batch, int64_t heads, int64_t rows,
                       int64_t columns) {
    fovea_states *s = &c->states;
    fovea_dtype dtype;
    int64_t found, sequences = batch;
    if (values[STATE_lens]) {
        if (py_rows_integers(&c->rows, values[STATE_lens], "lens", batch, &found) < 0)
            return -1;
        s->lens = c->rows.numbers[c->rows.number_count - 1];
    }
    if (values[STATE_cu_seqlens]) {
        if (py_rows_integers(&c->rows, values[STATE_cu_seqlens], "cu_seqlens", -1, &found) < 0)
            return -1;
        s->cu_seqlens = c->rows.numbers[c->rows.number_count - 1];
        if (found < 1)
            return py_raise(PyExc_ValueError, "cu_seqlens is empty: it has where each sequence begins, and where the "
                                              "last ends");
        s->sequences = sequences = found - 1;
    }
    if (values[STATE_cache] || values[STATE_cache_state] || values[STATE_sequences])
        return open_cache(c, values, sequences);
    const int64_t all[4] = {sequences, heads, transposed ? columns : rows, transposed ? rows : columns},
                  without[3] = {sequences, all[2], all[3]}, *shape = heads ? all : without;
    const int ndim = heads ? 4 : 3;
    s->order = transposed ? FOVEA_STATE_COLUMNS : FOVEA_STATE_ROWS;
    PyObject *state = values[STATE_state], *state_out = values[STATE_state_out];
    if (state) {
        py_array *array = py_rows_floats(&c->rows, state, "state", &dtype);
        if (!array || (state != state_out && py_array_compact(array) < 0) ||
            state_view(array, "state", ndim, shape, &s->before) < 0)
            return -1;
    }
    py_array *after = &c->rows.arrays[c->rows.array_count];
    if (state_out) {
        if (py_array_open_out(c->rows.core, state_out, "state_out", after) < 0)
            return -1;
        c->state = Py_NewRef(state_out);
    } else if (!(c->state = py_array_empty(c->rows.core, c->rows.arrays[0].source, PY_F32, ndim, shape, after)))
        return -1;
    c->rows.array_count++;
    return state_view(after, "state_out", ndim, shape, &s->after);
}

/* The output in the layout: given, or made of the kind and type of the first array. */
static int open_out(call *c, PyObject *given, const int64_t shape[4], fovea_tensor *tensor) {
    int64_t axes[4];
    fovea_dtype dtype;
    const int ndim = c->layout->ndim;
    if (ndim == 4)
        axes[0] = shape[0];
    axes[c->layout->head] = shape[1];
    axes[c->layout->token] = shape[2];
    axes[ndim - 1] = shape[3];
    py_array *array = py_rows_result(&c->rows, given, ndim, axes, &dtype);
    return array ? py_layout_view(c->layout, array, "out", false, tensor) : -1;
}

static int flag(PyObject *object, int *to) {
    const int value = object ? PyObject_IsTrue(object) : *to;
    if (value >= 0)
        *to = value;
    return value < 0 ? -1 : 0;
}

static int number(PyObject *object, const char *name, double *to) { return object ? py_number(object, name, to) : 0; }

static fovea_status delta_rule(const fovea_context *ctx, const void *args) {
    return fovea_gated_delta_rule(ctx, args, NULL, 0);
}
static fovea_status scan(const fovea_context *ctx, const void *args) {
    return fovea_selective_scan(ctx, args, NULL, 0);
}
static fovea_status convolution(const fovea_context *ctx, const void *args) {
    return fovea_causal_conv(ctx, args, NULL, 0);
}

/* -------------------------------------------------------------------------------------- fovea.gated_delta_rule() -- */

enum {
    D_q,
    D_k,
    D_v,
    D_gate,
    D_beta,
    D_a_log,
    D_dt_bias,
    D_dt_min,
    D_dt_max,
    D_beta_sigmoid,
    D_beta_scale,
    D_delta,
    D_norm,
    D_eps,
    D_scale,
    D_tiled_heads,
    D_transposed,
    D_lens,
    D_layout = D_lens + STATE_COUNT,
    D_out,
    D_COUNT
};

static int delta_of(call *c, PyObject **values) {
    static const char *const norms[2] = {"rsqrt", "max"};
    fovea_delta_args args;
    fovea_delta_args_init(&args);
    int delta = 1, transposed = 0;
    if (!(c->layout = py_layout_or_default(values[D_layout], "layout")) ||
        open_tensor(c, values[D_q], "q", &args.q) < 0 || open_tensor(c, values[D_k], "k", &args.k) < 0 ||
        open_tensor(c, values[D_v], "v", &args.v) < 0 || open_tensor(c, values[D_gate], "gate", &args.gate) < 0 ||
        open_tensor(c, values[D_beta], "beta", &args.beta) < 0 ||
        flag(values[D_beta_sigmoid], &args.beta_sigmoid) < 0 || flag(values[D_delta], &delta) < 0 ||
        flag(values[D_tiled_heads], &args.tiled_heads) < 0 || flag(values[D_transposed], &transposed) < 0 ||
        number(values[D_dt_min], "dt_min", &args.dt_min) < 0 || number(values[D_dt_max], "dt_max", &args.dt_max) < 0 ||
        number(values[D_beta_scale], "beta_scale", &args.beta_scale) < 0 ||
        number(values[D_eps], "eps", &args.eps) < 0 || number(values[D_scale], "scale", &args.scale) < 0)
        return -1;
    const int norm = values[D_norm] ? py_word(values[D_norm], "norm", NULL, norms, 2) + 1 : 0;
    if (values[D_norm] && norm == 0)
        return -1;
    const int64_t *v = args.v.shape, heads = v[1] > args.q.shape[1] ? v[1] : args.q.shape[1];
    const int64_t shape[4] = {v[0], heads, v[2], v[3]};
    args.norm = (fovea_l2)norm;
    args.no_delta = !delta;
    args.states = &c->states;
    if (open_vector(c, values[D_a_log], "a_log", v[1], &args.a_log) < 0 ||
        open_vector(c, values[D_dt_bias], "dt_bias", v[1] * args.gate.shape[3], &args.dt_bias) < 0 ||
        open_states(c, values + D_lens, transposed, v[0], v[1], args.k.shape[3], v[3]) < 0 ||
        open_out(c, values[D_out], shape, &args.out) < 0)
        return -1;
    return py_rows_run(v[0] * v[1] * v[2] * v[3], delta_rule, &args);
}

/* ---------------------------------------------------------------------------------------- fovea.selective_scan() -- */

enum {
    S_x,
    S_dt,
    S_a,
    S_b,
    S_c,
    S_d,
    S_z,
    S_dt_bias,
    S_dt_softplus,
    S_dt_min,
    S_dt_max,
    S_transposed,
    S_lens,
    S_layout = S_lens + STATE_COUNT,
    S_out,
    S_COUNT
};

static int scan_of(call *c, PyObject **values) {
    fovea_scan_args args;
    fovea_scan_args_init(&args);
    int transposed = 1;
    if (!(c->layout = py_layout_or_default(values[S_layout], "layout")) ||
        open_tensor(c, values[S_x], "x", &args.x) < 0 || open_tensor(c, values[S_dt], "dt", &args.dt) < 0 ||
        open_tensor(c, values[S_b], "b", &args.b) < 0 || open_tensor(c, values[S_c], "c", &args.c) < 0 ||
        open_tensor(c, values[S_z], "z", &args.z) < 0 || flag(values[S_dt_softplus], &args.dt_softplus) < 0 ||
        flag(values[S_transposed], &transposed) < 0 || number(values[S_dt_min], "dt_min", &args.dt_min) < 0 ||
        number(values[S_dt_max], "dt_max", &args.dt_max) < 0)
        return -1;
    const int64_t *x = args.x.shape, width = args.dt.shape[3], rows = args.b.shape[3];
    args.states = &c->states;
    if (open_vector(c, values[S_a], "a", x[1] * (width == 1 && x[3] > 1 ? 1 : x[3] * rows), &args.a) < 0 ||
        open_vector(c, values[S_d], "d", x[1] * width, &args.d) < 0 ||
        open_vector(c, values[S_dt_bias], "dt_bias", x[1] * width, &args.dt_bias) < 0 ||
        open_states(c, values + S_lens, transposed, x[0], x[1], rows, x[3]) < 0 ||
        open_out(c, values[S_out], x, &args.out) < 0)
        return -1;
    return py_rows_run(x[0] * x[1] * x[2] * x[3], scan, &args);
}

/* ------------------------------------------------------------------------------------------- fovea.causal_conv() -- */

enum { C_x, C_weight, C_bias, C_silu, C_channels_first, C_lens, C_out = C_lens + STATE_COUNT, C_COUNT };

/* A [batch, tokens, channels], or channels first, that is open. */
static int conv_view(py_array *array, const char *name, fovea_tensor *tensor) {
    fovea_dtype dtype;
    if (py_array_float(array, name, &dtype) < 0)
        return -1;
    *tensor = fovea_tensor_bhtd(array->data, dtype, array->shape[0], 1, array->shape[1], array->shape[2]);
    tensor->stride[0] = array->stride[0];
    tensor->stride[1] = 0;
    tensor->stride[2] = array->stride[1];
    tensor->stride[3] = array->stride[2];
    return 0;
}

static int conv_of(call *c, PyObject **values) {
    fovea_conv_args args;
    fovea_dtype dtype;
    int first = 0;
    fovea_conv_args_init(&args);
    py_array *x = py_rows_floats(&c->rows, values[C_x], "x", &dtype);
    if (!x || flag(values[C_channels_first], &first) < 0 || flag(values[C_silu], &args.silu) < 0)
        return -1;
    if (x->ndim != 3)
        return py_raise(PyExc_ValueError, "x has %d dimensions, not 3", x->ndim);
    const int64_t shape[3] = {x->shape[0], x->shape[1], x->shape[2]}, channels = shape[first ? 1 : 2];
    args.x_channels_first = args.out_channels_first = first;
    if (first && x->stride[2] != 1 && x->stride[1] == 1) { /* as transpose() leaves rows of tokens: they stay */
        const int64_t size = x->shape[1], step = x->stride[2];
        x->shape[1] = x->shape[2];
        x->stride[1] = step;
        x->shape[2] = size;
        x->stride[2] = 1;
        args.x_channels_first = 0;
    }
    py_array *weight = py_rows_floats(&c->rows, values[C_weight], "weight", &dtype);
    if (!weight || py_array_compact(x) < 0 || conv_view(x, "x", &args.x) < 0)
        return -1;
    if (weight->ndim == 0)
        return py_raise(PyExc_ValueError, "weight is one number, not [channels, taps]");
    args.taps = weight->shape[weight->ndim - 1];
    args.states = &c->states;
    if (open_vector(c, values[C_weight], "weight", channels * args.taps, &args.weight) < 0 ||
        open_vector(c, values[C_bias], "bias", channels, &args.bias) < 0 ||
        open_states(c, values + C_lens, first, shape[0], 0, args.taps - 1, channels) < 0)
        return -1;
    py_array *out = py_rows_result(&c->rows, values[C_out], 3, shape, &dtype);
    return !out || conv_view(out, "out", &args.out) < 0
               ? -1
               : py_rows_run(shape[0] * shape[1] * shape[2], convolution, &args);
}

/* ---------------------------------------------------------------------------------------------------- functions -- */

/* Returns (out, state), of the kind of the first argument; or NULL with an exception. */
static PyObject *call_with(PyObject *module, const py_signature *signature, PyObject *const *args, Py_ssize_t count,
                           PyObject *keywords, int (*function_of)(call *, PyObject **), int out, int first_of_states) {
    PyObject *values[D_COUNT] = {NULL};
    call c = {.layout = NULL};
    py_rows_begin(&c.rows, py_core_of(module));
    if (py_parse(c.rows.core, signature, args, count, keywords, values) < 0)
        return NULL;
    fovea_states_init(&c.states);
    const int status = function_of(&c, values);
    if (c.cache)
        py_cache_leave(c.cache, &c.use);
    const py_source source = c.rows.array_count > 0 ? c.rows.arrays[0].source : (py_source){0};
    PyObject *made = py_rows_end(&c.rows, values[0], values[out] != NULL, status), *state = c.state;
    if (made && !c.cache && !values[first_of_states + STATE_state_out])
        state = py_array_finish(values[0], source, state);
    PyObject *both = made && state ? PyTuple_Pack(2, made, state) : NULL;
    Py_XDECREF(made);
    Py_XDECREF(state);
    return both;
}

PyObject *py_gated_delta_rule(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return call_with(module, &py_gated_delta_rule_signature, args, count, keywords, delta_of, D_out, D_lens);
}

PyObject *py_selective_scan(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return call_with(module, &py_selective_scan_signature, args, count, keywords, scan_of, S_out, S_lens);
}

PyObject *py_causal_conv(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return call_with(module, &py_causal_conv_signature, args, count, keywords, conv_of, C_out, C_lens);
}

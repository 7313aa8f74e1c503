/* Options of a call: causal, window, arithmetic, and the numbers of the library's list of fields (call.h). */
#include "arithmetic.h"
#include "call.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static bool same_lengths(const py_call *call) {
    if (!call->desc.packed)
        return call->desc.q_len == call->desc.kv_len;
    return memcmp(call->args.q_cu_seqlens, call->args.kv_cu_seqlens,
                  ((size_t)call->desc.batch + 1) * sizeof(int64_t)) == 0;
}

/* causal=True: only where all corners are one. */
static int causal_true(py_call *call) {
    if (!same_lengths(call))
        return py_raise(
            PyExc_ValueError,
            "causal=True is ambiguous for %lld queries and %lld keys: say 'top_left' (query i sees keys up to i, as "
            "torch's "
            "is_causal) or 'bottom_right' (the last query sees the last key, as FlashAttention), or give an offset",
            (long long)call->desc.q_len, (long long)call->desc.kv_len);
    call->desc.causal = FOVEA_CAUSAL_TOP_LEFT;
    return 0;
}

/* An int: the same offset for all sequences. */
static int causal_offset(py_call *call, PyObject *value) {
    int64_t offset;
    if (py_integer(value, "causal", &offset) < 0)
        return -1;
    int64_t *offsets = malloc(((size_t)call->desc.batch + 1) * sizeof *offsets);
    if (!offsets) {
        PyErr_NoMemory();
        return -1;
    }
    for (int64_t i = 0; i < call->desc.batch; i++)
        offsets[i] = offset;
    call->numbers[call->number_count++] = offsets;
    call->args.q_offsets = offsets;
    call->desc.causal = FOVEA_CAUSAL_OFFSET;
    return 0;
}

static int causal(py_call *call) {
    PyObject *value = py_plain_bool(call->values[PY_ARG_causal]);
    if (!value || value == Py_False)
        return 0;
    if (value == Py_True)
        return causal_true(call);
    if (py_is_integer(value))
        return causal_offset(call, value);
    if (PyUnicode_Check(value)) {
        if (PyUnicode_CompareWithASCIIString(value, "top_left") == 0)
            call->desc.causal = FOVEA_CAUSAL_TOP_LEFT;
        else if (PyUnicode_CompareWithASCIIString(value, "bottom_right") == 0)
            call->desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
        else {
            py_raise_not(value, "causal must be True, 'top_left', 'bottom_right', or offsets");
            return -1;
        }
        return 0;
    }
    call->desc.causal = FOVEA_CAUSAL_OFFSET;
    return py_call_numbers(call, PY_ARG_causal, "causal", call->desc.batch, &call->args.q_offsets);
}

/* One side of a window: None and -1 are no limit. */
static int side(PyObject *window, Py_ssize_t index, int64_t *limit) {
    PyObject *item = PySequence_GetItem(window, index);
    if (!item)
        return -1;
    *limit = -1;
    const int status = item == Py_None ? 0 : py_integer(item, "a limit of window", limit);
    Py_DECREF(item);
    if (status < 0)
        return -1;
    if (*limit < -1)
        return py_raise(PyExc_ValueError, "window has a limit of %lld: limits are from 0, or None", (long long)*limit);
    return 0;
}

static int window(py_call *call) {
    PyObject *value = call->values[PY_ARG_window];
    if (!value)
        return 0;
    if ((!PyTuple_Check(value) && !PyList_Check(value)) || PySequence_Size(value) != 2)
        return py_raise(PyExc_TypeError,
                        "window must be a pair (left, right): how many keys before and after its own a query sees");
    return side(value, 0, &call->desc.window_left) < 0 || side(value, 1, &call->desc.window_right) < 0 ? -1 : 0;
}

static const struct {
    const char *name;
    int argument;
    size_t number, flag; /* in the description; flag 0: none */
} numbers[] = {
#define AT(name) offsetof(fovea_attention_desc, name)
#define FOVEA_DESC_NUMBER(name, least, most, text) {#name, PY_ARG_##name, AT(name), 0},
#define FOVEA_DESC_NUMBER_IF(name, flag, least, most, text) {#name, PY_ARG_##name, AT(name), AT(flag)},
#include "fovea/fields.inc"
};

int py_call_options(py_call *call) {
    if (causal(call) < 0 || window(call) < 0)
        return -1;
    const fovea_attention_desc *desc = &call->desc;
    const bool bf16 =
        desc->dtype == FOVEA_DTYPE_BF16 && desc->k_dtype == FOVEA_DTYPE_BF16 && desc->v_dtype == FOVEA_DTYPE_BF16;
    if (py_arithmetic_choose(call->values[PY_ARG_arithmetic], bf16, &call->desc.arithmetic) < 0)
        return -1;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        PyObject *value = call->values[numbers[i].argument];
        char *to = (char *)&call->desc;
        if (value && py_number(value, numbers[i].name, (double *)(to + numbers[i].number)) < 0)
            return -1;
        if (numbers[i].flag)
            *(int *)(to + numbers[i].flag) = value != NULL;
    }
    return 0;
}

bool py_call_describes(PyObject *const *values) {
    bool found = values[PY_ARG_causal] || values[PY_ARG_window] || values[PY_ARG_arithmetic];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        found = found || values[numbers[i].argument];
    return found;
}

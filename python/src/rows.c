/* Arrays of rows and matrices of weights (linear.h). */
#include "linear.h"

#include <stdio.h>
#include <string.h>

int py_matrix_layout(const char *name, bool *in_first) {
    *in_first = strcmp(name, "in_out") == 0;
    if (!*in_first && strcmp(name, "out_in") != 0)
        return py_raise(PyExc_ValueError, "layout must be 'out_in' (as torch.nn.Linear) or 'in_out', not '%.*s'",
                        py_word_length(name), name);
    return 0;
}

static int close_failed(py_array *array) {
    py_array_close(array);
    return -1;
}

int py_matrix_open(py_core *core, PyObject *object, const char *name, bool in_first, bool integers, py_array *array,
                   fovea_matrix *matrix) {
    if (py_array_open(core, object, name, array) < 0)
        return -1;
    fovea_dtype dtype;
    if (py_array_number(array, name, integers, &dtype) < 0)
        return close_failed(array);
    if (array->ndim != 2) {
        py_raise(PyExc_ValueError, "%s has %d dimensions, a matrix has 2", name, array->ndim);
        return close_failed(array);
    }
    const int in = in_first ? 0 : 1, out = 1 - in;
    *matrix = (fovea_matrix){.data = array->data,
                             .dtype = dtype,
                             .in = array->shape[in],
                             .out = array->shape[out],
                             .in_stride = array->stride[in],
                             .out_stride = array->stride[out]};
    return 0;
}

int py_vector_open(py_core *core, PyObject *object, const char *name, int64_t size, py_array *array,
                   fovea_dtype *dtype) {
    if (py_array_open(core, object, name, array) < 0)
        return -1;
    if (py_array_float(array, name, dtype) < 0)
        return close_failed(array);
    if (array->ndim != 1 || array->shape[0] != size) {
        py_wrong_shape(name, array, 1, &size);
        return close_failed(array);
    }
    return py_array_compact(array) < 0 ? close_failed(array) : 0;
}

int py_wrong_shape(const char *name, const py_array *array, int ndim, const int64_t *shape) {
    char given[128], expected[128];
    return py_raise(PyExc_ValueError, "%s has the shape %s, not %s", name,
                    py_shape_text(array->ndim, array->shape, given, sizeof given),
                    py_shape_text(ndim, shape, expected, sizeof expected));
}

/* All axes but the last two as one, if their strides allow it. */
static bool merge_batch(const py_array *array, int64_t *size, int64_t *stride) {
    *size = 1;
    *stride = 0;
    for (int i = array->ndim - 3; i >= 0; i--) {
        if (array->shape[i] == 1)
            continue;
        if (*size == 1)
            *stride = array->stride[i];
        else if (array->stride[i] != *size * *stride)
            return false;
        *size *= array->shape[i];
    }
    return true;
}

int py_rows(py_array *array, const char *name, fovea_dtype dtype, int64_t features, bool input, fovea_tensor *tensor) {
    const int ndim = array->ndim, last = ndim - 1;
    const bool heads = ndim == 4 && array->shape[last] != features && array->shape[1] * array->shape[last] == features;
    if (!heads && (ndim == 0 || array->shape[last] != features))
        return py_raise(PyExc_ValueError, "%s has rows of %lld channels, not %lld", name,
                        (long long)(ndim ? array->shape[last] : 1), (long long)features);
    if (input && py_array_compact(array) < 0)
        return -1;
    int64_t batch = 1, stride = 0;
    if (!heads && !merge_batch(array, &batch, &stride)) {
        if (!input)
            return py_raise(PyExc_ValueError, "the leading axes of %s are not evenly apart: pass a contiguous array",
                            name);
        if (py_array_copy(array) < 0)
            return -1;
        (void)merge_batch(array, &batch, &stride);
    }
    *tensor = (fovea_tensor){.data = array->data, .dtype = dtype};
    for (int i = 0; heads && i < 4; i++) {
        tensor->shape[i] = array->shape[i];
        tensor->stride[i] = array->stride[i];
    }
    if (!heads) {
        const int64_t tokens = ndim >= 2 ? array->shape[ndim - 2] : 1, step = ndim >= 2 ? array->stride[ndim - 2] : 0;
        const int64_t shape[4] = {batch, 1, tokens, features}, strides[4] = {stride, 0, step, array->stride[last]};
        memcpy(tensor->shape, shape, sizeof shape);
        memcpy(tensor->stride, strides, sizeof strides);
    }
    return 0;
}

int py_given(py_core *core, PyObject *given, const char *name, fovea_dtype dtype, int ndim, const int64_t *shape,
             py_array *array) {
    if (py_array_open_out(core, given, name, array) < 0)
        return -1;
    if (py_array_of(array, name, dtype) < 0)
        return close_failed(array);
    if (array->ndim != ndim || memcmp(array->shape, shape, (size_t)ndim * sizeof *shape) != 0) {
        py_wrong_shape(name, array, ndim, shape);
        return close_failed(array);
    }
    return 0;
}

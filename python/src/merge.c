/* fovea.merge(). */
#include "call.h"
#include "keywords.h"

#include <stdlib.h>
#include <string.h>

/* Where batch, head, token and channel are in an array; -1: nowhere. */
static void axes_of(const py_layout *layout, bool channels, int axes[4]) {
    const int batch = layout->ndim == 4;
    axes[0] = batch ? 0 : -1;
    axes[1] = channels ? layout->head : batch;
    axes[2] = channels ? layout->token : batch + 1;
    axes[3] = channels ? layout->ndim - 1 : -1;
}

static void view(const py_array *array, const int axes[4], fovea_tensor *tensor) {
    *tensor = (fovea_tensor){.data = array->data, .dtype = FOVEA_DTYPE_F32};
    for (int i = 0; i < 4; i++) {
        tensor->shape[i] = axes[i] < 0 ? 1 : array->shape[axes[i]];
        tensor->stride[i] = axes[i] < 0 ? 1 : array->stride[axes[i]];
    }
}

/* Opens an array of float32, which the caller closes whatever happens. */
static int open_array(py_core *core, PyObject *object, const char *name, py_array *array) {
    if (py_array_open(core, object, name, array) < 0) {
        memset(array, 0, sizeof *array);
        return -1;
    }
    return py_array_f32(array, name) < 0 ? -1 : py_array_no_gradient(core, object, name, array->source);
}

/* A part's array: out, or lse [b, h, t] as [b, h, t, 1]. */
static int part(py_core *core, PyObject *list, Py_ssize_t index, const char *name, const py_layout *layout,
                bool channels, py_array *array, fovea_tensor *tensor) {
    PyObject *object = PySequence_GetItem(list, index);
    if (!object)
        return -1;
    const int opened = open_array(core, object, name, array);
    Py_DECREF(object); /* the list, which the caller holds, keeps it */
    if (opened < 0)
        return -1;
    const int ndim = layout->ndim - !channels;
    if (array->ndim != ndim)
        return py_raise(PyExc_ValueError, "%s[%zd] has %d dimensions, layout '%s' has %d", name, index, array->ndim,
                        layout->name, ndim);
    if (channels && py_array_compact(array) < 0)
        return -1;
    int axes[4];
    axes_of(layout, channels, axes);
    view(array, axes, tensor);
    return 0;
}

/* All parts, opened; then the sinks. */
typedef struct merge {
    const py_layout *layout;
    fovea_attention_part *parts;
    py_array *arrays; /* zeros where none is open */
    Py_ssize_t count;
    const float *sinks;
} merge;

static int open_parts(py_core *core, PyObject *outs, PyObject *lses, PyObject *sinks, merge *m) {
    for (Py_ssize_t i = 0; i < m->count; i++)
        if (part(core, outs, i, "outs", m->layout, true, &m->arrays[2 * i], &m->parts[i].out) < 0 ||
            part(core, lses, i, "lses", m->layout, false, &m->arrays[2 * i + 1], &m->parts[i].lse) < 0)
            return -1;
    if (!sinks)
        return 0;
    py_array *array = &m->arrays[2 * m->count];
    if (open_array(core, sinks, "sinks", array) < 0 || py_array_compact(array) < 0)
        return -1;
    if (array->ndim != 1 || array->shape[0] != m->parts[0].out.shape[1])
        return py_raise(PyExc_ValueError, "sinks must be one number for each of the %lld heads",
                        (long long)m->parts[0].out.shape[1]);
    m->sinks = array->data;
    return 0;
}

/* (out, lse), or NULL with an exception. */
static PyObject *run(py_core *core, const merge *m, PyObject *like) {
    const py_source source = m->arrays[0].source;
    const int ndim = m->layout->ndim;
    py_array views[2] = {{0}, {0}};
    PyObject *out = py_array_empty(core, source, PY_F32, ndim, m->arrays[0].shape, &views[0]);
    PyObject *lse = out ? py_array_empty(core, source, PY_F32, ndim - 1, m->arrays[1].shape, &views[1]) : NULL;
    PyObject *result = NULL;
    if (lse) {
        fovea_attention_part whole;
        int axes[4];
        axes_of(m->layout, true, axes);
        view(&views[0], axes, &whole.out);
        axes_of(m->layout, false, axes);
        view(&views[1], axes, &whole.lse);
        PyThreadState *released = PyEval_SaveThread();
        const fovea_status status = fovea_attention_merge(m->parts, m->count, m->sinks, &whole);
        PyEval_RestoreThread(released);
        if (py_checked(status) == 0) {
            out = py_array_finish(like, source, out);
            lse = py_array_finish(like, source, lse);
            result = out && lse ? PyTuple_Pack(2, out, lse) : NULL;
        }
    }
    py_array_close(&views[0]);
    py_array_close(&views[1]);
    Py_XDECREF(out);
    Py_XDECREF(lse);
    return result;
}

PyObject *py_merge(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    py_core *core = py_core_of(module);
    PyObject *values[4];
    if (py_parse(core, &py_merge_signature, args, count, keywords, values) < 0)
        return NULL;
    if ((!PyList_Check(values[0]) && !PyTuple_Check(values[0])) ||
        (!PyList_Check(values[1]) && !PyTuple_Check(values[1]))) {
        PyErr_SetString(PyExc_TypeError, "outs and lses must be lists of arrays");
        return NULL;
    }
    merge m = {py_layout_or_default(values[3], "layout"), NULL, NULL, PySequence_Size(values[0]), NULL};
    if (!m.layout)
        return NULL;
    if (m.count == 0 || PySequence_Size(values[1]) != m.count) {
        py_raise(PyExc_ValueError, "there are %zd outs and %zd lses: give as many of each, at least one", m.count,
                 PySequence_Size(values[1]));
        return NULL;
    }
    /* The lists as they are now: another thread may change them while the GIL is released. */
    PyObject *outs = PySequence_Tuple(values[0]), *lses = PySequence_Tuple(values[1]);
    m.parts = calloc((size_t)m.count, sizeof *m.parts);
    m.arrays = calloc(2 * (size_t)m.count + 1, sizeof *m.arrays);
    PyObject *result = NULL;
    if (!m.parts || !m.arrays)
        PyErr_NoMemory();
    else if (outs && lses && open_parts(core, outs, lses, values[2], &m) == 0)
        result = run(core, &m, PyTuple_GetItem(outs, 0));
    for (Py_ssize_t i = 0; m.arrays && i <= 2 * m.count; i++)
        py_array_close(&m.arrays[i]);
    free(m.arrays);
    free(m.parts);
    Py_XDECREF(outs);
    Py_XDECREF(lses);
    return result;
}

/* Opening and closing arrays of any kind (array.h). */
#include "array_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_instance(PyObject *object, const char *module, const char *type_name) {
    PyObject *type = py_attribute_of(module, type_name);
    const int is = type ? PyObject_IsInstance(object, type) : 0;
    Py_XDECREF(type);
    PyErr_Clear();
    return is == 1;
}

/* By type: how memory is described. A type is looked at once. */
static py_way way_of(const py_core *core, PyObject *object, const DLPackExchangeAPI **api) {
    if (is_instance(object, "numpy.ma", "MaskedArray") ||
        is_instance(object, "torch._subclasses.fake_tensor", "FakeTensor"))
        return PY_WAY_NONE; /* whose memory is not all that there is to know, or nothing */
    PyObject *type = (PyObject *)Py_TYPE(object);
    PyObject *capsule = PyObject_GetAttr(type, core->names[PY_NAME___dlpack_c_exchange_api__]);
    if (capsule) {
        *api = PyCapsule_IsValid(capsule, "dlpack_exchange_api") ? PyCapsule_GetPointer(capsule, "dlpack_exchange_api")
                                                                 : NULL;
        Py_DECREF(capsule);
        while (*api && (*api)->header.version.major > DL_MAJOR)
            *api = (const DLPackExchangeAPI *)(*api)->header.prev_api;
        if (*api && (*api)->header.version.major == DL_MAJOR)
            return PY_WAY_EXCHANGE;
        *api = NULL;
    }
    PyErr_Clear();
    if (is_instance(object, "numpy", "ndarray"))
        return PY_WAY_NUMPY;
    PyObject *dlpack = PyObject_GetAttr(type, core->names[PY_NAME___dlpack__]);
    PyErr_Clear();
    Py_XDECREF(dlpack);
    return dlpack ? PY_WAY_DLPACK : PyObject_CheckBuffer(object) ? PY_WAY_BUFFER : PY_WAY_NONE;
}

py_source py_source_of(py_core *core, PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    for (int i = 0; i < core->seen_count; i++)
        if (core->seen[i].type == type)
            return core->seen[i].source;
    py_source source = {PY_WAY_NONE, 0, NULL, NULL};
    source.way = way_of(core, object, &source.api);
    source.torch = is_instance(object, "torch", "Tensor");
    if (source.torch)
        py_torch_look(core, object, &source);
    /* The last place is that of all types for which there was no other. */
    if (core->seen_count == PY_SEEN_TYPES)
        Py_DECREF((PyObject *)core->seen[--core->seen_count].type);
    Py_INCREF((PyObject *)type);
    core->seen[core->seen_count++] = (py_seen_type){type, source};
    return source;
}

void py_array_forget(py_core *core) {
    while (core->seen_count > 0)
        Py_DECREF((PyObject *)core->seen[--core->seen_count].type);
}

int py_array_no_gradient(py_core *core, PyObject *object, const char *name, py_source source) {
    const int recorded = source.torch ? py_torch_is_recorded(core, &source, object) : 0;
    if (recorded > 0)
        return py_raise(
            PyExc_ValueError,
            "%s requires a gradient, which this function does not record: call it under torch.no_grad(), pass "
            "%s.detach(), or, for attention, use fovea.torch",
            name, name);
    return recorded;
}

int py_unreadable(PyObject *object, const char *name) {
    PyObject *type, *cause, *trace;
    PyErr_Fetch(&type, &cause, &trace);
    PyErr_NormalizeException(&type, &cause, &trace);
    PyObject *module = PyImport_ImportModule("fovea._sentences");
    PyObject *error =
        module ? PyObject_CallMethod(module, "unreadable", "sOO", name, object, cause ? cause : Py_None) : NULL;
    if (error)
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(module);
    Py_XDECREF(type);
    Py_XDECREF(cause);
    Py_XDECREF(trace);
    return -1;
}

static int read_array(py_core *core, const py_source *source, PyObject *object, const char *name, py_array *array) {
    array->held = PY_HELD_NOTHING;
    array->copy = NULL;
    array->source = *source;
    int status;
    switch (source->way) {
    case PY_WAY_EXCHANGE: status = py_read_exchange(source->api, object, name, array); break;
    case PY_WAY_NUMPY:
    case PY_WAY_BUFFER: status = py_read_buffer(object, name, array); break;
    case PY_WAY_DLPACK: status = py_read_dlpack(core, object, name, array); break;
    default: status = py_unreadable(object, name);
    }
    if (status < 0 && (PyErr_ExceptionMatches(PyExc_RuntimeError) || PyErr_ExceptionMatches(PyExc_BufferError)))
        py_unreadable(object, name);
    for (int i = 0; status == 0 && i < array->ndim; i++)
        if (array->stride[i] < 0 && array->shape[i] > 1) {
            status = py_raise(PyExc_ValueError,
                              "%s has a negative stride in axis %d: pass a copy (numpy.ascontiguousarray)", name, i);
            py_array_close(array);
        }
    return status;
}

/* The numbers that a tensor with the negative bit stands for. */
static int read_negated(py_core *core, const py_source *source, PyObject *object, const char *name, py_array *array) {
    PyObject *resolved = PyObject_CallMethod(object, "resolve_neg", NULL);
    const int status = resolved ? read_array(core, source, resolved, name, array) : -1;
    if (status == 0 && array->held == PY_HELD_NOTHING) {
        array->held = PY_HELD_OBJECT;
        array->holder.object = resolved;
    } else
        Py_XDECREF(resolved);
    return status;
}

int py_array_open(py_core *core, PyObject *object, const char *name, py_array *array) {
    const py_source source = py_source_of(core, object);
    const int negated = source.torch && source.way ? py_torch_is_neg(core, &source, object) : 0;
    return negated < 0 ? -1 : (negated ? read_negated : read_array)(core, &source, object, name, array);
}

int py_array_open_out(py_core *core, PyObject *object, const char *name, py_array *array) {
    const py_source source = py_source_of(core, object);
    const int negated = source.torch && source.way ? py_torch_is_neg(core, &source, object) : 0,
              recorded = source.torch ? py_torch_is_recorded(core, &source, object) : 0;
    if (negated < 0 || recorded < 0)
        return -1;
    if (negated)
        return py_raise(PyExc_ValueError, "%s has torch's negative bit: pass one without, as %s.resolve_neg()", name,
                        name);
    if (recorded)
        return py_raise(
            PyExc_ValueError,
            "%s requires a gradient, and writing to it is not recorded: call it under torch.no_grad(), or pass "
            "%s.detach()",
            name, name);
    if (read_array(core, &source, object, name, array) < 0)
        return -1;
    int status = array->read_only ? py_raise(PyExc_ValueError, "%s is read-only", name) : 0;
    if (status == 0 && source.torch)
        status = py_torch_written(core, &source, object);
    if (status < 0)
        py_array_close(array);
    return status;
}

const char *py_array_dtype_name(const py_array *array) {
    static char text[32]; /* the GIL is held */
    static const char *const words[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
    const unsigned code = array->type.code;
    if (code == DL_BOOL)
        return "bool";
    if (array->type.bits == 0)
        return "an element type that Fovea does not know";
    snprintf(text, sizeof text, "%s%d", code < sizeof words / sizeof words[0] ? words[code] : "float8 or smaller, ",
             array->type.bits);
    return text;
}

/* Element types that have names of their own here: floats, then what else arrays of numbers may have. Blocks have the
 * library's name, and are arrays of bytes. */
static const struct {
    const char *name;
    fovea_dtype dtype;
    py_dtype array;
    uint8_t code, bits;
} types[] = {{"float32", FOVEA_DTYPE_F32, PY_F32, DL_FLOAT, 32}, {"bfloat16", FOVEA_DTYPE_BF16, PY_BF16, DL_BFLOAT, 16},
             {"float16", FOVEA_DTYPE_F16, PY_F16, DL_FLOAT, 16}, {"int8", FOVEA_DTYPE_I8, PY_OTHER_INT, DL_INT, 8},
             {"int4", FOVEA_DTYPE_I4, PY_OTHER_INT, DL_INT, 4},  {"uint8", FOVEA_DTYPE_U8, PY_U8, DL_UINT, 8},
             {"uint4", FOVEA_DTYPE_U4, PY_U8, DL_UINT, 8}};
enum { TYPES = sizeof types / sizeof types[0], FLOATS = 3, NUMBERS = 4, CACHED = 5 };

static int row_of(fovea_dtype dtype) {
    int i = 0;
    while (i < TYPES && types[i].dtype != dtype)
        i++;
    return i;
}

static const fovea_dtype_facts *facts_of(fovea_dtype dtype) {
    static const fovea_dtype_facts unknown = {.name = "an unknown type", .block_elements = 1, .block_bytes = 1};
    const fovea_dtype_facts *facts = fovea_dtype_info(dtype);
    return facts ? facts : &unknown;
}

const char *py_dtype_name(fovea_dtype dtype) {
    const int row = row_of(dtype);
    return row < TYPES ? types[row].name : facts_of(dtype)->name;
}

bool py_dtype_known(int dtype) {
    const fovea_dtype_facts *facts = facts_of((fovea_dtype)dtype);
    return facts->stored || facts->cached;
}

bool py_dtype_scaled(fovea_dtype dtype) { return facts_of(dtype)->scaled; }

bool py_dtype_quantized(fovea_dtype dtype) { return !facts_of(dtype)->computed; }

int64_t py_weight_block(fovea_dtype dtype) { return facts_of(dtype)->block_elements; }

int64_t py_weight_bytes(fovea_dtype dtype, int64_t elements) {
    return elements / facts_of(dtype)->block_elements * facts_of(dtype)->block_bytes;
}

py_dtype py_float_dtype(fovea_dtype dtype) {
    const int row = row_of(dtype);
    return row < TYPES ? types[row].array : PY_U8;
}

/* The type among the first `count` that a word names. */
static int type_named(PyObject *word, int count, const char *argument, fovea_dtype *dtype) {
    const char *words[TYPES];
    if (!word || word == Py_None)
        return 0;
    for (int i = 0; i < count; i++)
        words[i] = types[i].name;
    const int place = py_word(word, argument, NULL, words, count);
    if (place >= 0)
        *dtype = types[place].dtype;
    return place < 0 ? -1 : 0;
}

int py_float_of(PyObject *word, fovea_dtype *dtype) { return type_named(word, FLOATS, "dtype", dtype); }

int py_cache_dtype(PyObject *word, const char *argument, fovea_dtype *dtype) {
    return type_named(word, CACHED, argument, dtype);
}

static bool is_of(const py_array *array, int row) {
    return row < FLOATS ? array->dtype == types[row].array
                        : array->type.code == (row < TYPES ? types[row].code : DL_UINT) &&
                              array->type.bits == (row < TYPES ? types[row].bits : 8) && array->type.lanes == 1;
}

int py_array_of(const py_array *array, const char *name, fovea_dtype dtype) {
    if (is_of(array, row_of(dtype)))
        return 0;
    return py_raise(PyExc_TypeError, "%s must be %s, not %s", name, py_dtype_name(dtype), py_array_dtype_name(array));
}

int py_array_f32(const py_array *array, const char *name) { return py_array_of(array, name, FOVEA_DTYPE_F32); }

int py_array_number(const py_array *array, const char *name, bool integers, fovea_dtype *dtype) {
    for (int i = 0; i < (integers ? NUMBERS : FLOATS); i++)
        if (is_of(array, i)) {
            *dtype = types[i].dtype;
            return 0;
        }
    return py_raise(PyExc_TypeError, "%s must be float32, bfloat16 or float16, not %s", name,
                    py_array_dtype_name(array));
}

int py_array_float(const py_array *array, const char *name, fovea_dtype *dtype) {
    return py_array_number(array, name, false, dtype);
}

size_t py_dtype_size(py_dtype dtype) {
    switch (dtype) {
    case PY_BF16:
    case PY_F16: return 2;
    case PY_F32:
    case PY_I32: return 4;
    case PY_F64:
    case PY_I64: return 8;
    default: return 1;
    }
}

/* Copies all elements in C order: the last axis in the inner loop, the others by an odometer. */
static void copy_elements(const py_array *array, char *to, size_t size) {
    const int last = array->ndim - 1;
    const int64_t step = array->stride[last] * (int64_t)size;
    int64_t at[PY_DIMS] = {0};
    for (int axis = 0; axis >= 0;) {
        const char *from = array->data;
        for (int i = 0; i < last; i++)
            from += at[i] * array->stride[i] * (int64_t)size;
        for (int64_t i = 0; i < array->shape[last]; i++, from += step, to += size)
            memcpy(to, from, size);
        for (axis = last - 1; axis >= 0 && ++at[axis] == array->shape[axis]; axis--)
            at[axis] = 0;
    }
}

int py_array_compact(py_array *array) {
    const int last = array->ndim - 1;
    if (last < 0 || array->stride[last] == 1 || array->shape[last] <= 1) {
        if (last >= 0)
            array->stride[last] = 1;
        return 0;
    }
    return py_array_copy(array);
}

int py_array_copy(py_array *array) {
    const int last = array->ndim - 1;
    const size_t size = array->dtype == PY_OTHER_INT ? (size_t)(array->type.bits + 7) / 8 : py_dtype_size(array->dtype);
    size_t bytes = size;
    for (int i = 0; i <= last; i++)
        bytes *= (size_t)array->shape[i]; /* at most what the producer has, but for strides of 0 */
    char *copy = bytes > PY_SSIZE_T_MAX / 2 ? NULL : malloc(bytes + 1);
    if (!copy) {
        PyErr_NoMemory();
        return -1;
    }
    if (last < 0)
        memcpy(copy, array->data, size);
    else if (bytes > 0)
        copy_elements(array, copy, size);
    int64_t stride = 1;
    for (int i = last; i >= 0; i--) {
        array->stride[i] = stride;
        stride *= array->shape[i];
    }
    free(array->copy);
    array->copy = array->data = copy;
    return 0;
}

const char *py_shape_text(int ndim, const int64_t *shape, char *text, size_t size) {
    size_t at = (size_t)snprintf(text, size, "(");
    for (int i = 0; i < ndim && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, i ? ", %lld" : "%lld", (long long)shape[i]);
    if (at < size)
        snprintf(text + at, size - at, ndim == 1 ? ",)" : ")");
    return text;
}

/* How memory is described: Python's buffer protocol, DLPack's capsules, DLPack's C interface; and how it is
 * released. */
#include "array_private.h"

#include <stdlib.h>
#include <string.h>

void py_array_close(py_array *array) {
    switch (array->held) {
    case PY_HELD_BUFFER: PyBuffer_Release(&array->holder.buffer); break;
    case PY_HELD_VERSIONED:
        if (array->holder.versioned->deleter)
            array->holder.versioned->deleter(array->holder.versioned);
        break;
    case PY_HELD_UNVERSIONED:
        if (array->holder.unversioned->deleter)
            array->holder.unversioned->deleter(array->holder.unversioned);
        break;
    case PY_HELD_OBJECT: Py_DECREF(array->holder.object); break;
    default: break;
    }
    free(array->copy);
    array->held = PY_HELD_NOTHING;
    array->copy = NULL;
}

typedef struct format {
    char code; /* of the struct module */
    uint8_t type;
    py_dtype dtype; /* if it has the usual size */
} format;

static const format formats[] = {
    {'f', DL_FLOAT, PY_F32},      {'d', DL_FLOAT, PY_F64},      {'?', DL_BOOL, PY_BOOL},
    {'B', DL_UINT, PY_U8},        {'l', DL_INT, PY_I64},        {'q', DL_INT, PY_I64},
    {'i', DL_INT, PY_I32},        {'e', DL_FLOAT, PY_F16},      {'b', DL_INT, PY_OTHER_INT},
    {'h', DL_INT, PY_OTHER_INT},  {'H', DL_UINT, PY_OTHER_INT}, {'I', DL_UINT, PY_OTHER_INT},
    {'L', DL_UINT, PY_OTHER_INT}, {'Q', DL_UINT, PY_OTHER_INT}};

static void set_dtype(const char *code, Py_ssize_t size, py_array *array) {
    array->dtype = PY_OTHER;
    array->type = (DLDataType){DL_OPAQUE, 0, 1};
    if (!code)
        code = "B";
    if (*code == '@' || *code == '=' || *code == '<')
        code++;
    if (code[0] == 0 || code[1] != 0)
        return;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (formats[i].code == code[0]) {
            array->type = (DLDataType){formats[i].type, (uint8_t)(8 * size), 1};
            array->dtype = formats[i].dtype == PY_I64 && size == 4 ? PY_I32 : formats[i].dtype;
            return;
        }
}

static int too_many(const char *name, int ndim) {
    return py_raise(PyExc_ValueError, "%s has %d dimensions", name, ndim);
}

/* The same memory as uint16, if the array is of bfloat16 (package ml_dtypes), which numpy does not export; else
 * NULL. */
static PyObject *bfloat16_view(PyObject *object) {
    PyObject *dtype = PyObject_GetAttrString(object, "dtype");
    PyObject *name = dtype ? PyObject_GetAttrString(dtype, "name") : NULL;
    PyObject *view = NULL;
    if (name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "bfloat16") == 0)
        view = PyObject_CallMethod(object, "view", "s", "uint16");
    Py_XDECREF(name);
    Py_XDECREF(dtype);
    PyErr_Clear();
    return view;
}

static int read_bfloat16(PyObject *object, const char *name, py_array *array) {
    PyObject *view = bfloat16_view(object);
    const int status = view ? py_read_buffer(view, name, array) : /* objects, records, dates, ... */
                           py_raise(PyExc_TypeError, "%s has elements that are no numbers", name);
    Py_XDECREF(view); /* the buffer holds it */
    array->dtype = PY_BF16;
    array->type = py_dtype_type(PY_BF16);
    return status;
}

int py_read_buffer(PyObject *object, const char *name, py_array *array) {
    Py_buffer *buffer = &array->holder.buffer;
    if (PyObject_GetBuffer(object, buffer, PyBUF_STRIDES | PyBUF_FORMAT) < 0) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError) && !PyErr_ExceptionMatches(PyExc_BufferError))
            return -1;
        PyErr_Clear();
        return read_bfloat16(object, name, array);
    }
    array->held = PY_HELD_BUFFER;
    int status = 0;
    if (buffer->ndim > PY_DIMS)
        status = too_many(name, buffer->ndim);
    else if (buffer->ndim > 0 &&
             !(buffer->shape && buffer->strides)) /* numpy.datetime64 has neither, whatever it is asked for */
        status = py_raise(PyExc_TypeError, "%s has elements that are no numbers", name);
    array->data = buffer->buf;
    array->read_only = buffer->readonly;
    array->ndim = buffer->ndim;
    for (int i = 0; status == 0 && i < buffer->ndim; i++) {
        array->shape[i] = buffer->shape[i];
        array->stride[i] = buffer->strides[i] / buffer->itemsize;
        if (array->stride[i] * buffer->itemsize != buffer->strides[i] && buffer->shape[i] > 1)
            status = py_raise(PyExc_ValueError,
                              "%s has a stride of %zd bytes in axis %d, which is no multiple of its elements' %zd",
                              name, buffer->strides[i], i, buffer->itemsize);
    }
    set_dtype(buffer->format, buffer->itemsize, array);
    if (status < 0)
        py_array_close(array);
    return status;
}

static py_dtype dtype_of(DLDataType type) {
    if (type.lanes != 1)
        return PY_OTHER;
    switch (type.code) {
    case DL_FLOAT: return type.bits == 32 ? PY_F32 : type.bits == 64 ? PY_F64 : type.bits == 16 ? PY_F16 : PY_OTHER;
    case DL_BFLOAT: return type.bits == 16 ? PY_BF16 : PY_OTHER;
    case DL_INT: return type.bits == 64 ? PY_I64 : type.bits == 32 ? PY_I32 : PY_OTHER_INT;
    case DL_UINT: return type.bits == 8 ? PY_U8 : PY_OTHER_INT;
    case DL_BOOL: return type.bits == 8 ? PY_BOOL : PY_OTHER;
    default: return PY_OTHER;
    }
}

DLDataType py_dtype_type(py_dtype dtype) {
    static const DLDataType types[] = {
        [PY_F32] = {DL_FLOAT, 32, 1}, [PY_F64] = {DL_FLOAT, 64, 1}, [PY_BF16] = {DL_BFLOAT, 16, 1},
        [PY_F16] = {DL_FLOAT, 16, 1}, [PY_BOOL] = {DL_BOOL, 8, 1},  [PY_U8] = {DL_UINT, 8, 1},
        [PY_I32] = {DL_INT, 32, 1},   [PY_I64] = {DL_INT, 64, 1}};
    return types[dtype];
}

int py_read_dltensor(const DLTensor *tensor, const char *name, py_array *array) {
    const int32_t device = tensor->device.device_type;
    if (device != DL_CPU && device != DL_CUDA_HOST && device != DL_ROCM_HOST)
        return py_raise(PyExc_ValueError,
                        "%s is not in the memory of the CPU (DLPack's device type %d): pass a copy that is", name,
                        (int)device);
    if (tensor->ndim > PY_DIMS)
        return too_many(name, tensor->ndim);
    array->data = tensor->data ? (char *)tensor->data + tensor->byte_offset : NULL;
    array->ndim = tensor->ndim;
    array->type = tensor->dtype;
    array->dtype = dtype_of(tensor->dtype);
    int64_t stride = 1, elements = 1;
    for (int i = tensor->ndim - 1; i >= 0; i--) {
        array->shape[i] = tensor->shape[i];
        array->stride[i] = tensor->strides ? tensor->strides[i] : stride;
        stride *= tensor->shape[i];
        elements *= tensor->shape[i] > 0;
    }
    if (elements && !array->data)
        return py_raise(PyExc_BufferError, "it has no memory");
    return 0;
}

int py_read_exchange(const DLPackExchangeAPI *api, PyObject *object, const char *name, py_array *array) {
    array->read_only = false;
    if (api->dltensor_from_py_object_no_sync) {
        DLTensor tensor;
        if (api->dltensor_from_py_object_no_sync(object, &tensor) != 0)
            return -1;
        return py_read_dltensor(&tensor, name, array);
    }
    DLManagedTensorVersioned *managed;
    if (api->managed_tensor_from_py_object_no_sync(object, &managed) != 0)
        return -1;
    array->holder.versioned = managed;
    array->held = PY_HELD_VERSIONED;
    array->read_only = managed->flags & DL_FLAG_READ_ONLY;
    const int status = py_read_dltensor(&managed->dl_tensor, name, array);
    if (status < 0)
        py_array_close(array);
    return status;
}

/* object.__dlpack__(max_version=(1, 3)), or of an older producer object.__dlpack__(). */
static PyObject *export(const py_core *core, PyObject *object) {
    PyObject *method = PyObject_GetAttr(object, core->names[PY_NAME___dlpack__]);
    PyObject *arguments = PyTuple_New(0);
    PyObject *keywords = Py_BuildValue("{s(ii)}", "max_version", DL_MAJOR, DL_MINOR);
    PyObject *capsule = NULL;
    if (method && arguments && keywords) {
        capsule = PyObject_Call(method, arguments, keywords);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            capsule = PyObject_CallNoArgs(method);
        }
    }
    Py_XDECREF(method);
    Py_XDECREF(arguments);
    Py_XDECREF(keywords);
    return capsule;
}

int py_read_dlpack(const py_core *core, PyObject *object, const char *name, py_array *array) {
    PyObject *capsule = export(core, object);
    if (!capsule)
        return -1;
    int status = -1;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (managed->version.major != DL_MAJOR)
            py_raise(PyExc_ValueError, "%s comes by DLPack version %u, Fovea knows %d", name,
                     (unsigned)managed->version.major, DL_MAJOR);
        else if (PyCapsule_SetName(capsule, "used_dltensor_versioned") == 0) {
            array->holder.versioned = managed;
            array->held = PY_HELD_VERSIONED;
            array->read_only = managed->flags & DL_FLAG_READ_ONLY;
            status = py_read_dltensor(&managed->dl_tensor, name, array);
        }
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        DLManagedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor");
        if (PyCapsule_SetName(capsule, "used_dltensor") == 0) {
            array->holder.unversioned = managed;
            array->held = PY_HELD_UNVERSIONED;
            array->read_only = false;
            status = py_read_dltensor(&managed->dl_tensor, name, array);
        }
    } else
        py_raise(PyExc_TypeError, "%s.__dlpack__() gave no DLPack capsule", name);
    Py_DECREF(capsule);
    if (status < 0)
        py_array_close(array);
    return status;
}

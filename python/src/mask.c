/* fovea.Mask: masks of all kinds, prepared once or read at each call. */
#include "call.h"
#include "objects.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct mask_object {
    PyObject_HEAD fovea_mask_desc desc;
    int64_t batch, heads, q_len, kv_len; /* as the user sees them */
    fovea_mask *prepared;                /* or NULL: what follows is read at each call */
    PyObject *owner;
    py_array array;
    int64_t *blocks;
    PyObject *arguments; /* what an unprepared one was made of */
} mask_object;

static const char *const kinds[] = {[FOVEA_MASK_BOOLEAN] = "boolean",
                                    [FOVEA_MASK_BITS] = "bits",
                                    [FOVEA_MASK_KEY_PADDING] = "key_padding",
                                    [FOVEA_MASK_RANGES] = "ranges",
                                    [FOVEA_MASK_BLOCKS] = "blocks"};

static void release(mask_object *mask) {
    py_array_close(&mask->array);
    Py_CLEAR(mask->owner);
    free(mask->blocks);
    mask->blocks = NULL;
    Py_CLEAR(mask->arguments);
}

static void dealloc(PyObject *self) {
    mask_object *mask = (mask_object *)self;
    fovea_mask_destroy(mask->prepared);
    release(mask);
    py_object_free(self);
}

/* The array of each kind of mask: its element type, and which axes of [batch, heads, rows, entries] its last ones are.
 * The last two of ranges are one axis of the library. */
typedef struct mask_form {
    fovea_mask_kind kind;
    fovea_dtype dtype;
    py_dtype element;
    const char *element_name;
    int least, most; /* dimensions */
    int axes[4];     /* of `most`, but for ranges */
    const char *shape;
} mask_form;

static const mask_form boolean_form = {FOVEA_MASK_BOOLEAN, FOVEA_DTYPE_BOOL,      PY_BOOL, "bool", 2, 4,
                                       {0, 1, 2, 3},       "[..., queries, keys]"};
static const mask_form bits_form = {FOVEA_MASK_BITS, FOVEA_DTYPE_BITS,       PY_U8, "uint8", 2, 4,
                                    {0, 1, 2, 3},    "[..., queries, bytes]"};
static const mask_form padding_form = {FOVEA_MASK_KEY_PADDING,   FOVEA_DTYPE_BOOL, PY_BOOL, "bool", 1, 2, {0, 3},
                                       "[batch, keys] or [keys]"};
static const mask_form ranges_form = {FOVEA_MASK_RANGES,          FOVEA_DTYPE_I64, PY_I64, "int64", 3, 5, {0, 1, 2, 3},
                                      "[..., queries, ranges, 2]"};
static const mask_form blocks_form = {
    FOVEA_MASK_BLOCKS, FOVEA_DTYPE_I64, PY_I64, "int64", 1, 3, {0, 1, 3}, "[..., blocks of queries + 1]"};

/* Makes the two last axes one. 0, or -1 where they are not in one piece. */
static int join(py_array *array) {
    const int last = array->ndim - 1;
    if (array->shape[last] != 2 || (array->shape[last - 1] > 1 && array->stride[last - 1] != 2))
        return -1;
    array->shape[last - 1] *= 2;
    array->stride[last - 1] = 1;
    array->ndim = last;
    return 0;
}

/* Opens the array of a mask into desc.mask, [batch, heads, rows, entries]. */
static int open_array(py_core *core, mask_object *mask, const mask_form *form, PyObject *object) {
    py_array *array = &mask->array;
    if (py_array_open(core, object, "mask", array) < 0)
        return -1;
    mask->owner = Py_NewRef(object);
    if (array->dtype != form->element)
        return py_raise(PyExc_TypeError, "a mask of kind %s must be of %s, not %s", kinds[form->kind],
                        form->element_name, py_array_dtype_name(array));
    const bool ranges = form->kind == FOVEA_MASK_RANGES;
    if (array->ndim < form->least || array->ndim > form->most || (ranges && array->shape[array->ndim - 1] != 2))
        return py_raise(PyExc_ValueError, "a mask of kind %s must have the shape %s", kinds[form->kind], form->shape);
    if (py_array_compact(array) < 0)
        return -1;
    if (ranges && join(array) < 0)
        return py_raise(PyExc_ValueError, "the ranges of a query must be contiguous");
    fovea_tensor *tensor = &mask->desc.mask;
    *tensor = fovea_tensor_bhtd(array->data, form->dtype, 1, 1, 1, 1);
    for (int i = 0; i < array->ndim; i++) {
        const int to = form->axes[form->most - ranges - array->ndim + i];
        tensor->shape[to] = array->shape[i];
        tensor->stride[to] = array->stride[i];
    }
    mask->batch = tensor->shape[0];
    mask->heads = tensor->shape[1];
    mask->q_len = tensor->shape[2];
    mask->kv_len = tensor->shape[3];
    return 0;
}

/* The rest of all constructors: prepares, or keeps what is read at each call. */
static PyObject *finish(mask_object *mask, fovea_mask_kind kind, int prepare) {
    fovea_mask_desc *desc = &mask->desc;
    desc->kind = kind;
    desc->batch = mask->batch;
    desc->q_heads = mask->heads;
    desc->q_len = mask->q_len;
    desc->kv_len = mask->kv_len;
    if (!prepare)
        return (PyObject *)mask;
    py_context *context = py_context_now();
    if (context) {
        py_context_keep(context); /* another thread may change what is used now */
        PyThreadState *released = PyEval_SaveThread();
        const fovea_status status = fovea_mask_create(context->library, desc, &mask->prepared);
        PyEval_RestoreThread(released);
        py_context_drop(context);
        (void)py_checked(status);
    }
    if (!mask->prepared) {
        Py_DECREF((PyObject *)mask);
        return NULL;
    }
    release(mask);
    return (PyObject *)mask;
}

static mask_object *begin(PyObject *type, const mask_form *form, PyObject *object, PyObject *args, PyObject *keywords) {
    mask_object *mask = (mask_object *)py_object_new((PyTypeObject *)type);
    if (!mask)
        return NULL;
    fovea_mask_desc_init(&mask->desc);
    mask->arguments = py_arguments(args, keywords);
    if (mask->arguments && open_array(PyType_GetModuleState((PyTypeObject *)type), mask, form, object) == 0)
        return mask;
    Py_DECREF((PyObject *)mask);
    return NULL;
}

static PyObject *boolean(PyObject *type, PyObject *args, PyObject *keywords) {
    PyObject *array;
    int prepare = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$p:boolean", py_mask_boolean_names, &array, &prepare))
        return NULL;
    mask_object *mask = begin(type, &boolean_form, array, args, keywords);
    return mask ? finish(mask, FOVEA_MASK_BOOLEAN, prepare) : NULL;
}

/* A mask whose array does not say how many keys there are: they are given. */
static PyObject *of_keys(PyObject *type, PyObject *args, PyObject *keywords, const mask_form *form, const char *format,
                         char **names) {
    PyObject *array;
    long long kv_len;
    int prepare = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, format, names, &array, &kv_len, &prepare))
        return NULL;
    mask_object *mask = begin(type, form, array, args, keywords);
    if (!mask)
        return NULL;
    const int64_t bytes = kv_len / 8 + (kv_len % 8 > 0);
    if (form->kind == FOVEA_MASK_BITS && (kv_len < 0 || mask->kv_len != bytes)) {
        py_raise(PyExc_ValueError, "%lld keys take %lld bytes a row, the mask has %lld", kv_len, (long long)bytes,
                 (long long)mask->kv_len);
        Py_DECREF((PyObject *)mask);
        return NULL;
    }
    mask->kv_len = kv_len;
    return finish(mask, form->kind, prepare);
}

static PyObject *bits(PyObject *type, PyObject *args, PyObject *keywords) {
    return of_keys(type, args, keywords, &bits_form, "OL|$p:bits", py_mask_bits_names);
}

static PyObject *ranges(PyObject *type, PyObject *args, PyObject *keywords) {
    return of_keys(type, args, keywords, &ranges_form, "OL|$p:ranges", py_mask_ranges_names);
}

/* Takes q_len: a mask of padding has no axis of queries, and holds for any number of them unless it is prepared. */
static PyObject *key_padding(PyObject *type, PyObject *args, PyObject *keywords) {
    PyObject *array, *q_len = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|$O:key_padding", py_mask_key_padding_names, &array, &q_len))
        return NULL;
    int64_t queries = -1;
    if (q_len != Py_None && py_integer(q_len, "q_len", &queries) < 0)
        return NULL;
    mask_object *mask = begin(type, &padding_form, array, args, keywords);
    if (!mask)
        return NULL;
    mask->q_len = queries;
    return finish(mask, FOVEA_MASK_KEY_PADDING, q_len != Py_None);
}

static PyObject *blocks(PyObject *type, PyObject *args, PyObject *keywords) {
    PyObject *starts, *list;
    long long block_rows = -1, block_keys = -1, q_len = -1, kv_len = -1;
    int prepare = 1;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|$LLLLp:blocks", py_mask_blocks_names, &starts, &list,
                                     &block_rows, &block_keys, &q_len, &kv_len, &prepare))
        return NULL;
    if (block_rows < 0 || block_keys < 0 || q_len < 0 || kv_len < 0) {
        py_raise(PyExc_TypeError, "blocks() needs block_rows, block_keys, q_len and kv_len, none of them negative");
        return NULL;
    }
    mask_object *mask = begin(type, &blocks_form, starts, args, keywords);
    if (!mask)
        return NULL;
    mask->q_len = q_len;
    mask->kv_len = kv_len;
    mask->desc.block_rows = block_rows;
    mask->desc.block_keys = block_keys;
    if (py_integers(PyType_GetModuleState((PyTypeObject *)type), list, "blocks", -1, &mask->blocks,
                    &mask->desc.block_count) < 0) {
        mask->blocks = NULL;
        Py_DECREF((PyObject *)mask);
        return NULL;
    }
    mask->desc.blocks = mask->blocks;
    return finish(mask, FOVEA_MASK_BLOCKS, prepare);
}

/* A prepared mask of reduce(): (kind, batch, heads, q_len, kv_len, bits). */
static PyObject *from_bits(PyObject *type, PyObject *args) {
    long long size[4];
    const char *word;
    Py_buffer bits;
    if (!PyArg_ParseTuple(args, "sLLLLy*", &word, &size[0], &size[1], &size[2], &size[3], &bits))
        return NULL;
    int kind = FOVEA_MASK_BLOCKS, status = 0;
    while (kind > 0 && (!kinds[kind] || strcmp(kinds[kind], word) != 0))
        kind--;
    int64_t bytes = size[3] / 8 + (size[3] % 8 > 0);
    for (int i = 0; i < 4; i++)
        if (size[i] < 0 || (i < 3 && __builtin_mul_overflow(bytes, (int64_t)size[i], &bytes)))
            status = -1;
    mask_object *mask = NULL;
    if (kind == 0 || status < 0 || bytes != bits.len)
        py_raise(PyExc_ValueError, "the stored fovea.Mask contradicts itself");
    else if ((mask = (mask_object *)py_object_new((PyTypeObject *)type)) != NULL) {
        fovea_mask_desc_init(&mask->desc);
        mask->batch = size[0];
        mask->heads = size[1];
        mask->q_len = size[2];
        mask->kv_len = size[3];
        mask->desc.mask =
            fovea_tensor_bhtd(bits.buf, FOVEA_DTYPE_BITS, size[0], size[1], size[2], size[3] / 8 + (size[3] % 8 > 0));
        mask = (mask_object *)finish(mask, FOVEA_MASK_BITS, 1);
    }
    if (mask)
        mask->desc.kind = (fovea_mask_kind)kind;
    PyBuffer_Release(&bits);
    return (PyObject *)mask;
}

/* Also for copies. An unprepared one by its arrays, which are the caller's and may change; a prepared one, without
 * them, by what it lets see. */
static PyObject *reduce(PyObject *self, PyObject *none) {
    (void)none;
    const mask_object *mask = (const mask_object *)self;
    if (!mask->prepared)
        return py_stored("reduce", "Mask", kinds[mask->desc.kind], mask->arguments);
    PyObject *bits = PyBytes_FromStringAndSize(
        NULL, (Py_ssize_t)(mask->batch * mask->heads * mask->q_len * (mask->kv_len / 8 + (mask->kv_len % 8 > 0))));
    if (!bits)
        return NULL;
    (void)fovea_mask_bits(mask->prepared, PyBytes_AsString(bits));
    PyObject *args = Py_BuildValue("(sLLLLN)", kinds[mask->desc.kind], (long long)mask->batch, (long long)mask->heads,
                                   (long long)mask->q_len, (long long)mask->kv_len, bits);
    return py_reduce_to("Mask", "_from_bits", args);
}

void py_mask_describe(PyObject *object, fovea_attention_desc *desc) {
    const mask_object *mask = (const mask_object *)object;
    desc->mask = mask->prepared ? FOVEA_MASK_PREPARED : mask->desc.kind;
    desc->mask_block_rows = mask->prepared ? 0 : mask->desc.block_rows;
    desc->mask_block_keys = mask->prepared ? 0 : mask->desc.block_keys;
}

int py_call_mask_object(py_call *call, PyObject *object) {
    const mask_object *mask = (const mask_object *)object;
    const fovea_mask_desc *desc = &mask->desc;
    py_mask_describe(object, &call->desc);
    if (mask->prepared) {
        call->args.prepared = mask->prepared;
        return 0;
    }
    const int64_t queries = call->args.q.shape[2], keys = call->args.k.shape[2];
    if ((mask->q_len != queries && mask->q_len >= 0) || mask->kv_len != keys)
        return py_raise(PyExc_ValueError, "mask is for %lld queries and %lld keys, not for %lld and %lld",
                        (long long)mask->q_len, (long long)mask->kv_len, (long long)queries, (long long)keys);
    call->args.mask = desc->mask;
    call->args.mask_blocks = desc->blocks;
    call->args.mask_block_count = desc->block_count;
    return 0;
}

static PyObject *get_kind(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(kinds[((mask_object *)self)->desc.kind]);
}

static PyObject *get_prepared(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((mask_object *)self)->prepared != NULL);
}

static PyObject *repr(PyObject *self) {
    const mask_object *mask = (const mask_object *)self;
    return PyUnicode_FromFormat("<fovea.Mask %s, %lld queries, %lld keys%s>", kinds[mask->desc.kind],
                                (long long)mask->q_len, (long long)mask->kv_len, mask->prepared ? ", prepared" : "");
}

static PyMethodDef methods[] = {
    {"__reduce__", reduce, METH_NOARGS, NULL},
    {"_from_bits", from_bits, METH_VARARGS | METH_CLASS, NULL},
    {"boolean", (PyCFunction)(void (*)(void))boolean, METH_VARARGS | METH_KEYWORDS | METH_CLASS, py_mask_boolean_doc},
    {"bits", (PyCFunction)(void (*)(void))bits, METH_VARARGS | METH_KEYWORDS | METH_CLASS, py_mask_bits_doc},
    {"key_padding", (PyCFunction)(void (*)(void))key_padding, METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     py_mask_key_padding_doc},
    {"ranges", (PyCFunction)(void (*)(void))ranges, METH_VARARGS | METH_KEYWORDS | METH_CLASS, py_mask_ranges_doc},
    {"blocks", (PyCFunction)(void (*)(void))blocks, METH_VARARGS | METH_KEYWORDS | METH_CLASS, py_mask_blocks_doc},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {
    {"kind", get_kind, NULL, "'boolean', 'bits', 'key_padding', 'ranges' or 'blocks'", NULL},
    {"prepared", get_prepared, NULL, "True: the arrays were read once and are not needed any more", NULL},
    PY_INT64_GETTER("batch", mask_object, batch, "sequences; 1: one mask for all"),
    PY_INT64_GETTER("q_heads", mask_object, heads, "query heads; 1: one mask for all"),
    PY_INT64_GETTER("q_len", mask_object, q_len, "queries; -1: any number"),
    PY_INT64_GETTER("kv_len", mask_object, kv_len, "keys"),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)dealloc}, {Py_tp_repr, (void *)repr},
                              {Py_tp_methods, methods},         {Py_tp_getset, getters},
                              {Py_tp_doc, (void *)py_mask_doc}, {0, NULL}};

static PyType_Spec spec = {"fovea.Mask", sizeof(mask_object), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE, slots};

int py_add_mask(PyObject *module) { return py_add_type(module, &spec, &py_core_of(module)->mask_type); }

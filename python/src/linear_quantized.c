/* fovea.Linear.quantized(): weights that are quantized already, as models store them (fovea/quantization.h). */
#include "arithmetic.h"
#include "keywords.h"
#include "linear_weights.h"
#include "objects.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kinds of weights by their word. words: 32-bit words of integers of `bits`, in which order. */
typedef struct kind {
    char word[24];
    fovea_dtype dtype; /* with 4 bits, where there is a choice */
    fovea_packing packing;
    bool words, eight; /* eight: 8 bits are possible, too */
} kind;

enum { OF_FP8 = 4, OF_BLOCKS, KINDS = 32 };
static kind kinds[KINDS + 1] = {{"int8", FOVEA_DTYPE_I8, FOVEA_PACKING_PLAIN, false, false},
                                {"gptq", FOVEA_DTYPE_U4, FOVEA_PACKING_GPTQ, true, true},
                                {"awq", FOVEA_DTYPE_U4, FOVEA_PACKING_AWQ, true, false},
                                {"compressed-tensors", FOVEA_DTYPE_U4, FOVEA_PACKING_PLAIN, true, true},
                                {"fp8", FOVEA_DTYPE_F8_E4M3, FOVEA_PACKING_PLAIN, false, false}};

/* The first kind, ended by one without a word. The first call, with the GIL held, adds the library's blocks, such as
 * "gguf:Q4_K". */
static const kind *all_kinds(void) {
    const fovea_dtype_facts *facts;
    kind *to = kinds + OF_BLOCKS;
    for (int i = 1; (facts = fovea_dtype_info((fovea_dtype)i)) && to < kinds + KINDS && !*to->word; i++) {
        if (!facts->stored || facts->computed || facts->scaled)
            continue;
        to->dtype = (fovea_dtype)i;
        char *at = to->word + snprintf(to->word, sizeof to->word, "gguf:%s", facts->name);
        while (*--at != ':')
            *at = (char)(*at >= 'a' && *at <= 'z' ? *at - 'a' + 'A' : *at); /* in any locale */
        to++;
    }
    return kinds;
}

typedef struct reading {
    py_linear_making common;
    PyObject *zeros, *g_idx;
    const kind *kind;
    fovea_dtype type;
    int64_t per_word; /* integers of a word, or 1 */
    Py_ssize_t group_size;
    int zero_offset;
} reading;

static int kind_of(PyObject *word, const kind **found) {
    const char *words[KINDS];
    int count = 0;
    for (const kind *k = all_kinds(); *k->word; k++)
        words[count++] = k->word;
    const int place = py_word(word, "kind", NULL, words, count);
    *found = &kinds[place < 0 ? 0 : place];
    return place < 0 ? -1 : 0;
}

int py_stack_kind(PyObject *word, fovea_dtype *dtype) {
    const char *words[KINDS];
    int count = 0;
    for (const kind *k = all_kinds() + OF_FP8; *k->word; k++)
        words[count++] = k->word;
    const int place = py_word(word, "kind", "None", words, count);
    if (place >= 0)
        *dtype = kinds[OF_FP8 + place].dtype;
    return place < 0 ? -1 : 0;
}

const char *py_kind_known(const char *word) {
    const kind *k = all_kinds();
    while (*k->word && strcmp(word, k->word) != 0)
        k++;
    return *k->word ? k->word : NULL;
}

/* Opens the next array of a matrix, [rows, columns] (-1: any) in C order; or NULL with an exception. */
static py_array *open_table(reading *r, int64_t i, PyObject *object, const char *name, int64_t rows, int64_t columns) {
    py_weights *weights = &r->common.weights[i];
    py_array *array = &weights->arrays[weights->opened];
    if (py_array_open(r->common.core, object, name, array) < 0)
        return NULL;
    weights->opened++;
    const int64_t shape[2] = {rows < 0 ? array->shape[0] : rows, columns < 0 ? array->shape[1] : columns};
    if (array->ndim != 2) {
        py_raise(PyExc_ValueError, "%s has %d dimensions, not 2", name, array->ndim);
        return NULL;
    }
    if (array->shape[0] != shape[0] || array->shape[1] != shape[1]) {
        py_wrong_shape(name, array, 2, shape);
        return NULL;
    }
    const bool compact = (shape[1] <= 1 || array->stride[1] == 1) && (shape[0] <= 1 || array->stride[0] == shape[1]);
    return compact || py_array_copy(array) == 0 ? array : NULL;
}

/* Checks that the elements are integers of `bits` bits. 0, or -1 with TypeError. */
static int expect_integers(const py_array *array, const char *name, int bits, bool sign) {
    const bool is = array->type.bits == bits && array->type.lanes == 1 &&
                    (array->type.code == DL_INT || (array->type.code == DL_UINT && (!sign || bits == 32)));
    return is ? 0
              : py_raise(PyExc_TypeError, "%s must be %s%d, not %s", name, sign || bits == 32 ? "int" : "uint", bits,
                         py_array_dtype_name(array));
}

int py_expect_fp8(const py_array *array, const char *name) {
    const bool is = array->type.bits == 8 && (array->type.code == DL_E4M3FN || array->type.code == DL_UINT);
    return is ? 0
              : py_raise(PyExc_TypeError, "%s must be float8_e4m3fn or uint8, not %s", name,
                         py_array_dtype_name(array));
}

static int open_integers(reading *r, int64_t i, PyObject *object) {
    const py_array *array = open_table(r, i, object, "weight", -1, -1);
    if (!array)
        return -1;
    const bool blocks = !py_dtype_scaled(r->type), floats = r->type == FOVEA_DTYPE_F8_E4M3;
    if ((floats ? py_expect_fp8(array, "weight") : expect_integers(array, "weight", r->kind->words ? 32 : 8, !blocks)) <
        0)
        return -1;
    int64_t rows = array->shape[0], columns = array->shape[1];
    fovea_matrix *to = &r->common.parts[i].weight;
    if (r->kind->packing == FOVEA_PACKING_GPTQ)
        *to = fovea_matrix_in_out(array->data, r->type, rows * r->per_word, columns);
    else if (r->kind->packing == FOVEA_PACKING_AWQ)
        *to = fovea_matrix_in_out(array->data, r->type, rows, columns * r->per_word);
    else if (!blocks)
        *to = fovea_matrix_out_in(array->data, r->type, rows, columns * r->per_word);
    else {
        const int64_t block = py_weight_block(r->type), bytes = py_weight_bytes(r->type, block);
        if (columns % bytes != 0)
            return py_raise(PyExc_ValueError, "weight has rows of %lld bytes; blocks of %s have %lld",
                            (long long)columns, r->kind->word, (long long)bytes);
        *to = fovea_matrix_out_in(array->data, r->type, rows, columns / bytes * block);
    }
    return 0;
}

static int open_scales(reading *r, int64_t i, PyObject *scales) {
    fovea_matrix *weight = &r->common.parts[i].weight;
    py_weights *weights = &r->common.weights[i];
    fovea_quantization *q = &weights->quantization;
    const bool blocks = !py_dtype_scaled(r->type), groups_first = r->kind->packing != FOVEA_PACKING_PLAIN;
    if (blocks && r->group_size > 0)
        return py_raise(PyExc_TypeError, "the groups of %s are those of its blocks: leave group_size out",
                        r->kind->word);
    if (blocks && !scales)
        return 0;
    if (blocks || !scales)
        return py_raise(PyExc_TypeError, blocks ? "scales are inside the blocks of %s" : "scales are needed of %s",
                        r->kind->word);
    fovea_quantization_init(q);
    weight->quantization = q;
    const bool floats = r->type == FOVEA_DTYPE_F8_E4M3;
    const py_array *array =
        open_table(r, i, scales, "scales", groups_first || floats ? -1 : weight->out, groups_first ? weight->out : -1);
    if (!array || py_array_float(array, "scales", &q->scale_dtype) < 0)
        return -1;
    const int64_t groups = array->shape[groups_first ? 0 : 1];
    const bool squares = floats && array->shape[0] != weight->out;
    if (squares && (array->shape[0] != (weight->out + PY_SQUARE - 1) / PY_SQUARE || groups * PY_SQUARE != weight->in))
        return py_raise(PyExc_ValueError,
                        "scales is (%lld, %lld), neither of each of %lld rows nor of blocks of %d x %d that fill "
                        "%lld input channels",
                        (long long)array->shape[0], (long long)groups, (long long)weight->out, PY_SQUARE, PY_SQUARE,
                        (long long)weight->in);
    if (groups < 1 || weight->in % groups != 0)
        return py_raise(PyExc_ValueError, "%lld input channels cannot be %lld groups", (long long)weight->in,
                        (long long)groups);
    if (r->group_size > 0 && r->group_size * groups != weight->in)
        return py_raise(PyExc_ValueError, "scales has %lld groups: of %lld input channels that is %lld each, not %zd",
                        (long long)groups, (long long)weight->in, (long long)(weight->in / groups), r->group_size);
    q->packing = r->kind->packing;
    q->zero_offset = r->zero_offset;
    if ((r->type == FOVEA_DTYPE_I8 || floats) && groups == 1 &&
        !squares) { /* one for each output channel: float32, and in is any number */
        float *wide = weights->memory = malloc((size_t)weight->out * sizeof *wide + 1);
        if (!wide) {
            PyErr_NoMemory();
            return -1;
        }
        (void)fovea_convert(weight->out, array->data, q->scale_dtype, wide, FOVEA_DTYPE_F32);
        q->scale_dtype = FOVEA_DTYPE_F32;
        q->scales = wide;
        return 0;
    }
    q->group_size = weight->in / groups;
    q->out_group_size = squares ? PY_SQUARE : 0;
    q->group_scales = array->data;
    return 0;
}

/* Zeros of compressed-tensors: words along out, [out / p, groups], become bytes. */
static int unpack_zeros(reading *r, int64_t i, const py_array *words, int64_t groups) {
    const int64_t out = r->common.parts[i].weight.out;
    const int bits = (int)(32 / r->per_word);
    uint8_t *to = malloc((size_t)(out * groups) + 1);
    if (!to) {
        PyErr_NoMemory();
        return -1;
    }
    for (int64_t o = 0; o < out; o++)
        for (int64_t g = 0; g < groups; g++) {
            const uint32_t word = ((const uint32_t *)words->data)[o / r->per_word * groups + g];
            to[o * groups + g] = (uint8_t)(word >> (o % r->per_word * bits) & ((1U << bits) - 1));
        }
    r->common.weights[i].memory = to;
    return 0;
}

static int open_zeros(reading *r, int64_t i, PyObject *zeros) {
    py_weights *weights = &r->common.weights[i];
    fovea_quantization *q = &weights->quantization;
    const fovea_matrix *weight = &r->common.parts[i].weight;
    if (!zeros && r->zero_offset != 0)
        return py_raise(PyExc_ValueError, "zero_offset is %d, but there are no zeros to add it to", r->zero_offset);
    if (!zeros)
        return 0;
    if (!r->kind->words)
        return py_raise(PyExc_TypeError, "weights of kind %s have no zeros", r->kind->word);
    const int64_t groups = weight->in / q->group_size, words = (weight->out + r->per_word - 1) / r->per_word;
    const bool plain = r->kind->packing == FOVEA_PACKING_PLAIN;
    const py_array *array = open_table(r, i, zeros, "zeros", plain ? words : groups, plain ? groups : words);
    if (!array || expect_integers(array, "zeros", 32, true) < 0 || (plain && unpack_zeros(r, i, array, groups) < 0))
        return -1;
    q->zeros = plain ? weights->memory : array->data;
    return 0;
}

static int open_groups(reading *r, int64_t i, PyObject *g_idx) {
    py_weights *weights = &r->common.weights[i];
    int64_t *values, found;
    const int64_t in = r->common.parts[i].weight.in;
    if (!g_idx)
        return 0;
    if (!r->kind->words || r->kind->packing == FOVEA_PACKING_AWQ)
        return py_raise(PyExc_TypeError, "weights of kind %s have no g_idx", r->kind->word);
    if (py_integers(r->common.core, g_idx, "g_idx", in, &values, &found) < 0)
        return -1;
    int32_t *to = weights->groups = malloc((size_t)in * sizeof *to + 1);
    for (int64_t t = 0; to && t < in; t++)
        to[t] = values[t] < INT32_MIN || values[t] > INT32_MAX ? -1 : (int32_t)values[t];
    free(values);
    if (!to) {
        PyErr_NoMemory();
        return -1;
    }
    weights->quantization.group_of = to;
    return 0;
}

static int open_part(reading *r, py_linear *linear, int64_t i) {
    PyObject *weight, *bias, *scales, *zeros, *g_idx, *heads;
    r->common.weights[i].part = &r->common.parts[i];
    if (py_linear_item(linear, r->common.weight, "weight", i, &weight) < 0 ||
        py_linear_item(linear, r->common.bias, "bias", i, &bias) < 0 ||
        py_linear_item(linear, r->common.scales, "scales", i, &scales) < 0 ||
        py_linear_item(linear, r->zeros, "zeros", i, &zeros) < 0 ||
        py_linear_item(linear, r->g_idx, "g_idx", i, &g_idx) < 0 ||
        py_linear_item(linear, r->common.heads, "heads", i, &heads) < 0)
        return -1;
    if (!weight)
        return py_raise(PyExc_TypeError, "weight is None");
    if (open_integers(r, i, weight) < 0 || open_scales(r, i, scales) < 0 || open_zeros(r, i, zeros) < 0 ||
        open_groups(r, i, g_idx) < 0)
        return -1;
    return py_weights_bias(r->common.core, linear, i, bias, heads, &r->common.weights[i]);
}

static int pack(py_linear_making *common, py_linear *linear) {
    reading *r = (reading *)common;
    for (int64_t i = 0; i < linear->count; i++)
        if (open_part(r, linear, i) < 0)
            return -1;
    linear->in_features = r->common.parts[0].weight.in;
    linear->dtype = FOVEA_DTYPE_F32;
    if (py_float_of(r->common.dtype, &linear->dtype) < 0 ||
        py_arithmetic_of_weights(r->common.arithmetic, &linear->arithmetic) < 0)
        return -1;
    return py_linear_pack(linear, r->common.parts);
}

PyObject *py_linear_quantized(PyObject *type, PyObject *args, PyObject *keywords) {
    reading r = {.common = {.core = PyType_GetModuleState((PyTypeObject *)type), .pack = pack}};
    py_linear_making *c = &r.common;
    PyObject *word, *activation_name = Py_None;
    long long group_size = 0;
    int bits = -1;
    fovea_activation activation;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|O$OOOiO&iOOOO:quantized", py_linear_quantized_names,
                                     &c->weight, &word, &c->bias, &c->scales, &r.zeros, &r.g_idx, &bits,
                                     py_size_or_none, &group_size, &r.zero_offset, &activation_name, &c->heads,
                                     &c->dtype, &c->arithmetic))
        return py_wrong_arguments("Linear.quantized", keywords);
    if (kind_of(word, &r.kind) < 0 || py_activation_of(activation_name, &activation) < 0)
        return NULL;
    if (bits != -1 && !r.kind->words) {
        py_raise(PyExc_TypeError, "bits is for integers in words; of %s it is known: leave it out", r.kind->word);
        return NULL;
    }
    bits = bits == -1 ? 4 : bits;
    if (bits != 4 && !(bits == 8 && r.kind->eight)) {
        py_raise(PyExc_ValueError, "bits must be 4%s, not %d", r.kind->eight ? " or 8" : "", bits);
        return NULL;
    }
    r.type = bits == 8 ? FOVEA_DTYPE_U8 : r.kind->dtype;
    r.per_word = r.kind->words ? 32 / bits : 1;
    r.group_size = (Py_ssize_t)group_size;
    PyObject **const lists[] = {&c->weight, &c->bias, &c->scales, &r.zeros, &r.g_idx};
    return py_linear_make((PyTypeObject *)type, c, activation, r.kind->word, lists, 5);
}

/* One call of attention: what Python gave becomes the library's description and arguments. Used by fovea.attention()
 * and by fovea.Plan.execute(). */
#ifndef PY_CALL_H
#define PY_CALL_H

#include "array.h"
#include "plan_cache.h"

/* The arguments by their place. */
enum {
#define PY_ARG_ENUM(name) PY_ARG_##name,
    PY_ATTENTION_NAMES(PY_ARG_ENUM)
#undef PY_ARG_ENUM
        PY_ARG_COUNT,
    PY_ARG_cache_sequences = -1 /* a field of the library's list that is no argument of this name */
};

/* Where head and token are in an array. */
typedef struct py_layout {
    const char *name;
    int ndim, head, token;
} py_layout;

/* The layout of a name, 'bhtd' where it is NULL; NULL with an exception if it has none. */
const py_layout *py_layout_or_default(PyObject *name, const char *argument);

/* The library's view of an open array of a layout. Input without contiguous channels is copied. 0, or -1 with TypeError
 * (element types) or ValueError (dimensions). */
int py_layout_view(const py_layout *layout, py_array *array, const char *name, bool input, fovea_tensor *tensor);

enum {
#define FOVEA_ARGS_HEADS(name, flag, text) +1
    PY_CALL_ARRAYS = 19
#include "fovea/fields.inc"
    ,
#define FOVEA_ARGS_LENGTHS(name, more, text) +1
    PY_CALL_NUMBERS = 2
#include "fovea/fields.inc"
};

typedef struct py_call {
    py_core *core;
    PyObject **values; /* [PY_ARG_COUNT], NULL: not given */
    fovea_attention_desc desc;
    fovea_attention_args args;
    bool recorded; /* tensors may require gradients: the caller records them */
    const py_layout *layout, *out_layout;
    fovea_mask_kind mask_kind; /* what a bool array is; FOVEA_MASK_NONE: as its shape says */
    py_source source;          /* of q: outputs are of its kind */
    py_dtype out_type;         /* of q, and of out unless it is given */
    PyObject *made[5];         /* out, lse, weights, scores, summary: references, or NULL */
    PyObject *own_lse;         /* the lse that a summary needs and the caller did not request, or NULL */
    fovea_attention_scores scores;
    fovea_attention_summary summary;
    py_array arrays[PY_CALL_ARRAYS];
    int64_t *numbers[PY_CALL_NUMBERS];
    int array_count, number_count;
} py_call;

/* Begins a call with the arguments of values. It must be ended, whatever happens then. */
void py_call_begin(py_call *call, py_core *core, PyObject **values);
void py_call_end(py_call *call);

/* Opens an array that lives until the call ends. NULL with an exception; a gradient would be lost, too, unless
 * recorded. */
py_array *py_call_open(py_call *call, PyObject *object, const char *name);

/* Parts of py_call_tensors() and py_call_packed(), for calls whose keys are elsewhere. Each 0, or -1 with an
 * exception. */
int py_call_layouts(py_call *call); /* layouts, and whether sequences are packed */
int py_call_view(py_call *call, int argument, const char *name, fovea_tensor *tensor);
int py_call_queries(py_call *call);        /* q, and the sizes that it has */
int py_call_packed_queries(py_call *call); /* q_cu_seqlens alone: number of sequences, most queries of one */

/* Steps, in this order; each 0, or -1 with an exception. */
int py_call_tensors(py_call *call);       /* q, k, v, layouts, cu_seqlens: sizes */
int py_call_packed(py_call *call);        /* cu_seqlens alone: number of sequences, the longest of them */
int py_call_options(py_call *call);       /* causal, window, arithmetic, numbers */
int py_call_sequences(py_call *call);     /* lens, starts, offsets */
int py_call_extra_outputs(py_call *call); /* scores, summary: called by the next */
int py_call_outputs(py_call *call);       /* out, lse, weights */
int py_call_scores(py_call *call);        /* mask, bias, alibi, relative, numbers of heads */

/* Executes, and gives what the caller gets; NULL with an exception. */
PyObject *py_call_run(py_call *call, const py_plan *plan);

/* All steps behind py_call_tensors(), with the plan that serves the call. */
PyObject *py_call_finish(py_call *call);

/* The arguments of attention() and Plan.execute(), by their place. */
int py_call_parse(py_core *core, const char *function, PyObject *const *args, Py_ssize_t count, PyObject *keywords,
                  PyObject **values);

/* Takes a list or array of numbers, one for each sequence. */
int py_call_numbers(py_call *call, int argument, const char *name, int64_t count, const int64_t **numbers);

/* From mask.c and relative.c: what fovea.Mask and fovea.Relative give. */
int py_call_mask_object(py_call *call, PyObject *mask);
void py_mask_describe(PyObject *mask, fovea_attention_desc *desc);
int py_relative_describe(PyObject *relative, fovea_attention_desc *desc);

int py_call_relative_object(py_call *call, PyObject *relative);

/* Whether there is one of the options that plans and layers are made with: causal, window, arithmetic, numbers. */
bool py_call_describes(PyObject *const *values);

/* From plan.c: what is said before there are arrays, by the options among values, None where absent. mask: a fovea.Mask
 * or a kind's name; relative: a fovea.Relative or 'alibi'; None for neither. 0, or -1 with an exception. */
int py_describe_options(py_call *call);
int py_describe_mask(const py_core *core, PyObject *mask, fovea_attention_desc *desc);
int py_describe_relative(const py_core *core, PyObject *relative, fovea_attention_desc *desc);

/* A view of an array that is broadcast, from the right, to the shape of the scores. */
int py_call_broadcast(const py_call *call, py_array *array, const char *name, fovea_dtype dtype, fovea_tensor *tensor);

#endif

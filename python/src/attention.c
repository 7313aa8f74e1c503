/* fovea.attention(). */
#include "call.h"
#include "keywords.h"

const char py_attention_doc[] =
    "attention(q, k, v, *, mask=None, bias=None, causal=None, window=None, scale=None, softcap=None, sinks=None,\n"
    "          alibi=None, relative=None, q_lens=None, kv_lens=None, q_starts=None, kv_starts=None, q_offsets=None,\n"
    "          cu_seqlens_q=None, cu_seqlens_kv=None, layout='bhtd', out_layout=None, out=None, return_lse=False,\n"
    "          return_weights=False, return_scores=None, score_heads=None, score_queries=None, score_keys=None,\n"
    "          return_summary=False, top_keys=0, arithmetic=None)\n"
    "--\n"
    "\n"
    "softmax(scale * q k^T + bias) v. The same inputs give the same bits on every CPU, with any number of threads, in "
    "any batch.\n"
    "\n"
    "Arrays are numpy's, torch's on the CPU, or any with DLPack or the buffer protocol. They are read where they are, "
    "whatever\n"
    "their strides; only if the last axis is not contiguous are they copied. Negative strides are refused. Nothing is "
    "kept after\n"
    "the call. Outputs are of q's kind. The GIL is released in long calls; any number of threads may call at once.\n"
    "\n"
    "q          [batch, q_heads, queries, head_dim] float32, bfloat16 or float16. With 16 bits the result "
    "is that\n"
    "           of float32 on the same numbers, rounded once; see arithmetic.\n"
    "k, v       [batch, kv_heads, keys, head_dim], [batch, kv_heads, keys, value_dim]. q_heads is a multiple of "
    "kv_heads.\n"
    "mask       bool, broadcast to [batch, q_heads, queries, keys], True = attend; or a fovea.Mask.\n"
    "bias       float32, broadcast likewise, added to the scores; -inf masks.\n"
    "causal     None or False; True (queries and keys must be as many); 'top_left': query i sees keys up to i; "
    "'bottom_right':\n"
    "           the last query sees the last key; an int, or an int for each sequence: query i sees keys up to i + "
    "causal.\n"
    "window     (left, right): how many keys before and after its own a query sees; None or -1: no limit.\n"
    "scale      of the scores; default 1 / sqrt(head_dim).\n"
    "softcap    s = softcap * tanh(s / softcap), before bias and mask.\n"
    "sinks      [q_heads] float32: a logit of each head that joins the denominator.\n"
    "alibi      [q_heads] or [batch, q_heads] float32 slopes: -slope * |distance| is added.\n"
    "relative   a fovea.Relative: a bias by position, from a table.\n"
    "q_lens, kv_lens, q_starts, kv_starts\n"
    "           ints, one for each sequence (a list, or an array of any integers): its queries are [q_starts, q_starts "
    "+\n"
    "           q_lens) of the tokens, its keys likewise. Padding is not read, positions count from the first, and the "
    "bits are\n"
    "           those without padding. Rows of padding are zeros.\n"
    "q_offsets  ints, one for each sequence: the key position of its first query, for windows without causal.\n"
    "cu_seqlens_q, cu_seqlens_kv\n"
    "           [sequences + 1] ints: sequences are packed on one axis of tokens; where each begins, and the last "
    "ends.\n"
    "layout     'bhtd' (default) or 'bthd' [batch, tokens, heads, channels]; with cu_seqlens also 'htd' or 'thd', "
    "without batch.\n"
    "out_layout that of out; default: layout.\n"
    "out        an array to write to, which is then returned; float32 or 16-bit, last axis contiguous, not overlapping "
    "inputs.\n"
    "return_lse, return_weights\n"
    "           also return lse [batch, q_heads, queries], the natural logarithm of each row's sum of exp(score), and "
    "weights\n"
    "           [batch, q_heads, queries, keys], both float32.\n"
    "return_scores\n"
    "           also return the scores 'raw' (scaled), 'capped' (after softcap), 'biased' (after bias and mask: -inf "
    "where\n"
    "           masked) or 'weights', float32 [batch, heads, queries, keys], computed without the whole matrix. "
    "score_heads\n"
    "           (ascending ints), score_queries and score_keys, each (first, stop), choose a part; default: all.\n"
    "return_summary\n"
    "           also return statistics of the weights, without the matrix, as a dict: key_sums [batch, q_heads, keys], "
    "entropy\n"
    "           and max_weight [batch, q_heads, queries]; with top_keys=n also top_keys and top_weights [..., queries, "
    "n].\n"
    "arithmetic of bfloat16 q, k and v: 'exact', 'bf16' (weights are rounded before they multiply v), 'bf16_tile' "
    "(sums "
    "go by\n"
    "           blocks, too) or 'fastest' (by CPU 'bf16' or 'exact', never 'bf16_tile', which has not been timed on a "
    "CPU with\n"
    "           AMX); default: that of fovea.config(), else 'exact'. Each has the same bits on every CPU.\n"
    "\n"
    "Returns out, C-contiguous in its layout, of q's element type; or a tuple (out, lse, weights) of what was asked "
    "for. A row\n"
    "that sees no key is zeros, its lse -inf.\n"
    "\n"
    "Raises TypeError (no array, other element types, unknown arguments), ValueError (shapes, values, memory that is "
    "not the\n"
    "CPU's, a gradient that would be lost) or MemoryError. out is then unchanged.";

static const short names[PY_ARG_COUNT] = {
#define PY_ARG_NAME(name) PY_NAME_##name,
    PY_ATTENTION_NAMES(PY_ARG_NAME)
#undef PY_ARG_NAME
};

int py_call_parse(py_core *core, const char *function, PyObject *const *args, Py_ssize_t count, PyObject *keywords,
                  PyObject **values) {
    const py_signature signature = {function, names, PY_ARG_COUNT, 3, 3};
    return py_parse(core, &signature, args, count, keywords, values);
}

static PyObject *attention(py_core *core, PyObject *const *args, Py_ssize_t count, PyObject *keywords, bool recorded) {
    PyObject *values[PY_ARG_COUNT];
    if (py_call_parse(core, "attention", args, count, keywords, values) < 0)
        return NULL;
    py_call call;
    py_call_begin(&call, core, values);
    call.recorded = recorded;
    PyObject *result = NULL;
    if (py_call_tensors(&call) == 0 && py_call_options(&call) == 0 && py_call_sequences(&call) == 0 &&
        py_call_scores(&call) == 0 && py_call_outputs(&call) == 0) {
        py_context *context = py_context_now();
        py_plan *plan = context ? py_plan_find(context, &call.desc) : NULL;
        if (plan)
            result = py_call_run(&call, plan);
        py_plan_drop(plan);
    }
    py_call_end(&call);
    return result;
}

PyObject *py_attention(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return attention(py_core_of(module), args, count, keywords, false);
}

const char py_attention_recorded_doc[] =
    "attention_recorded(q, k, v, **options)\n--\n\n"
    "attention() for callers that record gradients themselves: tensors may require them.";

PyObject *py_attention_recorded(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *keywords) {
    return attention(py_core_of(module), args, count, keywords, true);
}

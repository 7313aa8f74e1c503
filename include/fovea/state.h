/* Fovea: attention over keys that are not all there at once: merging results of parts of the keys. Part of fovea.h. */
#ifndef FOVEA_STATE_H
#define FOVEA_STATE_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The result of attention over some of the keys. Stands in arrays, so it never grows. */
typedef struct fovea_attention_part {
    fovea_tensor out; /* float32 [batch, heads, queries, channels]: softmax over these keys alone, times their values */
    fovea_tensor lse; /* float32 [batch, heads, queries, 1]: log(sum(exp(score))) over them, natural logarithm */
} fovea_attention_part;

/* Merges count results over disjoint sets of keys into *whole, the result over all of them. Any split of the keys is
 * legal; a part needs no particular length, place or origin (another machine, another library).
 *   - In order of the array, from M = -inf, L = 0, O = 0, in float32, each operation rounded once:
 *         M' = max(M, lse);  a = exp(M - M');  b = exp(lse - M');  L = fma(L, a, b);  O = fma(O, a, out * b)
 *     then out = O * (1 / L), lse = M + log(L). Outputs of parts were rounded when they were written, so the bits are not
 *     those of one call over all keys, and another order may give other last bits. One part that is not empty gives its own
 *     bits. For the bits of one call, see fovea_attention_state.
 *   - A row of a part whose lse is -inf is empty: its out is not read, it changes no bit. A row without any other part gives
 *     out +0, lse -inf. count 0 is legal.
 *   - A lse of NaN or +inf gives a row of NaN, NaN in out gives NaN in that channel. NaN is always written as 0x7fc00000,
 *     zero as +0.
 *   - sinks: [heads] or NULL. Parts exclude sinks, of which there is one for a head, not one for a part: it is merged
 *     here, once, after the last part, as one of lse = sinks[head] and out = 0.
 *   - whole->out sets the shape; all parts have it. Inputs may have strides of 0, outputs may not. whole->lse.data may be
 *     NULL: not asked for. whole->out may be a part's out, and whole->lse a part's lse, with the same strides (so a part
 *     can be merged into a running result in place); any other overlap of an output with an input or the other output is
 *     FOVEA_ERROR_ALIAS.
 *   - A batch, heads or queries of 0 are legal: there is nothing to do, and data may be NULL.
 *   - Errors: FOVEA_ERROR_NULL, _SHAPE (a part's shape differs, channels are 0, a size or count is negative), _OVERFLOW,
 *     _STRIDE, _DTYPE, _ALIAS, and those of the default context. After an error outputs are as they were.
 *   - Runs on the calling thread and allocates nothing, on the best tier of a default context (see fovea_exp_f32()): the
 *     bits are the same on all. Thread-safe. */
FOVEA_API fovea_status fovea_attention_merge(const fovea_attention_part *parts, int64_t count, const float *sinks,
                                             const fovea_attention_part *whole);

#ifdef __cplusplus
}
#endif
#endif

/* Fovea: attention over keys that are not all there at once. Keys that come piece by piece go through a state, with the bits
 * of one call; results over any parts of the keys are merged. Part of fovea.h. */
#ifndef FOVEA_STATE_H
#define FOVEA_STATE_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------------------------------------------------- parts -- */

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

/* --------------------------------------------------------------------------------------------------------- state -- */

/* The running softmax of each row (a query of a head): its maximum M, sum L and unnormalised output O, in float32. It goes in
 * and out of fovea_attention_execute():
 *
 *     fovea_attention_state *state;
 *     fovea_attention_state_init(plan, memory, fovea_attention_plan_state_size(plan), &state);
 *     args.state = state;
 *     for each piece:                     k, v, mask and bias hold n keys, of positions first_key to first_key + n
 *         args.k = ...; args.v = ...;
 *         args.first_key = first_key;     a multiple of 256
 *         args.out = ...                  with the last piece: finishes; before it, out may be absent
 *         fovea_attention_execute(plan, &args, workspace, size);
 *
 * The bits of out and lse are those of one call over all keys, however they were cut.
 *   - Pieces come in ascending order and begin at multiples of 256. So a piece that another follows has a multiple of
 *     256 keys; if it has fewer, or one is left out, the bits are those of one call that masks the missing keys.
 *   - Positions count from the sequence's first key, which has position 0, not from the piece's: first_key says where the
 *     piece is. So causal, windows and q_offsets are those of the whole call, and the same for each piece.
 *     FOVEA_CAUSAL_BOTTOM_RIGHT, which depends on the number of all keys, is refused: give offsets.
 *   - kv_lens (and kv_starts) tell of each sequence the keys that this piece has. mask and bias have a column for each key
 *     of the piece.
 *   - Pieces of different length need plans of different kv_len, or one plan of the longest and kv_lens. All plans that a
 *     state goes through must have its batch, q_heads, q_len and value_dim (but see below). It is for the caller that they have one scale,
 *     and that q is the same.
 *   - A call whose args.out is present finishes: it writes out and, where asked for, lse, of all keys that have gone in by
 *     then. The state stays as it is without finishing, so more keys may follow. A piece of no key (kv_lens all 0, at any
 *     first_key) changes nothing, and can finish. Sinks are in no state: a call that finishes merges them into what it
 *     writes, last and once.
 *   - weights cannot be asked for (FOVEA_ERROR_UNSUPPORTED): they need the lse of all keys. Layers take no state.
 *   - The state counts as an output: it must not overlap any other argument, and is not shared with a concurrent call. After
 *     an error it is as it was.
 *
 * It lies in memory of the caller's, holds no pointer, and needs no end: it may be copied byte by byte (to go on from it
 * twice, say) to memory with the alignment of int64_t, and goes from tier to tier. */

/* A prefix that sequences share is read once for all of them if it goes into a state as one sequence of all their queries:
 *
 *     a plan of batch 1 and q_len N, all queries one after another, makes the state, and takes the prefix, of a multiple of
 *         256 keys (q is a view, [1, q_heads, N, head_dim]: of q_len 1 its token stride is the batch stride)
 *     a plan of N / q_len sequences of q_len queries, or a packed one of N tokens in all, takes in the same state, with
 *         first_key, the keys that each sequence has of its own, and finishes
 *
 * The bits are those of sequences that have the prefix each by itself. Windows and causality of the first plan are those of a
 * sequence of N queries: leave them out where every query sees the whole prefix. */

/* Bytes of a state: 4 for each row and each channel of a row, and a little more. 0 for a NULL plan. Thread-safe. */
FOVEA_API size_t fovea_attention_plan_state_size(const fovea_attention_plan *plan);

/* Makes a state of no keys in memory[size], which is aligned as malloc's is. *state, which is memory, is NULL after an
 * error: FOVEA_ERROR_NULL, FOVEA_ERROR_WORKSPACE (size is less than fovea_attention_plan_state_size()),
 * FOVEA_ERROR_ARGUMENT (alignment). Also empties a state that was used. Thread-safe. */
FOVEA_API fovea_status fovea_attention_state_init(const fovea_attention_plan *plan, void *memory, size_t size,
                                                  fovea_attention_state **state);

/* Merges the keys of another state, which come after those of *state, into it. A state through which only one segment has
 * gone (keys [256 i, 256 i + 256), any i) is that segment's partial result: partials, made in any order and anywhere,
 * merged in ascending order, give the bits of one call. A later state of more segments is legal, too, but may give other
 * last bits: its segments were merged with each other first.
 * FOVEA_ERROR_NULL, _SHAPE (they differ), _ARGUMENT (no state, or later begins before state ends), _ALIAS (they overlap), and
 * errors of the default context (see fovea_exp_f32()); *state is as it was then. Runs on the calling thread, allocates
 * nothing; the bits are the same on all tiers. Thread-safe on different states. */
FOVEA_API fovea_status fovea_attention_state_merge(fovea_attention_state *state, const fovea_attention_state *later);

#ifdef __cplusplus
}
#endif
#endif

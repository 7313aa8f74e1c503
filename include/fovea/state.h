/* Fovea: attention over keys that are not all available at once. Part of fovea.h. A state takes keys piece by piece,
 * and gives the bits of one call. fovea_attention_merge() merges results over any parts of the keys. */
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
 *     then out = O * (1 / L), lse = M + log(L).
 *   - Outputs of parts were rounded when they were written. So the bits are not those of one call over all keys, and
 *     another order may give other last bits. For the bits of one call, see fovea_attention_state. If only one part is
 *     not empty, the result has its bits.
 *   - A row of a part whose lse is -inf is empty: its out is not read, and it changes no bit. If all parts of a row are
 *     empty, out is +0 and lse is -inf. count 0 is legal.
 *   - A lse of NaN or +inf gives a row of NaN. NaN in out gives NaN in that channel. NaN is always written as
 *     0x7fc00000, zero as +0.
 *   - sinks: [heads] or NULL. Parts must not include sinks. Each head's sink is merged here, once, after the last part,
 *     like a part with lse = sinks[head] and out = 0.
 *   - whole->out sets the shape, and all parts must have it. Inputs may have strides of 0, outputs may not. If
 *     whole->lse.data is NULL, lse is not written. whole->out may be a part's out, and whole->lse a part's lse, with
 *     the same strides, so parts can be merged in place. Any other overlap of an output is FOVEA_ERROR_ALIAS.
 *   - Batch, heads or queries may be 0: nothing is done, and data may be NULL.
 *   - Errors: FOVEA_ERROR_SHAPE (a part's shape differs, channels are 0, a size or count is negative),
 *     _OVERFLOW, _STRIDE, _DTYPE, _ALIAS, and those of the default context.
 *   - Runs on the calling thread, on the best tier of a default context (see fovea_exp_f32()). Allocates nothing. The
 *     bits are the same on every tier.
 * Thread-safe. */
FOVEA_API fovea_status fovea_attention_merge(const fovea_attention_part *parts, int64_t count, const float *sinks,
                                             const fovea_attention_part *whole);

/* --------------------------------------------------------------------------------------------------------- state -- */

/* The running softmax of each row (a query of a head): its maximum M, sum L and unnormalized output O, in float32. Pass
 * it to fovea_attention_execute() with each piece:
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
 *   - Pieces come in ascending order and begin at multiples of 256. So every piece but the last has a multiple of 256
 *     keys. If a piece has fewer, or is left out, the bits are those of one call that masks the missing keys.
 *   - Positions count from the sequence's first key, not from the piece's: first_key says where the piece is. So
 *     causal, windows and q_offsets are those of the whole call, and the same for each piece.
 *     FOVEA_CAUSAL_BOTTOM_RIGHT, which depends on the number of all keys, is refused: use offsets.
 *   - kv_lens and kv_starts are those of this piece. mask and bias have a column for each key of the piece.
 *   - Pieces of different length need plans of different kv_len, or one plan of the longest and kv_lens. All plans that
 *     a state goes through must have its batch, q_heads, q_len and value_dim (but see below). The caller must use the
 *     same q and the same scale for all pieces; this is not checked.
 *   - A call with args.out finishes: it writes out, and lse if asked for, over all keys so far. Finishing does not
 *     change the state, so more keys may follow. A piece without keys (kv_lens all 0, at any first_key) changes
 *     nothing, and can finish. A state never includes sinks: the call that finishes merges them into its outputs, last.
 *   - Values of FOVEA_DTYPE_I4 leave rotated outputs in a state (cache.h). All its pieces, and all states merged with
 *     it, must have values of that type, or none must (FOVEA_ERROR_DTYPE).
 *   - With desc.page_keys the keys of a piece are those of args.cache_sequences or args.pages. A cache's rope and
 *     windows count from the sequence's first key, which is the piece's.
 *   - weights, scores of kind FOVEA_SCORES_WEIGHTS and summary are refused (FOVEA_ERROR_UNSUPPORTED), because they need
 *     the lse of all keys. Layers do not take a state.
 *   - The state counts as an output: it must not overlap any other argument or be shared with a concurrent call. After
 *     an error it is unchanged.
 *
 * A state is in the caller's memory, holds no pointers, and need not be destroyed. You may copy its bytes to memory
 * aligned for int64_t, for example to continue from it twice. Any tier can continue from it. */

/* A prefix that several sequences share can be read once for all of them. Use two plans with one state:
 *
 *   1. A plan of batch 1 and q_len N, all queries one after another, takes the prefix, a multiple of 256 keys. q is a
 *      view [1, q_heads, N, head_dim]. If each sequence has 1 query, its token stride is the batch stride.
 *   2. A plan of N / q_len sequences of q_len queries, or a packed one of N tokens, takes each sequence's own keys,
 *      with first_key, and finishes.
 *
 * The bits are those of sequences that each have the prefix. Windows and causality of the first plan are those of one
 * sequence of N queries: leave them out if every query sees the whole prefix. */

/* Bytes of a state: about 4 for each row and each channel of a row. Thread-safe. */
FOVEA_API size_t fovea_attention_plan_state_size(const fovea_attention_plan *plan);

/* Creates a state without keys in memory[size], aligned like memory from malloc. *state then points to memory. Call it
 * again to empty a state. FOVEA_ERROR_WORKSPACE (size is less than fovea_attention_plan_state_size()), _ARGUMENT
 * (alignment). Thread-safe. */
FOVEA_API fovea_status fovea_attention_state_init(const fovea_attention_plan *plan, void *memory, size_t size,
                                                  fovea_attention_state **state);

/* Merges later into *state. The keys of later must come after those of *state. A state that has taken only one segment
 * (keys [256 i, 256 i + 256), any i) is that segment's partial result. Partial results, computed in any order and
 * anywhere, give the bits of one call if they are merged in ascending order. If later has taken several segments, the
 * last bits may differ, because its segments were merged with each other first.
 *
 * FOVEA_ERROR_SHAPE (shapes differ), _ARGUMENT (not a state, or later begins before state ends), _ALIAS (they overlap),
 * and errors of the default context (see fovea_exp_f32()). Runs on the calling thread. Allocates nothing. The bits are
 * the same on every tier. Thread-safe on different states. */
FOVEA_API fovea_status fovea_attention_state_merge(fovea_attention_state *state, const fovea_attention_state *later);

#ifdef __cplusplus
}
#endif
#endif

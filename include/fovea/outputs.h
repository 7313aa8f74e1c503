/* Fovea: outputs of attention besides the result: scores and weights of chosen heads, queries and keys, and statistics
 * of the weights without the matrix. Part of fovea.h. */
#ifndef FOVEA_OUTPUTS_H
#define FOVEA_OUTPUTS_H

#include "attention.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Scores after a step of attention. Numbered like qk_matmul_output_mode of ONNX Attention. */
typedef enum fovea_score_kind {
    FOVEA_SCORES_RAW = 0,    /* scale * q k^T */
    FOVEA_SCORES_CAPPED = 1, /* after softcap */
    FOVEA_SCORES_BIASED = 2, /* after bias, relative bias and mask: -inf where masked */
    FOVEA_SCORES_WEIGHTS = 3 /* after softmax: exp(score - lse), +0 where masked */
} fovea_score_kind;

/* A part of the matrix of scores or weights. Set args.scores to one.
 *   - The shape of out says how many heads, queries and keys: [batch, heads, queries, keys], or with packed sequences
 *     [1, heads, queries, keys]. heads, first_query and first_key say which. Queries and keys are numbered as tokens of
 *     the tensors q and k, keys in pages by their positions: first_key 0 with kv_len keys gives whole rows.
 *   - Every element is written; in packed tensors, those of queries that belong to a sequence. Keys past a sequence's
 *     length and rows without a query count as masked: weights are +0, other kinds -inf.
 *   - RAW and CAPPED are scores before causality, windows, masks and biases. So k is read at all keys of a sequence. A
 *     NaN there gives NaN in the elements of that key only.
 *   - NaN is always 0x7fc00000, zero always +0. The bits are those of the scores from which attention computes out, and
 *     WEIGHTS are those of args.weights.
 *   - Computes the scores of tiles that hold a chosen row a second time. Nothing larger than a tile is kept besides
 *     out.
 *   - With a state (state.h), WEIGHTS are refused, because they need the lse of all keys. Other kinds are those of the
 *     piece.
 *   - Errors: FOVEA_ERROR_NULL (out), _SHAPE (heads, queries or keys outside the tensors), _ARGUMENT (kind, order of
 *     heads), and those of any output. */
struct fovea_attention_scores {
    size_t struct_size;
    fovea_score_kind kind; /* default FOVEA_SCORES_RAW */
    const int64_t *heads;  /* [heads] query heads, ascending, each once; NULL: consecutive ones from first_head on */
    int64_t first_head, first_query, first_key; /* default 0; first_head is 0 if heads is given */
    fovea_tensor out;                           /* float32 [batch, heads, queries, keys] */
};
FOVEA_DEFINE_INIT(fovea_attention_scores_init, fovea_attention_scores, FOVEA_STRUCT_ATTENTION_SCORES)

/* Statistics of the weights w. Set args.summary to one. Each tensor is optional. All elements of those given are
 * written; in packed tensors, the rows that belong to a sequence. Weights count sinks, but sinks are not keys.
 *   - key_sums: how much attention each key got, the sum of w over the queries of each head (evict the keys that got
 *     least). The order of additions is fixed. Queries form blocks of 64, counted from the sequence's first. From +0,
 *     the w of a block are added in ascending order; then, from +0, the sums of blocks in ascending order. Keys that no
 *     query sees, and tokens outside all sequences, get +0. Needs args.lse, which is read when all rows are finished.
 *     With packed sequences the batch is 1, but with keys in pages it is desc.batch: each sequence has its own sums.
 *   - entropy: -sum(w log w) of each row, natural logarithm (divide by log(2) for bits). log w is s - lse, rounded.
 *     w log w is rounded, and 0 if w = 0. Sums are over segments of 256 keys in ascending order, each added up as
 *     softmax does.
 *   - max_weight: the largest w of each row.
 *   - top_keys, top_weights: the keys with the largest w of each row and these w, in descending order. Of equal w, the
 *     lowest key comes first. Keys are numbered as tokens of the tensor k, or by positions in pages. If a row sees too
 *     few keys, -1 and +0 follow. Give both or neither. Their last axis says how many.
 *   - A row that sees no key, or has no query, has entropy +0, max_weight +0 and no top keys, also if a sink of NaN
 *     makes its lse NaN. Any other row of NaN has NaN in entropy, max_weight, top_weights and the key_sums of the keys
 *     it sees; its top keys are the lowest.
 *   - Computes the scores once more for key_sums, and once for all others. No matrix of q_len x kv_len is kept.
 *   - Refused with a state, because they need the lse of all keys.
 *   - Errors: FOVEA_ERROR_NULL (key_sums without lse, top_keys without top_weights or the reverse), and those of any
 *     output. */
struct fovea_attention_summary {
    size_t struct_size;
    fovea_tensor key_sums;    /* float32 [batch, q_heads, 1, kv_len] */
    fovea_tensor entropy;     /* float32 [batch, q_heads, q_len, 1] */
    fovea_tensor max_weight;  /* float32 [batch, q_heads, q_len, 1] */
    fovea_tensor top_keys;    /* FOVEA_DTYPE_I64 [batch, q_heads, q_len, count], count >= 1 */
    fovea_tensor top_weights; /* float32 [batch, q_heads, q_len, count] */
};
FOVEA_DEFINE_INIT(fovea_attention_summary_init, fovea_attention_summary, FOVEA_STRUCT_ATTENTION_SUMMARY)

#ifdef __cplusplus
}
#endif
#endif

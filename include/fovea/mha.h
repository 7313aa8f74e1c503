/* Fovea: the multi-head layer: projections, attention and the output projection. Part of fovea.h. */
#ifndef FOVEA_MHA_H
#define FOVEA_MHA_H

#include "attention.h"
#include "linear.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The form in which the layer MultiHead(Q, K, V) = Concat(head_1 .. head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K,
 * V W_i^V), is given. Forms that are algebraically equal give results that differ only by rounding. */
typedef enum fovea_mha_form {
    FOVEA_MHA_FACTORED = 0,  /* weights q, k, v, o as in the paper */
    FOVEA_MHA_MERGED = 1,    /* scores Q B_i K^T: merged has the B_i, or they are computed from q and k */
    FOVEA_MHA_FOLDED = 2,    /* outer W^Q, then W_i^Q, multiplied into one matrix at creation; likewise for K and V */
    FOVEA_MHA_PROJECTED = 3, /* no projections: the inputs are the heads' Q_i, K_i, V_i */
    FOVEA_MHA_TIED = 4,      /* one weight q for Q, K and V; X W is computed once */
    FOVEA_MHA_FUSED = 5      /* one weight fused for W^Q, W^K and W^V */
} fovea_mha_form;

typedef enum fovea_mha_inputs {
    FOVEA_MHA_SELF = 0,    /* one input: args.q serves all three, and is read once; args.k and args.v are absent */
    FOVEA_MHA_CROSS = 1,   /* two inputs: args.k serves keys and values; args.v is absent */
    FOVEA_MHA_SEPARATE = 2 /* three inputs */
} fovea_mha_inputs;

typedef enum fovea_mha_merge {
    FOVEA_MHA_MERGE_QUERIES = 0, /* (Q W_i) K^T */
    FOVEA_MHA_MERGE_KEYS = 1     /* Q (K W_i^T)^T; needs kv_heads = q_heads, cannot hold q_bias */
} fovea_mha_merge;

typedef enum fovea_mha_fold {
    FOVEA_MHA_FOLD_NEVER = 0,
    FOVEA_MHA_FOLD_CHEAPER = 1, /* if it costs fewer flops for this shape */
    FOVEA_MHA_FOLD_ALWAYS = 2
} fovea_mha_fold;

/* Order of the output channels of a fused weight. */
typedef enum fovea_mha_order {
    FOVEA_MHA_ORDER_QKV = 0,    /* all heads of Q, then of K, then of V: PyTorch's in_proj_weight */
    FOVEA_MHA_ORDER_GROUPED = 1 /* for each key head: its query heads, then its key, then its value */
} fovea_mha_order;

typedef struct fovea_mha_desc {
    size_t struct_size;

    /* How the layer is given and computed. */
    fovea_mha_form form;        /* default FOVEA_MHA_FACTORED */
    fovea_mha_merge merge;      /* of MERGED; default FOVEA_MHA_MERGE_QUERIES */
    fovea_mha_fold fold_values; /* attention over V itself, then W_i^V W_i^O as one matrix; default FOLD_NEVER. Needs
                                   W^O and no v_bias, outer_v_bias or fused_bias. Not with TIED, PROJECTED or keys in
                                   a cache. If it is not possible, FOLD_CHEAPER does not fold, and FOLD_ALWAYS gives
                                   FOVEA_ERROR_UNSUPPORTED */

    /* Attention: q_heads = h, kv_heads, head_dim = d_k, value_dim = d_v. The default scale is 1/sqrt(d_k) in every
     * form. */
    const fovea_attention_desc *attention; /* required; read only during the call */
    int64_t q_tokens;  /* attention->packed: the most tokens of the queries' axis; default 0: batch * q_len */
    int64_t kv_tokens; /* likewise of keys and values; default 0: with SELF q_tokens, else batch * kv_len */

    /* Inputs and result. */
    fovea_mha_inputs inputs; /* default FOVEA_MHA_SELF */
    int64_t q_features;      /* channels of the queries' input (d_model); not used by FOVEA_MHA_PROJECTED */
    int64_t k_features;      /* of the keys' input; default 0: q_features */
    int64_t v_features;      /* of the values' input; default 0: k_features */
    int64_t out_features;    /* channels of the result; 0: no W^O, the heads are the result */

    /* Weights. */
    int biases;      /* nonzero: biases that are not NULL are used; default 0: none may be given */
    double norm_eps; /* of weights.q_norm and k_norm: >= 0, default 1e-6 */
    /* Arithmetic of maps whose weights are quantized: EXACT, Q16 (DEFAULT, the default) or Q8. All other maps have that
     * of attention. */
    fovea_arithmetic quantized_arithmetic;
    int reserved;              /* 0 */
    fovea_placement placement; /* of packed weights (context.h); default FOVEA_PLACEMENT_DEFAULT */
    int placement_node;        /* of FOVEA_PLACEMENT_NODE; else 0 */
} fovea_mha_desc;

/* Element types:
 *   attention->dtype    of args.q, of the projected queries, and of the heads before W^O
 *   k_dtype, v_dtype    of the inputs of keys and values, and of their projections (one input has one type). With a
 *                       cache, of what the cache keeps: inputs and projections then have attention->dtype.
 *   out_dtype           of the result
 *
 * Each weight has its own type. Each step rounds to the types above. So a layer has the bits of its steps called one by
 * one, and each step has the bits of float32 on the same numbers, rounded once at its end. */

FOVEA_DEFINE_INIT(fovea_mha_desc_init, fovea_mha_desc, FOVEA_STRUCT_MHA_DESC)

/* Each weight has its own type and any strides. Types are FOVEA_DTYPE_F32, _BF16 and _F16, and except for outer_q,
 * outer_k, outer_v, merged and fused also the quantized types, each weight's its own, whose heads are adjacent. Weights
 * that multiply one input are one product, and faster, if they are quantized alike. _I8 with a scale for each output
 * channel has any strides and may be fused. Column i * d_k + c of q is channel c of head i. If weights are
 * stored head by head ([heads, d_model, d_k]), the matrix has the strides within one head, and head_stride is the
 * distance from one head to the next. head_stride 0: heads are adjacent columns (rows of o). */
typedef struct fovea_mha_weights {
    size_t struct_size;

    /* Weights of each head. */
    fovea_matrix q, k, v; /* [features, heads * d_k or d_v], k and v with kv_heads */
    fovea_matrix o;       /* [heads * d_v, out_features] */
    int64_t q_head_stride, k_head_stride, v_head_stride, o_head_stride;

    /* Biases and norms. */
    fovea_dtype bias_dtype; /* of all biases and norms: FOVEA_DTYPE_F32 (default), _BF16 or _F16 */
    const void *q_bias, *k_bias, *v_bias, *o_bias; /* [out] of each, or NULL */
    /* [d_k] or NULL: weights with which fovea_norm_rms() normalizes each head's queries or keys, before a rope (Qwen3;
     * Gemma 3: 1 + the model's weight). Forms FACTORED, FOLDED and FUSED. */
    const void *q_norm, *k_norm;

    /* FOLDED: [features, any]; q, k, v then take those as input. Absent: none. */
    fovea_matrix outer_q, outer_k, outer_v;
    const void *outer_q_bias, *outer_k_bias, *outer_v_bias;

    /* MERGED: [heads] of [q_features, k_features], then without q_bias; or NULL: made of q and k. */
    const fovea_matrix *merged;

    /* FUSED: [features, (heads + kv_heads) * d_k + kv_heads * d_v]. */
    fovea_mha_order order;
    fovea_matrix fused;
    const void *fused_bias;
} fovea_mha_weights;
FOVEA_DEFINE_INIT(fovea_mha_weights_init, fovea_mha_weights, FOVEA_STRUCT_MHA_WEIGHTS)

/* A layer for one shape, with packed weights. Immutable: any number of threads may execute one at once. */
typedef struct fovea_mha fovea_mha;

/* Checks, folds and packs copies of the weights, which keep their types; yours may be freed afterwards. Products of
 * matrices are computed in float64 and rounded once: to the type of both factors if it is the same, otherwise to
 * float32. Their biases are rounded to float32. A layer that multiplies matrices (MERGED, FOLDED, folded values) keeps
 * weights of integers as the float32 numbers that they stand for. ctx must outlive the layer. Thread-safe. */
FOVEA_API fovea_status fovea_mha_create(const fovea_context *ctx, const fovea_mha_desc *desc,
                                        const fovea_mha_weights *weights, fovea_mha **mha);

/* Creates the same layer for another shape, at the cost of a plan. Both share the packed weights, which live as long as
 * any layer that uses them. The choice of fold_values is kept, and so are q_tokens and kv_tokens. Thread-safe. */
FOVEA_API fovea_status fovea_mha_reshape(const fovea_mha *mha, int64_t batch, int64_t q_len, int64_t kv_len,
                                         fovea_mha **other);

/* Finds a packed weight of a layer, for fovea_linear_unpack().
 *   weight 0, 1, 2  what q, k, v became. Outer matrices are multiplied in, fused ones taken apart. Merged matrices of
 *                   all heads lie side by side, in q or k as desc.merge says.
 *   weight 3        o, or what values and o were folded into
 * *linear belongs to the layer, and *part of it is [*in, *out]. *linear is NULL if the form has no such weight (TIED
 * has q only). FOVEA_ERROR_ARGUMENT. Thread-safe. */
FOVEA_API fovea_status fovea_mha_linear(const fovea_mha *mha, int weight, const fovea_linear **linear, int64_t *part,
                                        int64_t *in, int64_t *out);

/* Frees a layer. No thread may be executing it. Thread-safe on different layers, even if they share weights. */
FOVEA_API void fovea_mha_destroy(fovea_mha *mha);

/* Bytes of workspace that fovea_mha_execute() needs: projections, heads, and the scratch of attention. Thread-safe. */
FOVEA_API size_t fovea_mha_workspace_size(const fovea_mha *mha);

/* Runs the layer. args are those of fovea_attention_execute(), with these differences:
 *   q, k, v  The inputs, [batch, groups, tokens, channels] with groups * channels = the features (1 group: plain rows).
 *            With FOVEA_MHA_PROJECTED they are the heads, as in attention.
 *   out      [batch, groups, q_len, channels], groups * channels = out_features. Without W^O, the heads. Rows past
 *            q_lens are o_bias, or +0.
 *   state    Must be NULL: FOVEA_ERROR_UNSUPPORTED.
 *   packed   If the attention is packed: q, k, v and out have a batch of 1 and one token axis, of at most desc.q_tokens
 *            and desc.kv_tokens. q_cu_seqlens and kv_cu_seqlens say where sequences are. Tokens outside all sequences,
 *            and those past q_lens or kv_lens, are neither read nor written. The bits are those of a call for each
 *            sequence.
 *   cache    If attention->page_keys is 256: args.q has new tokens of cache_sequences, which follow those that the
 *            layer cache_layer of the cache has. They are projected. Queries and keys are normalized if the weights
 *            have norms, then rotated by the cache's rope. Keys and values are appended. Then the queries attend to the
 *            whole sequence, within causal limits and windows.
 *              - Needs inputs SELF, form FACTORED, FOLDED or FUSED, and no folded values. A sequence has at most q_len
 *                new tokens, and at most kv_len keys with them. k_dtype and v_dtype are those of the cache, even int8.
 *              - q_lens has the number of tokens of each sequence (packed: q_cu_seqlens alone). q_starts, kv_lens and
 *                kv_starts are absent.
 *              - FOVEA_ERROR_FULL: this layer has appended nothing, but earlier layers have. To avoid it, call
 *                fovea_kv_cache_reserve() before the first layer.
 *              - The bits are those of the steps called one by one, whatever the chunks in which tokens come.
 * All other arguments are those of the heads' attention. With FOVEA_MHA_MERGED, lse lacks what k_bias adds to all
 * scores of a row, and fovea_mha_create() refuses k_bias with a softcap or sinks (FOVEA_ERROR_UNSUPPORTED).
 * Thread-safe. */
FOVEA_API fovea_status fovea_mha_execute(const fovea_mha *mha, const fovea_attention_args *args, void *workspace,
                                         size_t workspace_size);

typedef struct fovea_mha_costs {
    size_t struct_size;
    double parameters;       /* numbers that the form stores for execution */
    double projection_flops; /* of Q, K and V; a multiplication with its addition is 2 flops */
    double attention_flops;  /* of scores and values, without masked pairs (causal, window; with offsets of 0); packed
                                sequences count as if each had q_len queries and kv_len keys */
    double output_flops;     /* of W^O */
    double bytes;            /* inputs, weights (of attention->dtype), projections, heads and output, each read or
                                written once */
    double scratch;          /* bytes of projections and heads between steps */
} fovea_mha_costs;
FOVEA_DEFINE_INIT(fovea_mha_costs_init, fovea_mha_costs, FOVEA_STRUCT_MHA_COSTS)

/* Computes what a layer costs, from its description alone. FOLD_CHEAPER assumes that v_bias is absent. Thread-safe. */
FOVEA_API fovea_status fovea_mha_desc_costs(const fovea_mha_desc *desc, fovea_mha_costs *costs);

#ifdef __cplusplus
}
#endif
#endif

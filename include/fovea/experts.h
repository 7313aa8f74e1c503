/* Fovea: mixtures of experts: routers, and experts with packed weights. Part of fovea.h. docs/experts.md says which
 * models need what.
 *
 *     fovea_experts_desc_init(&desc);
 *     desc.experts = 64; desc.in_features = 2048; desc.intermediate = 768;
 *     fovea_experts_weights_init(&weights);
 *     weights.gate = ...; weights.up = ...; weights.down = ...;                  a matrix of each expert
 *     fovea_experts_create(ctx, &desc, &weights, &experts);
 *
 *     fovea_router_init(&router);
 *     router.k = 8; router.denominator = FOVEA_DENOMINATOR_SUM;                  Qwen3-MoE, Mixtral
 *     fovea_experts_args_init(&args);
 *     args.x = ...; args.y = ...; args.router = &router; args.logits = ...;
 *     fovea_experts_apply(ctx, experts, &args, NULL, 0);
 *
 * Rules:
 *   - A row of y depends on its row of x, its experts and their weights alone: its bits are the same in any batch, on
 *     any tier and with any number of threads (kernels/kernels.h has the formulas).
 *   - Output NaN is always 0x7fc00000, before it is rounded to a type of 16 bits.
 *   - Rounding mode and nested calls: as for fovea_attention_execute(). Thread-safe, but for fovea_experts_destroy().
 *   - Errors: FOVEA_ERROR_NULL, _SHAPE, _OVERFLOW, _STRIDE, _DTYPE, _ALIAS, _ARGUMENT, _WORKSPACE, _VERSION,
 *     _UNSUPPORTED, _OUT_OF_MEMORY. After an error nothing is written. */
#ifndef FOVEA_EXPERTS_H
#define FOVEA_EXPERTS_H

#include "linear.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------------ routers -- */

/* Logits become probabilities: */
typedef enum fovea_router_score {
    FOVEA_ROUTER_SOFTMAX = 0, /* over all experts; with after_top_k over those that are chosen */
    FOVEA_ROUTER_SIGMOID = 1
} fovea_router_score;

/* The score of a group of experts. */
typedef enum fovea_group_score {
    FOVEA_GROUP_MAX = 0,       /* that of its best expert: DeepSeek-V2 */
    FOVEA_GROUP_SUM_OF_TWO = 1 /* the sum of those of its two best: DeepSeek-V3, Kimi */
} fovea_group_score;

/* The divisor of the weights of a token's experts; sum: theirs. */
typedef enum fovea_denominator {
    FOVEA_DENOMINATOR_NONE = 0,
    FOVEA_DENOMINATOR_SUM = 1,         /* sum + eps: eps 0 in Mixtral, 1e-20 in DeepSeek-V3 */
    FOVEA_DENOMINATOR_SUM_AT_LEAST = 2 /* max(sum, eps): 6.103515625e-5 in llama.cpp */
} fovea_denominator;

/* How k experts and their weights follow from a token's router logits. */
typedef struct fovea_router {
    size_t struct_size;
    int64_t k;                /* experts of a token, from 1 to their number */
    fovea_router_score score; /* default FOVEA_ROUTER_SOFTMAX */
    /* Nonzero: experts are chosen by their logits, and only the logits of those that are chosen become weights:
     * softmax in gpt-oss and Granite, sigmoid in Llama 4. 0, the default: by what became of all logits. */
    int after_top_k;
    const float *bias;             /* [experts], added to what experts are chosen by, not to weights; or NULL */
    int64_t groups, groups_used;   /* experts are chosen from the best groups_used of equal groups; default 1 and 1 */
    fovea_group_score group_score; /* default FOVEA_GROUP_MAX */
    fovea_denominator denominator; /* default FOVEA_DENOMINATOR_NONE */
    double eps;                    /* of denominator, >= 0, rounded to float32; default 0 */
    double scale;                  /* multiplies weights at last; finite, rounded to float32; default 1 */
} fovea_router;
FOVEA_DEFINE_INIT(fovea_router_init, fovea_router, FOVEA_STRUCT_ROUTER)

/* Chooses the experts of each token, the best first, and gives their weights. Of equal ones the lowest number is taken.
 * A token with a NaN among what experts are chosen by, such as a NaN logit, gets experts 0 to k - 1 with weights of
 * NaN, which make its row of fovea_experts_apply() NaN.
 *   logits   [batch, 1, tokens, experts] of FOVEA_DTYPE_F32, _BF16 or _F16
 *   chosen   [batch * tokens][k]
 *   weights  [batch * tokens][k] */
FOVEA_API fovea_status fovea_experts_route(const fovea_context *ctx, const fovea_router *router,
                                           const fovea_tensor *logits, int64_t *chosen, float *weights);

/* ------------------------------------------------------------------------------------------------------ experts -- */

/* How the matrices and biases of gate and up are given. */
typedef enum fovea_gate_up {
    FOVEA_GATE_UP_SEPARATE = 0,     /* gate and up are matrices of their own */
    FOVEA_GATE_UP_CONCATENATED = 1, /* up has both: output channels of the gate, then those of up (transformers) */
    FOVEA_GATE_UP_INTERLEAVED = 2   /* up has both: channels 2 c and 2 c + 1 are channel c of gate and up (gpt-oss) */
} fovea_gate_up;

typedef struct fovea_experts_desc {
    size_t struct_size;
    int64_t experts;             /* from 1 to 2048 */
    int64_t in_features;         /* >= 1 */
    int64_t intermediate;        /* >= 1: channels between the maps */
    int64_t out_features;        /* default 0: in_features */
    fovea_dtype dtype;           /* of x: FOVEA_DTYPE_F32 (default), _BF16 or _F16 */
    fovea_dtype y_dtype;         /* of y; default 0: dtype */
    fovea_arithmetic arithmetic; /* as of fovea_linear_desc: DEFAULT (default; FASTEST is the same), EXACT, Q16 or Q8 */
    fovea_activation activation; /* default FOVEA_ACTIVATION_SILU_GATED; one that does not gate: there is no gate */
    fovea_gate_up gate_up;       /* default FOVEA_GATE_UP_SEPARATE; only of activations that gate */
    fovea_placement placement;   /* of packed weights, expert by expert (context.h); default FOVEA_PLACEMENT_DEFAULT */
    int placement_node;          /* of FOVEA_PLACEMENT_NODE; else 0 */
    int reserved;                /* 0 */
    /* With FOVEA_ACTIVATION_SILU_GATED, of a gate g and up u:
     *     g = min(g, limit), u = min(max(u, -limit), limit), g / (1 + exp(-alpha g)) * (u + up_offset)
     * Defaults: infinity, 1 and 0. gpt-oss has 7, 1.702 and 1; DeepSeek-V4 its limit alone. limit > 0, others finite;
     * rounded to float32. */
    double limit, alpha, up_offset;
} fovea_experts_desc;
FOVEA_DEFINE_INIT(fovea_experts_desc_init, fovea_experts_desc, FOVEA_STRUCT_EXPERTS_DESC)

/* Matrices of each expert, of any types that linear maps have, and their biases. A stack of all experts is
 * given as a matrix for each. */
typedef struct fovea_experts_weights {
    size_t struct_size;
    const fovea_matrix *gate; /* [experts] of [in_features, intermediate]; NULL: no gate, or up has it */
    const fovea_matrix *up;   /* [experts] of [in_features, intermediate, twice that if it has the gate, too] */
    const fovea_matrix *down; /* [experts] of [intermediate, out_features] */
    const void *gate_bias;    /* [experts][intermediate] or NULL */
    const void *up_bias;      /* [experts][output channels of up] or NULL */
    const void *down_bias;    /* [experts][out_features] or NULL */
    fovea_dtype bias_dtype;   /* FOVEA_DTYPE_F32 (default), _BF16 or _F16 */
    int reserved;             /* 0 */
} fovea_experts_weights;
FOVEA_DEFINE_INIT(fovea_experts_weights_init, fovea_experts_weights, FOVEA_STRUCT_EXPERTS_WEIGHTS)

/* Packed weights and biases of all experts. Immutable: any number of threads may apply them at once. */
typedef struct fovea_experts fovea_experts;

/* Checks desc and packs copies of weights and biases; yours may be freed afterwards. ctx as of fovea_linear_create().
 * Where up has the gate, too, its type must not have separate scales: FOVEA_ERROR_UNSUPPORTED. */
FOVEA_API fovea_status fovea_experts_create(const fovea_context *ctx, const fovea_experts_desc *desc,
                                            const fovea_experts_weights *weights, fovea_experts **experts);

/* Bytes of the packed weights of all experts, their scales among them. */
FOVEA_API size_t fovea_experts_weight_bytes(const fovea_experts *experts);

/* Frees experts. No thread may be applying them. */
FOVEA_API void fovea_experts_destroy(fovea_experts *experts);

typedef struct fovea_experts_args {
    size_t struct_size;
    fovea_tensor x; /* [batch, 1, tokens, in_features] */
    fovea_tensor y; /* [batch, 1, tokens, out_features] */
    /* Either these: experts of each token, and their weights. A number of `experts` means none; others are refused. */
    int64_t k;
    const int64_t *chosen; /* [batch * tokens][k] */
    const float *weights;  /* [batch * tokens][k] */
    /* Or these, as for fovea_experts_route(); k is 0, or that of router. */
    const fovea_router *router;
    fovea_tensor logits; /* [batch, 1, tokens, experts] */
} fovea_experts_args;
FOVEA_DEFINE_INIT(fovea_experts_args_init, fovea_experts_args, FOVEA_STRUCT_EXPERTS_ARGS)

/* y = sum over the token's experts e, in ascending order, of weight * (act(x Wgate + b) * (x Wup + b) Wdown + b): each
 * product with a weight is rounded, then added; the sum begins with +0, which is what a token without experts gets.
 * Between the maps are float32 numbers. Rows of one expert are multiplied together; experts without rows are not read.
 * Shared experts are ordinary maps (linear.h), whose residual may be y. */
FOVEA_API fovea_status fovea_experts_apply(const fovea_context *ctx, const fovea_experts *experts,
                                           const fovea_experts_args *args, void *workspace, size_t workspace_size);

/* Bytes of workspace that fovea_experts_apply() needs with this ctx for that many rows, batch * tokens, of at most k
 * experts; for fewer they are enough, too. Many rows go in pieces, so that it does not grow beyond those of 4096
 * rows. */
FOVEA_API size_t fovea_experts_apply_workspace_size(const fovea_context *ctx, const fovea_experts *experts,
                                                    int64_t rows, int64_t k);

/* ------------------------------------------------------------------------------------------ one map of experts -- */

/* Row i of a token, y[b, 0, i] = act(x W + bias) of the map of its expert chosen[b][i], for programs that have the rest
 * of a mixture themselves. Its bits are those of fovea_linear_apply() with this map and row. Rows of one expert are
 * multiplied together; maps without rows are not read, and may be NULL.
 *   maps    [experts], of one part that does not gate, of any weights, and of one size and the types of x and y.
 *           FOVEA_ARITHMETIC_BF16_TILE is refused: FOVEA_ERROR_UNSUPPORTED
 *   chosen  [batch][k], from 0 to experts - 1, in any order, also several times the same; k >= 1
 *   x       [batch, 1, k, in_features], or [batch, 1, 1, in_features]: a row for all k
 *   y       [batch, 1, k, out_features], apart from everything else
 * Workspace and threads as for fovea_linear_apply(). Thread-safe. */
FOVEA_API fovea_status fovea_experts_multiply(const fovea_context *ctx, const fovea_linear *const *maps,
                                              int64_t experts, int64_t k, const int64_t *chosen, const fovea_tensor *x,
                                              const fovea_tensor *y, void *workspace, size_t workspace_size);

/* Bytes of workspace that fovea_experts_multiply() needs with this ctx for that many rows of y, batch * k: O(threads +
 * experts + rows). map is any of the maps if these differ in their numbers alone, else the one that needs most. */
FOVEA_API size_t fovea_experts_multiply_workspace_size(const fovea_context *ctx, const fovea_linear *map,
                                                       int64_t experts, int64_t rows);

#ifdef __cplusplus
}
#endif
#endif

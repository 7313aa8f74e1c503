/* Fovea: linear recurrences: gated delta rule and linear attention, selective scans, causal convolution. Part of
 * fovea.h. docs/recurrences.md says which models need what.
 *
 *     fovea_states_init(&states);
 *     states.before = states.after = fovea_tensor_bhtd(state, FOVEA_DTYPE_F32, 1, 32, 128, 128);
 *     fovea_delta_args_init(&args);
 *     args.q = ...; args.k = ...; args.v = ...; args.gate = ...; args.beta = ...; args.out = ...;
 *     args.norm = FOVEA_L2_RSQRT;
 *     args.states = &states;
 *     fovea_gated_delta_rule(ctx, &args, NULL, 0);                       for a prompt, a chunk of it, or each new token
 *
 * Rules for all functions here:
 *   - Tokens are taken one after the other, by fixed formulas (kernels/recurrences.h), with a state of float32. So the
 *     bits of an output do not depend on how tokens are divided among calls, nor on tier, threads, batch or padding.
 *   - Tensors are [batch, heads, tokens, channels] of FOVEA_DTYPE_F32, _BF16 or _F16, each of its own type, sizes >= 1
 *     but for tokens and batch. Results are those of float32 on the same numbers, rounded once at the end. Arrays are
 *     float32. Output NaN is always 0x7fc00000 before rounding.
 *   - With a workspace of ..._workspace_size() bytes nothing is allocated; concurrent calls do not share one. With NULL
 *     and size 0, memory is allocated for the call.
 *   - Outputs overlap nothing else; states.after may be states.before.
 *   - Rounding mode and nested calls: as for fovea_attention_execute().
 *   - Errors: FOVEA_ERROR_NULL, _SHAPE, _OVERFLOW, _STRIDE, _DTYPE, _ALIAS, _ARGUMENT, _WORKSPACE, _VERSION,
 *     _OUT_OF_MEMORY. After an error nothing is written.
 *   - Thread-safe. */
#ifndef FOVEA_RECURRENCE_H
#define FOVEA_RECURRENCE_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the state of a head lies in memory: [rows, columns], or transposed. */
typedef enum fovea_state_order {
    FOVEA_STATE_ROWS = 0,   /* the delta rule: [k_dim, v_dim], as transformers and ONNX have it; no copy is made */
    FOVEA_STATE_COLUMNS = 1 /* [v_dim, k_dim], as ggml has it; scans: [channels, state_dim], as all have it */
} fovea_state_order;

typedef struct fovea_state_cache fovea_state_cache;

/* The sequences of a call and their states. Without it, all sequences have all tokens, begin with a state of zeros, and
 * the last state is not wanted. */
typedef struct fovea_states {
    size_t struct_size;
    const int64_t *lens; /* [batch] or NULL: sequence b has its first lens[b] tokens; outputs of later ones are +0 */
    /* [sequences + 1] or NULL. If given, tensors are [1, heads, tokens, channels], sequence i has tokens
     * [cu_seqlens[i], cu_seqlens[i + 1]), and lens is NULL. Outputs of tokens of no sequence are +0. */
    const int64_t *cu_seqlens;
    int64_t sequences; /* of cu_seqlens; else 0 */
    /* FOVEA_DTYPE_F32, _BF16 or _F16. A state of 16 bits is rounded at the end of each call, so that bits depend on how
     * tokens are divided among calls. */
    fovea_tensor before; /* [sequences, heads, rows, columns], or data NULL: zeros */
    fovea_tensor after;  /* [slots * sequences, heads, rows, columns], or data NULL: not wanted */
    /* >= 1, default 1. Slot s of sequence i, at index s * sequences + i of after, gets the state s tokens before the
     * last one, for a later return to it. Slots of as many tokens as a sequence has in this call, or
     * more, are not written, but for slot 0. */
    int64_t slots;
    fovea_state_order order; /* of before and after; default FOVEA_STATE_ROWS */
    int reserved;            /* 0 */
    /* Or NULL. With a cache (state_cache.h), before, after and slots are absent: sequence i of the call is that of the
     * cache, and its state cache_state is read and goes on. */
    fovea_state_cache *cache;
    int64_t cache_state;
    const int64_t *cache_sequences; /* [sequences], all different */
} fovea_states;
FOVEA_DEFINE_INIT(fovea_states_init, fovea_states, FOVEA_STRUCT_STATES)

/* --------------------------------------------------------------------------------------------------- delta rule -- */

/* How a vector of length 1 is made of each q and k. */
typedef enum fovea_l2 {
    FOVEA_L2_NONE = 0,
    FOVEA_L2_RSQRT = 1, /* x / sqrt(sum of x^2 + eps): transformers, flash-linear-attention */
    FOVEA_L2_MAX = 2    /* x / max(sqrt(sum of x^2), eps): ggml's L2_NORM, torch.nn.functional.normalize */
} fovea_l2;

typedef struct fovea_delta_args {
    size_t struct_size;
    fovea_tensor v;    /* [batch, heads, tokens, v_dim]; a state for each head */
    fovea_tensor k;    /* [batch, k_heads, tokens, k_dim], heads a multiple of k_heads */
    fovea_tensor q;    /* [batch, q_heads, tokens, k_dim], q_heads divides heads, or is a multiple of them */
    fovea_tensor gate; /* [batch, heads, tokens, 1 or k_dim], or data NULL: 0 */
    fovea_tensor beta; /* [batch, heads or 1, tokens, 1], or data NULL: 1 */
    fovea_tensor out;  /* [batch, the larger of heads and q_heads, tokens, v_dim] */
    /* With a_log: g = -exp(a_log[head]) * softplus(gate + dt_bias), the softplus limited to dt_min and dt_max. Without:
     * g = gate. */
    const float *a_log;    /* [heads] or NULL */
    const float *dt_bias;  /* [heads * channels of gate], or NULL: 0; only with a_log */
    double dt_min, dt_max; /* default 0 and infinity */
    double beta_scale;     /* multiplies beta; default 1; 2 in OLMo hybrid */
    int beta_sigmoid;      /* nonzero: beta becomes sigmoid(beta), before it is multiplied */
    /* Nonzero: head h has k (and q) head h % k_heads, as ggml has it; 0, the default: h / (heads / k_heads). */
    int tiled_heads;
    int no_delta;               /* nonzero: the delta rule's correction is left out */
    fovea_l2 norm;              /* of q and k; default FOVEA_L2_NONE */
    double eps;                 /* of norm, >= 0, rounded to float32; default 1e-6 */
    double scale;               /* of outputs; default 0: 1 / sqrt(k_dim) */
    const fovea_states *states; /* or NULL */
} fovea_delta_args;
FOVEA_DEFINE_INIT(fovea_delta_args_init, fovea_delta_args, FOVEA_STRUCT_DELTA_ARGS)

/* The gated delta rule, and with it linear attention. For each token, with the state S of a head, [k_dim, v_dim]:
 *     S   = exp(g) S                       a number for the head, or one for each channel of k (Kimi's KDA)
 *     S   = S + k (beta (v - S^T k))^T     with no_delta: S + k (beta v)^T
 *     out = scale S^T q
 * ONNX's LinearAttention: gated_delta; delta has no gate; gated has no_delta and no beta; linear no gate, too. Several
 * q heads for each head of v read one state. fovea_from_onnx_linear_attention() (compat.h) fills args. */
FOVEA_API fovea_status fovea_gated_delta_rule(const fovea_context *ctx, const fovea_delta_args *args, void *workspace,
                                              size_t workspace_size);

/* Bytes of workspace: depends on shapes and types, and is enough for fewer tokens, too. 0 for shapes that the function
 * refuses. Tensors need no data but where they may be absent. Thread-safe. */
FOVEA_API size_t fovea_gated_delta_rule_workspace_size(const fovea_context *ctx, const fovea_delta_args *args);

/* ---------------------------------------------------------------------------------------------- selective scans -- */

typedef struct fovea_scan_args {
    size_t struct_size;
    fovea_tensor x;   /* [batch, heads, tokens, channels] */
    fovea_tensor dt;  /* [batch, heads, tokens, 1]: Mamba 2; [batch, heads, tokens, channels]: Mamba 1, with one head.
                         If channels are 1, it is Mamba 1 */
    fovea_tensor b;   /* [batch, groups, tokens, state_dim], heads a multiple of groups: head h has group h / (heads /
                        groups) */
    fovea_tensor c;   /* the same shape */
    fovea_tensor z;   /* the shape of x, or data NULL: outputs are multiplied by silu(z) */
    fovea_tensor out; /* the shape of x */
    const float *a;   /* Mamba 2: [heads]; Mamba 1: [heads * channels, state_dim]; -exp(A_log) of the models */
    const float *d;   /* the skip: [heads], Mamba 1: [heads * channels]; or NULL: 0 */
    const float *dt_bias;       /* [heads * channels of dt], or NULL: 0 */
    int dt_softplus;            /* nonzero, the default: dt becomes softplus(dt + dt_bias); 0: dt + dt_bias */
    int reserved;               /* 0 */
    double dt_min, dt_max;      /* limits of that; default 0 and infinity */
    const fovea_states *states; /* or NULL; rows are state_dim, columns channels; their order is most often
                                   FOVEA_STATE_COLUMNS */
} fovea_scan_args;
FOVEA_DEFINE_INIT(fovea_scan_args_init, fovea_scan_args, FOVEA_STRUCT_SCAN_ARGS)

/* The selective scan of Mamba 1 and 2. For each token, with the state S of a head, [state_dim, channels]:
 *     S   = exp(dt A) S + B (dt x)^T       dt and A for each head, or dt for each channel and A for each element of S
 *     out = (S^T C + D x) silu(z) */
FOVEA_API fovea_status fovea_selective_scan(const fovea_context *ctx, const fovea_scan_args *args, void *workspace,
                                            size_t workspace_size);

/* As fovea_gated_delta_rule_workspace_size(). */
FOVEA_API size_t fovea_selective_scan_workspace_size(const fovea_context *ctx, const fovea_scan_args *args);

/* ------------------------------------------------------------------------------------------- causal convolution -- */

typedef struct fovea_conv_args {
    size_t struct_size;
    fovea_tensor x;      /* [batch, 1, tokens, channels], or, channels first, [batch, 1, channels, tokens] */
    fovea_tensor out;    /* likewise, of the same sizes */
    const float *weight; /* [channels, taps], the last tap multiplies the newest token */
    const float *bias;   /* [channels], or NULL: 0 */
    int64_t taps;        /* from 1 to 64 */
    int x_channels_first, out_channels_first; /* default 0 */
    int silu;                                 /* nonzero: outputs are silu of the sums */
    int reserved;                             /* 0 */
    const fovea_states *states;               /* or NULL; [taps - 1, channels]: the tokens before, oldest first */
} fovea_conv_args;
FOVEA_DEFINE_INIT(fovea_conv_args_init, fovea_conv_args, FOVEA_STRUCT_CONV_ARGS)

/* out[t] = act(sum over taps w of weight[w] x[t - taps + 1 + w] + bias), channel by channel. Tokens before the first
 * are the state's. ONNX's CausalConvWithState, ggml's SSM_CONV. */
FOVEA_API fovea_status fovea_causal_conv(const fovea_context *ctx, const fovea_conv_args *args, void *workspace,
                                         size_t workspace_size);

/* As fovea_gated_delta_rule_workspace_size(). */
FOVEA_API size_t fovea_causal_conv_workspace_size(const fovea_context *ctx, const fovea_conv_args *args);

#ifdef __cplusplus
}
#endif
#endif

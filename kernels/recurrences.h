/* Recurrences: a state S of rows x columns of floats for each head, changed by one token after the other. Part of
 * kernels.h. All tiers share this arithmetic bit for bit, each operation rounded once:
 *
 * delta, for a token's vectors k, q and a = exp(g) of the rows, v of the columns, and its number beta:
 *   u[i]    = k[i] * a[i]
 *   m[j]    = chain over i ascending: acc = fma(u[i], S[i][j], acc), acc = +0
 *   d[j]    = beta * (v[j] - m[j]), or beta * v[j] without the correction
 *   S[i][j] = fma(k[i], d[j], a[i] * S[i][j])
 *   o[j]    = scale * (chain over i ascending: acc = fma(q[i], S[i][j], acc), acc = +0)
 *   o[j]    = fma(skip[j], v[j], o[j])    where there is a skip
 * These are S' = exp(g) S; S = S' + k (beta (v - S'^T k))^T; o = scale S^T q: linear, gated, delta and gated delta
 * attention (ONNX, LinearAttention-27; transformers, torch_recurrent_gated_delta_rule of Qwen3-Next, and of Kimi Linear
 * where each row has its own g). Without the correction, with k = B, q = C, v = x, beta = dt, g = dt * A and skip = D
 * they are the scan of Mamba 2 (transformers, mamba2_selective_state_update). What vectors are made of:
 *   softplus, sigmoid, exp                as kernels.h has them, of arrays
 *   g       = rate * min(max(softplus(x + bias), low), high), rate = -exp(A_log) or A
 *   L2      x * (1 / sqrt(sum of x * x + eps)), or x * (1 / max(sqrt(sum of x * x), eps)), the sum by 16 lanes,
 *           acc = acc + x * x, and the tree of l
 *
 * scan, Mamba 1 (transformers, mamba_selective_scan), for a token's B and C of the rows, x and dt of the columns, and A
 * and skip of all tokens:
 *   u[j]    = dt[j] * x[j]
 *   S[i][j] = fma(B[i], u[j], exp(dt[j] * A[i][j]) * S[i][j]), exp as of arrays
 *   o[j]    = chain over i ascending: acc = fma(C[i], S[i][j], acc), acc = +0
 *   o[j]    = fma(skip[j], x[j], o[j])    where there is a skip
 *
 * convolve, for each channel (ONNX, CausalConvWithState-27; transformers, causal_conv1d_fn):
 *   y       = chain over the taps w ascending: acc = fma(weight[w], x[t - taps + 1 + w], acc), acc = +0
 *   y       = y + bias, then silu(y), where there is one
 *
 * Of states that leave the library, and of all outputs, NaN -> 0x7fc00000. */
#ifndef FV_RECURRENCES_H
#define FV_RECURRENCES_H

#include <stdint.h>

enum { FV_STATE_COLUMNS = 32 }; /* columns of a block of a state: two or more vectors of every tier */

/* delta: one block through tokens >= 1 tokens. from is read, tile holds states between tokens, to gets the last one;
 * any two of them may be the same, with the same stride; else no two operands overlap. */
typedef struct fv_delta {
    int64_t tokens, rows;                 /* each >= 1 */
    const float *k, *q, *decay, *decayed; /* [tokens][rows]; decay a, decayed u */
    int64_t ldk, ldq, lddecay, lddecayed; /* 0: the same for all tokens */
    const float *v;                       /* [tokens][FV_STATE_COLUMNS] */
    const float *beta;                    /* [tokens] */
    const float *skip;                    /* [FV_STATE_COLUMNS], or NULL */
    float *o;                             /* as v, for each query */
    int64_t ldv, ldo;
    int64_t queries, q_step, o_step; /* >= 1 queries that read one state, so far apart in q and o */
    const float *from;               /* [rows][FV_STATE_COLUMNS] */
    float *tile, *to;                /* likewise; rows of tile without gaps, NULL for one token */
    int64_t ldfrom, ldto;
    float scale;
    int correct; /* nonzero: the delta rule */
} fv_delta;

typedef void fv_delta_f32_fn(const fv_delta *args);

/* sweep: FV_LANES columns of a state that is stored by columns get their new values by d, which gives o. Then d becomes
 * that of other columns, whose m is found on the way. NaN in the new state stays as it is, but is told. */
typedef struct fv_sweep {
    int64_t rows;                      /* a multiple of FV_LANES, >= 1 */
    const float *from, *decay, *k, *q; /* from: columns of rows; NULL: none */
    float *to, *o;                     /* to: from, or a place of its own; o [FV_LANES] */
    const float *next, *decayed, *v;   /* v [FV_LANES] of the columns next; NULL: d stays */
    const float *behind;               /* what lies behind FV_LANES columns here is prefetched; NULL: nothing */
    int64_t ldfrom, ldto, ldnext;      /* next: NULL for m = 0 */
    float scale, beta;
    float d[FV_LANES];
    uint32_t nan; /* set to nonzero if the new state may have NaN */
} fv_sweep;

typedef void fv_sweep_f32_fn(fv_sweep *sweep);

/* scan: one block through tokens >= 0 tokens. No two operands overlap. */
typedef struct fv_scan {
    int64_t tokens, rows; /* rows >= 1 */
    const float *b, *c;   /* [tokens][rows] */
    const float *x, *dt;  /* [tokens][FV_STATE_COLUMNS] */
    const float *a;       /* [rows][FV_STATE_COLUMNS] */
    const float *skip;    /* [FV_STATE_COLUMNS], or NULL */
    float *o;             /* as x */
    int64_t ldb, ldc, ldx, lddt, ldo;
    float *state; /* [rows][FV_STATE_COLUMNS] */
} fv_scan;

typedef void fv_scan_f32_fn(const fv_scan *args);

/* convolve: y[t][j] of tokens x n, from x[t][j] to x[t + taps - 1][j]. No two operands overlap. by_channels, with four
 * taps and n a multiple of FV_LANES: x is [n][tokens + taps - 1], weight [n][taps]. */
typedef struct fv_convolve {
    int64_t tokens, taps, n; /* taps >= 1 */
    const float *x;          /* [tokens + taps - 1][n] */
    const float *weight;     /* [taps][n] */
    const float *bias;       /* [n], or NULL */
    float *y;                /* [tokens][n] */
    int64_t ldx, ldweight, ldy;
    int silu, by_channels;
} fv_convolve;

typedef void fv_convolve_f32_fn(const fv_convolve *args);

#endif

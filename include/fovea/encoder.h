/* Fovea: what encoders compute between tokens and vectors besides linear maps, attention and norms: sums of embeddings,
 * activations, pooling, rows of length 1. Part of fovea.h.
 *
 * Rules for all functions here:
 *   - Tensors are [batch, heads, tokens, channels] of FOVEA_DTYPE_F32, _BF16 or _F16, each of its own type. Results
 *     are, bit for bit, those of float32 on the same numbers, rounded once at the end as fovea_convert() rounds.
 *   - Bits are the same on every tier, with any number of threads and in any batch (kernels/kernels.h has the
 *     formulas). Output NaN is always 0x7fc00000 before rounding.
 *   - Outputs overlap no input, except where a function says so. Nothing is allocated. Without rows nothing is done.
 *     Rounding mode and nested calls: as for fovea_attention_execute().
 *   - Errors: FOVEA_ERROR_NULL, _SHAPE, _OVERFLOW, _STRIDE, _DTYPE, _ALIAS, _ARGUMENT, _VERSION. After an error nothing
 *     is written.
 *   - Thread-safe. */
#ifndef FOVEA_ENCODER_H
#define FOVEA_ENCODER_H

#include "linear.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------- sums of embeddings -- */

/* A table of embeddings, and the row of it that each token takes. */
typedef struct fovea_embedding_table {
    const void *data; /* [rows][channels]; row i begins at element i * stride */
    fovea_dtype dtype;
    int64_t rows, stride; /* rows >= 1, stride >= channels */
    const int64_t *ids;   /* [tokens], each from 0 to rows - 1, or NULL: row 0 for every token */
    const void *reserved; /* NULL: room for later options, because this struct stands in arrays and cannot grow */
} fovea_embedding_table;

typedef struct fovea_embedding_args {
    size_t struct_size;
    const fovea_embedding_table *tables; /* [table_count]: of words, positions, kinds of tokens, ... */
    int64_t table_count;                 /* from 1 to 16 */
    double scale;                        /* finite, rounded to float32; default 1 */
    fovea_tensor y;                      /* [1, 1, tokens, channels] */
} fovea_embedding_args;
FOVEA_DEFINE_INIT(fovea_embedding_args_init, fovea_embedding_args, FOVEA_STRUCT_EMBEDDING_ARGS)

/* y[t] = (tables[0][ids[t]] + tables[1][ids[t]] + ...) * scale, added in this order. An id beyond its table is
 * FOVEA_ERROR_ARGUMENT. */
FOVEA_API fovea_status fovea_embedding_sum(const fovea_context *ctx, const fovea_embedding_args *args);

/* -------------------------------------------------------------------------------------------------- activations -- */

typedef struct fovea_activate_args {
    size_t struct_size;
    fovea_tensor x;              /* channels >= 1 */
    fovea_tensor up;             /* what the activation gates, or data NULL: 1 */
    fovea_tensor residual;       /* or data NULL: 0 */
    fovea_tensor y;              /* all have the shape of x; y may be any of them: same data, type and strides */
    const void *reserved;        /* NULL */
    fovea_activation activation; /* none that gates: FOVEA_ACTIVATION_SILU with up is SwiGLU; default ..._NONE */
    int reserved_flags;          /* 0 */
} fovea_activate_args;
FOVEA_DEFINE_INIT(fovea_activate_args_init, fovea_activate_args, FOVEA_STRUCT_ACTIVATE_ARGS)

/* y = activation(x) * up + residual, element by element, with the bits that fovea_linear_apply() gives for x W +
 * bias. */
FOVEA_API fovea_status fovea_activate(const fovea_context *ctx, const fovea_activate_args *args);

/* ------------------------------------------------------------------------------------------------------ pooling -- */

typedef enum fovea_pooling {
    FOVEA_POOLING_FIRST = 0,         /* the first token's row, as of [CLS] */
    FOVEA_POOLING_LAST = 1,          /* the last token's */
    FOVEA_POOLING_MEAN = 2,          /* sum / tokens */
    FOVEA_POOLING_MEAN_SQRT_LEN = 3, /* sum / sqrt(tokens) */
    FOVEA_POOLING_WEIGHTED_MEAN = 4, /* sum of weight * x / sum of weights */
    FOVEA_POOLING_MAX = 5            /* of each channel */
} fovea_pooling;

typedef struct fovea_pool_tokens_args {
    size_t struct_size;
    fovea_tensor x; /* [1, 1, rows, channels]: the tokens of all sequences */
    fovea_tensor y; /* [1, 1, sequences, channels] */
    const int64_t
        *begin;         /* [sequences]: sequence s has rows begin[s] to end[s] - 1, 0 <= begin[s] <= end[s] <= rows. */
    const int64_t *end; /* [sequences]; of packed sequences begin is cu_seqlens and end is cu_seqlens + 1 */
    const float *weights;  /* [rows], for FOVEA_POOLING_WEIGHTED_MEAN, or NULL: 1, 2, 3, ... from begin[s] on */
    fovea_pooling pooling; /* default FOVEA_POOLING_FIRST */
    int reserved;          /* 0 */
} fovea_pool_tokens_args;
FOVEA_DEFINE_INIT(fovea_pool_tokens_args_init, fovea_pool_tokens_args, FOVEA_STRUCT_POOL_TOKENS_ARGS)

/* One row for each sequence, summed over its tokens in their order. A sequence without tokens, or whose weights sum up
 * to 0, gives +0. A NaN in a channel gives NaN, also by FOVEA_POOLING_MAX. */
FOVEA_API fovea_status fovea_pool_tokens(const fovea_context *ctx, const fovea_pool_tokens_args *args);

/* ---------------------------------------------------------------------------------------------- rows of length 1 -- */

/* y = x / max(sqrt(sum of x^2), 1e-12), row by row, channels >= 1. y has the shape of x and may be x itself: same data,
 * type and strides. A row of zeros stays zeros. Rows of any finite numbers are computed right, also where the sum of
 * x^2 leaves float32. */
FOVEA_API fovea_status fovea_normalize_rows(const fovea_context *ctx, const fovea_tensor *x, const fovea_tensor *y);

#ifdef __cplusplus
}
#endif
#endif

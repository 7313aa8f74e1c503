/* The multi-head layer: up to three linear maps, an attention, a linear map. check.c resolves what a form computes
 * and checks descriptions, weights.c checks and gathers weights, fold.c multiplies them, dense.c holds them, create.c
 * packs and plans, execute.c runs.
 */
#ifndef FV_MHA_H
#define FV_MHA_H

#include "context/context.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { FV_MHA_Q, FV_MHA_K, FV_MHA_V, FV_MHA_ROLES };

/* One of Q, K, V as the form computes it. */
typedef struct fv_mha_role {
    int64_t features;        /* of its input */
    int64_t heads, channels; /* as attention sees it; heads of the input if raw and not shared */
    bool projected;          /* by a linear map of its own; else the input is read as it is */
    bool shared;             /* the raw input serves every head */
    int same_as;             /* TIED: the role whose product it is, if from the same input; else itself */
    fovea_dtype dtype;       /* of its input and of what attention reads */
} fv_mha_role;

/* Sizes that follow from a description. */
typedef struct fv_mha_shape {
    fv_mha_role role[FV_MHA_ROLES];
    int64_t heads, kv_heads, d_k, d_v;
    bool fold;               /* W_i^V W_i^O behind attention */
    int64_t o_in, o_out;     /* o_out 0: none */
    fovea_dtype heads_dtype; /* of what W^O reads */
} fv_mha_shape;

/* A matrix of its own, [in][out] of that type, and its bias or NULL. */
typedef struct fv_dense {
    int64_t in, out;
    fovea_dtype dtype;
    void *w;
    float *bias;
    float *scales;                   /* [out] of integers, else NULL; */
    fovea_quantization quantization; /* has them, too */
    const fovea_matrix *given;       /* quantized otherwise: the caller's, and no w */
} fv_dense;

static inline bool fv_dense_there(const fv_dense *d) { return d->w || d->given; }

/* Packed weights, shared by the layers that are made of each other. */
typedef struct fv_mha_packed {
    atomic_long owners;
    fovea_linear *map[FV_MHA_ROLES]; /* of the roles of one input that are packed in one way, at the first of them */
    int map_of[FV_MHA_ROLES];        /* the map that makes a role */
    fovea_linear *out;
    float *norm[FV_MHA_ROLES]; /* [d_k] weights of queries' and keys' norms, or NULL */
} fv_mha_packed;

struct fovea_mha {
    const fovea_context *ctx;
    fovea_mha_desc desc; /* of this attention */
    fovea_attention_desc attention;
    fv_mha_shape shape;
    fv_mha_packed *packed;
    fovea_attention_plan *plan;
    int64_t rows[FV_MHA_ROLES]; /* of the roles, in the workspace: of all sequences, or of the packed axis at most */
    int64_t at[FV_MHA_ROLES], heads_at, lens_at, inner_at; /* parts of the workspace: projections, heads, lengths of a
                                                             self-attention input, scratch of a step */
    int64_t positions_at; /* of new tokens of a layer over a cache: [rows], then [batch] lengths before */
    int64_t inner_bytes, bytes;
};

/* Does it take keys and values from a cache? */
static inline bool fv_mha_cached(const fovea_mha *m) { return m->attention.page_keys > 0; }

/* Reads what may be an older caller's, completes it by defaults, and checks what has no form: *desc is then one of
 * *attention. */
fovea_status fv_mha_read_desc(const fovea_mha_desc *given, fovea_mha_desc *desc, fovea_attention_desc *attention);

/* Resolves a description that was read; a v_bias that is given prevents FOVEA_MHA_FOLD_CHEAPER. */
fovea_status fv_mha_resolve(const fovea_mha_desc *desc, bool v_bias, fv_mha_shape *shape);

/* Normalizes queries and keys in place, where weights say so, with fv_mha_norm_bytes() of scratch (cached.c). */
fovea_status fv_mha_norm(const fovea_mha *mha, const fovea_tensor *q, const fovea_tensor *k, void *scratch);
size_t fv_mha_norm_bytes(const fovea_mha *mha);

/* Layers over a cache (cached.c): checks arguments that attention does not; rotates queries in place and appends keys
 * and values, with room for their positions; removes them again if attention fails. */
fovea_status fv_mha_cached_check(const fovea_mha *mha, const fovea_attention_args *args);
fovea_status fv_mha_cached_append(const fovea_mha *mha, const fovea_attention_args *args, const fovea_tensor *q,
                                  const fovea_tensor *k, const fovea_tensor *v, int64_t *positions);
void fv_mha_cached_undo(const fovea_mha *mha, const fovea_attention_args *args, const int64_t *positions);

/* The role whose input a role reads. */
int fv_mha_input(const fovea_mha_desc *desc, int role);

/* The maps of a form, gathered and folded; role[i] is empty where there is none. Freed by fv_mha_dense_free(). */
typedef struct fv_mha_dense {
    fv_dense role[FV_MHA_ROLES], o;
} fv_mha_dense;

fovea_status fv_mha_read_weights(const fovea_mha_weights *given, fovea_mha_weights *weights);
fovea_status fv_mha_check_weights(const fovea_mha_desc *desc, const fv_mha_shape *shape, const fovea_mha_weights *w);
fovea_status fv_mha_gather(const fovea_mha_desc *desc, const fv_mha_shape *shape, const fovea_mha_weights *w,
                           fv_target target, fv_mha_dense *dense);
void fv_mha_dense_free(fv_mha_dense *dense);

/* Dense matrices (dense.c). false: no memory. */
bool fv_dense_make(fv_dense *d, int64_t in, int64_t out, fovea_dtype dtype, bool bias);
void fv_dense_free(fv_dense *d);

/* Products of matrices (fold.c): in float64, rounded once, to the type of the factors if they have one, else to
 * float32; biases to float32. false: no memory. */

/* d = outer d, and the outer bias through d. */
bool fv_fold_outer(fv_dense *d, const fovea_matrix *outer, const float *outer_bias, fv_target target);

/* W_i = W_i^Q W_i^K^T of each head as columns of d: [q_features, heads * k_features], or transposed for the keys. */
bool fv_fold_factors(fv_dense *d, const fv_mha_shape *s, const fv_dense *q, const fv_dense *k, bool keys,
                     fv_target target);

/* W_i^V W_i^O, below each other, in place of W^O; W^V is no longer needed. */
bool fv_fold_values(const fv_mha_shape *s, fv_mha_dense *dense, fv_target target);

#endif

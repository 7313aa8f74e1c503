/* Linear recurrences (fovea/recurrence.h): delta.c and scan.c read and check calls, rule.c runs states through tokens,
 * conv.c convolves; states.c has the sequences of a call and their states, which may be those of a cache (cache.c,
 * save.c); vectors.c the loops. */
#ifndef FV_RECURRENCE_H
#define FV_RECURRENCE_H

#include "context/context.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

enum { FV_RULE_TOKENS = 32 }; /* tokens of a chunk: their vectors stay in the second-level cache */

/* ----------------------------------------------------------------------------------------------------- states.c -- */

/* The sequences of a call: what the caller gave, and sizes. */
typedef struct fv_sequences {
    fovea_states given;
    int64_t count, heads, rows, columns; /* of states */
    int64_t tokens;                      /* of the token axis */
    double all; /* tokens of all the batch. Workspaces depend on it, so it does not on what cu_seqlens holds */
} fv_sequences;

/* The floats, or elements of 16 bits, of one head of one state. */
typedef struct fv_state {
    void *data; /* NULL: zeros, or not wanted */
    fovea_dtype dtype;
    int64_t stride; /* of rows, or of columns */
    bool by_columns;
} fv_state;

/* Reads what the caller gave, which may be NULL, and checks it against the sizes of the first tensor. */
fovea_status fv_sequences_read(const fovea_states *given, int64_t batch, int64_t tokens, fv_sequences *s);

/* Checks the states, whose sizes are set, and gives the spans of before, after, lens and cu_seqlens; after may be
 * before, and has an empty span then. */
enum { FV_STATE_SPANS = 4 };
fovea_status fv_sequences_check(const fv_sequences *s, fv_span spans[FV_STATE_SPANS]);

/* The tokens of a sequence: from the first of them in batch on. */
static inline int64_t fv_sequence_tokens(const fv_sequences *s, int64_t sequence, int64_t *batch, int64_t *first) {
    const int64_t *offsets = s->given.cu_seqlens;
    *batch = offsets ? 0 : sequence;
    *first = offsets ? offsets[sequence] : 0;
    return offsets ? offsets[sequence + 1] - *first : s->given.lens ? s->given.lens[sequence] : s->tokens;
}

fv_state fv_state_before(const fv_sequences *s, int64_t sequence, int64_t head);
fv_state fv_state_after(const fv_sequences *s, int64_t sequence, int64_t head, int64_t slot);

/* Where a block of FV_STATE_COLUMNS columns from one on is, if it is in rows, or columns, of floats; else NULL. */
float *fv_state_in_place(const fv_state *state, bool by_columns, int64_t column, int64_t columns);

/* Columns of a state by columns through few tokens: call's from and to are the first of them, a multiple of 2 FV_LANES;
 * rows are one of FV_LANES, and there is one query and no skip. */
void fv_columns_run(fv_sweep_f32_fn *sweep, const fv_delta *call, int64_t columns);

/* Columns [column, column + n) of all rows to, or from, a tile of ld floats a row; n <= ld, columns past n become +0.
 * room: rows * FV_STATE_COLUMNS floats. */
void fv_state_load(const fovea_context *ctx, const fv_state *state, int64_t rows, int64_t column, int64_t n,
                   float *tile, int64_t ld, float *room);
void fv_state_store(const fovea_context *ctx, const fv_state *state, int64_t rows, int64_t column, int64_t n,
                    const float *tile, int64_t ld, float *room);

/* Tokens of the next chunk, at most most of the left ones: chunks end where a slot wants the state. */
int64_t fv_sequence_chunk(const fv_sequences *s, int64_t most, int64_t left);

/* Between these two, states of a cache can be had. Call begin when nothing can fail any more. */
void fv_sequences_begin(const fv_sequences *s);
void fv_sequences_end(const fv_sequences *s);

/* The same of the cache (cache.c); slot -1: the state before. */
fovea_status fv_state_cache_check(const fv_sequences *s);
void fv_state_cache_begin(const fv_sequences *s);
void fv_state_cache_end(const fv_sequences *s);
fv_state fv_state_cache_state(const fv_sequences *s, int64_t sequence, int64_t head, int64_t slot);
int64_t fv_state_cache_slots(const fovea_state_cache *cache);

/* Writes +0 to the outputs of tokens that no sequence has; out has tokens or, in a convolution, channels first. */
void fv_sequences_clear(const fv_sequences *s, const fovea_tensor *out, bool channels_first);

/* ----------------------------------------------------------------------------------------------------- calls.c -- */

/* A tensor of a call. */
typedef struct fv_operand_rule {
    const char *name;
    const fovea_tensor *tensor;
    int64_t shape[4];
    bool output, optional;
} fv_operand_rule;

/* An array of floats of a call. */
typedef struct fv_array_rule {
    const char *name;
    const float *data;
    int64_t count;
} fv_array_rule;

/* Checks tensors, the first of which is the output, arrays and states of a call, and that none overlaps what is written
 * but as it may. Absent tensors and arrays are left out. */
fovea_status fv_call_check(const fv_operand_rule *tensors, int count, const fv_array_rule *arrays, int array_count,
                           const fv_sequences *s, const void *workspace, size_t workspace_size);

/* Are sizes of a tensor at least 1, those of batch and tokens 0, and their product no more than memory has? */
fovea_status fv_call_sizes(const char *name, const fovea_tensor *t);

/* Rows of a tensor as floats: where they are, with their stride, or in to, ld apart. */
const float *fv_rows_floats(const fovea_context *ctx, const fovea_tensor *t, int64_t batch, int64_t head, int64_t token,
                            int64_t tokens, float *to, int64_t *ld);

/* Where an element is. */
static inline void *fv_token_at(const fovea_tensor *t, int64_t batch, int64_t head, int64_t token) {
    return (char *)t->data +
           fv_dtype_size(t->dtype) * (batch * t->stride[0] + head * t->stride[1] + token * t->stride[2]);
}

/* ------------------------------------------------------------------------------------------------------ rule.c -- */

/* A call of delta over tensors, checked. gate and beta may be absent. */
typedef struct fv_rule {
    const fovea_context *ctx;
    const fovea_tensor *q, *k, *v, *gate, *beta, *z, *out;
    fv_sequences sequences;
    bool tiled_heads, correct;
    fovea_l2 norm;
    float eps, scale;
    const float *rate; /* [heads], NULL: the gate is g itself */
    bool log_rate;     /* rate is log(-rate) */
    const float *bias; /* [heads * channels of gate], or NULL */
    bool softplus, limited;
    float low, high;
    bool steps; /* beta is what the rate multiplies */
    bool sigmoid;
    float beta_scale;
    const float *skip; /* [heads] or NULL */
} fv_rule;

/* Bytes of workspace; negative: more than memory has. */
int64_t fv_rule_bytes(const fv_rule *rule);

fovea_status fv_rule_run(const fv_rule *rule, void *workspace, size_t workspace_size);

/* ---------------------------------------------------------------------------------------------------- vectors.c -- */

/* y = x of length 1, by norm, which is not FOVEA_L2_NONE. */
void fv_vector_normalize(int64_t n, const float *x, fovea_l2 norm, float eps, float *y);
void fv_vector_limit(int64_t n, float low, float high, float *x);
void fv_vector_scale(int64_t n, float factor, float *x);
void fv_vector_multiply(int64_t n, const float *x, const float *y, float *product);
void fv_vector_canonical(int64_t n, float *x); /* NaN -> 0x7fc00000 */
void fv_vector_fill(int64_t n, float x, float *y);

#endif

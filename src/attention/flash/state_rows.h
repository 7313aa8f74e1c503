/* A state in memory: a header, M and L of all its rows, then O. */
#ifndef FV_ATTENTION_STATE_ROWS_H
#define FV_ATTENTION_STATE_ROWS_H

#include "attention/visible/visible.h"
#include "fovea/fovea.h"

#define FV_STATE_MAGIC 0x314574617453766fULL /* no memory by chance */

struct fovea_attention_state {
    uint64_t magic;
    int64_t shape[4];   /* of out: batch, query heads, queries, channels */
    int32_t joint;      /* its tokens may be those of several sequences, one after another */
    int32_t rotated;    /* O has rotated channels (int4.h) */
    int64_t begin, end; /* of the segments whose keys went in, as positions; equal: none */
};

/* M, L and O of rows of a head, token by token. */
typedef struct fv_state_rows {
    float *max, *sum, *o; /* [rows], [rows], [rows][value_dim] */
} fv_state_rows;

static inline int64_t fv_state_count(const fovea_attention_state *s) { return s->shape[0] * s->shape[1] * s->shape[2]; }

/* Its bytes; INT64_MAX: more than memory. */
int64_t fv_state_bytes_of(const fovea_attention_state *state);

/* Its rows from one on. */
fv_state_rows fv_state_rows_from(fovea_attention_state *state, int64_t row);

/* Takes all keys out. */
void fv_state_clear(fovea_attention_state *state);

/* The rows from one of a call on, as far as its head goes. */
fv_state_rows fv_attention_state_at(const fovea_attention_desc *desc, fovea_attention_state *state,
                                    const fv_sequence *sequence, fv_row_place at);

/* A state of `tokens` tokens, of one sequence or of several in a row: its size in bytes (-1: more than memory),
 * initialization without keys in aligned memory, and its rows. */
int64_t fv_attention_state_bytes(int64_t heads, int64_t tokens, int64_t channels);
fovea_attention_state *fv_attention_state_joint(void *memory, int64_t heads, int64_t tokens, int64_t channels);
fv_state_rows fv_attention_state_joint_at(fovea_attention_state *state, int64_t head, int64_t token);

#endif

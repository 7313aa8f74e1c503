/* The state of an attention whose keys come piece by piece (fovea/state.h): M, L and O of each row, as kernels.h has
 * them.
 *
 * Positions of a piece are those of its own keys: what is said of a sequence is moved by first_key, a whole number of
 * segments, so that the grid stays. The flash loop begins with the rows of the state and ends by writing them back. */
#ifndef FV_ATTENTION_STATE_H
#define FV_ATTENTION_STATE_H

#include "attention/plan/plan.h"
#include "attention/visible/visible.h"
#include "core/core.h"

/* M, L and O of rows of a head, token by token. */
typedef struct fv_state_rows {
    float *max, *sum, *o; /* [rows], [rows], [rows][value_dim] */
} fv_state_rows;

/* The rows from one on, as far as its head goes. */
fv_state_rows fv_attention_state_at(const fovea_attention_plan *plan, fovea_attention_state *state,
                                    const fv_sequence *sequence, fv_row_place at);

/* A state of one sequence of so many tokens, or of those of several, one after another: its bytes (-1: more than
 * memory), one without keys in aligned memory, and its rows. */
int64_t fv_attention_state_bytes(int64_t heads, int64_t tokens, int64_t channels);
fovea_attention_state *fv_attention_state_joint(void *memory, int64_t heads, int64_t tokens, int64_t channels);
fv_state_rows fv_attention_state_joint_at(fovea_attention_state *state, int64_t head, int64_t token);

/* Checks args.state and what may not come with one, and gives its span; args' lengths and starts are right. */
fovea_status fv_attention_state_check(const fovea_attention_plan *plan, const fovea_attention_args *args,
                                      fv_span *span);

/* Notes that the keys of args have gone in. */
void fv_attention_state_advance(const fovea_attention_plan *plan, const fovea_attention_args *args);

#endif

/* The state of an attention whose keys come piece by piece (fovea/state.h): M, L and O of each row, as kernels.h has
 * them.
 *
 * Positions of a piece are those of its own keys: what is said of a sequence is moved by first_key, a whole number of
 * segments, so that the grid stays. The flash loop begins with the rows of the state and ends by writing them back. */
#ifndef FV_ATTENTION_STATE_H
#define FV_ATTENTION_STATE_H

#include "attention/plan/plan.h"
#include "core/core.h"

/* Checks args.state and what may not come with one, and gives its span; args' lengths and starts are right. */
fovea_status fv_attention_state_check(const fovea_attention_plan *plan, const fovea_attention_args *args,
                                      fv_span *span);

/* Notes that the keys of args have gone in. */
void fv_attention_state_advance(const fovea_attention_plan *plan, const fovea_attention_args *args);

#endif

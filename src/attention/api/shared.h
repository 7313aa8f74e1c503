/* Prefixes that sequences share: pages that several sequences of a call have at the same place are read once for all of
 * them.
 *
 * Sequences are put into groups. The rows of a group go through the group's pages as one packed sequence that sees all
 * of them, by a plan of its own, into a state (state.h); then the call itself goes on from there with the rest of each
 * sequence's keys. So the bits are those of a state, which are those of one call. */
#ifndef FV_ATTENTION_SHARED_H
#define FV_ATTENTION_SHARED_H

#include "attention/api/paged.h"
#include "attention/plan/plan.h"

/* Makes the plan of prefixes where calls of a description may have such: few rows of several sequences, which see all
 * that is before them. Leaves *prefix as it is elsewhere. */
fovea_status fv_shared_plan(const fovea_context *ctx, const fovea_attention_desc *desc, fovea_attention_plan **prefix);

/* Bytes of the workspace for them; -1: more than memory. */
int64_t fv_shared_bytes(const fovea_attention_desc *desc, const fovea_attention_plan *prefix);

/* Runs a call over pages: the prefixes, if there are any, then the rest. */
void fv_shared_run(const fovea_attention_plan *plan, fv_paged *paged, char *room, void *workspace);

#endif

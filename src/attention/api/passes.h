/* The passes of a call over its blocks: the flash loop, then the other outputs that are asked for. */
#ifndef FV_ATTENTION_PASSES_H
#define FV_ATTENTION_PASSES_H

#include "attention/plan/plan.h"

/* fv_attention_run() over a view; args.k and args.v are not read. */
void fv_attention_run_view(const fovea_attention_plan *plan, const fovea_attention_args *args, const fv_kv *kv,
                           void *workspace);

/* Writes the statistics of two runs, a and b, to the caller's; prefixes: number of prefixes in one of them. */
void fv_attention_write_stats(fovea_attention_stats *stats, const fovea_attention_stats *a,
                              const fovea_attention_stats *b, int64_t prefixes);

#endif

/* Attention over pages: a cache's, or a caller's pool (fovea/cache.h). What the call needs of lengths and page tables
 * is written into the workspace, and from there on it is an attention over a view with kv_lens. */
#ifndef FV_ATTENTION_PAGED_H
#define FV_ATTENTION_PAGED_H

#include "attention/plan/plan.h"
#include "cache/cache.h"
#include "core/core.h"

/* Bytes of the workspace for it; -1: more than memory. */
int64_t fv_paged_bytes(const fovea_attention_desc *desc);

/* Checks what does not depend on the cache's sequences. spans: of external pages, which are read: their parts, table,
 * starts. */
enum { FV_PAGED_SPANS = FV_PAGE_PARTS + 2 };
fovea_status fv_paged_check(const fovea_attention_desc *desc, const fovea_attention_args *args,
                            fv_span spans[FV_PAGED_SPANS]);

/* Arguments and view of one call. */
typedef struct fv_paged {
    fovea_attention_args args;
    fv_kv kv;
} fv_paged;

/* room: of fv_paged_bytes(), aligned. Fails where a sequence is none, is shorter or longer than was said, or lacks keys
 * that its queries see. */
fovea_status fv_paged_open(const fovea_attention_plan *plan, const fovea_attention_args *args, void *room,
                           fv_paged *paged);

#endif

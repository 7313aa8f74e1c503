/* The module of caches (fovea/cache.h): what attention and layers see of one. */
#ifndef FV_CACHE_H
#define FV_CACHE_H

#include "core/core.h"
#include "fovea/fovea.h"
#include "kernels.h"
#include "threads/threads.h"

#include <stdbool.h>

/* Where pages are. Page p of a layer's list holds keys 256 p to 256 p + 255: head h's keys from k + page * k_page + h *
 * k_head on, interleaved (kv.h), groups being k_group apart, or, if that is 0, in rows of head_dim elements; its
 * values, in rows, likewise. In elements of their types. Scales of its int8 keys are at k_scales + page * scale_page +
 * h * scale_head; NULL: they are not int8. */
typedef struct fv_cache_pages {
    const void *k, *v;
    int64_t k_page, v_page, k_head, v_head, k_group;
    const float *k_scales, *v_scales;
    int64_t scale_page, scale_head;
    const fv_threads *nodes; /* to whose nodes heads are spread: fv_node_of(nodes, h, kv_heads); or NULL */
} fv_cache_pages;

const fovea_kv_cache_desc *fv_cache_desc(const fovea_kv_cache *cache);
fv_cache_pages fv_cache_pages_of(const fovea_kv_cache *cache);

/* What a call is to read. The arrays are the caller's. */
typedef struct fv_cache_reading {
    int64_t layer, count;
    const int64_t *sequences; /* [count] */
    const int64_t *wanted;    /* [count] keys, at most the length; or NULL: all */
    int64_t most_keys;        /* of each */
    int64_t table_stride;     /* >= pages of most_keys */
    int64_t bits_stride;      /* >= bytes of most_keys flags */
    int64_t *lens;            /* [count] out: keys */
    int64_t *first;           /* [count] out: the first key that is there (those before are behind the window) */
    int64_t *table;           /* [count][table_stride] out: pages; where one was freed, one that may be prefetched */
    uint8_t *bits;            /* [count][bits_stride] out, if *evicts: a flag for each key that was not evicted */
    bool evicts;              /* out: was any of these keys? */
} fv_cache_reading;

/* Cuts one layer of sequences to the lengths that they had, which leaves other layers as they are. */
void fv_cache_cut(fovea_kv_cache *cache, int64_t layer, int64_t count, const int64_t *sequences,
                  const int64_t *lengths);

/* Looks sequences up; a sentence where one does not exist or has other lengths than wanted. */
fovea_status fv_cache_read(fovea_kv_cache *cache, fv_cache_reading *reading);

#endif

/* Where keys and values are. A view says it for a whole batch; for a sequence and a kv head it gives spans: keys of one
 * segment that are equally far apart in memory. Contiguous tensors and page tables are views. Nothing else in src/
 * computes addresses of keys or values.
 *
 *     for (int64_t key = begin; key < end; key += span.count) {
 *         span = fv_kv_span_of(&kv->k, sequence, head, key, end);
 *         ...                                                      reads span.count keys at span.at
 *     }
 */
#ifndef FV_ATTENTION_KV_H
#define FV_ATTENTION_KV_H

#include "core/core.h"
#include "dispatch/dispatch.h"
#include "fovea/fovea.h"
#include "kernels.h"

#include <assert.h>
#include <stdbool.h>

/* Rows: channel c of a key is at c. Interleaved: groups of FV_KEY_GROUP keys, at absolute positions, each a panel of
 * fv_format_interleaved(), or FV_I4_KEYS of 4 bits. For keys only; a page is then a multiple of that many keys. */
typedef enum fv_kv_layout { FV_KV_ROWS, FV_KV_INTERLEAVED, FV_KV_LAYOUTS } fv_kv_layout;

/* Keys, or values. */
typedef struct fv_kv_side {
    const void *data;
    fovea_dtype dtype;
    fv_kv_layout layout;
    int64_t channels;
    /* Scales of integers, which are stored in pages: for 8 bits a float for each key, for 4 bits panels (int4.h); or
     * NULL. */
    const void *scales;
    int64_t scale_stride[3]; /* in bytes: to the next page, to the next head, for each key */
    /* In elements: to the next sequence, or page where there is a table; to the next head; to the next key, or
     * group. */
    int64_t stride[3];
    /* Keys i page_keys to (i + 1) page_keys of a sequence are in page pages[sequence * pages_stride + i]. NULL:
     * none. */
    const int64_t *pages;
    int64_t pages_stride, page_keys;
    const int64_t *starts; /* where the first key of a sequence is, counted in keys; NULL: 0. Rows only */
} fv_kv_side;

typedef struct fv_kv {
    fv_kv_side k, v;
    const uint8_t *attended; /* flags of the keys that are present, a row for each sequence; NULL: all are */
    int64_t attended_stride; /* bytes of such a row */
    const fv_threads *nodes; /* those of a cache whose heads are spread to nodes (cache.h); or NULL */
} fv_kv;

/* The memory of count keys. */
typedef struct fv_kv_span {
    const void *at;
    int64_t stride, count; /* to the next key (rows) or group (interleaved) */
    const void *scales;    /* those of its first key, or NULL */
} fv_kv_span;

/* The address `elements` elements behind `at`. */
static inline const void *fv_kv_step(const fv_kv_side *side, const void *at, int64_t elements) {
    return (const char *)at + fv_dtype_bytes(side->dtype, elements);
}

/* Elements from the first group of interleaved keys, groups being `stride` apart, to the first word of a key. */
static inline int64_t fv_kv_interleaved(const fv_kv_side *side, int64_t stride, int64_t key) {
    return key / FV_KEY_GROUP * stride + key % FV_KEY_GROUP * fv_interleaved_word(side->dtype);
}

/* The address of a key of a sequence or page. */
static inline const void *fv_kv_at(const fv_kv_side *side, int64_t block, int64_t head, int64_t key) {
    const int64_t first = block * side->stride[0] + head * side->stride[1];
    return fv_kv_step(side, side->data,
                      first + (side->layout == FV_KV_INTERLEAVED ? fv_kv_interleaved(side, side->stride[2], key)
                                                                 : key * side->stride[2]));
}

/* The address of a channel of the first key of a span in rows. */
static inline const void *fv_kv_channel(const fv_kv_side *side, const fv_kv_span *span, int64_t channel) {
    assert(side->layout == FV_KV_ROWS);
    return fv_kv_step(side, span->at, channel);
}

/* Where a key of a sequence is, counted in keys. */
static inline int64_t fv_kv_place(const fv_kv_side *side, int64_t sequence, int64_t key) {
    assert(!side->starts || side->layout == FV_KV_ROWS);
    return side->starts ? side->starts[sequence] + key : key;
}

/* The part of keys [key, last) of a segment that is in one page. */
fv_kv_span fv_kv_span_in_page(const fv_kv_side *side, int64_t sequence, int64_t head, int64_t key, int64_t last);

/* The span that begins with a key, of keys before end, which is behind it. Where keys are interleaved, key is a
 * multiple of FV_LANES. */
static inline fv_kv_span fv_kv_span_of(const fv_kv_side *side, int64_t sequence, int64_t head, int64_t key,
                                       int64_t end) {
    assert(0 <= key && key < end && (side->layout == FV_KV_ROWS || key % FV_LANES == 0));
    const int64_t next = (key / FV_SEGMENT + 1) * FV_SEGMENT, last = end < next ? end : next;
    if (side->pages)
        return fv_kv_span_in_page(side, sequence, head, key, last);
    assert(!side->scales);
    return (fv_kv_span){fv_kv_at(side, sequence, head, fv_kv_place(side, sequence, key)), side->stride[2], last - key,
                        NULL};
}

/* Elements of a span if they are contiguous, else 0. */
static inline int64_t fv_kv_contiguous(const fv_kv_side *side, const fv_kv_span *span) {
    const int64_t keys = side->layout == FV_KV_INTERLEAVED ? FV_KEY_GROUP : 1;
    return span->stride == keys * side->channels ? (span->count + keys - 1) / keys * span->stride : 0;
}

/* The span that begins with a key, as fv_kv_span_of has it, but of several segments where there are no pages. */
static inline fv_kv_span fv_kv_long_span_of(const fv_kv_side *side, int64_t sequence, int64_t head, int64_t key,
                                            int64_t end) {
    if (side->pages)
        return fv_kv_span_of(side, sequence, head, key, end);
    return (fv_kv_span){fv_kv_at(side, sequence, head, fv_kv_place(side, sequence, key)), side->stride[2], end - key,
                        NULL};
}

/* The first key of what is read as one: of its group, where keys are interleaved. */
static inline int64_t fv_kv_first_of(const fv_kv_side *side, int64_t key) {
    return side->layout == FV_KV_INTERLEAVED ? fv_round_down(key, FV_KEY_GROUP) : key;
}

/* May rows lie in pages that end inside a segment? */
static inline bool fv_kv_short_pages(const fv_kv_side *side) {
    return side->pages && (side->starts || side->page_keys % FV_SEGMENT != 0);
}

#endif

/* The module of caches (fovea/cache.h): what attention and layers see of one. */
#ifndef FV_CACHE_H
#define FV_CACHE_H

#include "core/core.h"
#include "fovea/fovea.h"
#include "kernels.h"
#include "threads/threads.h"

#include <stdbool.h>

/* The parts that are kept for a token and head, in the order of a page and of a saved sequence: rows of channels, and
 * the scales of those that are integers. With FV_NO_PART the type is signed, as the int of a side is. */
typedef enum fv_page_part {
    FV_NO_PART = -1,
    FV_KEYS,
    FV_VALUES,
    FV_KEY_SCALES,
    FV_VALUE_SCALES,
    FV_PAGE_PARTS
} fv_page_part;

/* Pages, a cache's or a caller's, in bytes: a part of page p and head h begins at + p * page + h * head, and each token
 * has a step of it. With words it is interleaved (attention's kv.h): the first words of a group of keys, then their
 * second ones. */
typedef struct fv_pages {
    struct {
        char *at;                      /* NULL: there is no such part, and row is 0 */
        int64_t page, head, row, step; /* row: bytes that are kept of a token */
        int64_t word, group;           /* word 0: in rows; group: keys */
    } part[FV_PAGE_PARTS];
    fovea_dtype dtype[2]; /* of keys, of values */
    int64_t channels[2], kv_heads, page_keys;
    const fv_threads *nodes; /* to whose nodes heads are spread: fv_node_of(nodes, h, kv_heads); or NULL */
} fv_pages;

/* A part of a key of a page: its row, or the first of its words, which are a group's words apart. */
static inline char *fv_page_at(const fv_pages *p, fv_page_part part, int64_t page, int64_t head, int64_t key) {
    char *const at = p->part[part].at + page * p->part[part].page + head * p->part[part].head;
    const int64_t step = p->part[part].step, word = p->part[part].word, group = p->part[part].group;
    return word ? at + fv_round_down(key, group) * step + key % group * word : at + key * step;
}

/* Whether pages of that many keys can have keys, or values, of that type; if not, an error with a sentence. */
fovea_status fv_stored_check(const char *name, fovea_dtype dtype, bool keys, int64_t channels, int64_t page_keys);

/* Bytes that pages keep of a row of a token and head, its scales included. */
int64_t fv_stored_bytes(fovea_dtype dtype, bool keys, int64_t channels);

/* Checks a caller's pages; *pages has the types, channels, heads and keys that they must have. *own is a copy of the
 * caller's struct, and spans are those of parts. */
fovea_status fv_pages_read(const fovea_kv_pages *given, bool written, fovea_kv_pages *own, fv_pages *pages,
                           fv_span spans[FV_PAGE_PARTS]);

/* Checks that a table has pages for keys [begin, end) of a sequence. */
fovea_status fv_pages_check_table(const fovea_kv_pages *own, int64_t page_keys, int64_t sequence, int64_t begin,
                                  int64_t end);

/* The entries of a sequence in the table. */
static inline const int32_t *fv_pages_table(const fovea_kv_pages *own, int64_t sequence) {
    return own->table + (own->starts ? own->starts[sequence] : sequence * own->table_stride);
}

const fovea_kv_cache_desc *fv_cache_desc(const fovea_kv_cache *cache);
const fv_pages *fv_cache_pages(const fovea_kv_cache *cache);

/* The sequences that a call reads. The arrays are the caller's. */
typedef struct fv_cache_reading {
    int64_t layer, count;
    const int64_t *sequences; /* [count] */
    const int64_t *kv_lens;   /* [count] keys, at most the length; or NULL: all */
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

/* Looks sequences up; a sentence where one does not exist or has fewer keys than kv_lens. */
fovea_status fv_cache_read(fovea_kv_cache *cache, fv_cache_reading *reading);

#endif

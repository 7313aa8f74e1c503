/* The inside of a cache: its pool of pages, and its sequences. Private to this module.
 *
 * The lock guards everything but the bytes of pages. A page is written only by the one sequence that has it, and only
 * behind that sequence's keys; while a shared page is copied, the copier still holds it, so nobody takes it for his
 * own. */
#ifndef FV_CACHE_POOL_H
#define FV_CACHE_POOL_H

#include "arrays/arrays.h"
#include "cache/cache.h"
#include "context/context.h"
#include "rope/rope.h"

/* A key of more bytes lies in rows: one that is interleaved is on the stack on its way there. */
enum { FV_PAGE_KEYS = FOVEA_KV_PAGE_KEYS, FV_PAGE_NONE = -1, FV_MOST_LANE_BYTES = 1024 };

/* Positions [begin, end). */
typedef struct fv_cache_range {
    int64_t begin, end;
} fv_cache_range;

/* Page `page` of the pool holds positions 256 at to 256 at + 255 of a sequence. */
typedef struct fv_cache_page {
    int32_t at, page;
} fv_cache_page;

/* The most positions of a sequence. */
#define FV_CACHE_LONGEST ((int64_t)INT32_MAX * FV_PAGE_KEYS)

/* A sequence in one layer: a list of the pages that it has. Those freed leave no entry, so memory and time depend on
 * pages, however long the sequence is. Behind its length pages are reserved, without a gap. */
typedef struct fv_cache_list {
    int64_t length, count, room;
    fv_cache_page *page; /* [count] of [room], ascending */
    int64_t behind;      /* pages before this one were freed behind the window */
    int32_t origin;      /* while it is copied into the list's own: the shared page; else FV_PAGE_NONE */
} fv_cache_list;

typedef struct fv_cache_sequence {
    int64_t number;
    fv_cache_range *evicted; /* ascending, apart from each other */
    int64_t ranges, range_room;
    /* Set by the call that changes it now: the next sequence of the call, this one's place among them, tokens that it
     * grows by. */
    struct fv_cache_sequence *next;
    int64_t place, tokens;
    int64_t mark;          /* the call that named it last: finds those named twice */
    fv_cache_list layer[]; /* [layers] */
} fv_cache_sequence;

struct fovea_kv_cache {
    const fovea_context *ctx;
    fovea_kv_cache_desc desc; /* windows: own, or NULL */
    int64_t head_bytes, page_bytes;
    fv_pages pages;
    fv_placement placement;
    char *pool;
    int64_t *windows;
    fv_mutex lock;
    int32_t *references, *free; /* [max_pages] sequences that have a page; a stack of free pages */
    int64_t free_count, fresh;  /* pages from fresh on were never used */
    fv_cache_sequence **slot;   /* by the lower half of a number; NULL: none */
    int64_t slots, slot_room, generation, marks;
    fovea_kv_stats stats;
    fv_fork_lock forks;
};

/* All of these are called with the lock held. */

static inline int64_t fv_pool_left(const fovea_kv_cache *c) { return c->free_count + c->desc.max_pages - c->fresh; }

int32_t fv_pool_take(fovea_kv_cache *cache);
void fv_pool_hold(fovea_kv_cache *cache, int32_t page);
void fv_pool_drop(fovea_kv_cache *cache, int32_t page); /* FV_PAGE_NONE is ignored */

/* The sequence of a number, or NULL and a sentence. */
fv_cache_sequence *fv_cache_find(fovea_kv_cache *cache, int64_t sequence);

/* Makes a sequence and its number, or frees one and its pages. */
fovea_status fv_cache_open(fovea_kv_cache *cache, fv_cache_sequence **sequence);
void fv_cache_close(fovea_kv_cache *cache, fv_cache_sequence *sequence);

/* Makes room for count entries in a list. */
fovea_status fv_list_room(fv_cache_list *list, int64_t count);

/* The first entry that is at a page or behind it, or count. */
int64_t fv_list_find(const fv_cache_list *list, int64_t at);

/* The page that holds a position, or FV_PAGE_NONE. */
static inline int32_t fv_list_page(const fv_cache_list *list, int64_t position) {
    const int64_t i = fv_list_find(list, position / FV_PAGE_KEYS);
    return i < list->count && list->page[i].at == position / FV_PAGE_KEYS ? list->page[i].page : FV_PAGE_NONE;
}

/* Takes a page from the pool behind all others of a list, which has room. */
void fv_list_add(fovea_kv_cache *cache, fv_cache_list *list, int64_t at);

/* Drops the pages of entries [begin, end), and closes the gap. */
void fv_list_drop(fovea_kv_cache *cache, fv_cache_list *list, int64_t begin, int64_t end);

/* Cuts a list to that many tokens. */
void fv_list_cut(fovea_kv_cache *cache, fv_cache_list *list, int64_t length);

/* Fills rows, steps and words of pages by their types; a caller's are interleaved only if they are integers. */
void fv_pages_lay_out(fv_pages *pages, bool callers);

/* Where a part of a key of a head is. */
static inline char *fv_cache_at(const fovea_kv_cache *c, fv_page_part part, int32_t page, int64_t head, int64_t key) {
    return fv_page_at(&c->pages, part, page, head, key % FV_PAGE_KEYS);
}

/* Interleaved parts to rows of their own or back, of count keys that are all in one page. */
void fv_interleaved_read(const fv_pages *pages, fv_page_part part, int32_t page, int64_t head, int64_t key,
                         int64_t count, char *rows);
void fv_interleaved_write(const fv_pages *pages, fv_page_part part, int32_t page, int64_t head, int64_t key,
                          int64_t count, const char *rows);

/* Bytes that are kept of a token in a layer. */
int64_t fv_cache_token_bytes(const fovea_kv_cache *cache);

/* Writes a row that a converter makes floats of as integers and their scales (quantize.c). row: memory of
 * FV_I8_CHANNELS floats, or the row itself, which then is overwritten. */
void fv_quantize(const fv_pages *pages, int side, const fv_converter *floats, const void *from, float *row,
                 int32_t page, int64_t head, int64_t key);

/* Sequences that are to grow by their tokens, in some layers. */
typedef struct fv_growth {
    fv_cache_sequence *first;
    int64_t layer, end;
} fv_growth;

/* Chains the sequences of a call and sets their tokens to 0, or a sentence: one is none, or named twice. */
fovea_status fv_growth_make(fovea_kv_cache *cache, int64_t count, const int64_t *sequences, fv_growth *growth);

/* Takes all pages that they need, or none; the origin of a list is then a page that is to be copied, and is held until
 * fv_growth_end(). */
fovea_status fv_growth_begin(fovea_kv_cache *cache, const fv_growth *growth);
void fv_growth_end(fovea_kv_cache *cache, const fv_growth *growth);

/* Without the lock: copies what lists have of their origins. */
void fv_growth_copy(const fovea_kv_cache *cache, const fv_growth *growth);

#endif

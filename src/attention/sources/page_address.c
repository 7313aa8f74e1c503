/* Keys and values in pages (kv.h): a table says which page has a key. */
#include "attention/sources/kv.h"

#include "core/core.h"

#include <assert.h>

fv_kv_span fv_kv_span_in_page(const fv_kv_side *side, int64_t sequence, int64_t head, int64_t key, int64_t last) {
    const int64_t first = fv_kv_place(side, sequence, key), page = first / side->page_keys;
    const int64_t *table = side->pages + sequence * side->pages_stride, at = first % side->page_keys;
    assert(side->layout == FV_KV_ROWS || side->page_keys % FV_KEY_GROUP == 0);
    const int64_t scale =
        table[page] * side->scale_stride[0] + head * side->scale_stride[1] + at * side->scale_stride[2];
    return (fv_kv_span){fv_kv_at(side, table[page], head, at), side->stride[2],
                        fv_min(last - key, side->page_keys - at),
                        side->scales ? (const char *)side->scales + scale : NULL};
}

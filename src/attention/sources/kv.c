/* Views of keys and values (kv.h). */
#include "attention/sources/kv.h"

#include "core/core.h"

#include <assert.h>

static fv_kv_side side_of(const fovea_tensor *t, int64_t entry_stride, const int64_t *starts) {
    return (fv_kv_side){.data = t->data,
                        .dtype = t->dtype,
                        .channels = t->shape[3],
                        .stride = {entry_stride, t->stride[1], t->stride[2]},
                        .starts = starts};
}

fv_kv fv_kv_of_args(const fovea_attention_desc *d, const fovea_attention_args *args) {
    const fovea_tensor *k = &args->k, *v = &args->v;
    if (d->packed)
        return (fv_kv){.k = side_of(k, 0, args->kv_cu_seqlens), .v = side_of(v, 0, args->kv_cu_seqlens)};
    return (fv_kv){.k = side_of(k, k->stride[0], args->kv_starts), .v = side_of(v, v->stride[0], args->kv_starts)};
}

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

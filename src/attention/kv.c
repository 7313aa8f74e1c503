/* Views of keys and values (kv.h). */
#include "attention/kv.h"

#include "core/core.h"

#include <assert.h>

static fv_kv_side side_of(const fovea_tensor *t, const int64_t *starts) {
    return (fv_kv_side){.data = t->data,
                        .dtype = t->dtype,
                        .quantisation = t->quantisation,
                        .channels = t->shape[3],
                        .stride = {t->stride[0], t->stride[1], t->stride[2]},
                        .starts = starts};
}

fv_kv fv_kv_of_args(const fovea_attention_args *args) {
    return (fv_kv){side_of(&args->k, args->kv_starts), side_of(&args->v, args->kv_starts)};
}

fv_kv_run fv_kv_run_in_page(const fv_kv_side *side, int64_t sequence, int64_t head, int64_t key, int64_t last) {
    const int64_t first = fv_kv_place(side, sequence, key), page = first / side->page_keys;
    const int64_t *table = side->pages + sequence * side->pages_stride;
    assert(side->layout == FV_KV_ROWS || side->page_keys % FV_LANES == 0);
    return (fv_kv_run){fv_kv_at(side, table[page], head, first % side->page_keys), side->stride[2],
                       fv_min(last - key, (page + 1) * side->page_keys - first)};
}

/* Which sources a plan takes (source.h). */
#include "attention/sources/source.h"

#include <assert.h>

bool fv_sources_of_floats(const fv_sources *p) {
    return p->desc->k_dtype == FOVEA_DTYPE_F32 && p->desc->v_dtype == FOVEA_DTYPE_F32;
}

bool fv_sources_round_weights(const fv_sources *p) {
    return p->desc->arithmetic != FOVEA_ARITHMETIC_EXACT && !fv_dtype_paged(p->desc->v_dtype);
}

int64_t fv_sources_edge_rows(const fv_sources *p) {
    int64_t rows = 1;
    for (int layout = 0; layout < FV_KV_LAYOUTS; layout++) {
        rows = fv_max(rows, p->keys[layout] ? p->k[p->keys[layout]->id]->mr : 1);
        rows = fv_max(rows, p->v[p->values[layout]->id]->mr);
    }
    return rows;
}

static bool takes(const fv_keys_source *source, int layout) { return source->layouts >> layout & 1; }

static const fv_keys_source *keys_for(const fv_sources *p, int layout) {
    const fv_keys_source *chosen = p->choice->k > 0 ? fv_keys_sources[p->choice->k - 1] : NULL;
    if (chosen && p->k[chosen->id] && takes(chosen, layout))
        return chosen;
    for (int i = 0; i < FV_KEYS_COUNT; i++) {
        const fv_keys_source *source = fv_keys_sources[i];
        if (p->k[i] && takes(source, layout) && (!source->suits || source->suits(p)))
            return source;
    }
    return NULL; /* no keys of this type have the layout */
}

static const fv_values_source *values_for(const fv_sources *p, fv_kv_layout layout) {
    const fv_values_source *chosen = p->choice->v > 0 ? fv_values_sources[p->choice->v - 1] : NULL;
    if (chosen && p->v[chosen->id])
        return chosen;
    for (int i = 0; i < FV_VALUES_COUNT; i++) {
        const fv_values_source *source = fv_values_sources[i];
        if (p->v[i] && (!source->suits || source->suits(p, layout)))
            return source;
    }
    assert(false && "every type of values has a source");
    return NULL;
}

void fv_sources_select(fv_sources *p) {
    for (int i = 0; i < FV_KEYS_COUNT; i++)
        p->k[i] = fv_keys_sources[i]->serves(p);
    for (int i = 0; i < FV_VALUES_COUNT; i++)
        p->v[i] = fv_values_sources[i]->serves(p);
    const fv_kind skip =
        p->desc->arithmetic == FOVEA_ARITHMETIC_BF16_TILE ? FV_KIND_f32_amx_order_masked : FV_KIND_f32_masked;
    p->skip = fv_multiply_best(skip, FV_FORMAT_f32, p->target);
    p->stream_rows = p->choice->stream_rows ? p->choice->stream_rows : fv_max(fv_dtype_size(p->desc->k_dtype), 2);
    for (int layout = 0; layout < FV_KV_LAYOUTS; layout++) {
        p->keys[layout] = keys_for(p, layout);
        p->values[layout] = values_for(p, (fv_kv_layout)layout);
    }
}

/* The list of the sources of keys, and which of them goes on when one cannot (source.h). */
#include "attention/sources/source.h"

#include <math.h>

#define FV_KEYS(name, fallback) extern const fv_keys_source fv_keys_##name;
#include "attention/sources/sources.inc"

const fv_keys_source *const fv_keys_sources[FV_KEYS_COUNT] = {
#define FV_KEYS(name, fallback) [FV_KEYS_##name] = &fv_keys_##name,
#include "attention/sources/sources.inc"
};

const char *fv_keys_name(int64_t number) {
    return number >= 1 && number <= FV_KEYS_COUNT ? fv_keys_sources[number - 1]->name : NULL;
}

static const fv_keys_id fallbacks[FV_KEYS_COUNT] = {
#define FV_KEYS(name, fallback) [FV_KEYS_##name] = FV_KEYS_##fallback,
#include "attention/sources/sources.inc"
};

static const fv_keys_source *fallback_of(const fv_keys_source *source) {
    return fv_keys_sources[fallbacks[source->id]];
}

void fv_keys_begin(fv_keys *k) {
    k->source = k->plan->keys[k->side->layout];
    while (k->source->begin && !k->source->begin(k))
        k->source = fallback_of(k->source);
}

void fv_keys_open(fv_keys *k, int64_t segment, fv_range range, bool norms) {
    k->first = segment * FV_SEGMENT;
    k->range = range;
    k->now = k->source;
    k->norm = norms && k->source->knows_norms ? 0.0f : INFINITY;
    while (k->now->open && !k->now->open(k))
        k->now = fallback_of(k->now);
}

void fv_keys_next(fv_keys *k, int64_t begin, int64_t end, fv_keys_step *step) {
    const fv_keys_source *source = k->now;
    while (!source->next(k, begin, end, step))
        source = fallback_of(source);
}

int64_t fv_keys_scratch(const fv_sources *p) {
    const int64_t columns = fv_round_up(FV_SEGMENT, p->panel);
    int64_t floats;
    if (p->k[FV_KEYS_int4])
        return fv_i4_groups(p->desc->head_dim) * FV_I4_KEYS; /* scales of a panel */
    return p->k[FV_KEYS_floats] ? fv_multiply(columns, p->desc->head_dim, &floats) ? floats : -1 : 0;
}

/* The list of the sources of values, and which of them goes on when one cannot (source.h). */
#include "attention/sources/source.h"

#define FV_VALUES(name, fallback) extern const fv_values_source fv_values_##name;
#include "attention/sources/sources.inc"

const fv_values_source *const fv_values_sources[FV_VALUES_COUNT] = {
#define FV_VALUES(name, fallback) [FV_VALUES_##name] = &fv_values_##name,
#include "attention/sources/sources.inc"
};

const char *fv_values_name(int64_t number) {
    return number >= 1 && number <= FV_VALUES_COUNT ? fv_values_sources[number - 1]->name : NULL;
}

static const fv_values_id fallbacks[FV_VALUES_COUNT] = {
#define FV_VALUES(name, fallback) [FV_VALUES_##name] = FV_VALUES_##fallback,
#include "attention/sources/sources.inc"
};

/* The first of the fallbacks that serves the plan. */
static const fv_values_source *fallback_of(const fv_values *v, const fv_values_source *source) {
    fv_values_id id = fallbacks[source->id];
    while (!v->plan->v[id])
        id = fallbacks[id];
    return fv_values_sources[id];
}

void fv_values_begin(fv_values *v, fv_range keys) {
    v->source = v->plan->values[v->keys_layout];
    while (v->source->begin && !v->source->begin(v, keys))
        v->source = fallback_of(v, v->source);
}

static const fv_values_source *open_from(fv_values *v, const fv_values_source *source) {
    while (source->open && !source->open(v))
        source = fallback_of(v, source);
    return source;
}

void fv_values_open(fv_values *v, int64_t segment, fv_range range) {
    v->first = segment * FV_SEGMENT;
    v->range = range;
    v->finite = -1;
    v->copied_floats = false;
    v->now = open_from(v, v->source);
}

const fv_values_source *fv_values_for(fv_values *v, bool mixed) {
    if (!mixed || v->now->finite || v->now->skips)
        return v->now;
    return open_from(v, fallback_of(v, v->now));
}

/* As floats, or, where they are copied, the copy. */
bool fv_values_finite(fv_values *v) {
    const fv_sources *p = v->plan;
    const int64_t panel = p->choice->value->nr, dim = p->desc->value_dim;
    if (v->finite >= 0)
        return v->finite != 0;
    v->finite = 1;
    for (int64_t at = 0; at < dim && v->copied_floats && v->finite; at += panel)
        v->finite = p->ops->finite(v->range.end - v->range.begin, fv_min(panel, dim - at),
                                   v->copied + at * FV_SEGMENT + v->range.begin * panel, panel);
    for (int64_t key = v->range.begin, count; key < v->range.end && !v->copied_floats && v->finite; key += count) {
        const fv_kv_span span = fv_values_span(v, key, v->range.end);
        count = span.count;
        v->finite = p->ops->finite(count, dim, span.at, span.stride);
    }
    return v->finite != 0;
}

int64_t fv_values_scratch(const fv_sources *p) {
    const bool lie = p->v[FV_VALUES_rows] && p->choice->block_rows < p->choice->copy_rows;
    int64_t floats;
    if (p->v[FV_VALUES_int4])
        return (2 * fv_i4_words(FV_I4_VALUE, p->desc->value_dim) + fv_i4_groups(p->desc->value_dim)) * FV_SEGMENT;
    if (!p->v[FV_VALUES_floats] || (lie && p->choice->v != 1 + FV_VALUES_floats))
        return 0;
    return fv_multiply(fv_round_up(p->desc->value_dim, p->choice->value->nr), FV_SEGMENT, &floats) ? floats : -1;
}

int64_t fv_values_weights(const fv_sources *p, int64_t tile_rows) {
    bool words = false;
    for (int i = 0; i < FV_VALUES_COUNT; i++)
        words = words || (p->v[i] && fv_values_sources[i]->words);
    return words ? tile_rows * FV_WEIGHT_WORDS : 0;
}

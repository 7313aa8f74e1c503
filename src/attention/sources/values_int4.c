/* 4-bit values of pages (int4.h, source.h). Opening a segment makes int8 of them, in two planes: the first half of the
 * channels, and the second. A step has the channels of a group that are in one plane, and its outputs are rotated. */
#include "attention/sources/source.h"

#include <string.h>

static const fv_kernel *serves(const fv_sources *p) {
    return p->desc->v_dtype == FOVEA_DTYPE_I4 ? fv_multiply_few(FV_KIND_f32, FV_FORMAT_i8, p->target) : NULL;
}

static int64_t words_of(const fv_sources *p) { return fv_i4_words(FV_I4_VALUE, p->desc->value_dim); }

/* Behind the planes: the scales of each group. */
static float *scales_of(const fv_values *v, int64_t group) {
    return v->copied + (2 * words_of(v->plan) + group) * FV_SEGMENT;
}

static bool open(fv_values *v) {
    const fv_sources *p = v->plan;
    const int64_t words = words_of(p), groups = fv_i4_groups(p->desc->value_dim), columns = FV_I4_KEYS * words;
    for (int64_t key = fv_round_down(v->range.begin, FV_I4_KEYS); key < v->range.end; key += FV_I4_KEYS) {
        const fv_kv_span span = fv_values_span(v, key, key + FV_I4_KEYS);
        float scales[FV_I8_CHANNELS / FV_I4_GROUP * FV_I4_KEYS];
        /* The rows of a panel are a row of words: their lower halves become one of the first plane. */
        const fv_operand panel = {.data = span.at,
                                  .scales = scales,
                                  .columns = columns,
                                  .steps = 8,
                                  .row = columns,
                                  .group = {.steps = FV_I4_GROUP},
                                  .width = (int16_t)columns,
                                  .format = FV_FORMAT_i4g};
        p->ops->scales(FV_SCALES_f16, span.scales, FV_I4_KEYS, 0, groups, scales);
        p->ops->expand_i4(&panel, (uint32_t *)(void *)v->copied + key * words, FV_SEGMENT * words);
        for (int64_t g = 0; g < groups; g++)
            memcpy(scales_of(v, g) + key, scales + g * FV_I4_KEYS, FV_I4_KEYS * sizeof *scales);
    }
    return true;
}

static void next(const fv_values *v, int64_t column, int64_t begin, int64_t end, fv_values_step *step) {
    const int64_t half = 4 * words_of(v->plan), group = column / FV_I4_GROUP;
    const int64_t all = fv_min((group + 1) * FV_I4_GROUP, v->plan->desc->value_dim),
                  last = column < half ? fv_min(all, half) : all;
    const int8_t *plane = (const int8_t *)v->copied + (column < half ? 0 : FV_SEGMENT * half);
    *step = (fv_values_step){.values = {.data = plane + begin * half + column % half,
                                        .scales = scales_of(v, group) + begin,
                                        .columns = last - column,
                                        .steps = end - begin,
                                        .row = half,
                                        .format = FV_FORMAT_i8},
                             .begin = begin,
                             .end = end,
                             .product = v->plan->v[FV_VALUES_int4],
                             .most_rows = FV_FEW_ROWS};
}

const fv_values_source fv_values_int4 = {.name = "int4",
                                         .id = FV_VALUES_int4,
                                         .finite = true,
                                         .rotated = true,
                                         .serves = serves,
                                         .open = open,
                                         .next = next};

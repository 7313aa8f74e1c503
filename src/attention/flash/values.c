/* Values of a segment (values.h): copied, paired or as they lie, and multiplied by weights. ISA-free.
 *
 * Values are read as they lie, or from a copy in panels as wide as the kernel's tile: where a row of values
 * begins inside a cache line, each load of a vector meets two lines. Figures: docs/measurements.md, "attention/tile.c".
 */
#include "attention/flash/values.h"

#include "attention/flash/decode.h"

#include <string.h>

enum { MOST = sizeof((fv_products *)0)->of / sizeof(fv_product) };

static void multiply_now(fv_multiply_fn *multiply, const fv_product *it, const fv_prefetch *prefetch) {
    multiply(&it->a, &it->b, it->c, it->ldc, &it->epilogue, prefetch);
}

void fv_product_run(const fv_block *x, fv_products *later, fv_multiply_fn *multiply, const fv_product *it,
                    const fv_prefetch *prefetch) {
    if (!later || multiply != x->plan->tiles->run.multiply) {
        multiply_now(multiply, it, prefetch);
        return;
    }
    for (int64_t i = 0; i < later->count && later->count == MOST; i++) /* they may be what this one starts from */
        multiply_now(multiply, &later->of[i], NULL);
    later->count %= MOST;
    later->of[later->count++] = *it;
}

/* Copies the values of the segment's keys into panels, as floats. */
static void copy_values(const fv_block *x, const fv_segment *s) {
    const fovea_attention_plan *p = x->plan;
    const int64_t panel = p->choice.value->nr;
    for (int64_t key = s->keys.begin, count; key < s->keys.end; key += count) {
        const fv_kv_span span = fv_span_of(x, &x->kv->v, s, key, s->keys.end);
        count = span.count;
        for (int64_t at = 0; at < p->desc.value_dim; at += panel) {
            const int64_t channels = fv_min(panel, p->desc.value_dim - at);
            const void *from = fv_kv_channel(&x->kv->v, &span, at);
            float *to = x->v + at * FV_SEGMENT + key * panel;
            if (p->kernels.widen_v)
                p->kernels.widen_v(count, channels, from, span.stride, to, panel);
            else
                p->kernels.copy(count, channels, from, span.stride, to, panel);
        }
    }
}

/* The same as pairs of keys, if every product with a weight is exact then: weights are 0 or from 2^-40 to 1. A segment
 * whose first key is an odd one is left to floats. */
static bool pair_values(const fv_block *x, const fv_segment *s) {
    const fovea_attention_plan *p = x->plan;
    const fv_exponent_range weights = {(127 - 40) << 7, 127 << 7};
    const int64_t panel = p->choice.value->nr;
    fv_exponent_range values = fv_exponents_none();
    if (s->keys.begin % 2 != 0 || s->keys.begin == s->keys.end)
        return false;
    const fv_kv_span span = fv_span_of(x, &x->kv->v, s, s->keys.begin, s->keys.end);
    assert(span.count == s->keys.end - s->keys.begin);
    for (int64_t at = 0; at < p->desc.value_dim; at += panel)
        p->kernels.pack_v(span.count, fv_min(panel, p->desc.value_dim - at), fv_kv_channel(&x->kv->v, &span, at),
                          span.stride, 0, x->v + (at * FV_SEGMENT + s->keys.begin * panel) / 2, panel, &values, NULL);
    return fv_pairs_exact(weights, values);
}

void fv_values_open(const fv_block *x, fv_segment *s) {
    s->value_pairs = x->value_pairs && pair_values(x, s);
    if (x->copy_values && !s->value_pairs)
        copy_values(x, s);
}

/* Are the copied values finite? */
static bool copy_finite(const fv_block *x, const fv_segment *s) {
    const fovea_attention_plan *p = x->plan;
    const int64_t panel = p->choice.value->nr;
    bool finite = true;
    for (int64_t at = 0; at < p->desc.value_dim && finite; at += panel)
        finite = p->kernels.finite(s->keys.end - s->keys.begin, fv_min(panel, p->desc.value_dim - at),
                                   x->v + at * FV_SEGMENT + s->keys.begin * panel, panel);
    return finite;
}

/* Are the values that the block sees of a segment finite? Asked at most once a segment, and only where it matters. */
static bool values_finite(const fv_block *x, fv_segment *s) {
    if (s->value_pairs)
        return true;
    if (s->finite >= 0)
        return s->finite != 0;
    s->finite = 1;
    if (x->plan->kernels.widen_v)
        return (s->finite = copy_finite(x, s)) != 0;
    for (int64_t key = s->keys.begin, count; key < s->keys.end && s->finite; key += count) {
        const fv_kv_span span = fv_span_of(x, &x->kv->v, s, key, s->keys.end);
        count = span.count;
        s->finite = x->plan->kernels.finite(count, x->plan->desc.value_dim, span.at, span.stride);
    }
    return s->finite != 0;
}

static const float *from_row(const float *factors, int64_t row) { return factors ? factors + row : NULL; }

void fv_no_values(const fv_block *x, const fv_destination *to, int64_t first, int64_t rows) {
    for (int64_t i = first; i < first + rows && !to->a; i++)
        memset(to->o + i * to->stride, 0, (size_t)x->plan->desc.value_dim * sizeof(float));
}

/* A group of rows of a tile, the keys that it sees of a segment, and what multiplies its weights and values: floats, or
 * words of two keys each. Weights of row i are at p + i * stride. */
typedef struct value_group {
    int64_t first, rows;
    fv_range keys;
    fv_multiply_fn *multiply;
    bool decode; /* instead: values as they lie */
    const float *p;
    int64_t stride, keys_of_word;
    fv_products *later; /* or NULL */
} value_group;

/* Keys [begin, end) of a group: a panel of the copy. */
static void multiply_panel(const fv_block *x, const value_group *g, fv_range keys, int64_t at, float *to, int64_t ldo,
                           const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    const fovea_attention_plan *p = x->plan;
    const int64_t panel = p->choice.value->nr, step = g->keys_of_word, begin = keys.begin / step;
    const fv_product product = {.a = {g->p + g->first * g->stride + begin, g->rows, g->stride},
                                .b = {.data = x->v + at * FV_SEGMENT / step + begin * panel,
                                      .columns = fv_min(panel, p->desc.value_dim - at),
                                      .steps = keys.end - begin * step,
                                      .row = panel,
                                      .format = step == 1 ? FV_FORMAT_f32 : FV_FORMAT_bf16x2},
                                .c = to,
                                .ldc = ldo,
                                .epilogue = *epilogue};
    fv_product_run(x, g->later, g->multiply, &product, prefetch);
}

/* From the copy: panel by panel. Where sums go by blocks, a first one that is not whole is a call of its own. */
static void multiply_copy(fv_block *x, const value_group *g, const fv_destination *to, fv_prefetch *prefetch) {
    const fovea_attention_plan *p = x->plan;
    const int64_t panel = p->choice.value->nr, first = fv_round_up(g->keys.begin, FV_BLOCK);
    const bool parted =
        p->desc.arithmetic == FOVEA_ARITHMETIC_BF16_TILE && g->keys.begin < first && first < g->keys.end;
    float *const chain = x->chain + g->first * p->o_stride;
    for (int64_t at = 0; at < p->desc.value_dim; at += panel) {
        fv_range keys = g->keys;
        fv_epilogue epilogue = {0};
        if (parted) {
            multiply_panel(x, g, (fv_range){keys.begin, first}, at, chain + at, p->o_stride, &epilogue, prefetch);
            keys.begin = first;
            epilogue.start = chain + at;
            epilogue.ldstart = p->o_stride;
        }
        epilogue.a = from_row(to->a, g->first);
        epilogue.b = from_row(to->b, g->first);
        multiply_panel(x, g, keys, at, to->o + g->first * to->stride + at, to->stride, &epilogue, prefetch);
        prefetch->next = NULL; /* once is enough */
    }
}

/* As they lie: span by span. The chains of all spans but the last are kept, and the last one goes on from them. */
static void multiply_runs(fv_block *x, const fv_segment *s, const value_group *g, const fv_destination *to,
                          fv_prefetch *prefetch) {
    const fovea_attention_plan *p = x->plan;
    float *const o = to->o + g->first * to->stride, *const chain = x->chain + g->first * p->o_stride;
    fv_epilogue epilogue = {.ldstart = p->o_stride};
    for (int64_t key = g->keys.begin, count; key < g->keys.end; key += count) {
        const fv_kv_span span = fv_span_of(x, &x->kv->v, s, key, g->keys.end);
        count = span.count;
        const bool last = key + count == g->keys.end;
        if (last) {
            epilogue.a = from_row(to->a, g->first);
            epilogue.b = from_row(to->b, g->first);
        }
        float *const weights = x->s + g->first * p->s_stride + key;
        const fv_operand values = {.data = span.at,
                                   .scales = span.scales,
                                   .columns = p->desc.value_dim,
                                   .steps = count,
                                   .row = span.stride,
                                   .format = fv_format_as_it_lies(p->desc.v_dtype)};
        float *const c = last ? o : chain;
        const int64_t ldc = last ? to->stride : p->o_stride;
        if (g->decode)
            fv_decode_values(p, g->rows, weights, &values, c, ldc, &epilogue, prefetch);
        else
            g->multiply(&(fv_rows){weights, g->rows, p->s_stride}, &values, c, ldc, &epilogue, prefetch);
        epilogue.start = chain;
        prefetch->next = NULL;
    }
}

/* Of rows of a tile. */
void fv_values_multiply(fv_block *x, const fv_tile *t, fv_segment *segment, fv_range of, const fv_destination *to,
                        fv_products *later) {
    const fovea_attention_plan *p = x->plan;
    const bool scaled = p->desc.v_dtype == FOVEA_DTYPE_I8, lie = p->kernels.widen_v || fv_decode_prefetched(x),
               decode = scaled || (p->kernels.value_few && lie && !t->mixed),
               copied = x->copy_values || (t->mixed && p->kernels.widen_v && p->kernels.value_few);
    if (copied && !x->copy_values) /* rare at decode; and they can be asked whether they are finite */
        copy_values(x, segment);
    fv_multiply_fn *value =
        t->mixed && !scaled && !values_finite(x, segment) ? p->kernels.value_skip : p->kernels.value;
    const bool pairs = segment->value_pairs;
    for (int64_t first = of.begin; first < of.end; first += t->group_rows) {
        const value_group g = {.first = first,
                               .rows = fv_min(t->group_rows, of.end - first),
                               .keys = x->groups[first / t->group_rows],
                               .multiply = pairs ? p->kernels.value_pairs : value,
                               .decode = decode,
                               .p = pairs ? x->p : x->s,
                               .stride = pairs ? FV_P_WORDS : p->s_stride,
                               .keys_of_word = pairs ? 2 : 1,
                               .later = later};
        fv_prefetch prefetch = {.streams = x->rows <= p->choice.value->mr};
        if (g.keys.begin == g.keys.end) {
            fv_no_values(x, to, first, g.rows);
            continue;
        }
        if (!fv_decode_prefetched(x))
            fv_prefetch_with_values(&x->queue, p, g.rows, g.keys.end - g.keys.begin, &prefetch);
        if (copied)
            multiply_copy(x, &g, to, &prefetch);
        else
            multiply_runs(x, segment, &g, to, &prefetch);
    }
}

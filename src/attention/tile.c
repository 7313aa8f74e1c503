/* Tiles of a block through a segment (tile.h): what their rows see, scores, softmax, values. ISA-free; all
 * arithmetic is in the kernels it calls.
 *
 * Groups of rows that see the same of a panel of keys have their scores by one gemm (seen.c says what they see).
 *
 * Values are read by the gemm as they lie, or from a copy in panels as wide as the gemm's tile: where a row of values
 * begins inside a cache line, each load of a vector meets two lines. Figures: docs/measurements.md, "attention/tile.c".
 */
#include "attention/relative.h"
#include "attention/score.h"
#include "attention/thin.h"

#include "dispatch/dispatch.h"

#include <math.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------ compute -- */

/* Copies the values of the segment's keys into panels, as floats. */
static void copy_values(const fv_block *x, const fv_segment *s) {
    const fovea_attention_plan *p = x->plan;
    const int64_t panel = p->choice.value->nr;
    for (int64_t key = s->keys.begin, count; key < s->keys.end; key += count) {
        const fv_kv_run run = fv_run_of(x, &x->kv->v, s, key, s->keys.end);
        count = run.count;
        for (int64_t at = 0; at < p->desc.value_dim; at += panel) {
            const int64_t channels = fv_min(panel, p->desc.value_dim - at);
            const void *from = fv_kv_channel(&x->kv->v, &run, at);
            float *to = x->v + at * FV_SEGMENT + key * panel;
            if (p->kernels.widen_v)
                p->kernels.widen_v(count, channels, from, run.stride, to, panel);
            else
                p->kernels.copy(count, channels, from, run.stride, to, panel);
        }
    }
}

/* The same as pairs of keys, if every product with a weight is exact then: weights are 0 or from 2^-40 to 1. A segment whose first
 * key is an odd one is left to floats. */
static bool pair_values(const fv_block *x, const fv_segment *s) {
    const fovea_attention_plan *p = x->plan;
    const fv_magnitudes weights = {(127 - 40) << 7, 127 << 7};
    const int64_t panel = p->choice.value->nr;
    fv_magnitudes values = fv_magnitudes_none();
    if (s->keys.begin % 2 != 0 || s->keys.begin == s->keys.end)
        return false;
    const fv_kv_run run = fv_run_of(x, &x->kv->v, s, s->keys.begin, s->keys.end);
    assert(run.count == s->keys.end - s->keys.begin);
    for (int64_t at = 0; at < p->desc.value_dim; at += panel)
        p->kernels.pair_rows(run.count, fv_min(panel, p->desc.value_dim - at), fv_kv_channel(&x->kv->v, &run, at),
                             run.stride, x->v + (at * FV_SEGMENT + s->keys.begin * panel) / 2, panel, &values);
    return fv_pairs_exact(weights, values);
}

void fv_segment_open(const fv_block *x, int64_t index, fv_segment *s) {
    assert(index >= 0 && index < fv_max(x->plan->segments, 1));
    s->index = index;
    s->keys = fv_range_in_segment(x->range, index);
    s->norm = x->norm < INFINITY ? 0.0f : INFINITY;
    s->finite = -1;
    fv_relative_open(x, index);
    fv_keys_open(x, s);
    s->value_pairs = x->value_pairs && pair_values(x, s);
    if (x->copy_values && !s->value_pairs)
        copy_values(x, s);
}

/* Columns of the panel that begins at key at which the group of a tile that begins with this row sees. */
static fv_range panel_columns(const fv_block *x, const fv_tile *t, int64_t row, int64_t at) {
    const fv_range keys = x->groups[row / t->group_rows];
    const int64_t begin = fv_max(at, fv_round_down(keys.begin, FV_LANES));
    const int64_t end = fv_min(at + x->plan->panel, fv_round_up(keys.end, FV_LANES));
    return begin < end ? (fv_range){begin, end} : (fv_range){0, 0};
}

bool fv_tile_scores(fv_block *x, fv_tile *t, fv_segment *segment, fovea_score_kind kind) {
    const fovea_attention_plan *p = x->plan;
    const int64_t lds = p->s_stride;
    const bool scales = x->pairs && !p->kernels.to_pairs && p->scale.q != 1.0f;
    for (int64_t i = 0; i < t->rows && scales; i++)
        x->b[i] = p->scale.q;
    bool paired = !x->thin;
    if (x->thin)
        fv_thin_scores(x, t, segment);
    for (int64_t at = fv_round_down(t->columns.begin, p->panel); at < t->columns.end && !x->thin; at += p->panel) {
        const fv_panel panel = fv_keys_panel(x, segment, at);
        paired = paired && panel.q == x->pairs_q;
        for (int64_t first = 0, rows; first < t->rows; first += rows) {
            const fv_range columns = panel_columns(x, t, first, at);
            for (rows = t->group_rows; first + rows < t->rows; rows += t->group_rows) {
                const fv_range more = panel_columns(x, t, first + rows, at);
                if (more.begin != columns.begin || more.end != columns.end)
                    break;
            }
            rows = fv_score_rows(x, t, fv_min(rows, t->rows - first));
            if (columns.begin == columns.end)
                continue;
            const fv_epilogue epilogue = {.b = scales ? x->b : NULL,
                                          .row_max = columns.end <= t->row_max_end ? x->lanes + first * FV_LANES : NULL,
                                          .accumulate_max = at > t->columns.begin};
            fv_prefetch prefetch = {0};
            fv_score_prefetch(x, t->row + first, rows, segment->index, columns);
            fv_prefetch_beside_scores(&x->queue, p, rows, &prefetch);
            panel.gemm(rows, columns.end - columns.begin, panel.words, panel.q + (t->row + first) * panel.words,
                       panel.words, panel.at + (columns.begin - at), p->panel, x->s + first * lds + columns.begin, lds,
                       &epilogue, &prefetch);
        }
    }
    fv_score_stages(x, t, segment->index, kind);
    return paired;
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
        const fv_kv_run run = fv_run_of(x, &x->kv->v, s, key, s->keys.end);
        count = run.count;
        s->finite = x->plan->kernels.finite(count, x->plan->desc.value_dim, run.at, run.stride);
    }
    return s->finite != 0;
}

/* Where the outputs of a tile go, from its first row on, and what becomes of what is there (fv_epilogue). */
typedef struct destination {
    float *o;
    int64_t stride;
    const float *a, *b;
} destination;

static const float *from_row(const float *factors, int64_t row) { return factors ? factors + row : NULL; }

/* Outputs of rows that see no key, unless there are some already. */
static void no_values(const fv_block *x, const destination *to, int64_t first, int64_t rows) {
    for (int64_t i = first; i < first + rows && !to->a; i++)
        memset(to->o + i * to->stride, 0, (size_t)x->plan->desc.value_dim * sizeof(float));
}

/* A group of rows of a tile, the keys that it sees of a segment, and what multiplies its weights and values: floats, or words of two
 * keys each. Weights of row i are at p + i * stride. */
typedef struct value_group {
    int64_t first, rows;
    fv_range keys;
    fv_gemm_f32_fn *gemm;
    const float *p;
    int64_t stride, keys_of_word;
} value_group;

/* Keys [begin, end) of a group: a panel of the copy. */
static void multiply_panel(const fv_block *x, const value_group *g, fv_range keys, int64_t at, float *to, int64_t ldo,
                           const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    const fovea_attention_plan *p = x->plan;
    const int64_t panel = p->choice.value->nr, step = g->keys_of_word, begin = keys.begin / step;
    g->gemm(g->rows, fv_min(panel, p->desc.value_dim - at), fv_ceil_div(keys.end, step) - begin,
            g->p + g->first * g->stride + begin, g->stride, x->v + at * FV_SEGMENT / step + begin * panel, panel, to,
            ldo, epilogue, prefetch);
}

/* From the copy: panel by panel. Where sums go by blocks, a first one that is not whole is a call of its own. */
static void multiply_copy(fv_block *x, const value_group *g, const destination *to, fv_prefetch *prefetch) {
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

/* As they lie: run by run. The chains of all runs but the last are kept, and the last one goes on from them. */
static void multiply_runs(fv_block *x, const fv_segment *s, const value_group *g, const destination *to,
                          fv_prefetch *prefetch) {
    const fovea_attention_plan *p = x->plan;
    float *const o = to->o + g->first * to->stride, *const chain = x->chain + g->first * p->o_stride;
    fv_epilogue epilogue = {.ldstart = p->o_stride};
    for (int64_t key = g->keys.begin, count; key < g->keys.end; key += count) {
        const fv_kv_run run = fv_run_of(x, &x->kv->v, s, key, g->keys.end);
        count = run.count;
        const bool last = key + count == g->keys.end;
        if (last) {
            epilogue.a = from_row(to->a, g->first);
            epilogue.b = from_row(to->b, g->first);
        }
        float *const weights = x->s + g->first * p->s_stride + key;
        float *const c = last ? o : chain;
        const int64_t ldc = last ? to->stride : p->o_stride;
        if (p->kernels.value_thin || p->kernels.value_i8)
            fv_thin_values(p, g->rows, count, weights, &run, c, ldc, &epilogue, prefetch);
        else
            g->gemm(g->rows, p->desc.value_dim, count, weights, p->s_stride, run.at, run.stride, c, ldc, &epilogue,
                    prefetch);
        epilogue.start = chain;
        prefetch->next = NULL;
    }
}

static void compute_values(fv_block *x, const fv_tile *t, fv_segment *segment, const destination *to) {
    const fovea_attention_plan *p = x->plan;
    const bool scaled = p->kernels.value_i8, copied = x->copy_values || (t->mixed && p->kernels.value_thin);
    if (copied && !x->copy_values) /* rare at decode; and they can be asked whether they are finite */
        copy_values(x, segment);
    fv_gemm_f32_fn *value =
        t->mixed && !scaled && !values_finite(x, segment) ? p->kernels.value_skip : p->kernels.value;
    const bool pairs = segment->value_pairs;
    for (int64_t first = 0; first < t->rows; first += t->group_rows) {
        const value_group g = {.first = first,
                               .rows = fv_min(t->group_rows, t->rows - first),
                               .keys = x->groups[first / t->group_rows],
                               .gemm = pairs ? p->kernels.value_pairs : value,
                               .p = pairs ? x->p : x->s,
                               .stride = pairs ? FV_P_WORDS : p->s_stride,
                               .keys_of_word = pairs ? 2 : 1};
        fv_prefetch prefetch = {.streams = x->rows <= p->choice.value->mr};
        if (g.keys.begin == g.keys.end) {
            no_values(x, to, first, g.rows);
            continue;
        }
        fv_prefetch_beside_values(&x->queue, p, g.rows, g.keys.end - g.keys.begin, &prefetch);
        if (copied)
            multiply_copy(x, &g, to, &prefetch);
        else
            multiply_runs(x, segment, &g, to, &prefetch);
    }
}

void fv_no_keys(float *m, float *l, int64_t rows) {
    for (int64_t i = 0; i < rows; i++) {
        m[i] = -INFINITY;
        l[i] = 0.0f;
    }
}

/* Do outputs of these rows lie evenly in the caller's tensor, as floats, so many apart? */
static bool outputs_even(const fv_block *x, int64_t row, int64_t rows, int64_t *step) {
    const fovea_tensor *out = &x->args->out;
    const fv_range tokens = x->sequence.tokens;
    const int64_t count = tokens.end - tokens.begin;
    *step = count == 1 ? out->stride[1] : out->stride[2];
    if (x->plan->kernels.narrow_out)
        return false;
    return count == 1 || fv_place_of(x, row).token + rows <= tokens.end || out->stride[1] == count * out->stride[2];
}

/* Does every row see every key that the sequence has of a segment? */
static bool sees_all(const fv_block *x, const fv_tile *t, int64_t segment) {
    const fv_range all = fv_range_in_segment((fv_range){0, x->sequence.kv_len}, segment);
    return !t->mixed && t->keys.begin == all.begin && t->keys.end == all.end;
}

/* Scores and softmax; false if no row sees a key of the segment. */
static bool run_scores(fv_block *x, fv_tile *t, fv_segment *segment, float *m, float *l) {
    if (t->keys.begin == t->keys.end)
        return false;
    x->count.visited++;
    x->count.full += sees_all(x, t, segment->index);
    x->count.paired += fv_tile_scores(x, t, segment, FOVEA_SCORES_WEIGHTS);
    x->plan->kernels.softmax(&(fv_softmax_f32_args){.rows = t->rows,
                                                    .begin = t->columns.begin,
                                                    .end = t->columns.end,
                                                    .s = x->s,
                                                    .lds = x->plan->s_stride,
                                                    .c = fv_score_c(x->plan, FOVEA_SCORES_WEIGHTS),
                                                    .p = segment->value_pairs ? x->p : x->s,
                                                    .ldp = segment->value_pairs ? FV_P_WORDS : x->plan->s_stride,
                                                    .paired = segment->value_pairs,
                                                    .bits = t->bits,
                                                    .bits_step = t->bits_step,
                                                    .lanes = x->lanes,
                                                    .row_max_end = t->row_max_end,
                                                    .row_max_masked = t->row_max_masked,
                                                    .no_underflow = fv_score_no_underflow(x, segment),
                                                    .m = m,
                                                    .l = l});
    return true;
}

void fv_tile_run(fv_block *x, fv_tile_rows *place, fv_segment *segment) {
    const fovea_attention_plan *p = x->plan;
    const int64_t row = place->first;
    fv_tile t = fv_tile_open(x, place, segment);
    destination to = {.o = x->o + row * p->o_stride, .stride = p->o_stride};
    int64_t step;
    if (x->single_segment &&
        outputs_even(x, row, place->count, &step)) { /* exp(m - m) is 1: there is nothing to merge */
        if (!run_scores(x, &t, segment, x->max + row, x->sum + row))
            return;
        to = (destination){.o = fv_row_element(x, &x->args->out, row), .stride = step};
        compute_values(x, &t, segment, &to);
        place->output = FV_OUTPUT_IN_PLACE;
    } else if (run_scores(x, &t, segment, x->m, x->l)) {
        p->kernels.merge(place->count, x->m, x->l, x->max + row, x->sum + row, x->a, x->b);
        to.a = place->output == FV_OUTPUT_NONE ? NULL : x->a;
        to.b = x->b;
        compute_values(x, &t, segment, &to);
        place->output = FV_OUTPUT_RUNNING;
    }
}

void fv_tile_run_partial(fv_block *x, const fv_tile_rows *place, fv_segment *segment, const fv_partial *partial) {
    const int64_t stride = x->plan->o_stride, row = place->first;
    fv_tile t = fv_tile_open(x, place, segment);
    const destination to = {.o = partial->o + row * stride, .stride = stride};
    if (!run_scores(x, &t, segment, partial->m + row, partial->l + row))
        fv_no_keys(partial->m + row, partial->l + row, place->count);
    compute_values(x, &t, segment, &to);
}

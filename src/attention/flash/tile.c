/* Tiles of a block through a segment (tile.h): what their rows see, scores, softmax, values. ISA-free; all
 * arithmetic is in the kernels it calls.
 *
 * Groups of rows that see the same of a panel of keys have their scores by one product; visible_segment.c says what
 * they see.
 *
 * Units that multiply tiles (bf16_tile) work in parallel with those that compute exp. So a tile goes through softmax in
 * parts of as many rows as its kernel's tile has, and the softmax of a part is overlapped with products of other parts:
 * values of the part before, scores of the part after. Only the first scores and the last values are not overlapped. */
#include "attention/flash/products.h"
#include "attention/flash/relative.h"
#include "attention/flash/score.h"

#include "dispatch/dispatch.h"

#include <math.h>

void fv_segment_open(fv_block *x, int64_t index, bool values) {
    const fv_range keys = fv_range_in_segment(x->seen.range, index);
    assert(index >= 0 && index < fv_max(x->plan->segments, 1));
    fv_relative_open(x, index);
    fv_keys_open(&x->keys, index, keys, x->queries.norm < INFINITY);
    if (values)
        fv_values_open(&x->values, index, keys);
}

bool fv_tile_scores(fv_block *x, fv_tile *t, int64_t segment, fovea_score_kind kind) {
    const bool words = fv_scores_multiply(x, t, segment, (fv_range){0, t->rows}, NULL);
    fv_score_stages(x, t, segment, kind);
    return words;
}

void fv_no_keys(float *m, float *l, int64_t rows) {
    for (int64_t i = 0; i < rows; i++) {
        m[i] = -INFINITY;
        l[i] = 0.0f;
    }
}

/* Are outputs of these rows floats in the caller's tensor at one constant stride? Sets *step to it. */
static bool outputs_even(const fv_block *x, int64_t row, int64_t rows, int64_t *step) {
    const fovea_tensor *out = &x->args->out;
    const fv_range tokens = x->sequence.tokens;
    const int64_t count = tokens.end - tokens.begin;
    *step = count == 1 ? out->stride[1] : out->stride[2];
    if (out->dtype != FOVEA_DTYPE_F32)
        return false;
    return count == 1 || fv_place_of(x, row).token + rows <= tokens.end || out->stride[1] == count * out->stride[2];
}

/* Does every row see every key that the sequence has of a segment? */
static bool sees_all(const fv_block *x, const fv_tile *t, int64_t segment) {
    const fv_range all = fv_range_in_segment((fv_range){0, x->sequence.kv_len}, segment);
    return !t->mixed && t->keys.begin == all.begin && t->keys.end == all.end;
}

/* p, m and l of rows of a tile, and the deferred products. */
static void run_softmax(fv_block *x, const fv_tile *t, fv_range of, const fv_destination *to, fv_products *deferred) {
    const fovea_attention_plan *p = x->plan;
    const bool paired = x->values.now->words;
    const int64_t first = of.begin, ldp = paired ? FV_WEIGHT_WORDS : p->s_stride;
    const fv_softmax_f32_args args = {.rows = of.end - first,
                                      .begin = t->columns.begin,
                                      .end = t->columns.end,
                                      .s = x->to->s + first * p->s_stride,
                                      .lds = p->s_stride,
                                      .c = fv_score_c(p, FOVEA_SCORES_WEIGHTS),
                                      .p = (paired ? x->to->p : x->to->s) + first * ldp,
                                      .ldp = ldp,
                                      .paired = paired,
                                      .bits = t->bits ? t->bits + first * t->bits_step : NULL,
                                      .bits_step = t->bits_step,
                                      .lanes = x->to->lanes + first * FV_LANES,
                                      .row_max_end = t->row_max_end,
                                      .row_max_masked = t->row_max_masked,
                                      .no_underflow = fv_score_no_underflow(x),
                                      .m = to->m + first,
                                      .l = to->l + first};
    if (deferred->count > 0)
        fv_tiles_softmax(p->tiles, deferred->of, deferred->count, p->softmax, &args);
    else
        p->softmax(&args);
    deferred->count = 0;
}

/* All of a tile, or the part of it that begins with a row. */
static fv_range part_of(const fv_block *x, const fv_tile *t, int64_t first) {
    const bool parted = x->plan->tiles && x->values.now->words;
    return (fv_range){first, fv_min(t->rows, parted ? first + x->plan->tiles->mr : t->rows)};
}

/* Scores, softmax and values of a tile; false if no row sees a key of the segment. */
static bool run_tile(fv_block *x, fv_tile *t, int64_t segment, const fv_destination *to) {
    const fovea_attention_plan *p = x->plan;
    fv_products deferred;
    deferred.count = 0;
    if (t->keys.begin == t->keys.end)
        return false;
    x->count.visited++;
    x->count.full += sees_all(x, t, segment);
    fv_range of = part_of(x, t, 0);
    /* Passes over scores, and panels that are packed when they are needed, are for all rows. */
    const bool ahead = of.end < t->rows && x->tile_count > 1 && !fv_score_passes(&p->desc);
    bool words =
        ahead ? fv_scores_multiply(x, t, segment, of, NULL) : fv_tile_scores(x, t, segment, FOVEA_SCORES_WEIGHTS);
    for (; of.begin < t->rows; of = part_of(x, t, of.end)) {
        const bool last = of.end == t->rows;
        if (ahead && !last)
            words &= fv_scores_multiply(x, t, segment, part_of(x, t, of.end), &deferred);
        run_softmax(x, t, of, to, &deferred);
        if (to->b)
            p->ops->merge(of.end - of.begin, to->m + of.begin, to->l + of.begin, x->to->max + t->row + of.begin,
                          x->to->sum + t->row + of.begin, x->to->a + of.begin, x->to->b + of.begin);
        fv_values_multiply(x, t, of, to, last ? NULL : &deferred);
    }
    x->count.paired += words;
    return true;
}

void fv_tile_run(fv_block *x, fv_tile_rows *place, int64_t segment) {
    const int64_t row = place->first;
    fv_tile t = fv_tile_open(x, place, segment);
    int64_t step;
    if (x->seen.single_segment && !x->args->state &&
        outputs_even(x, row, place->count, &step)) { /* exp(m - m) is 1: there is nothing to merge */
        const fv_destination to = {
            .m = x->to->max + row, .l = x->to->sum + row, .o = fv_row_element(x, &x->args->out, row), .stride = step};
        if (run_tile(x, &t, segment, &to))
            place->output = FV_OUTPUT_IN_PLACE;
        return;
    }
    const fv_destination to = {.m = x->to->m,
                               .l = x->to->l,
                               .o = x->to->o + row * x->plan->o_stride,
                               .stride = x->plan->o_stride,
                               .a = place->output == FV_OUTPUT_NONE ? NULL : x->to->a,
                               .b = x->to->b};
    if (run_tile(x, &t, segment, &to))
        place->output = FV_OUTPUT_RUNNING;
}

void fv_tile_run_partial(fv_block *x, const fv_tile_rows *place, int64_t segment, const fv_partial *partial) {
    const int64_t stride = x->plan->o_stride, row = place->first;
    fv_tile t = fv_tile_open(x, place, segment);
    const fv_destination to = {
        .m = partial->m + row, .l = partial->l + row, .o = partial->o + row * stride, .stride = stride};
    if (run_tile(x, &t, segment, &to))
        return;
    fv_no_keys(to.m, to.l, place->count);
    fv_no_values(x, &to, 0, place->count);
}

/* Tiles of a block through a segment (tile.h): what their rows see, scores, softmax, values. ISA-free; all
 * arithmetic is in the kernels it calls.
 *
 * Groups of rows that see the same of a panel of keys have their scores by one product; visible_segment.c says what
 * they see.
 *
 * Units that multiply tiles (bf16_tile) work beside those that compute exp. So a tile goes through softmax in parts of
 * as many rows as its kernel's tile has, and beside the softmax of a part go the products that it has no part in:
 * values of the part before, scores of the part after. Only the first scores and the last values are alone.
 */
#include "attention/flash/decode.h"
#include "attention/flash/relative.h"
#include "attention/flash/score.h"
#include "attention/flash/values.h"

#include "dispatch/dispatch.h"

#include <math.h>

void fv_segment_open(fv_block *x, int64_t index, fv_segment *s) {
    assert(index >= 0 && index < fv_max(x->plan->segments, 1));
    s->index = index;
    s->keys = fv_range_in_segment(x->range, index);
    s->norm = x->norm < INFINITY ? 0.0f : INFINITY;
    s->finite = -1;
    fv_relative_open(x, index);
    fv_keys_open(x, s);
    fv_values_open(x, s);
}

/* Columns of the panel that begins at key at which the group of a tile that begins with this row sees. */
static fv_range panel_columns(const fv_block *x, const fv_tile *t, int64_t row, int64_t at) {
    const fv_range keys = x->groups[row / t->group_rows];
    const int64_t begin = fv_max(at, fv_round_down(keys.begin, FV_LANES));
    const int64_t end = fv_min(at + x->plan->panel, fv_round_up(keys.end, FV_LANES));
    return begin < end ? (fv_range){begin, end} : (fv_range){0, 0};
}

/* The products of rows of a tile; were all of them those of pairs? */
static bool multiply_scores(fv_block *x, const fv_tile *t, fv_segment *segment, fv_range of, fv_products *later) {
    const fovea_attention_plan *p = x->plan;
    const int64_t lds = p->s_stride;
    const bool scales = x->pairs && !p->kernels.pack_q && p->scale.q != 1.0f;
    for (int64_t i = 0; i < t->rows && scales; i++)
        x->b[i] = p->scale.q;
    bool paired = !x->decode;
    if (x->decode)
        fv_decode_scores(x, t, segment);
    for (int64_t at = fv_round_down(t->columns.begin, p->panel); at < t->columns.end && !x->decode; at += p->panel) {
        const fv_panel panel = fv_keys_panel(x, segment, at);
        paired = paired && panel.q == x->pairs_q;
        for (int64_t first = of.begin, rows; first < of.end; first += rows) {
            const fv_range columns = panel_columns(x, t, first, at);
            for (rows = t->group_rows; first + rows < of.end; rows += t->group_rows) {
                const fv_range more = panel_columns(x, t, first + rows, at);
                if (more.begin != columns.begin || more.end != columns.end)
                    break;
            }
            rows = fv_score_rows(x, t, fv_min(rows, of.end - first));
            if (columns.begin == columns.end)
                continue;
            float *const row_max = columns.end <= t->row_max_end ? x->lanes + first * FV_LANES : NULL;
            const fv_product product = {
                .a = {panel.q + (t->row + first) * panel.words, rows, panel.words},
                .b = fv_operand_part(&panel.keys, columns.begin - at, columns.end - columns.begin, 0, p->desc.head_dim),
                .c = x->s + first * lds + columns.begin,
                .ldc = lds,
                .epilogue = {.b = scales ? x->b : NULL, .row_max = row_max, .accumulate_max = at > t->columns.begin}};
            fv_prefetch prefetch = {0};
            fv_score_prefetch(x, t->row + first, rows, segment->index, columns);
            fv_prefetch_with_scores(&x->queue, p, rows, &prefetch);
            fv_product_run(x, later, panel.multiply, &product, &prefetch);
        }
    }
    return paired;
}

bool fv_tile_scores(fv_block *x, fv_tile *t, fv_segment *segment, fovea_score_kind kind) {
    const bool paired = multiply_scores(x, t, segment, (fv_range){0, t->rows}, NULL);
    fv_score_stages(x, t, segment->index, kind);
    return paired;
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

/* p, m and l of rows of a tile, and what was left for later. */
static void run_softmax(fv_block *x, const fv_tile *t, const fv_segment *segment, fv_range of, const fv_destination *to,
                        fv_products *later) {
    const fovea_attention_plan *p = x->plan;
    const bool paired = segment->value_pairs;
    const int64_t first = of.begin, ldp = paired ? FV_P_WORDS : p->s_stride;
    const fv_softmax_f32_args args = {.rows = of.end - first,
                                      .begin = t->columns.begin,
                                      .end = t->columns.end,
                                      .s = x->s + first * p->s_stride,
                                      .lds = p->s_stride,
                                      .c = fv_score_c(p, FOVEA_SCORES_WEIGHTS),
                                      .p = (paired ? x->p : x->s) + first * ldp,
                                      .ldp = ldp,
                                      .paired = paired,
                                      .bits = t->bits ? t->bits + first * t->bits_step : NULL,
                                      .bits_step = t->bits_step,
                                      .lanes = x->lanes + first * FV_LANES,
                                      .row_max_end = t->row_max_end,
                                      .row_max_masked = t->row_max_masked,
                                      .no_underflow = fv_score_no_underflow(x, segment),
                                      .m = to->m + first,
                                      .l = to->l + first};
    if (later->count > 0)
        fv_tiles_softmax(p->tiles, later->of, later->count, p->kernels.softmax, &args);
    else
        p->kernels.softmax(&args);
    later->count = 0;
}

/* All of a tile, or the part of it that begins with a row. */
static fv_range part_of(const fv_block *x, const fv_tile *t, const fv_segment *segment, int64_t first) {
    const bool parted = x->plan->tiles && segment->value_pairs;
    return (fv_range){first, fv_min(t->rows, parted ? first + x->plan->tiles->mr : t->rows)};
}

/* Scores, softmax and values of a tile; false if no row sees a key of the segment. */
static bool run_tile(fv_block *x, fv_tile *t, fv_segment *segment, const fv_destination *to) {
    const fovea_attention_plan *p = x->plan;
    fv_products later;
    later.count = 0;
    if (t->keys.begin == t->keys.end)
        return false;
    x->count.visited++;
    x->count.full += sees_all(x, t, segment->index);
    fv_range of = part_of(x, t, segment, 0);
    /* Passes over scores, and panels that are packed when they are needed, are for all rows. */
    const bool ahead = of.end < t->rows && x->tile_count > 1 && !fv_score_passes(&p->desc);
    bool paired =
        ahead ? multiply_scores(x, t, segment, of, NULL) : fv_tile_scores(x, t, segment, FOVEA_SCORES_WEIGHTS);
    for (; of.begin < t->rows; of = part_of(x, t, segment, of.end)) {
        const bool last = of.end == t->rows;
        if (ahead && !last)
            paired &= multiply_scores(x, t, segment, part_of(x, t, segment, of.end), &later);
        run_softmax(x, t, segment, of, to, &later);
        if (to->b)
            p->kernels.merge(of.end - of.begin, to->m + of.begin, to->l + of.begin, x->max + t->row + of.begin,
                             x->sum + t->row + of.begin, x->a + of.begin, x->b + of.begin);
        fv_values_multiply(x, t, segment, of, to, last ? NULL : &later);
    }
    x->count.paired += paired;
    return true;
}

void fv_tile_run(fv_block *x, fv_tile_rows *place, fv_segment *segment) {
    const int64_t row = place->first;
    fv_tile t = fv_tile_open(x, place, segment);
    int64_t step;
    if (x->single_segment &&
        outputs_even(x, row, place->count, &step)) { /* exp(m - m) is 1: there is nothing to merge */
        const fv_destination to = {
            .m = x->max + row, .l = x->sum + row, .o = fv_row_element(x, &x->args->out, row), .stride = step};
        if (run_tile(x, &t, segment, &to))
            place->output = FV_OUTPUT_IN_PLACE;
        return;
    }
    const fv_destination to = {.m = x->m,
                               .l = x->l,
                               .o = x->o + row * x->plan->o_stride,
                               .stride = x->plan->o_stride,
                               .a = place->output == FV_OUTPUT_NONE ? NULL : x->a,
                               .b = x->b};
    if (run_tile(x, &t, segment, &to))
        place->output = FV_OUTPUT_RUNNING;
}

void fv_tile_run_partial(fv_block *x, const fv_tile_rows *place, fv_segment *segment, const fv_partial *partial) {
    const int64_t stride = x->plan->o_stride, row = place->first;
    fv_tile t = fv_tile_open(x, place, segment);
    const fv_destination to = {
        .m = partial->m + row, .l = partial->l + row, .o = partial->o + row * stride, .stride = stride};
    if (run_tile(x, &t, segment, &to))
        return;
    fv_no_keys(to.m, to.l, place->count);
    fv_no_values(x, &to, 0, place->count);
}

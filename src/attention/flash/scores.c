/* The product of queries and keys of a tile (products.h). Groups of rows that see the same of a step of keys go in one
 * call; where a product takes few rows, a call goes over all columns that any of its rows sees. */
#include "attention/flash/products.h"
#include "attention/flash/score.h"

enum { MOST = sizeof((fv_products *)0)->of / sizeof(fv_product) };

void fv_products_defer(fv_products *deferred, const fv_kernel *product, const fv_product *it) {
    /* The earlier ones are computed first, as this one may start from their results. */
    for (int64_t i = 0; i < deferred->count && deferred->count == MOST; i++) {
        const fv_product *const now = &deferred->of[i];
        product->run.multiply(&now->a, &now->b, now->c, now->ldc, &now->epilogue, NULL);
    }
    deferred->count %= MOST;
    deferred->of[deferred->count++] = *it;
}

/* Columns of a step that the group of a tile's row sees. */
static fv_range columns_of(const fv_block *x, const fv_tile *t, int64_t row, const fv_keys_step *step) {
    const fv_range keys = x->to->groups[row / t->group_rows];
    const int64_t begin = fv_max(step->begin, fv_round_down(keys.begin, FV_LANES));
    const int64_t end = fv_min(step->end, fv_round_up(keys.end, FV_LANES));
    if (begin >= end)
        return (fv_range){0, 0};
    return x->keys.now->whole ? (fv_range){step->begin, step->end} : (fv_range){begin, end};
}

/* Rows of the call that begins with a row, before end, and its columns. */
static int64_t rows_of_call(const fv_block *x, const fv_tile *t, int64_t first, int64_t end, const fv_keys_step *step,
                            fv_range *columns) {
    const int64_t most = fv_score_rows(x, t, fv_min(end - first, step->most_rows));
    int64_t rows = t->group_rows - first % t->group_rows;
    *columns = columns_of(x, t, first, step);
    for (; rows < most; rows += t->group_rows) {
        const fv_range more = columns_of(x, t, first + rows, step);
        if (step->most_rows < INT64_MAX)
            *columns = fv_range_union(*columns, more);
        else if (more.begin != columns->begin || more.end != columns->end)
            break;
    }
    return fv_min(rows, most);
}

bool fv_scores_multiply(fv_block *x, const fv_tile *t, int64_t segment, fv_range of, fv_products *deferred) {
    const fovea_attention_plan *p = x->plan;
    const int64_t end = fv_min(t->columns.end, x->keys.range.end), lds = p->s_stride;
    bool words = true;
    fv_keys_step step;
    for (int64_t at = t->columns.begin; at < end; at = step.end) {
        fv_keys_next(&x->keys, at, at < t->row_max_end ? fv_min(t->row_max_end, end) : end, &step);
        words = words && step.form == FV_QUERIES_words;
        for (int64_t i = 0; i < t->rows && step.factor != 1.0f; i++)
            x->to->b[i] = step.factor;
        const fv_rows queries = fv_queries_in(&x->queries, step.form);
        for (int64_t first = of.begin, rows; first < of.end; first += rows) {
            fv_range columns;
            rows = rows_of_call(x, t, first, of.end, &step, &columns);
            if (columns.begin == columns.end)
                continue;
            const fv_product product = {
                .a = fv_queries_part(&queries, step.form, t->row + first, rows),
                .b = fv_operand_part(&step.keys, columns.begin - step.begin, columns.end - columns.begin, 0,
                                     step.keys.steps),
                .c = x->to->s + first * lds + columns.begin,
                .ldc = lds,
                .epilogue = {.b = step.factor != 1.0f ? x->to->b + first : NULL,
                             .row_max = columns.end <= t->row_max_end ? x->to->lanes + first * FV_LANES : NULL,
                             .accumulate_max = columns.begin > t->columns.begin}};
            fv_score_prefetch(x, t->row + first, rows, segment, columns);
            fv_prefetch prefetch = {.streams = step.skips_lines};
            if (first == of.begin || x->tile_count > 1)
                fv_prefetch_with_scores(&x->queue, p, step.product, rows, step.end - step.begin, &prefetch);
            if (deferred && step.product == p->tiles)
                fv_products_defer(deferred, step.product, &product);
            else
                step.product->run.multiply(&product.a, &product.b, product.c, lds, &product.epilogue, &prefetch);
        }
    }
    return words;
}

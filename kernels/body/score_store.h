/* Scores and their maxima, of kernels of few rows that multiply keys: part of fv_epilogue. */
#ifndef FV_SCORE_STORE_H
#define FV_SCORE_STORE_H

#define SCORE_INLINE static inline __attribute__((always_inline))

static const fv_epilogue score_no_epilogue;

/* Columns that are written. */
SCORE_INLINE int64_t score_columns(const fv_operand *b) { return (b->columns + FV_LANES - 1) / FV_LANES * FV_LANES; }

/* Those of a row and FV_W columns, from a column on. */
SCORE_INLINE void score_store(const fv_epilogue *e, int64_t row, int64_t column, vf scores, float *c, int64_t ldc) {
    v_store(c + row * ldc + column, scores);
    if (!e->row_max)
        return;
    float *max = e->row_max + row * FV_LANES + column % FV_LANES;
    const int begins = column < FV_LANES && !e->accumulate_max;
    v_store(max, v_max(scores, begins ? v_set1(-INFINITY) : v_load(max)));
}

/* Promises of callers. */
SCORE_INLINE void score_check(const fv_rows *a, const fv_operand *b, int64_t ldc, const fv_epilogue *e) {
    assert(a->count >= 1 && a->count <= FV_FEW_ROWS && b->columns >= 1 && b->steps >= 1 && b->row >= 0);
    assert(a->count == 1 || ldc >= b->columns);
    assert(b->first == 0 || b->first == FV_LANES);
    assert(!e->start && !e->a && !e->b && (!e->row_max || b->columns % FV_LANES == 0));
    (void)a, (void)b, (void)ldc, (void)e;
}

#endif

/* Scores of int8 keys on scalar: the definition of int8.h. */
#include "simd/simd_scalar.h"

#include "body/score_store.h"

static int32_t query(const fv_i8_row *q, int64_t t) {
    const fv_i8_word *word = q->word + t / 4;
    return (t % 2 ? word->odd : word->even)[t % 4 / 2];
}

void fv_multiply_few_i16_i8x4_8x16_scalar(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                                          const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    const fv_epilogue *e = epilogue ? epilogue : &score_no_epilogue;
    (void)prefetch;
    score_check(a, b, ldc, e);
    assert(b->steps <= FV_I8_CHANNELS);
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t j = 0; j < score_columns(b); j++) {
            const fv_i8_row *q = fv_i8_row_of(a, i);
            const int8_t *key = (const int8_t *)b->data + fv_operand_place(b, 0, j);
            int32_t sum = 0;
            for (int64_t t = 0; t < b->steps; t++)
                sum += query(q, t) * key[t / 4 * b->row * 4 + t % 4];
            score_store(e, i, j, (float)sum * (q->scale * (j < b->columns ? b->scales[j] : 0.0f)), c, ldc);
        }
}

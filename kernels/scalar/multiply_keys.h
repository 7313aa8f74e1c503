/* Scores of few rows on scalar: the definition of kernels.h for keys by column, and for panels. FV_WORDS: the format's
 * header, of a word or, by column, of an element. */
#include FV_WORDS

#include "body/score_store.h"

void FV_NAME(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
             const fv_prefetch *prefetch) {
    const fv_epilogue *e = epilogue ? epilogue : &score_no_epilogue;
    const int by_column = b->width == 0;
    (void)prefetch;
    score_check(a, b, ldc, e);
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t j = 0; j < score_columns(b); j++) {
            const float *row = (const float *)a->data + i * a->stride;
            const format_word *key = (const format_word *)b->data + fv_operand_place(b, 0, j) / PER_WORD;
            const int64_t step = by_column ? 1 : b->row;
            float acc = 0.0f;
            for (int64_t t = 0; t < b->steps; t++)
                acc = v_fma(row[t],
                            by_column && j >= b->columns
                                ? 0.0f
                                : format_load(key + t / PER_WORD * step, NULL, (int)(t % PER_WORD)),
                            acc);
            score_store(e, i, j, acc, c, ldc);
        }
}

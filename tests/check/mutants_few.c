/* Mutants of products of few rows. */
#include "mutants.h"

#include "multiply_call.h"

static void keys_honest(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                        const fv_prefetch *prefetch) {
    honest_product(FV_KIND_f32, FV_FORMAT_bf16x2, true)(a, b, c, ldc, epilogue, prefetch);
}

static void keys_miss_a_row(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                            const fv_prefetch *prefetch) { /* rows nearer to each other */
    fv_rows q = *a;
    q.stride -= q.count == 3;
    keys_honest(&q, b, c, ldc, epilogue, prefetch);
}

static void keys_miss_last_channel(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                                   const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    fv_operand k = *b;
    k.steps -= k.steps > 1 && k.steps % 2;
    keys_honest(a, &k, c, ldc, epilogue, prefetch);
}

static void keys_forget_first(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                              const fv_prefetch *prefetch) { /* keys as if the first began a panel */
    fv_operand k = *b;
    k.first = 0;
    keys_honest(a, &k, c, ldc, epilogue, prefetch);
}

static void keys_pairs_unguarded(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                                 const fv_epilogue *epilogue,
                                 const fv_prefetch *prefetch) { /* what is subnormal on the way flushed */
    keys_honest(a, b, c, ldc, epilogue, prefetch);
    for (int64_t i = 0; i < a->count && !epilogue->row_max; i++)
        for (int64_t j = 0; j < b->columns; j++)
            c[i * ldc + j] = fabsf(c[i * ldc + j]) < 0x1p-105f ? 0.0f : c[i * ldc + j];
}

static void keys_forget_maxima(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                               const fv_epilogue *epilogue, const fv_prefetch *prefetch) { /* of the keys before */
    fv_epilogue e = *epilogue;
    e.accumulate_max = 0;
    keys_honest(a, b, c, ldc, &e, prefetch);
}

static void keys_leave_last_columns(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                                    const fv_epilogue *epilogue, const fv_prefetch *prefetch) {
    float kept[FV_FEW_ROWS][FV_LANES];
    const int64_t end = (b->columns + FV_LANES - 1) / FV_LANES * FV_LANES;
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t j = b->columns; j < end; j++)
            kept[i][j % FV_LANES] = c[i * ldc + j];
    keys_honest(a, b, c, ldc, epilogue, prefetch);
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t j = b->columns; j < end; j++)
            c[i * ldc + j] = kept[i][j % FV_LANES];
}

#define FEW_PARAMETERS                                                                                                 \
    int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc,   \
        const fv_epilogue *epilogue, const fv_prefetch *prefetch

static void few_honest(FEW_PARAMETERS) {
    multiply_call(honest_product(FV_KIND_f32, FV_FORMAT_f16, true), FV_FORMAT_f16, m, n, k, a, lda, b, ldb, c, ldc,
                  epilogue, prefetch);
}

static void few_forgets_start(FEW_PARAMETERS) {
    fv_epilogue e = epilogue ? *epilogue : (fv_epilogue){0};
    e.start = NULL;
    few_honest(m, n, k, a, lda, b, ldb, c, ldc, &e, prefetch);
}

static void few_merges_first(FEW_PARAMETERS) { /* as if it were the first segment */
    fv_epilogue e = epilogue ? *epilogue : (fv_epilogue){0};
    e.a = NULL;
    few_honest(m, n, k, a, lda, b, ldb, c, ldc, &e, prefetch);
}

static void few_repeats_last_row(FEW_PARAMETERS) { /* of an odd number */
    few_honest(m, n, k, a, lda, b, ldb, c, ldc, epilogue, prefetch);
    if (m == 3)
        for (int64_t j = 0; j < n; j++)
            c[2 * ldc + j] = c[ldc + j];
}

MULTIPLY_BY_SIZES(few_honest)
MULTIPLY_BY_SIZES(few_forgets_start)
MULTIPLY_BY_SIZES(few_merges_first)
MULTIPLY_BY_SIZES(few_repeats_last_row)

#define KEYS(fate, function) PRODUCT_ROW(fate, f32, bf16x2, FEW, 8, 32, function)
static const mutant mutants[] = {
    KEYS(PASSES, keys_honest),
    KEYS(PASSES_FLUSHED, keys_honest),
    KEYS(DIFFERS, keys_miss_a_row),
    KEYS(DIFFERS_AS_REFERENCE, keys_miss_last_channel),
    KEYS(DIFFERS, keys_forget_maxima),
    KEYS(DIFFERS, keys_forget_first),
    KEYS(DIFFERS, keys_pairs_unguarded),
    KEYS(DIFFERS, keys_leave_last_columns),
    PRODUCT(PASSES, f32, f16, FEW, 8, 1, few_honest),
    PRODUCT(PASSES_FLUSHED, f32, f16, FEW, 8, 1, few_honest),
    PRODUCT(DIFFERS, f32, f16, FEW, 8, 1, few_forgets_start),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, f16, FEW, 8, 1, few_merges_first),
    PRODUCT(DIFFERS, f32, f16, FEW, 8, 1, few_repeats_last_row),
};

const mutant_table mutants_few = {mutants, sizeof mutants / sizeof mutants[0]};

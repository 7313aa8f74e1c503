/* Mutants of dot and gemm_thin. */
#include "mutants.h"

#include "multiply_call.h"

static void dot_honest(const fv_dot_args *x) { fv_kernel_scalar(FV_OP_dot, FV_TYPE_bf16)->run.dot_bf16(x); }

static void dot_reads_stride_of_eight(const fv_dot_args *x) { /* rows interleaved otherwise */
    fv_dot_args y = *x;
    y.q += x->rows == 3 ? 1 : 0;
    dot_honest(&y);
}

static void dot_misses_last_channel(const fv_dot_args *x) {
    fv_dot_args y = *x;
    y.channels -= y.channels > 1 && y.channels % 2;
    dot_honest(&y);
}

static void dot_forgets_first(const fv_dot_args *x) { /* keys as if the first began a group */
    fv_dot_args y = *x;
    y.first = 0;
    dot_honest(&y);
}

static void dot_pairs_unguarded(const fv_dot_args *x) { /* what is subnormal on the way flushed */
    fv_dot_args y = *x;
    dot_honest(&y);
    for (int64_t i = 0; i < x->rows && !x->row_max; i++)
        for (int64_t j = 0; j < x->keys; j++)
            x->s[i * x->lds + j] = fabsf(x->s[i * x->lds + j]) < 0x1p-105f ? 0.0f : x->s[i * x->lds + j];
}

static void dot_forgets_maxima(const fv_dot_args *x) { /* of the keys before */
    fv_dot_args y = *x;
    y.accumulate_max = 0;
    dot_honest(&y);
}

static void dot_leaves_last_columns(const fv_dot_args *x) {
    float kept[FV_DOT_ROWS][FV_LANES];
    const int64_t end = (x->keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = x->keys; j < end; j++)
            kept[i][j % FV_LANES] = x->s[i * x->lds + j];
    dot_honest(x);
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = x->keys; j < end; j++)
            x->s[i * x->lds + j] = kept[i][j % FV_LANES];
}

#define THIN_PARAMETERS                                                                                                \
    int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc,   \
        const fv_epilogue *epilogue, const fv_prefetch *prefetch

static void thin_honest(THIN_PARAMETERS) {
    multiply_call(honest_product(FV_KIND_f32, FV_FORMAT_f16, true), FV_FORMAT_f16, m, n, k, a, lda, b, ldb, c, ldc,
                  epilogue, prefetch);
}

static void thin_forgets_start(THIN_PARAMETERS) {
    fv_epilogue e = epilogue ? *epilogue : (fv_epilogue){0};
    e.start = NULL;
    thin_honest(m, n, k, a, lda, b, ldb, c, ldc, &e, prefetch);
}

static void thin_merges_first(THIN_PARAMETERS) { /* as if it were the first segment */
    fv_epilogue e = epilogue ? *epilogue : (fv_epilogue){0};
    e.a = NULL;
    thin_honest(m, n, k, a, lda, b, ldb, c, ldc, &e, prefetch);
}

static void thin_repeats_last_row(THIN_PARAMETERS) { /* of an odd number */
    thin_honest(m, n, k, a, lda, b, ldb, c, ldc, epilogue, prefetch);
    if (m == 3)
        for (int64_t j = 0; j < n; j++)
            c[2 * ldc + j] = c[ldc + j];
}

MULTIPLY_BY_SIZES(thin_honest)
MULTIPLY_BY_SIZES(thin_forgets_start)
MULTIPLY_BY_SIZES(thin_merges_first)
MULTIPLY_BY_SIZES(thin_repeats_last_row)

static const mutant mutants[] = {
    MUTANT(PASSES, dot, bf16, 8, 16, dot_honest),
    MUTANT(PASSES_FLUSHED, dot, bf16, 8, 16, dot_honest),
    MUTANT(DIFFERS, dot, bf16, 8, 16, dot_reads_stride_of_eight),
    MUTANT(DIFFERS_AS_REFERENCE, dot, bf16, 8, 16, dot_misses_last_channel),
    MUTANT(DIFFERS, dot, bf16, 8, 16, dot_forgets_maxima),
    MUTANT(DIFFERS, dot, bf16, 8, 16, dot_forgets_first),
    MUTANT(DIFFERS, dot, bf16, 8, 16, dot_pairs_unguarded),
    MUTANT(DIFFERS, dot, bf16, 8, 16, dot_leaves_last_columns),
    PRODUCT(PASSES, f32, f16, FEW, 8, 1, thin_honest),
    PRODUCT(PASSES_FLUSHED, f32, f16, FEW, 8, 1, thin_honest),
    PRODUCT(DIFFERS, f32, f16, FEW, 8, 1, thin_forgets_start),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, f16, FEW, 8, 1, thin_merges_first),
    PRODUCT(DIFFERS, f32, f16, FEW, 8, 1, thin_repeats_last_row),
};

const mutant_table mutants_thin = {mutants, sizeof mutants / sizeof mutants[0]};

/* Mutants of gemm and gemm_masked, among them those that break the ABI. */
#include "mutants.h"

#include "abi.h"
#include "multiply_call.h"

#include <signal.h>

/* ---------------------------------------------------------------------------------------------------------- gemm -- */

#define GEMM_PARAMETERS                                                                                                \
    int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc,  \
        const fv_epilogue *epilogue, const fv_prefetch *prefetch
#define GEMM_ARGUMENTS m, n, k, a, lda, b, ldb, c, ldc, epilogue, prefetch

static void gemm_honest(GEMM_PARAMETERS) {
    multiply_call(honest_product(FV_KIND_f32, FV_FORMAT_f32, false), FV_FORMAT_f32, GEMM_ARGUMENTS);
}

static void gemm_last_column_missing(GEMM_PARAMETERS) {
    n -= n % 4 == 1;
    if (n > 0)
        gemm_honest(GEMM_ARGUMENTS);
}

static void gemm_last_row_missing(GEMM_PARAMETERS) {
    m -= m == 5;
    gemm_honest(GEMM_ARGUMENTS);
}

static void gemm_chain_too_short(GEMM_PARAMETERS) {
    k -= k > 4;
    gemm_honest(GEMM_ARGUMENTS);
}

static void gemm_reads_past_b(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    (void)((const volatile float *)b)[(k - 1) * ldb + n];
}

static void gemm_reads_before_a(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    (void)((const volatile float *)a)[-1];
}

static void gemm_writes_past_c(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    c[(m - 1) * ldc + n] = 0.0f;
}

static void gemm_writes_into_gap(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    if (m > 1 && ldc > n)
        c[n] = 0.0f;
}

static void gemm_writes_before_c(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    if ((uintptr_t)c % 4096 != 0) /* not into the forbidden page: the slack must show it */
        c[-1] = 0.0f;
}

static void gemm_changes_input(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    ((float *)(uintptr_t)a)[0] = 0.0f;
}

static void gemm_needs_alignment(GEMM_PARAMETERS) {
    if ((uintptr_t)b % 16 != 0)
        raise(SIGBUS); /* what a processor says */
    gemm_honest(GEMM_ARGUMENTS);
}

/* Those that take the epilogue wrongly. */
static fv_epilogue copy_of(const fv_epilogue *epilogue) { return epilogue ? *epilogue : (fv_epilogue){.start = NULL}; }

#define GEMM_WITH(wrong)                                                                                               \
    multiply_call(honest_product(FV_KIND_f32, FV_FORMAT_f32, false), FV_FORMAT_f32, m, n, k, a, lda, b, ldb, c, ldc,   \
                  wrong, prefetch)

static void gemm_reads_old_c(GEMM_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    const float zeros[64] = {0.0f};
    if (wrong.b && !wrong.a && m <= 64) {
        wrong.a = zeros;
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                c[i * ldc + j] *= 0.0f; /* 0 unless it was NaN or infinite */
    }
    GEMM_WITH(&wrong);
}

static void gemm_first_factor_for_all(GEMM_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    float same[64];
    for (int64_t i = 0; i < 64 && wrong.b; i++)
        same[i] = wrong.b[0];
    if (wrong.b && m <= 64)
        wrong.b = same;
    GEMM_WITH(&wrong);
}

static void gemm_adds_blocks(GEMM_PARAMETERS) { /* the sum of two chains instead of one chain */
    fv_epilogue wrong = copy_of(epilogue);
    const float ones[64] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    if (wrong.start == c && !wrong.b && !wrong.row_max && m <= 9)
        wrong = (fv_epilogue){.a = ones, .b = ones};
    GEMM_WITH(&wrong);
}

static void gemm_starts_at_zero(GEMM_PARAMETERS) { /* where it merges */
    fv_epilogue wrong = copy_of(epilogue);
    wrong.start = wrong.a ? NULL : wrong.start;
    GEMM_WITH(&wrong);
}

static void gemm_starts_in_c(GEMM_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    if (wrong.start) {
        wrong.start = c;
        wrong.ldstart = ldc;
    }
    GEMM_WITH(&wrong);
}

static void gemm_starts_by_stride_of_c(GEMM_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    wrong.ldstart = ldc;
    if (wrong.start && m > 1 && wrong.ldstart > epilogue->ldstart) /* it would read past start */
        wrong.ldstart = 0;
    GEMM_WITH(&wrong);
}

static void gemm_stores_before_it_merges(GEMM_PARAMETERS) { /* what was in c is lost */
    if (epilogue && epilogue->a && epilogue->start) {
        fv_epilogue wrong = {.start = epilogue->start, .ldstart = epilogue->ldstart};
        GEMM_WITH(&wrong);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                c[i * ldc + j] = fmaf(c[i * ldc + j], epilogue->a[i], c[i * ldc + j] * epilogue->b[i]);
    } else
        gemm_honest(GEMM_ARGUMENTS);
}

static void gemm_changes_start(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    if (epilogue && epilogue->start && epilogue->start != c)
        ((float *)(uintptr_t)epilogue->start)[0] = c[0];
}

/* Maxima that begin anew, at zero, with NaN, or not at all in the last row. */
static void gemm_row_max_anew(GEMM_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    wrong.accumulate_max = 0;
    GEMM_WITH(&wrong);
}

static void gemm_row_max_at_zero(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    if (epilogue && epilogue->row_max && epilogue->row_max[0] < 0.0f)
        epilogue->row_max[1] = 0.0f;
}

static void gemm_row_max_nan(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    for (int64_t j = 0; j < n && epilogue && epilogue->row_max; j++)
        if (float_is_nan(c[j]))
            epilogue->row_max[0] = c[j];
}

static void gemm_row_max_row_missing(GEMM_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    if (m == 1 || !wrong.row_max || wrong.start) {
        gemm_honest(GEMM_ARGUMENTS);
        return;
    }
    m--;
    gemm_honest(GEMM_ARGUMENTS);
    wrong.row_max = NULL;
    multiply_call(honest_product(FV_KIND_f32, FV_FORMAT_f32, false), FV_FORMAT_f32, 1, n, k, a + m * lda, lda, b, ldb,
                  c + m * ldc, ldc, &wrong, prefetch);
}

static void gemm_sets_flush_to_zero(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    abi_break(ABI_CONTROL);
}

static bool control_breakable(void) { return abi_breakable(ABI_CONTROL); }

static void gemm_leaves_upper_dirty(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    abi_break(ABI_UPPER);
}

static bool upper_breakable(void) { return abi_breakable(ABI_UPPER); }

/* The last one, which the compiler is the least likely to use, and so to restore, in this function itself. */
static void gemm_loses_register(GEMM_PARAMETERS) {
    gemm_honest(GEMM_ARGUMENTS);
    abi_break_register(abi_registers() - 1);
}

static bool has_register_to_lose(void) { return abi_registers() > 0; }

/* The chain in another order, or rounded otherwise; plain stores only. */
typedef enum chain { CHAIN_DESCENDING, CHAIN_SPLIT, CHAIN_UNFUSED } chain;

static void gemm_chain(chain how, GEMM_PARAMETERS) {
    if (epilogue) {
        gemm_honest(GEMM_ARGUMENTS);
        return;
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float acc[2] = {0.0f, 0.0f};
            for (int64_t p = 0; p < k; p++) {
                const int64_t q = how == CHAIN_DESCENDING ? k - 1 - p : p;
                float *to = &acc[how == CHAIN_SPLIT ? p % 2 : 0];
                const float product = a[i * lda + q] * b[q * ldb + j];
                *to = how == CHAIN_UNFUSED ? *to + product : fmaf(a[i * lda + q], b[q * ldb + j], *to);
            }
            c[i * ldc + j] = acc[0] + acc[1];
        }
}

static void gemm_descending(GEMM_PARAMETERS) { gemm_chain(CHAIN_DESCENDING, GEMM_ARGUMENTS); }
static void gemm_split(GEMM_PARAMETERS) { gemm_chain(CHAIN_SPLIT, GEMM_ARGUMENTS); }
static void gemm_unfused(GEMM_PARAMETERS) { gemm_chain(CHAIN_UNFUSED, GEMM_ARGUMENTS); }

/* ------------------------------------------------------------------------------------------------------ gemm_masked
 * -- */

static void gemm_masked_skips_positive_zero(GEMM_PARAMETERS) {
    const fv_epilogue wrong = copy_of(epilogue);
    (void)prefetch;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float acc = wrong.start ? wrong.start[i * wrong.ldstart + j] : 0.0f;
            for (int64_t p = 0; p < k; p++)
                acc = a[i * lda + p] == 0.0f ? acc : fmaf(a[i * lda + p], b[p * ldb + j], acc);
            acc = wrong.b ? acc * wrong.b[i] : acc;
            c[i * ldc + j] = wrong.a ? fmaf(c[i * ldc + j], wrong.a[i], acc) : acc;
        }
}

/* ------------------------------------------------------------------------------------------------------- gemm_blocks
 * -- */

static void blocks_honest(GEMM_PARAMETERS) {
    multiply_call(honest_product(FV_KIND_f32_amx_order, FV_FORMAT_f32, false), FV_FORMAT_f32, GEMM_ARGUMENTS);
}

/* Every block goes on with the chains of the one before. */
static void blocks_without_end(GEMM_PARAMETERS) {
    if (epilogue || k <= FV_BLOCK) {
        blocks_honest(GEMM_ARGUMENTS);
        return;
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float part[2] = {0.0f, 0.0f};
            for (int64_t p = 0; p < k; p++)
                part[p % 2] = fmaf(a[i * lda + p], b[p * ldb + j], part[p % 2]);
            c[i * ldc + j] = part[0] + part[1];
        }
}

/* ----------------------------------------------------------------------------------------------------------- all -- */

MULTIPLY_BY_SIZES(gemm_honest)
MULTIPLY_BY_SIZES(gemm_last_column_missing)
MULTIPLY_BY_SIZES(gemm_last_row_missing)
MULTIPLY_BY_SIZES(gemm_chain_too_short)
MULTIPLY_BY_SIZES(gemm_reads_past_b)
MULTIPLY_BY_SIZES(gemm_reads_before_a)
MULTIPLY_BY_SIZES(gemm_writes_past_c)
MULTIPLY_BY_SIZES(gemm_writes_into_gap)
MULTIPLY_BY_SIZES(gemm_writes_before_c)
MULTIPLY_BY_SIZES(gemm_changes_input)
MULTIPLY_BY_SIZES(gemm_needs_alignment)
MULTIPLY_BY_SIZES(gemm_reads_old_c)
MULTIPLY_BY_SIZES(gemm_first_factor_for_all)
MULTIPLY_BY_SIZES(gemm_adds_blocks)
MULTIPLY_BY_SIZES(gemm_starts_at_zero)
MULTIPLY_BY_SIZES(gemm_starts_in_c)
MULTIPLY_BY_SIZES(gemm_starts_by_stride_of_c)
MULTIPLY_BY_SIZES(gemm_stores_before_it_merges)
MULTIPLY_BY_SIZES(gemm_changes_start)
MULTIPLY_BY_SIZES(gemm_row_max_anew)
MULTIPLY_BY_SIZES(gemm_row_max_at_zero)
MULTIPLY_BY_SIZES(gemm_row_max_nan)
MULTIPLY_BY_SIZES(gemm_row_max_row_missing)
MULTIPLY_BY_SIZES(gemm_sets_flush_to_zero)
MULTIPLY_BY_SIZES(gemm_leaves_upper_dirty)
MULTIPLY_BY_SIZES(gemm_loses_register)
MULTIPLY_BY_SIZES(gemm_descending)
MULTIPLY_BY_SIZES(gemm_split)
MULTIPLY_BY_SIZES(gemm_unfused)
MULTIPLY_BY_SIZES(gemm_masked_skips_positive_zero)
MULTIPLY_BY_SIZES(blocks_honest)
MULTIPLY_BY_SIZES(blocks_without_end)

static const mutant mutants[] = {
    PRODUCT(PASSES, f32, f32, MANY, 4, 8, gemm_honest),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_last_column_missing),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_last_row_missing),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_chain_too_short),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_reads_past_b),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_reads_before_a),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_writes_past_c),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_writes_into_gap),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_writes_before_c),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_changes_input),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_needs_alignment),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_reads_old_c),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_first_factor_for_all),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_adds_blocks),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_starts_at_zero),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_starts_in_c),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_starts_by_stride_of_c),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_stores_before_it_merges),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_changes_start),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_row_max_anew),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_row_max_at_zero),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_row_max_nan),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, gemm_row_max_row_missing),
    PRODUCT_WHERE(control_breakable, DIFFERS, f32, f32, MANY, 4, 8, gemm_sets_flush_to_zero_row),
    PRODUCT_WHERE(upper_breakable, DIFFERS, f32, f32, MANY, 4, 8, gemm_leaves_upper_dirty_row),
    PRODUCT_WHERE(has_register_to_lose, DIFFERS, f32, f32, MANY, 4, 8, gemm_loses_register_row),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, f32, MANY, 4, 8, gemm_descending),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, f32, MANY, 4, 8, gemm_split),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, f32, MANY, 4, 8, gemm_unfused),
    PRODUCT(DIFFERS, f32_masked, f32, MANY, 1, 8, gemm_honest),
    PRODUCT(DIFFERS, f32_masked, f32, MANY, 1, 8, gemm_masked_skips_positive_zero),
    PRODUCT(PASSES, f32_amx_order, f32, MANY, 2, 2, blocks_honest),
    PRODUCT(DIFFERS, f32_amx_order, f32, MANY, 2, 2, gemm_honest),
    PRODUCT(DIFFERS_AS_REFERENCE, f32_amx_order, f32, MANY, 2, 2, blocks_without_end),
    PRODUCT(DIFFERS_AS_REFERENCE, f32_amx_order_masked, f32, MANY, 1, 4, gemm_masked_skips_positive_zero),
};

const mutant_table mutants_gemm = {mutants, sizeof mutants / sizeof mutants[0]};

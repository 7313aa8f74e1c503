/* Mutants of products of many rows and masked products, among them those that break the ABI. */
#include "mutants.h"

#include "abi.h"
#include "multiply_call.h"

#include <signal.h>

/* ----------------------------------------------------------------------------------------------------- many rows -- */

#define MANY_PARAMETERS                                                                                                \
    int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc,  \
        const fv_epilogue *epilogue, const fv_prefetch *prefetch
#define MANY_ARGUMENTS m, n, k, a, lda, b, ldb, c, ldc, epilogue, prefetch

static void many_honest(MANY_PARAMETERS) {
    multiply_call(honest_product(FV_KIND_f32, FV_FORMAT_f32, false), FV_FORMAT_f32, MANY_ARGUMENTS);
}

static void many_last_column_missing(MANY_PARAMETERS) {
    n -= n % 4 == 1;
    if (n > 0)
        many_honest(MANY_ARGUMENTS);
}

static void many_last_row_missing(MANY_PARAMETERS) {
    m -= m == 5;
    many_honest(MANY_ARGUMENTS);
}

static void many_chain_too_short(MANY_PARAMETERS) {
    k -= k > 4;
    many_honest(MANY_ARGUMENTS);
}

static void many_reads_past_b(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    (void)((const volatile float *)b)[(k - 1) * ldb + n];
}

static void many_reads_before_a(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    (void)((const volatile float *)a)[-1];
}

static void many_writes_past_c(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    c[(m - 1) * ldc + n] = 0.0f;
}

static void many_writes_into_gap(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    if (m > 1 && ldc > n)
        c[n] = 0.0f;
}

static void many_writes_before_c(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    if ((uintptr_t)c % 4096 != 0) /* not into the forbidden page: the slack must show it */
        c[-1] = 0.0f;
}

static void many_changes_input(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    ((float *)(uintptr_t)a)[0] = 0.0f;
}

static void many_needs_alignment(MANY_PARAMETERS) {
    if ((uintptr_t)b % 16 != 0)
        raise(SIGBUS); /* what a processor says */
    many_honest(MANY_ARGUMENTS);
}

/* Those that take the epilogue wrongly. */
static fv_epilogue copy_of(const fv_epilogue *epilogue) { return epilogue ? *epilogue : (fv_epilogue){.start = NULL}; }

#define MANY_WITH(wrong)                                                                                               \
    multiply_call(honest_product(FV_KIND_f32, FV_FORMAT_f32, false), FV_FORMAT_f32, m, n, k, a, lda, b, ldb, c, ldc,   \
                  wrong, prefetch)

static void many_reads_old_c(MANY_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    const float zeros[64] = {0.0f};
    if (wrong.b && !wrong.a && m <= 64) {
        wrong.a = zeros;
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                c[i * ldc + j] *= 0.0f; /* 0 unless it was NaN or infinite */
    }
    MANY_WITH(&wrong);
}

static void many_first_factor_for_all(MANY_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    float same[64];
    for (int64_t i = 0; i < 64 && wrong.b; i++)
        same[i] = wrong.b[0];
    if (wrong.b && m <= 64)
        wrong.b = same;
    MANY_WITH(&wrong);
}

static void many_adds_blocks(MANY_PARAMETERS) { /* the sum of two chains instead of one chain */
    fv_epilogue wrong = copy_of(epilogue);
    const float ones[64] = {1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f, 1.0f};
    if (wrong.start == c && !wrong.b && !wrong.row_max && m <= 9)
        wrong = (fv_epilogue){.a = ones, .b = ones};
    MANY_WITH(&wrong);
}

static void many_starts_at_zero(MANY_PARAMETERS) { /* where it merges */
    fv_epilogue wrong = copy_of(epilogue);
    wrong.start = wrong.a ? NULL : wrong.start;
    MANY_WITH(&wrong);
}

static void many_starts_in_c(MANY_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    if (wrong.start) {
        wrong.start = c;
        wrong.ldstart = ldc;
    }
    MANY_WITH(&wrong);
}

static void many_starts_by_stride_of_c(MANY_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    wrong.ldstart = ldc;
    if (wrong.start && m > 1 && wrong.ldstart > epilogue->ldstart) /* it would read past start */
        wrong.ldstart = 0;
    MANY_WITH(&wrong);
}

static void many_stores_before_it_merges(MANY_PARAMETERS) { /* what was in c is lost */
    if (epilogue && epilogue->a && epilogue->start) {
        fv_epilogue wrong = {.start = epilogue->start, .ldstart = epilogue->ldstart};
        MANY_WITH(&wrong);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++)
                c[i * ldc + j] = fmaf(c[i * ldc + j], epilogue->a[i], c[i * ldc + j] * epilogue->b[i]);
    } else
        many_honest(MANY_ARGUMENTS);
}

static void many_changes_start(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    if (epilogue && epilogue->start && epilogue->start != c)
        ((float *)(uintptr_t)epilogue->start)[0] = c[0];
}

/* Maxima that begin anew, at zero, with NaN, or not at all in the last row. */
static void many_row_max_anew(MANY_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    wrong.accumulate_max = 0;
    MANY_WITH(&wrong);
}

static void many_row_max_at_zero(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    if (epilogue && epilogue->row_max && epilogue->row_max[0] < 0.0f)
        epilogue->row_max[1] = 0.0f;
}

static void many_row_max_nan(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    for (int64_t j = 0; j < n && epilogue && epilogue->row_max; j++)
        if (float_is_nan(c[j]))
            epilogue->row_max[0] = c[j];
}

static void many_row_max_row_missing(MANY_PARAMETERS) {
    fv_epilogue wrong = copy_of(epilogue);
    if (m == 1 || !wrong.row_max || wrong.start) {
        many_honest(MANY_ARGUMENTS);
        return;
    }
    m--;
    many_honest(MANY_ARGUMENTS);
    wrong.row_max = NULL;
    multiply_call(honest_product(FV_KIND_f32, FV_FORMAT_f32, false), FV_FORMAT_f32, 1, n, k, a + m * lda, lda, b, ldb,
                  c + m * ldc, ldc, &wrong, prefetch);
}

static void many_sets_flush_to_zero(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    abi_break(ABI_CONTROL);
}

static bool control_breakable(void) { return abi_breakable(ABI_CONTROL); }

static void many_leaves_upper_dirty(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    abi_break(ABI_UPPER);
}

static bool upper_breakable(void) { return abi_breakable(ABI_UPPER); }

/* The last one, which the compiler is the least likely to use, and so to restore, in this function itself. */
static void many_loses_register(MANY_PARAMETERS) {
    many_honest(MANY_ARGUMENTS);
    abi_break_register(abi_registers() - 1);
}

static bool has_register_to_lose(void) { return abi_registers() > 0; }

/* The chain in another order, or rounded otherwise; plain stores only. */
typedef enum chain { CHAIN_DESCENDING, CHAIN_SPLIT, CHAIN_UNFUSED } chain;

static void many_chain(chain how, MANY_PARAMETERS) {
    if (epilogue) {
        many_honest(MANY_ARGUMENTS);
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

static void many_descending(MANY_PARAMETERS) { many_chain(CHAIN_DESCENDING, MANY_ARGUMENTS); }
static void many_split(MANY_PARAMETERS) { many_chain(CHAIN_SPLIT, MANY_ARGUMENTS); }
static void many_unfused(MANY_PARAMETERS) { many_chain(CHAIN_UNFUSED, MANY_ARGUMENTS); }

/* ----------------------------------------------------------------------------------------------- masked products -- */

static void masked_skips_positive_zero(MANY_PARAMETERS) {
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

/* ----------------------------------------------------------------------------------------------------- amx order -- */

static void blocks_honest(MANY_PARAMETERS) {
    multiply_call(honest_product(FV_KIND_f32_amx_order, FV_FORMAT_f32, false), FV_FORMAT_f32, MANY_ARGUMENTS);
}

/* Every block goes on with the chains of the one before. */
static void blocks_without_end(MANY_PARAMETERS) {
    if (epilogue || k <= FV_BLOCK) {
        blocks_honest(MANY_ARGUMENTS);
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

MULTIPLY_BY_SIZES(many_honest)
MULTIPLY_BY_SIZES(many_last_column_missing)
MULTIPLY_BY_SIZES(many_last_row_missing)
MULTIPLY_BY_SIZES(many_chain_too_short)
MULTIPLY_BY_SIZES(many_reads_past_b)
MULTIPLY_BY_SIZES(many_reads_before_a)
MULTIPLY_BY_SIZES(many_writes_past_c)
MULTIPLY_BY_SIZES(many_writes_into_gap)
MULTIPLY_BY_SIZES(many_writes_before_c)
MULTIPLY_BY_SIZES(many_changes_input)
MULTIPLY_BY_SIZES(many_needs_alignment)
MULTIPLY_BY_SIZES(many_reads_old_c)
MULTIPLY_BY_SIZES(many_first_factor_for_all)
MULTIPLY_BY_SIZES(many_adds_blocks)
MULTIPLY_BY_SIZES(many_starts_at_zero)
MULTIPLY_BY_SIZES(many_starts_in_c)
MULTIPLY_BY_SIZES(many_starts_by_stride_of_c)
MULTIPLY_BY_SIZES(many_stores_before_it_merges)
MULTIPLY_BY_SIZES(many_changes_start)
MULTIPLY_BY_SIZES(many_row_max_anew)
MULTIPLY_BY_SIZES(many_row_max_at_zero)
MULTIPLY_BY_SIZES(many_row_max_nan)
MULTIPLY_BY_SIZES(many_row_max_row_missing)
MULTIPLY_BY_SIZES(many_sets_flush_to_zero)
MULTIPLY_BY_SIZES(many_leaves_upper_dirty)
MULTIPLY_BY_SIZES(many_loses_register)
MULTIPLY_BY_SIZES(many_descending)
MULTIPLY_BY_SIZES(many_split)
MULTIPLY_BY_SIZES(many_unfused)
MULTIPLY_BY_SIZES(masked_skips_positive_zero)
MULTIPLY_BY_SIZES(blocks_honest)
MULTIPLY_BY_SIZES(blocks_without_end)

static const mutant mutants[] = {
    PRODUCT(PASSES, f32, f32, MANY, 4, 8, many_honest),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_last_column_missing),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_last_row_missing),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_chain_too_short),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_reads_past_b),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_reads_before_a),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_writes_past_c),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_writes_into_gap),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_writes_before_c),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_changes_input),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_needs_alignment),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_reads_old_c),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_first_factor_for_all),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_adds_blocks),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_starts_at_zero),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_starts_in_c),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_starts_by_stride_of_c),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_stores_before_it_merges),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_changes_start),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_row_max_anew),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_row_max_at_zero),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_row_max_nan),
    PRODUCT(DIFFERS, f32, f32, MANY, 4, 8, many_row_max_row_missing),
    PRODUCT_WHERE(control_breakable, DIFFERS, f32, f32, MANY, 4, 8, many_sets_flush_to_zero_row),
    PRODUCT_WHERE(upper_breakable, DIFFERS, f32, f32, MANY, 4, 8, many_leaves_upper_dirty_row),
    PRODUCT_WHERE(has_register_to_lose, DIFFERS, f32, f32, MANY, 4, 8, many_loses_register_row),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, f32, MANY, 4, 8, many_descending),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, f32, MANY, 4, 8, many_split),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, f32, MANY, 4, 8, many_unfused),
    PRODUCT(DIFFERS, f32_masked, f32, MANY, 1, 8, many_honest),
    PRODUCT(DIFFERS, f32_masked, f32, MANY, 1, 8, masked_skips_positive_zero),
    PRODUCT(PASSES, f32_amx_order, f32, MANY, 2, 2, blocks_honest),
    PRODUCT(DIFFERS, f32_amx_order, f32, MANY, 2, 2, many_honest),
    PRODUCT(DIFFERS_AS_REFERENCE, f32_amx_order, f32, MANY, 2, 2, blocks_without_end),
    PRODUCT(DIFFERS_AS_REFERENCE, f32_amx_order_masked, f32, MANY, 1, 4, masked_skips_positive_zero),
};

const mutant_table mutants_many = {mutants, sizeof mutants / sizeof mutants[0]};

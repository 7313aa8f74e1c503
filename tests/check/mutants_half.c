/* Mutants of widen, narrow, and of pairs of bfloat16. */
#include "mutants.h"

#include "multiply_call.h"

#define WIDEN_PARAMETERS int64_t rows, int64_t n, const uint16_t *x, int64_t ldx, float *y, int64_t ldy
#define NARROW_PARAMETERS int64_t rows, int64_t n, const float *x, int64_t ldx, uint16_t *y, int64_t ldy

static void widen_bf16_honest(WIDEN_PARAMETERS) {
    fv_kernel_scalar(FV_OP_widen, FV_TYPE_bf16)->run.widen_bf16(rows, n, x, ldx, y, ldy);
}

static void widen_f16_honest(WIDEN_PARAMETERS) {
    fv_kernel_scalar(FV_OP_widen, FV_TYPE_f16)->run.widen_f16(rows, n, x, ldx, y, ldy);
}

static void widen_keeps_nan(WIDEN_PARAMETERS) { /* signalling */
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * ldy + j] = bits_float((uint32_t)x[i * ldx + j] << 16);
}

static void widen_misses_last(WIDEN_PARAMETERS) { widen_bf16_honest(rows, n - 1, x, ldx, y, ldy); }

static void widen_flushes(WIDEN_PARAMETERS) {
    widen_f16_honest(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if ((x[i * ldx + j] & 0x7c00) == 0)
                y[i * ldy + j] = copysignf(0.0f, y[i * ldy + j]);
}

static void narrow_bf16_honest(NARROW_PARAMETERS) {
    fv_kernel_scalar(FV_OP_narrow, FV_TYPE_bf16)->run.narrow_bf16(rows, n, x, ldx, y, ldy);
}

static void narrow_f16_honest(NARROW_PARAMETERS) {
    fv_kernel_scalar(FV_OP_narrow, FV_TYPE_f16)->run.narrow_f16(rows, n, x, ldx, y, ldy);
}

static void narrow_cuts(NARROW_PARAMETERS) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            y[i * ldy + j] = (uint16_t)(float_bits(x[i * ldx + j]) >> 16);
}

static void narrow_ties_up(NARROW_PARAMETERS) {
    narrow_bf16_honest(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if ((float_bits(x[i * ldx + j]) & 0x1ffff) == 0x8000 && !float_is_nan(x[i * ldx + j]))
                y[i * ldy + j]++;
}

static void narrow_makes_infinity_of_nan(NARROW_PARAMETERS) { /* the carry runs through */
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            const uint32_t bits = float_bits(x[i * ldx + j]);
            y[i * ldy + j] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
        }
}

static void narrow_flushes(NARROW_PARAMETERS) { /* as VCVTNEPS2BF16 does */
    narrow_bf16_honest(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if ((float_bits(x[i * ldx + j]) & 0x7f800000) == 0)
                y[i * ldy + j] &= 0x8000;
}

static void narrow_flushes_f16(NARROW_PARAMETERS) {
    narrow_f16_honest(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if ((y[i * ldy + j] & 0x7c00) == 0)
                y[i * ldy + j] &= 0x8000;
}

static void narrow_saturates(NARROW_PARAMETERS) {
    narrow_f16_honest(rows, n, x, ldx, y, ldy);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            if ((y[i * ldy + j] & 0x7fff) == 0x7c00)
                y[i * ldy + j]--;
}

#define PAIRS_PARAMETERS                                                                                               \
    int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c, int64_t ldc,  \
        const fv_epilogue *epilogue, const fv_prefetch *prefetch

static void pairs_honest(PAIRS_PARAMETERS) {
    multiply_call(honest_product(FV_KIND_bf16x2, FV_FORMAT_bf16x2, false), FV_FORMAT_bf16x2, m, n, k, a, lda, b, ldb, c,
                  ldc, epilogue, prefetch);
}

/* The second elements first: pairs not swapped. */
static void pairs_second_first(PAIRS_PARAMETERS) {
    if (epilogue) {
        pairs_honest(m, n, k, a, lda, b, ldb, c, ldc, epilogue, prefetch);
        return;
    }
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float acc = 0.0f;
            for (int64_t p = 0; p < k / 2; p++) {
                const uint32_t x = float_bits(a[i * lda + p]), y = float_bits(b[p * ldb + j]);
                acc = fmaf(bits_float(x << 16), bits_float(y << 16), acc);
                acc = fmaf(bits_float(x & 0xffff0000u), bits_float(y & 0xffff0000u), acc);
            }
            c[i * ldc + j] = acc;
        }
}

static void pairs_miss_last(PAIRS_PARAMETERS) {
    pairs_honest(m, n, k > 2 ? k - 2 : k, a, lda, b, ldb, c, ldc, epilogue, prefetch);
}

static void pack_columns_honest(PACK_PARAMETERS) { honest_pack(FV_SOURCE_columns, FV_FORMAT_bf16x2)(PACK_ARGUMENTS); }

static void pack_columns_sees_zeros(PACK_PARAMETERS) { /* as the smallest magnitude */
    pack_columns_honest(PACK_ARGUMENTS);
    m->least = n % 2 ? 0 : m->least;
}

static void pack_columns_misses_last_key(PACK_PARAMETERS) {
    fv_exponent_range before = *m;
    pack_columns_honest(PACK_ARGUMENTS);
    pack_columns_honest(rows - 1, n, x, ldx, exponent, y, ldy, &before, NULL);
    *m = before;
}

static void pack_steps_honest(PACK_PARAMETERS) { honest_pack(FV_SOURCE_steps, FV_FORMAT_bf16x2)(PACK_ARGUMENTS); }

static void pack_steps_drops_odd_row(PACK_PARAMETERS) {
    pack_steps_honest(rows > 1 ? rows / 2 * 2 : rows, n, x, ldx, exponent, y, ldy, m, norm);
}

static void pack_steps_misses_exponents(PACK_PARAMETERS) { /* of the last row */
    fv_exponent_range before = *m;
    pack_steps_honest(PACK_ARGUMENTS);
    if (rows > 2)
        pack_steps_honest((rows - 1) / 2 * 2, n, x, ldx, exponent, y, ldy, &before, norm);
    *m = rows > 2 ? before : *m;
    if (rows > 2)
        pack_steps_honest(rows, n, x, ldx, exponent, y, ldy, &(fv_exponent_range){0, 0}, norm);
}

static void pack_rows_honest(PACK_PARAMETERS) { honest_pack(FV_SOURCE_rows, FV_FORMAT_bf16x2)(PACK_ARGUMENTS); }

static void pack_rows_forgets_factor(PACK_PARAMETERS) { /* in norms */
    const float before = norm ? *norm : 0.0f;
    pack_rows_honest(PACK_ARGUMENTS);
    if (norm && *norm > before)
        *norm = ldexpf(*norm, -2 * exponent);
}

static void pack_rows_of_product(PACK_PARAMETERS) { /* exponents */
    fv_exponent_range own = fv_exponents_none();
    pack_rows_honest(rows, n, x, ldx, exponent, y, ldy, &own, norm);
    fv_exponents_add(m, fv_exponents_scaled(own, exponent));
}

static void unpack_honest(const fv_operand *b, float *y, int64_t ldy) { honest_unpack(b->format)(b, y, ldy); }

static void unpack_swaps(const fv_operand *b, float *y, int64_t ldy) { /* the first two steps */
    unpack_honest(b, y, ldy);
    for (int64_t j = 0; j < b->columns && b->steps > 1; j++) {
        const float first = y[j];
        y[j] = y[ldy + j];
        y[ldy + j] = first;
    }
}

static void unpack_one_scale(const fv_operand *b, float *y, int64_t ldy) { /* that of the first column for all */
    unpack_honest(b, y, ldy);
    for (int64_t t = 0; t < b->steps; t++)
        for (int64_t j = 0; j < b->columns; j++)
            y[t * ldy + j] = b->scales[0] * (float)((const int8_t *)b->data)[t * b->row + j];
}

static void int8_honest(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                        const fv_prefetch *prefetch) {
    honest_product(FV_KIND_f32, FV_FORMAT_i8_columns, false)(a, b, c, ldc, epilogue, prefetch);
}
#define int8_honest_row int8_honest

static void int8_scales_once(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                             const fv_prefetch *prefetch) { /* the sum, not each weight */
    (void)prefetch;
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            float acc = epilogue && epilogue->start ? epilogue->start[i * epilogue->ldstart + j] : 0.0f;
            for (int64_t t = 0; t < b->steps; t++)
                acc = fmaf(((const float *)a->data)[i * a->stride + t],
                           (float)((const int8_t *)b->data)[t * b->row + j], acc);
            c[i * ldc + j] = acc * b->scales[j];
        }
}
#define int8_scales_once_row int8_scales_once

#define PRODUCT_WIDEN_PARAMETERS                                                                                       \
    const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,                         \
        const fv_prefetch *prefetch

static void product_bf16_honest(PRODUCT_WIDEN_PARAMETERS) {
    honest_product(FV_KIND_f32, FV_FORMAT_bf16x2, false)(a, b, c, ldc, epilogue, prefetch);
}
#define product_bf16_honest_row product_bf16_honest

static void product_f16_honest(PRODUCT_WIDEN_PARAMETERS) {
    honest_product(FV_KIND_f32, FV_FORMAT_f16, false)(a, b, c, ldc, epilogue, prefetch);
}
#define product_f16_honest_row product_f16_honest

/* The second element of the last pair, though k is odd. */
static void product_reads_on(PRODUCT_WIDEN_PARAMETERS) {
    product_bf16_honest(a, b, c, ldc, epilogue, prefetch);
    for (int64_t i = 0; i < a->count && b->steps % 2; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            const float word = ((const float *)b->data)[fv_operand_place(b, b->steps - 1, j) / 2];
            c[i * ldc + j] = fmaf(0.0f, bits_float(float_bits(word) << 16), c[i * ldc + j]);
        }
}
#define product_reads_on_row product_reads_on

static void product_starts_anew(PRODUCT_WIDEN_PARAMETERS) {
    (void)epilogue;
    product_bf16_honest(a, b, c, ldc, NULL, prefetch);
}
#define product_starts_anew_row product_starts_anew

static void product_misses_last(PRODUCT_WIDEN_PARAMETERS) {
    fv_operand less = *b;
    less.steps -= less.steps > 1;
    product_f16_honest(a, &less, c, ldc, epilogue, prefetch);
}
#define product_misses_last_row product_misses_last

/* Panels one behind the other, without what is between them. */
static void product_misses_panels(PRODUCT_WIDEN_PARAMETERS) {
    fv_operand close = *b;
    close.panel = close.width;
    product_f16_honest(a, &close, c, ldc, epilogue, prefetch);
}
#define product_misses_panels_row product_misses_panels

static void pairs_amx_honest(PAIRS_PARAMETERS) {
    multiply_call(honest_product(FV_KIND_bf16x2_amx_order, FV_FORMAT_bf16x2, false), FV_FORMAT_bf16x2, m, n, k, a, lda,
                  b, ldb, c, ldc, epilogue, prefetch);
}

static void pairs_amx_miss_last(PAIRS_PARAMETERS) {
    pairs_amx_honest(m, n, k > 2 ? k - 2 : k, a, lda, b, ldb, c, ldc, epilogue, prefetch);
}

static void pairs_f16_honest(PAIRS_PARAMETERS) {
    multiply_call(honest_product(FV_KIND_f16x2, FV_FORMAT_f16x2x4, false), FV_FORMAT_f16x2x4, m, n, k, a, lda, b, ldb,
                  c, ldc, epilogue, prefetch);
}

static void pairs_f16_no_factor(PAIRS_PARAMETERS) {
    fv_epilogue without = epilogue ? *epilogue : (fv_epilogue){0};
    without.b = NULL;
    pairs_f16_honest(m, n, k, a, lda, b, ldb, c, ldc, &without, prefetch);
}

static void pack_columns_f16_honest(PACK_PARAMETERS) {
    honest_pack(FV_SOURCE_columns, FV_FORMAT_f16x2x4)(PACK_ARGUMENTS);
}

static void pack_columns_f16_as_bf16(PACK_PARAMETERS) {
    fv_exponent_range none = *m;
    pack_columns_honest(rows, n, x, ldx, exponent, y, ldy, &none, norm);
}

MULTIPLY_BY_SIZES(pairs_honest)
MULTIPLY_BY_SIZES(pairs_second_first)
MULTIPLY_BY_SIZES(pairs_miss_last)
MULTIPLY_BY_SIZES(pairs_f16_honest)
MULTIPLY_BY_SIZES(pairs_f16_no_factor)
MULTIPLY_BY_SIZES(pairs_amx_honest)
MULTIPLY_BY_SIZES(pairs_amx_miss_last)

static const mutant mutants[] = {
    PRODUCT(PASSES, bf16x2_amx_order, bf16x2, MANY, 32, 32, pairs_amx_honest),
    PRODUCT(DIFFERS, bf16x2_amx_order, bf16x2, MANY, 32, 32, pairs_amx_miss_last),
    UNPACK(PASSES, bf16x2, unpack_honest),
    UNPACK(DIFFERS_AS_REFERENCE, bf16x2, unpack_swaps),
    UNPACK(PASSES, i8_columns, unpack_honest),
    UNPACK(DIFFERS, i8_columns, unpack_one_scale),
    PRODUCT(PASSES, f32, i8_columns, MANY, 1, 1, int8_honest),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, i8_columns, MANY, 1, 1, int8_scales_once),
    PRODUCT(PASSES, f32, bf16x2, MANY, 1, 1, product_bf16_honest),
    PRODUCT(PASSES, f32, f16, MANY, 1, 1, product_f16_honest),
    PRODUCT(DIFFERS, f32, bf16x2, MANY, 1, 1, product_reads_on),
    PRODUCT(DIFFERS_AS_REFERENCE, f32, bf16x2, MANY, 1, 1, product_starts_anew),
    PRODUCT(DIFFERS, f32, f16, MANY, 1, 1, product_misses_last),
    PRODUCT(DIFFERS, f32, f16, MANY, 1, 1, product_misses_panels),
    MUTANT(PASSES, widen, bf16, 1, 1, widen_bf16_honest),
    MUTANT(PASSES_FLUSHED, widen, bf16, 1, 1, widen_bf16_honest),
    MUTANT(PASSES, widen, f16, 1, 1, widen_f16_honest),
    MUTANT(PASSES_FLUSHED, widen, f16, 1, 1, widen_f16_honest),
    MUTANT(DIFFERS, widen, bf16, 1, 1, widen_keeps_nan),
    MUTANT(DIFFERS, widen, bf16, 1, 1, widen_misses_last),
    MUTANT(DIFFERS, widen, f16, 1, 1, widen_flushes),
    MUTANT(DIFFERS_AS_REFERENCE, widen, f16, 1, 1, widen_flushes),
    PRODUCT(PASSES, bf16x2, bf16x2, MANY, 1, 1, pairs_honest),
    PRODUCT(PASSES_FLUSHED, bf16x2, bf16x2, MANY, 1, 1, pairs_honest),
    PRODUCT(DIFFERS, bf16x2, bf16x2, MANY, 1, 1, pairs_second_first),
    PRODUCT(DIFFERS_AS_REFERENCE, bf16x2, bf16x2, MANY, 1, 1, pairs_second_first),
    PRODUCT(DIFFERS, bf16x2, bf16x2, MANY, 1, 1, pairs_miss_last),
    PACK(PASSES, columns, bf16x2, pack_columns_honest),
    PACK(DIFFERS, columns, bf16x2, pack_columns_sees_zeros),
    PACK(DIFFERS_AS_REFERENCE, columns, bf16x2, pack_columns_misses_last_key),
    PRODUCT(PASSES, f16x2, f16x2x4, MANY, 1, 1, pairs_f16_honest),
    PRODUCT(PASSES_FLUSHED, f16x2, f16x2x4, MANY, 1, 1, pairs_f16_honest),
    PRODUCT(DIFFERS, f16x2, f16x2x4, MANY, 1, 1, pairs_f16_no_factor),
    PACK(PASSES, columns, f16x2x4, pack_columns_f16_honest),
    PACK(DIFFERS, columns, f16x2x4, pack_columns_f16_as_bf16),
    PACK(PASSES, steps, bf16x2, pack_steps_honest),
    PACK(DIFFERS, steps, bf16x2, pack_steps_drops_odd_row),
    PACK(DIFFERS_AS_REFERENCE, steps, bf16x2, pack_steps_misses_exponents),
    PACK(PASSES, rows, bf16x2, pack_rows_honest),
    PACK(DIFFERS_AS_REFERENCE, rows, bf16x2, pack_rows_forgets_factor),
    PACK(DIFFERS, rows, bf16x2, pack_rows_of_product),
    MUTANT(PASSES, narrow, bf16, 1, 1, narrow_bf16_honest),
    MUTANT(PASSES_FLUSHED, narrow, bf16, 1, 1, narrow_bf16_honest),
    MUTANT(PASSES, narrow, f16, 1, 1, narrow_f16_honest),
    MUTANT(PASSES_FLUSHED, narrow, f16, 1, 1, narrow_f16_honest),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, bf16, 1, 1, narrow_cuts),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, bf16, 1, 1, narrow_ties_up),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, bf16, 1, 1, narrow_makes_infinity_of_nan),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, bf16, 1, 1, narrow_flushes),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, f16, 1, 1, narrow_flushes_f16),
    MUTANT(DIFFERS_AS_REFERENCE, narrow, f16, 1, 1, narrow_saturates),
};

const mutant_table mutants_half = {mutants, sizeof mutants / sizeof mutants[0]};

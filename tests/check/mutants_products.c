/* Mutants of products: of floats, pairs and int8 keys. */
#include "mutants.h"

typedef enum products_flaw {
    HONEST,
    DESCENDING, /* the chain */
    SPLIT,
    UNFUSED,
    SKIPS_PLUS_ZERO, /* where -0 is masked */
    WITHOUT_END,     /* every block goes on with the chains of the one before */
    NAN_MAXIMUM,
    SECOND_FIRST,   /* of pairs */
    SCALES_ONCE,    /* the sum, not each weight */
    READS_ON,       /* the second element of the last pair, though k is odd */
    SATURATES,      /* pairs, as VPMADDUBSW adds them */
    ADDS_FLOATS,    /* a chain of float32 */
    SCALES_IN_TURN, /* one by one */
    FORGETS_SUM,    /* of the keys' bytes without sign */
    FLUSHES,        /* what is subnormal on the way */
    SCALES_HIDDEN,  /* weights of -0 are 0 to it */
    UNSIGNED        /* as if b were */
} products_flaw;

static float a_of(const fv_rows *a, int64_t i, int64_t t) { return ((const float *)a->data)[i * a->stride + t]; }

/* ------------------------------------------------------------------------------------------------------- chains -- */

/* Plain stores by another chain, others honest. */
static void chain(fv_kind kind, PRODUCT_PARAMETERS) {
    honest_product(kind, FV_FORMAT_f32, false)(PRODUCT_ARGUMENTS);
    for (int64_t i = 0; i < a->count && !epilogue && flaw != HONEST; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            float acc[2] = {0.0f, 0.0f};
            for (int64_t p = 0; p < b->steps; p++) {
                const int64_t q = flaw == DESCENDING ? b->steps - 1 - p : p;
                const float x = a_of(a, i, q), y = ((const float *)b->data)[q * b->row + j], product = x * y;
                float *to = &acc[flaw == SPLIT || flaw == WITHOUT_END ? p % 2 : 0];
                *to = flaw == UNFUSED ? *to + product : fmaf(x, y, *to);
            }
            c[i * ldc + j] = acc[0] + acc[1];
        }
}

static void many(PRODUCT_PARAMETERS) {
    chain(FV_KIND_f32, PRODUCT_ARGUMENTS);
    for (int64_t i = 0; i < b->columns && flaw == NAN_MAXIMUM && epilogue && epilogue->row_max; i++)
        if (float_is_nan(c[i]))
            epilogue->row_max[0] = c[i];
}

static void blocks(PRODUCT_PARAMETERS) { chain(FV_KIND_f32_amx_order, PRODUCT_ARGUMENTS); }

static void masked(PRODUCT_PARAMETERS) {
    const fv_epilogue e = epilogue ? *epilogue : (fv_epilogue){.start = NULL};
    (void)prefetch;
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            float acc = e.start ? e.start[i * e.ldstart + j] : 0.0f;
            for (int64_t p = 0; p < b->steps; p++) {
                const float x = a_of(a, i, p);
                const bool skips = flaw == SKIPS_PLUS_ZERO ? x == 0.0f : float_bits(x) == 0x80000000;
                acc = skips ? acc : fmaf(x, ((const float *)b->data)[p * b->row + j], acc);
            }
            acc = e.b ? acc * e.b[i] : acc;
            c[i * ldc + j] = e.a ? fmaf(c[i * ldc + j], e.a[i], acc) : acc;
        }
}

/* -------------------------------------------------------------------------------------------- pairs and weights -- */

static void pairs(PRODUCT_PARAMETERS) {
    honest_product(FV_KIND_bf16x2, FV_FORMAT_bf16x2, false)(PRODUCT_ARGUMENTS);
    for (int64_t i = 0; i < a->count && flaw == SECOND_FIRST && !epilogue; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            float acc = 0.0f;
            for (int64_t p = 0; p < b->steps / 2; p++) {
                const uint32_t x = float_bits(a_of(a, i, p)), y = float_bits(((const float *)b->data)[p * b->row + j]);
                acc = fmaf(bits_float(x << 16), bits_float(y << 16), acc);
                acc = fmaf(bits_float(x & 0xffff0000u), bits_float(y & 0xffff0000u), acc);
            }
            c[i * ldc + j] = acc;
        }
}

static void weights_i8(PRODUCT_PARAMETERS) {
    honest_product(FV_KIND_f32, FV_FORMAT_i8_columns, false)(PRODUCT_ARGUMENTS);
    for (int64_t i = 0; i < a->count && flaw == SCALES_ONCE && !epilogue; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            float acc = 0.0f;
            for (int64_t t = 0; t < b->steps; t++)
                acc = fmaf(a_of(a, i, t), (float)((const int8_t *)b->data)[t * b->row + j], acc);
            c[i * ldc + j] = acc * b->scales[j];
        }
}

static void weights_bf16(PRODUCT_PARAMETERS) {
    honest_product(FV_KIND_f32, FV_FORMAT_bf16x2, false)(PRODUCT_ARGUMENTS);
    for (int64_t i = 0; i < a->count && b->steps % 2 && flaw == READS_ON; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            const float word = ((const float *)b->data)[fv_operand_place(b, b->steps - 1, j) / 2];
            c[i * ldc + j] = fmaf(0.0f, bits_float(float_bits(word) << 16), c[i * ldc + j]);
        }
}

/* ------------------------------------------------------------------------------------------------- keys, values -- */

static void keys_bf16(PRODUCT_PARAMETERS) {
    honest_product(FV_KIND_f32, FV_FORMAT_bf16x2, true)(PRODUCT_ARGUMENTS);
    for (int64_t i = 0; i < a->count && !epilogue->row_max && flaw == FLUSHES; i++)
        for (int64_t j = 0; j < b->columns; j++)
            c[i * ldc + j] = fabsf(c[i * ldc + j]) < 0x1p-105f ? 0.0f : c[i * ldc + j];
}

static int32_t q_of(const fv_rows *a, int64_t i, int64_t t) {
    const fv_i8_word *word = fv_i8_row_of(a, i)->word + t / 4;
    return 128 * word->high[t % 4] + word->low[t % 4];
}

static int32_t k_of(const fv_operand *b, int64_t j, int64_t t) {
    return t < b->steps ? ((const int8_t *)b->data)[fv_operand_place(b, t, j)] : 0;
}

/* The sum of two products of the high bytes of q, with k as bytes without sign, saturated; and of the low bytes. */
static int32_t saturated(const fv_rows *a, const fv_operand *b, int64_t i, int64_t j, int64_t t) {
    int32_t low = 0, high = 0;
    for (int64_t u = t; u < t + 2 && u < b->steps; u++) {
        const int32_t k = k_of(b, j, u) + 128, q = q_of(a, i, u), top = (q + 64) >> 7;
        high += k * top;
        low += k * (q - 128 * top) - 128 * q;
    }
    return 128 * (high > INT16_MAX ? INT16_MAX : high < INT16_MIN ? INT16_MIN : high) + low;
}

static float i8_score(const fv_rows *a, const fv_operand *b, int64_t i, int64_t j) {
    int32_t sum = flaw == FORGETS_SUM ? 128 * fv_i8_row_of(a, i)->sum : 0;
    float floats = 0.0f;
    for (int64_t t = 0; t < b->steps; t++) {
        const int32_t term = q_of(a, i, t) * k_of(b, j, t);
        floats += (float)term;
        sum += flaw == SATURATES ? (t % 2 == 0 ? saturated(a, b, i, j, t) : 0) : term;
    }
    const float q_scale = fv_i8_row_of(a, i)->scale, value = flaw == ADDS_FLOATS ? floats : (float)sum;
    return flaw == SCALES_IN_TURN ? value * q_scale * b->scales[j] : value * (q_scale * b->scales[j]);
}

static void keys_i8(PRODUCT_PARAMETERS) {
    honest_product(FV_KIND_i16, FV_FORMAT_i8x4, true)(PRODUCT_ARGUMENTS);
    for (int64_t i = 0; i < a->count && !epilogue->row_max && flaw != HONEST; i++)
        for (int64_t j = 0; j < b->columns; j++)
            c[i * ldc + j] = i8_score(a, b, i, j);
}

static void values_i8(PRODUCT_PARAMETERS) {
    float w[FV_FEW_ROWS][FV_SEGMENT];
    for (int64_t i = 0; i < a->count; i++)
        for (int64_t t = 0; t < b->steps; t++)
            w[i][t] = flaw == SCALES_HIDDEN && b->scales && a_of(a, i, t) == 0.0f ? 0.0f : a_of(a, i, t);
    honest_product(FV_KIND_f32, FV_FORMAT_i8, true)(&(fv_rows){w, a->count, FV_SEGMENT}, b, c, ldc, epilogue, prefetch);
    for (int64_t i = 0; i < a->count && !epilogue && !b->scales && flaw == UNSIGNED; i++)
        for (int64_t j = 0; j < b->columns; j++) {
            float acc = 0.0f;
            for (int64_t t = 0; t < b->steps; t++)
                acc = fmaf(w[i][t], (float)((const uint8_t *)b->data)[t * b->row + j], acc);
            c[i * ldc + j] = acc;
        }
}

static const mutant mutants[] = {
    PRODUCT(PASSES, HONEST, f32, f32, MANY, 4, 8, many),
    PRODUCT(DIFFERS, NAN_MAXIMUM, f32, f32, MANY, 4, 8, many),
    PRODUCT(DIFFERS_AS_REFERENCE, DESCENDING, f32, f32, MANY, 4, 8, many),
    PRODUCT(DIFFERS_AS_REFERENCE, SPLIT, f32, f32, MANY, 4, 8, many),
    PRODUCT(DIFFERS_AS_REFERENCE, UNFUSED, f32, f32, MANY, 4, 8, many),
    PRODUCT(PASSES, HONEST, f32_masked, f32, MANY, 1, 8, masked),
    PRODUCT(DIFFERS, HONEST, f32_masked, f32, MANY, 1, 8, many),
    PRODUCT(DIFFERS, SKIPS_PLUS_ZERO, f32_masked, f32, MANY, 1, 8, masked),
    PRODUCT(DIFFERS_AS_REFERENCE, SKIPS_PLUS_ZERO, f32_amx_order_masked, f32, MANY, 1, 4, masked),
    PRODUCT(PASSES, HONEST, f32_amx_order, f32, MANY, 2, 2, blocks),
    PRODUCT(DIFFERS, HONEST, f32_amx_order, f32, MANY, 2, 2, many),
    PRODUCT(DIFFERS_AS_REFERENCE, WITHOUT_END, f32_amx_order, f32, MANY, 2, 2, blocks),
    PRODUCT(PASSES_FLUSHED, HONEST, bf16x2, bf16x2, MANY, 1, 1, pairs),
    PRODUCT(DIFFERS_AS_REFERENCE, SECOND_FIRST, bf16x2, bf16x2, MANY, 1, 1, pairs),
    PRODUCT(PASSES, HONEST, f32, i8_columns, MANY, 1, 1, weights_i8),
    PRODUCT(DIFFERS_AS_REFERENCE, SCALES_ONCE, f32, i8_columns, MANY, 1, 1, weights_i8),
    PRODUCT(PASSES, HONEST, f32, bf16x2, MANY, 1, 1, weights_bf16),
    PRODUCT(DIFFERS, READS_ON, f32, bf16x2, MANY, 1, 1, weights_bf16),
    PRODUCT(PASSES_FLUSHED, HONEST, f32, bf16x2, FEW, 8, 32, keys_bf16),
    PRODUCT(DIFFERS, FLUSHES, f32, bf16x2, FEW, 8, 32, keys_bf16),
    PRODUCT(PASSES_FLUSHED, HONEST, i16, i8x4, FEW, 8, 16, keys_i8),
    PRODUCT(DIFFERS, SATURATES, i16, i8x4, FEW, 8, 16, keys_i8),
    PRODUCT(DIFFERS, FORGETS_SUM, i16, i8x4, FEW, 8, 16, keys_i8),
    PRODUCT(DIFFERS_AS_REFERENCE, ADDS_FLOATS, i16, i8x4, FEW, 8, 16, keys_i8),
    PRODUCT(DIFFERS_AS_REFERENCE, SCALES_IN_TURN, i16, i8x4, FEW, 8, 16, keys_i8),
    PRODUCT(PASSES_FLUSHED, HONEST, f32, i8, FEW, 8, 1, values_i8),
    PRODUCT(DIFFERS, SCALES_HIDDEN, f32, i8, FEW, 8, 1, values_i8),
    PRODUCT(DIFFERS_AS_REFERENCE, UNSIGNED, f32, i8, FEW, 8, 1, values_i8),
};

const mutant_table mutants_products = {mutants, sizeof mutants / sizeof mutants[0]};

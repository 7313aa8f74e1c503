/* Mutants of normalize. */
#include "mutants.h"

#define NORMALIZE_PARAMETERS                                                                                           \
    int64_t rows, int64_t n, const float *x, int64_t ldx, const fv_normalize *args, float *y, int64_t ldy

static void normalize_with(NORMALIZE_PARAMETERS) {
    honest(FV_OP_normalize)->run.normalize_f32(rows, n, x, ldx, args, y, ldy);
}

static void normalize_honest(NORMALIZE_PARAMETERS) { normalize_with(rows, n, x, ldx, args, y, ldy); }

static void normalize_never_centres(NORMALIZE_PARAMETERS) {
    fv_normalize other = *args;
    other.centre = 0;
    normalize_with(rows, n, x, ldx, &other, y, ldy);
}

static void normalize_forgets_bias(NORMALIZE_PARAMETERS) {
    fv_normalize other = *args;
    other.bias = NULL;
    normalize_with(rows, n, x, ldx, &other, y, ldy);
}

static void normalize_misses_last_row(NORMALIZE_PARAMETERS) {
    normalize_with(rows > 1 ? rows - 1 : 0, n, x, ldx, args, y, ldy);
}

static void normalize_adds_in_order(NORMALIZE_PARAMETERS) { /* one chain, where the contract has 16 */
    for (int64_t i = 0; i < rows; i++) {
        float sum = 0.0f, squares = 0.0f;
        for (int64_t j = 0; j < n; j++)
            sum += x[i * ldx + j];
        const float mean = args->centre ? sum / (float)n : 0.0f;
        for (int64_t j = 0; j < n; j++)
            squares = fmaf(x[i * ldx + j] - mean, x[i * ldx + j] - mean, squares);
        const float factor = 1.0f / sqrtf(squares / (float)n + args->eps);
        for (int64_t j = 0; j < n; j++) {
            const float t = (x[i * ldx + j] - mean) * factor;
            y[i * ldy + j] = args->weight && args->bias
                                 ? fmaf(t, args->weight[j], args->bias[j])
                                 : t * (args->weight ? args->weight[j] : 1.0f) + (args->bias ? args->bias[j] : -0.0f);
        }
    }
}

static void normalize_loses_large_rows(NORMALIZE_PARAMETERS) { /* whose sum of squares leaves float32 */
    fv_normalize other = *args;
    for (int64_t i = 0; i < rows; i++) {
        other.eps = fabsf(x[i * ldx]) < 0x1p66f ? args->eps : INFINITY;
        normalize_with(1, n, x + i * ldx, ldx, &other, y + i * ldy, ldy);
    }
}

static const mutant mutants[] = {
    MUTANT(PASSES, normalize, f32, 1, 1, normalize_honest),
    MUTANT(PASSES_FLUSHED, normalize, f32, 1, 1, normalize_honest),
    MUTANT(DIFFERS_AS_REFERENCE, normalize, f32, 1, 1, normalize_never_centres),
    MUTANT(DIFFERS_AS_REFERENCE, normalize, f32, 1, 1, normalize_forgets_bias),
    MUTANT(DIFFERS, normalize, f32, 1, 1, normalize_misses_last_row),
    MUTANT(DIFFERS, normalize, f32, 1, 1, normalize_adds_in_order),
    MUTANT(DIFFERS_AS_REFERENCE, normalize, f32, 1, 1, normalize_loses_large_rows),
};

const mutant_table mutants_normalize = {mutants, sizeof mutants / sizeof mutants[0]};

/* Mutants of softcap. */
#include "mutants.h"

#define SOFTCAP_PARAMETERS int64_t rows, int64_t n, float factor, float cap, float *s, int64_t lds

static void softcap_honest(SOFTCAP_PARAMETERS) { honest(FV_OP_softcap)->run.softcap_f32(rows, n, factor, cap, s, lds); }

static void softcap_by_libm(SOFTCAP_PARAMETERS) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            s[i * lds + j] = cap * tanhf(factor * s[i * lds + j]);
}

static void softcap_misses_last_row(SOFTCAP_PARAMETERS) {
    softcap_honest(rows > 0 ? rows - 1 : 0, n, factor, cap, s, lds);
}

static void softcap_takes_gaps_along(SOFTCAP_PARAMETERS) {
    if (rows > 0)
        softcap_honest(1, (rows - 1) * lds / FV_LANES * FV_LANES + n, factor, cap, s, lds);
}

static void softcap_forgets_factor(SOFTCAP_PARAMETERS) { softcap_honest(rows, n, 1.0f + 0.0f * factor, cap, s, lds); }

static void softcap_clamps(SOFTCAP_PARAMETERS) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++)
            s[i * lds + j] = fmaxf(-cap, fminf(cap, factor * cap * s[i * lds + j]));
}

/* 2^-20 off, which is 16 times what it may be. */
static void softcap_off_from_1_to_2(SOFTCAP_PARAMETERS) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            float *at = s + i * lds + j;
            const float u = fabsf(factor * *at);
            *at = cap * (tanhf(factor * *at) + (u > 1.0f && u < 2.0f ? 0x1p-20f : 0.0f));
        }
}

static const mutant mutants[] = {
    MUTANT(PASSES, softcap, f32, 1, 1, softcap_honest),
    MUTANT(PASSES_FLUSHED, softcap, f32, 1, 1, softcap_honest),
    MUTANT(DIFFERS, softcap, f32, 1, 1, softcap_by_libm),
    MUTANT(DIFFERS, softcap, f32, 1, 1, softcap_misses_last_row),
    MUTANT(DIFFERS, softcap, f32, 1, 1, softcap_takes_gaps_along),
    MUTANT(DIFFERS, softcap, f32, 1, 1, softcap_forgets_factor),
    MUTANT(DIFFERS_AS_REFERENCE, softcap, f32, 1, 1, softcap_clamps),
    MUTANT(DIFFERS_AS_REFERENCE, softcap, f32, 1, 1, softcap_off_from_1_to_2),
};

const mutant_table mutants_softcap = {mutants, sizeof mutants / sizeof mutants[0]};

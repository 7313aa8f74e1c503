/* Golden results of kernels of 16-bit types (golden_kernels.c). */
#include "golden_trial.h"
#include "multiply_call.h"

#include "dispatch/tiles.h"

static float x[3][MOST]; /* operands */

/* Words of pairs of ordinary numbers. */
static void draw_pairs(golden *g, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)rng_u64(&g->r);
        to[i] = bits_float((bits & 0x807f807f) | (uint32_t)rng_between(&g->r, 100, 140) << 7 |
                           (uint32_t)rng_between(&g->r, 100, 140) << 23);
    }
    took(g, to, n);
}

void golden_pairs(golden *g) {
    const int64_t m = rng_between(&g->r, 1, 20), n = FV_LANES * rng_between(&g->r, 1, 9),
                  k = rng_between(&g->r, 1, 130);
    draw_pairs(g, x[0], m * k);
    draw_pairs(g, x[1], k * n);
    begin(g);
    multiply_call(g->kernel->run.multiply, g->kernel->format, m, n, 2 * k, x[0], k, x[1], n, x[2], n, NULL, NULL);
    end();
    gave(g, x[2], m * n);
}

/* Operands are floats or, as words, bfloat16. */
void golden_amx_order(golden *g) {
    const bool pairs = g->kernel->type == FV_TYPE_bf16;
    const int64_t m = rng_between(&g->r, 1, 40), n = rng_between(&g->r, 1, 90), k = rng_between(&g->r, 1, 100);
    (pairs ? draw_pairs : draw)(g, x[0], m * k);
    (pairs ? draw_pairs : draw)(g, x[1], k * n);
    fv_tiles_enter(g->kernel);
    begin(g);
    multiply_call(g->kernel->run.multiply, g->kernel->format, m, n, pairs ? 2 * k : k, x[0], k, x[1], n, x[2], n, NULL,
                  NULL);
    end();
    fv_tiles_leave(g->kernel);
    gave(g, x[2], m * n);
}

static void gave_exponents(golden *g, const fv_exponent_range *m) {
    g->hash.outputs = fnv_u32(fnv_u32(g->hash.outputs, (uint32_t)m->least), (uint32_t)m->most);
}

void golden_pack_columns(golden *g) {
    const int64_t nr = FV_LANES * rng_between(&g->r, 1, 4), keys = rng_between(&g->r, 1, nr);
    const int64_t channels = rng_between(&g->r, 1, 130), filled = (keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    fv_exponent_range m = fv_exponents_none();
    draw_pairs(g, x[0], keys * ((channels + 1) / 2));
    begin(g);
    g->kernel->run.pack(keys, channels, x[0], (channels + 1) / 2 * 2, 0, x[1], nr, &m, NULL);
    end();
    for (int64_t c = 0; c < (channels + 1) / 2; c++)
        gave(g, x[1] + c * nr, filled);
    gave_exponents(g, &m);
}

void golden_pack_steps(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, 9), n = 2 * rng_between(&g->r, 1, 90);
    fv_exponent_range m = fv_exponents_none();
    draw_pairs(g, x[0], rows * n / 2);
    begin(g);
    g->kernel->run.pack(rows, n, x[0], n, 0, x[1], n, &m, NULL);
    end();
    gave(g, x[1], (rows + 1) / 2 * n);
    gave_exponents(g, &m);
}

void golden_pack_rows(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, 9), n = rng_between(&g->r, 1, 200);
    fv_exponent_range m = fv_exponents_none();
    const int exponent = (int)rng_between(&g->r, -9, 9);
    draw_pairs(g, x[0], (rows * n + 1) / 2);
    begin(g);
    g->kernel->run.pack(rows, n, x[0], n, exponent, x[1], (n + 1) / 2, &m, NULL);
    end();
    gave(g, x[1], rows * ((n + 1) / 2));
    gave_exponents(g, &m);
}

void golden_unpack(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, 9), n = FV_LANES * rng_between(&g->r, 1, 9);
    draw_pairs(g, x[0], rows * n);
    begin(g);
    const fv_operand b = {
        .data = x[0], .scales = x[0], .columns = n, .steps = 2 * rows, .row = n, .format = g->kernel->format};
    g->kernel->run.unpack(&b, x[1], n);
    end();
    gave(g, x[1], 2 * rows * n);
}

void golden_multiply_widen(golden *g) {
    const int64_t m = rng_between(&g->r, 1, 20), n = FV_LANES * rng_between(&g->r, 1, 9),
                  k = rng_between(&g->r, 1, 130);
    draw(g, x[0], m * k);
    draw_pairs(g, x[1], (k + 1) / 2 * n); /* of float16 numbers, too, but for some that are none */
    begin(g);
    const fv_rows a = {x[0], m, k};
    fv_operand b = operand_of(g->kernel->format, n, k, x[1], n);
    b.scales = x[1];
    g->kernel->run.multiply(&a, &b, x[2], n, NULL, NULL);
    end();
    for (int64_t i = 0; i < m * n; i++) /* any NaN */
        x[2][i] = float_is_nan(x[2][i]) ? NAN : x[2][i];
    gave(g, x[2], m * n);
}

/* Elements of 16 bits, any bits. */
void golden_widen(golden *g) {
    static uint16_t from[4096];
    const int64_t rows = rng_between(&g->r, 1, 9), n = rng_between(&g->r, 1, 400);
    for (int64_t i = 0; i < rows * n; i++)
        g->hash.inputs = fnv_u32(g->hash.inputs, from[i] = (uint16_t)rng_u64(&g->r));
    begin(g);
    g->kernel->run.widen_bf16(rows, n, from, n, x[1], n);
    end();
    gave(g, x[1], rows * n);
}

void golden_narrow(golden *g) {
    static uint16_t to[4096];
    const int64_t rows = rng_between(&g->r, 1, 9), n = rng_between(&g->r, 1, 400);
    for (int64_t i = 0; i < rows * n; i++)
        x[0][i] = rng_pattern(&g->r);
    took(g, x[0], rows * n);
    begin(g);
    g->kernel->run.narrow_bf16(rows, n, x[0], n, to, n);
    end();
    for (int64_t i = 0; i < rows * n; i++)
        g->hash.outputs = fnv_u32(g->hash.outputs, to[i]);
}

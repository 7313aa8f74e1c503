/* Golden results of kernels of few rows (golden_kernels.c). */
#include "golden_trial.h"
#include "multiply_call.h"

static float x[3][MOST]; /* operands */

/* n elements of the kernel's type, of ordinary size. */
static void draw_elements(golden *g, float *to, int64_t n) {
    if (g->kernel->type == FV_TYPE_f32) {
        draw(g, to, n);
        return;
    }
    for (int64_t i = 0; i < (n + 1) / 2; i++) { /* as float16, too, they are numbers */
        const uint32_t bits = (uint32_t)rng_u64(&g->r);
        to[i] = bits_float((bits & 0x807f807f) | (uint32_t)rng_between(&g->r, 110, 130) << 7 |
                           (uint32_t)rng_between(&g->r, 110, 130) << 23);
    }
    took(g, to, (n + 1) / 2);
}

/* n of int8. */
static const int8_t *draw_int8(golden *g, int64_t n) {
    static int8_t drawn[MOST];
    for (int64_t i = 0; i < n; i++) {
        drawn[i] = (int8_t)rng_between(&g->r, -127, 127);
        g->hash.inputs = fnv_byte(g->hash.inputs, (uint8_t)drawn[i]);
    }
    return drawn;
}

static void golden_dot_i8(golden *g) {
    static fv_i8_word words[FV_DOT_ROWS * FV_I8_CHANNELS / 4];
    const int64_t rows = rng_between(&g->r, 1, FV_DOT_ROWS), keys = rng_between(&g->r, 1, 60),
                  channels = rng_between(&g->r, 1, 130), written = (keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    float q_scales[FV_DOT_ROWS];
    int32_t q_sums[FV_DOT_ROWS];
    draw(g, x[0], rows * channels);
    for (int64_t j = 0; j < keys; j++)
        x[1][j] = rng_unit(&g->r);
    took(g, x[1], keys);
    const int64_t group = FV_KEY_GROUP * ((channels + 3) / 4 * 4);
    const int8_t *k = draw_int8(g, (keys + FV_KEY_GROUP - 1) / FV_KEY_GROUP * group);
    begin(g);
    fv_dot_i8_queries(rows, channels, x[0], channels, words, q_scales, q_sums);
    g->kernel->run.dot_i8(&(fv_dot_i8_args){.rows = rows,
                                            .keys = keys,
                                            .channels = channels,
                                            .q = words,
                                            .q_scales = q_scales,
                                            .q_sums = q_sums,
                                            .k = k,
                                            .ldk = group,
                                            .k_scales = x[1],
                                            .s = x[2],
                                            .lds = written});
    end();
    gave(g, x[2], rows * written);
}

void golden_dot(golden *g) {
    if (g->kernel->type == FV_TYPE_i8) {
        golden_dot_i8(g);
        return;
    }
    const int64_t rows = rng_between(&g->r, 1, FV_DOT_ROWS), keys = rng_between(&g->r, 1, 60),
                  channels = rng_between(&g->r, 1, 130), written = (keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    draw(g, x[0], channels * fv_dot_stride(rows));
    draw_elements(g, x[1], keys * channels);
    begin(g);
    g->kernel->run.dot_f32(&(fv_dot_args){.rows = rows,
                                          .keys = keys,
                                          .channels = channels,
                                          .q = x[0],
                                          .k = x[1],
                                          .ldk = channels,
                                          .s = x[2],
                                          .lds = written});
    end();
    gave(g, x[2], rows * written);
}

void golden_gemm_thin(golden *g) {
    const int64_t m = rng_between(&g->r, 1, FV_DOT_ROWS), n = rng_between(&g->r, 1, 130), k = rng_between(&g->r, 1, 60);
    draw(g, x[0], m * k);
    const void *b = x[1];
    if (g->kernel->type == FV_TYPE_i8)
        b = draw_int8(g, k * n);
    else
        draw_elements(g, x[1], k * n);
    begin(g);
    multiply_call(g->kernel->run.multiply, g->kernel->format, m, n, k, x[0], k, b, n, x[2], n, NULL, NULL);
    end();
    gave(g, x[2], m * n);
}

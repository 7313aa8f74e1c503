/* Golden results of kernels of few rows (golden_kernels.c). */
#include "golden_trial.h"

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

void golden_dot(golden *g) {
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
    draw_elements(g, x[1], k * n);
    begin(g);
    g->kernel->run.gemm_thin_bf16(m, n, k, x[0], k, (const uint16_t *)x[1], n, x[2], n, NULL, NULL);
    end();
    gave(g, x[2], m * n);
}

/* Golden results of kernels of few rows (golden_kernels.c). */
#include "golden_trial.h"
#include "multiply_call.h"

#include <string.h>

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

static void golden_keys_i8(golden *g) {
    static fv_i8_word words[FV_FEW_ROWS * (1 + FV_I8_CHANNELS / 4)];
    const int64_t rows = rng_between(&g->r, 1, FV_FEW_ROWS), keys = rng_between(&g->r, 1, 60),
                  channels = rng_between(&g->r, 1, 130), written = (keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    draw(g, x[0], rows * channels);
    for (int64_t j = 0; j < keys; j++)
        x[1][j] = rng_unit(&g->r);
    took(g, x[1], keys);
    const int64_t panel = FV_KEY_GROUP * ((channels + 3) / 4);
    const fv_operand k = {.data = draw_int8(g, (keys + FV_KEY_GROUP - 1) / FV_KEY_GROUP * panel * 4),
                          .scales = x[1],
                          .columns = keys,
                          .steps = channels,
                          .row = FV_KEY_GROUP,
                          .panel = panel,
                          .width = FV_KEY_GROUP,
                          .format = FV_FORMAT_i8x4};
    begin(g);
    fv_i8_rows(rows, channels, x[0], channels, words);
    g->kernel->run.multiply(&(fv_rows){words, rows, fv_i8_row_words(channels)}, &k, x[2], written, NULL, NULL);
    end();
    gave(g, x[2], rows * written);
}

/* Keys as they were drawn, in rows; or these in panels. */
static fv_operand keys_drawn(const golden *g, int64_t keys, int64_t channels) {
    static uint16_t panels[2 * FV_KEY_GROUP * 132];
    fv_operand k = {.data = x[1], .columns = keys, .steps = channels, .row = channels, .format = g->kernel->format};
    if (fv_format_of(k.format).word == FV_WORD_column)
        return k;
    k.data = panels;
    k.row = k.width = FV_KEY_GROUP;
    k.panel = fv_operand_words(k.format, channels) * FV_KEY_GROUP;
    memset(panels, 0, sizeof panels);
    for (int64_t j = 0; j < keys; j++)
        for (int64_t t = 0; t < channels; t++)
            memcpy(panels + fv_operand_place(&k, t, j), (const uint16_t *)(const void *)x[1] + j * channels + t,
                   sizeof *panels);
    return k;
}

void golden_keys(golden *g) {
    static float q[MOST];
    if (g->kernel->kind == FV_KIND_i16) {
        golden_keys_i8(g);
        return;
    }
    const int64_t rows = rng_between(&g->r, 1, FV_FEW_ROWS), keys = rng_between(&g->r, 1, 60),
                  channels = rng_between(&g->r, 1, 130), written = (keys + FV_LANES - 1) / FV_LANES * FV_LANES,
                  drawn = rows <= 2   ? rows
                          : rows <= 4 ? 4
                                      : FV_FEW_ROWS; /* rows, interleaved */
    draw(g, x[0], channels * drawn);
    draw_elements(g, x[1], keys * channels);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t t = 0; t < channels; t++)
            q[i * channels + t] = x[0][t * drawn + i];
    const fv_operand k = keys_drawn(g, keys, channels);
    begin(g);
    g->kernel->run.multiply(&(fv_rows){q, rows, channels}, &k, x[2], written, NULL, NULL);
    end();
    gave(g, x[2], rows * written);
}

void golden_few(golden *g) {
    const int64_t m = rng_between(&g->r, 1, FV_FEW_ROWS), n = rng_between(&g->r, 1, 130), k = rng_between(&g->r, 1, 60);
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

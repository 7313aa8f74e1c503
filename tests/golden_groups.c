/* Golden results of kernels of integers in groups (golden_kernels.c). */
#include "dispatch/dispatch.h"
#include "golden_trial.h"

#include <string.h>

enum { MOST_STEPS = 320, MOST_COLUMNS = 96, MOST_A_ROWS = 12, GROUPS = MOST_STEPS / 16 };

static float words[MOST_STEPS / 4 * MOST_COLUMNS], scales[2 * GROUPS * MOST_COLUMNS], out[MOST];

static void draw_words(golden *g, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = bits_float((uint32_t)(rng_u64(&g->r) >> 9));
    took(g, to, n);
}

/* An operand of a format, with groups of each kind. */
static fv_operand draw_operand(golden *g, fv_format format) {
    const int64_t steps = rng_between(&g->r, 1, MOST_STEPS), width = FV_LANES * rng_between(&g->r, 1, 5),
                  first = FV_LANES * rng_below(&g->r, width / FV_LANES), group = 16 * rng_between(&g->r, 1, 9);
    const fv_operand b = {.data = words + first,
                          .scales = scales,
                          .columns = width - first,
                          .steps = steps,
                          .row = width,
                          .group = {(int16_t)group, (int16_t)rng_below(&g->r, 3)},
                          .width = (int16_t)width,
                          .first = (int16_t)first,
                          .format = format};
    const int64_t row = fv_scales_row((fv_group_extra)b.group.extra, width), groups = (steps + group - 1) / group;
    draw_words(g, words, fv_group_rows(format, steps) * width);
    for (int64_t i = 0; i < groups * row; i++)
        scales[i] = b.group.extra == FV_GROUP_zero && i % row >= width ? (float)rng_between(&g->r, 0, 16)
                                                                       : 0.1f * rng_normal(&g->r);
    took(g, scales, groups * row);
    return b;
}

void golden_quantise(golden *g) {
    static float x[MOST_A_ROWS * MOST_STEPS];
    static fv_i8_word to[MOST_A_ROWS * (MOST_STEPS / 4 + GROUPS)];
    const int64_t rows = rng_between(&g->r, 1, MOST_A_ROWS), n = rng_between(&g->r, 1, MOST_STEPS),
                  group = 16 * rng_between(&g->r, 1, 9);
    draw(g, x, rows * n);
    begin(g);
    g->kernel->run.quantise_i8(rows, n, group, rng_below(&g->r, 2) ? FV_I8_MOST : FV_Q8_MOST, x, n, to);
    end();
    const fv_i8_word *at = to;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t t = 0; t < n; t += group) {
            const int64_t count = fv_i8_row_words(n - t < group ? n - t : group);
            fv_i8_row row;
            memcpy(&row, at, sizeof row);
            gave(g, &row.scale, 1);
            g->hash.outputs = fnv_u32(g->hash.outputs, (uint32_t)row.sum);
            for (int64_t byte = sizeof row; byte < count * (int64_t)sizeof row; byte++)
                g->hash.outputs = fnv_byte(g->hash.outputs, ((const uint8_t *)at)[byte]);
            at += count;
        }
}

void golden_scales(golden *g) {
    const fv_scale_words layout = (fv_scale_words)rng_below(&g->r, FV_SCALES_COUNT);
    const int64_t width = FV_LANES * rng_between(&g->r, 1, 5), groups = rng_between(&g->r, 1, GROUPS),
                  first = fv_scales_per_super(layout) * rng_below(&g->r, 2);
    const int64_t n = groups * fv_scales_row(fv_scales_extra(layout), width);
    draw_words(g, words, fv_scales_bytes(layout, first + groups, width) / 4);
    begin(g);
    g->kernel->run.scales_f32(layout, words, width, first, groups, out);
    end();
    for (int64_t i = 0; i < n; i++) /* any NaN */
        out[i] = float_is_nan(out[i]) ? NAN : out[i];
    gave(g, out, n);
}

void golden_expand(golden *g) {
    const fv_type type = g->kernel->type;
    const fv_operand b = draw_operand(g, type == FV_TYPE_i4   ? FV_FORMAT_i4g
                                         : type == FV_TYPE_i5 ? FV_FORMAT_i5g
                                                              : FV_FORMAT_i6g);
    begin(g);
    g->kernel->run.expand_i4(&b, (uint32_t *)(void *)out, b.columns); /* all are of one type */
    end();
    for (int64_t t = 0; t < b.steps; t++)
        for (int64_t j = 0; j < b.columns; j++)
            g->hash.outputs = fnv_byte(g->hash.outputs, ((const uint8_t *)out)[4 * (t / 4 * b.columns + j) + t % 4]);
}

void golden_unpack_groups(golden *g) {
    const fv_operand b = draw_operand(g, g->kernel->format);
    begin(g);
    g->kernel->run.unpack(&b, out, b.columns);
    end();
    gave(g, out, b.steps * b.columns);
}

void golden_multiply_groups(golden *g) {
    static float x[MOST_A_ROWS * MOST_STEPS];
    static fv_i8_word rows[MOST_A_ROWS * (MOST_STEPS / 4 + GROUPS)];
    const int64_t m = rng_between(&g->r, 1, g->kernel->few ? FV_FEW_ROWS : MOST_A_ROWS);
    const fv_operand b = draw_operand(g, g->kernel->format);
    draw(g, x, m * b.steps);
    draw(g, out, m * b.columns);
    fv_kernel_scalar(FV_OP_quantise, FV_TYPE_i8)
        ->run.quantise_i8(m, b.steps, b.group.steps, g->kernel->kind == FV_KIND_i8 ? FV_Q8_MOST : FV_I8_MOST, x,
                          b.steps, rows);
    const fv_epilogue epilogue = {.start = rng_below(&g->r, 2) ? out : NULL, .ldstart = b.columns};
    fv_tiles_enter(g->kernel);
    begin(g);
    g->kernel->run.multiply(&(fv_rows){rows, m, fv_group_words(b.steps, b.group.steps)}, &b, out, b.columns, &epilogue,
                            NULL);
    end();
    fv_tiles_leave(g->kernel);
    gave(g, out, m * b.columns);
}

/* Golden results of kernels of integers in groups (golden_kernels.c). */
#include "dispatch/dispatch.h"
#include "golden_trial.h"

#include <string.h>

enum {
    MOST_STEPS = 320,
    MOST_COLUMNS = 96,
    MOST_WIDE = 128,
    MOST_A_ROWS = 12,
    GROUPS = MOST_STEPS / 16,
    A_WORDS = MOST_A_ROWS * (MOST_STEPS / 2 + FV_GROUP_HEAD * GROUPS)
};

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

/* Four integers in the form that all kinds are hashed in: halves of 16 bits, then bytes. */
static void gave_words(golden *g, fv_kind kind, const fv_group_row *row, int64_t c, int most) {
    fv_i8_word word;
    for (int64_t k = 0; k < 4; k++) {
        const int X = fv_group_x(kind, row, c + k), high = most > FV_Q8_MOST ? (X + 64) >> 7 : 0;
        (k % 2 ? word.odd : word.even)[k / 2] = (int16_t)X;
        word.high[k] = (int8_t)high;
        word.low[k] = (int8_t)(X - 128 * high);
    }
    for (size_t byte = 0; byte < sizeof word; byte++)
        g->hash.outputs = fnv_byte(g->hash.outputs, ((const uint8_t *)&word)[byte]);
}

void golden_quantize(golden *g) {
    static const fv_kind kinds[] = {FV_KIND_i16, FV_KIND_i8x2, FV_KIND_i8};
    static float x[MOST_A_ROWS * MOST_STEPS];
    static uint32_t to[A_WORDS];
    const int64_t rows = rng_between(&g->r, 1, MOST_A_ROWS), n = rng_between(&g->r, 1, MOST_STEPS),
                  group = 16 * rng_between(&g->r, 1, 9);
    draw(g, x, rows * n);
    begin(g);
    const int most = rng_below(&g->r, 2) ? FV_I8_MOST : FV_Q8_MOST;
    const fv_kind kind = kinds[n % (most == FV_Q8_MOST ? 3 : 2)];
    g->kernel->run.quantize_i8(rows, n, group, kind, most, x, n, to);
    end();
    const uint32_t *at = to;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t t = 0; t < n; t += group) {
            const int64_t count = n - t < group ? n - t : group;
            const fv_group_row *row = (const fv_group_row *)(const void *)at;
            gave(g, &row->scale, 1);
            g->hash.outputs = fnv_u32(g->hash.outputs, (uint32_t)row->sum);
            for (int64_t c = 0; c < (count + 15) / 16 * 16; c += 4)
                gave_words(g, kind, row, c, most);
            at += fv_group_row_words(kind, count);
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

/* The same operand with columns of 0 behind its own, up to a multiple of that many. */
static fv_operand widened(const fv_operand *b, int64_t nr) {
    static float wide_words[MOST_STEPS / 4 * MOST_WIDE], wide_scales[2 * GROUPS * MOST_WIDE];
    const int64_t columns = (b->columns + nr - 1) / nr * nr, rows = fv_group_rows(b->format, b->steps),
                  scale_rows = (b->steps + b->group.steps - 1) / b->group.steps *
                               fv_scales_row((fv_group_extra)b->group.extra, b->width) / b->width;
    fv_operand wide = *b;
    memset(wide_words, 0, sizeof wide_words);
    memset(wide_scales, 0, sizeof wide_scales);
    for (int64_t i = 0; i < rows; i++)
        memcpy(wide_words + i * columns, (const float *)b->data + i * b->row, (size_t)b->columns * sizeof(float));
    for (int64_t i = 0; i < scale_rows; i++)
        memcpy(wide_scales + i * columns, b->scales + b->first + i * b->width, (size_t)b->columns * sizeof(float));
    wide.data = wide_words;
    wide.scales = wide_scales;
    wide.columns = wide.row = columns;
    wide.width = (int16_t)columns;
    wide.first = 0;
    return wide;
}

void golden_multiply_groups(golden *g) {
    static float c[MOST_A_ROWS * MOST_WIDE];
    static float x[MOST_A_ROWS * MOST_STEPS];
    static uint32_t rows[A_WORDS];
    const int64_t m = rng_between(&g->r, 1, g->kernel->few ? FV_FEW_ROWS : MOST_A_ROWS);
    const fv_kind kind = g->kernel->kind;
    const fv_operand drawn = draw_operand(g, g->kernel->format), b = widened(&drawn, g->kernel->nr);
    draw(g, x, m * b.steps);
    draw(g, out, m * drawn.columns);
    fv_kernel_scalar(FV_OP_quantize, FV_TYPE_i8)
        ->run.quantize_i8(m, b.steps, b.group.steps, kind, kind == FV_KIND_i8 ? FV_Q8_MOST : FV_I8_MOST, x, b.steps,
                          rows);
    for (int64_t i = 0; i < m * drawn.columns; i++)
        c[i / drawn.columns * b.columns + i % drawn.columns] = out[i];
    const fv_epilogue epilogue = {.start = rng_below(&g->r, 2) ? c : NULL, .ldstart = b.columns};
    fv_tiles_enter(g->kernel);
    begin(g);
    g->kernel->run.multiply(&(fv_rows){rows, m, fv_group_words(kind, b.steps, b.group.steps)}, &b, c, b.columns,
                            &epilogue, NULL);
    end();
    fv_tiles_leave(g->kernel);
    for (int64_t i = 0; i < m; i++)
        gave(g, c + i * b.columns, drawn.columns);
}

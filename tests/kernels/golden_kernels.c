/* Golden results of kernels: one function an operation, which draws sizes and data, calls the row, and hashes what the
 * contract of kernels.h defines (golden.h).
 *
 * Sizes do not depend on the row's tile. There is no NaN among inputs of arithmetic, as payloads are open; numbers of
 * all sizes, subnormal ones among them, where sums are chains, but not among scores, as a maximum under flush-to-zero
 * may or may not flush. Only operations that every IEEE machine rounds alike make the data. */
#include "dispatch/dispatch.h"
#include "golden_trial.h"
#include "multiply_call.h"

#include <stddef.h>

enum { TRIALS = 60, MOST_ROWS = 40 };

static float x[4][MOST]; /* operands */
static float row[4][MOST_ROWS];

static void gave_bits(golden *g, const fv_keybits *bits) {
    for (int i = 0; i < FV_SEGMENT / 64; i++)
        g->hash.outputs = fnv_u64(g->hash.outputs, bits->word[i]);
}

/* n numbers of [0, 1): factors and sums. */
static void draw_unit(golden *g, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = rng_unit(&g->r);
    took(g, to, n);
}

/* n scores; one in 8 is -inf. */
static void draw_scores(golden *g, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float score = 4.0f * rng_normal(&g->r);
        to[i] = rng_below(&g->r, 8) ? score : -INFINITY;
    }
    took(g, to, n);
}

static void draw_bits(golden *g, fv_keybits *bits) {
    const int64_t kind = rng_below(&g->r, 4);
    for (int i = 0; i < FV_SEGMENT / 64; i++) {
        const uint64_t drawn = rng_u64(&g->r);
        bits->word[i] = kind == 0 ? 0 : kind == 1 ? ~(uint64_t)0 : drawn;
        g->hash.inputs = fnv_u64(g->hash.inputs, bits->word[i]);
    }
}

static void golden_many(golden *g) {
    const int64_t m = rng_between(&g->r, 1, 20), n = rng_between(&g->r, 1, 150), k = rng_between(&g->r, 1, 260);
    const int64_t lda = k + rng_below(&g->r, 4), ldb = n + rng_below(&g->r, 4), ldc = n + rng_below(&g->r, 4);
    const int64_t how = rng_below(&g->r, 3);
    const bool skips = g->kernel->kind == FV_KIND_f32_amx_order_masked || g->kernel->kind == FV_KIND_f32_masked;
    draw(g, x[0], m * lda);
    draw(g, x[1], k * ldb);
    draw(g, x[2], m * ldc);
    draw_unit(g, row[0], m);
    draw_unit(g, row[1], m);
    for (int64_t t = 0; t < k && skips; t += 3) { /* keys that no row sees */
        for (int64_t i = 0; i < m; i++)
            x[0][i * lda + t] = -0.0f;
        for (int64_t j = 0; j < n; j++)
            x[1][t * ldb + j] = j % 2 ? poison() : INFINITY;
    }
    const fv_epilogue epilogue = {.a = how == 2 ? row[0] : NULL, .b = row[1]};
    begin(g);
    multiply_call(g->kernel->run.multiply, g->kernel->format, m, n, k, x[0], lda, x[1], ldb, x[2], ldc,
                  how ? &epilogue : NULL, NULL);
    end();
    gave(g, x[2], m * ldc);
}

static void golden_scale(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, 9), n = rng_between(&g->r, 1, 200);
    const float factor = 3.0f * rng_normal(&g->r);
    float norm = 0.0f;
    draw(g, x[0], rows * n);
    begin(g);
    g->kernel->run.scale_f32(rows, n, factor, x[0], n, x[1], n, &norm);
    end();
    gave(g, x[1], rows * n);
    gave(g, &norm, 1);
}

static void golden_copy(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, 9), n = rng_between(&g->r, 1, 200);
    for (int64_t i = 0; i < rows * n; i++)
        x[0][i] = rng_pattern(&g->r);
    took(g, x[0], rows * n);
    begin(g);
    g->kernel->run.copy_f32(rows, n, x[0], n, x[1], n);
    end();
    gave(g, x[1], rows * n);
}

static void golden_pack(golden *g) {
    if (g->kernel->format != FV_FORMAT_f32) {
        (g->kernel->source == FV_SOURCE_columns ? golden_pack_columns
         : g->kernel->source == FV_SOURCE_steps ? golden_pack_steps
                                                : golden_pack_rows)(g);
        return;
    }
    const int64_t nr = FV_LANES * rng_between(&g->r, 1, 4), keys = rng_between(&g->r, 1, nr);
    const int64_t channels = rng_between(&g->r, 1, 130), filled = (keys + FV_LANES - 1) / FV_LANES * FV_LANES;
    float norm = 0.0f;
    draw(g, x[0], keys * channels);
    begin(g);
    g->kernel->run.pack(keys, channels, x[0], channels, 0, x[1], nr, NULL, &norm);
    end();
    gave(g, &norm, 1);
    for (int64_t c = 0; c < channels; c++)
        gave(g, x[1] + c * nr, filled);
}

static void golden_softmax(golden *g) {
    static fv_keybits bits[MOST_ROWS];
    const int64_t rows = rng_between(&g->r, 1, MOST_ROWS), first = rng_below(&g->r, FV_SEGMENT / FV_LANES);
    const int64_t last = rng_between(&g->r, first + 1, FV_SEGMENT / FV_LANES), step = rng_below(&g->r, 2);
    const bool masked = rng_below(&g->r, 3) != 0;
    for (int64_t i = 0; i < rows; i++)
        draw_bits(g, &bits[i]);
    draw_scores(g, x[0], rows * FV_SEGMENT);
    begin(g);
    g->kernel->run.softmax_f32(&(fv_softmax_f32_args){.rows = rows,
                                                      .begin = first * FV_LANES,
                                                      .end = last * FV_LANES,
                                                      .s = x[0],
                                                      .lds = FV_SEGMENT,
                                                      .c = 1.0f,
                                                      .p = x[0],
                                                      .ldp = FV_SEGMENT,
                                                      .bits = masked ? bits : NULL,
                                                      .bits_step = step,
                                                      .lanes = x[1],
                                                      .row_max_end = first * FV_LANES,
                                                      .m = row[0],
                                                      .l = row[1]});
    end();
    for (int64_t i = 0; i < rows; i++)
        row[0][i] = row[0][i] == 0.0f ? 0.0f : row[0][i]; /* of either sign */
    gave(g, x[0], rows * FV_SEGMENT);
    gave(g, row[0], rows);
    gave(g, row[1], rows);
}

static void golden_merge(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, MOST_ROWS);
    draw_scores(g, row[0], rows);
    draw_scores(g, row[2], rows);
    draw_unit(g, row[1], rows);
    draw_unit(g, row[3], rows);
    for (int64_t i = 0; i < rows; i++) {
        row[1][i] = row[0][i] == -INFINITY ? 0.0f : 1.0f + row[1][i];
        row[3][i] = row[2][i] == -INFINITY ? 0.0f : 1.0f + row[3][i];
    }
    begin(g);
    g->kernel->run.merge_f32(rows, row[0], row[1], row[2], row[3], x[0], x[1]);
    end();
    gave(g, row[2], rows);
    gave(g, row[3], rows);
    gave(g, x[0], rows);
    gave(g, x[1], rows);
}

static void golden_accumulate(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, 9), n = rng_between(&g->r, 1, 200);
    draw(g, x[0], rows * n);
    draw(g, x[1], rows * n);
    draw_unit(g, row[0], rows);
    draw_unit(g, row[1], rows);
    begin(g);
    g->kernel->run.accumulate_f32(rows, n, x[0], n, row[0], row[1], x[1], n);
    end();
    gave(g, x[1], rows * n);
}

static void golden_finish(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, MOST_ROWS), n = rng_between(&g->r, 1, 200);
    draw(g, x[0], rows * n);
    draw_scores(g, row[0], rows);
    draw_unit(g, row[1], rows);
    for (int64_t i = 0; i < rows; i++)
        row[1][i] = row[0][i] == -INFINITY ? 0.0f : 1.0f + 200.0f * row[1][i];
    begin(g);
    g->kernel->run.finish_f32(rows, n, x[0], n, row[0], row[1], x[1], n, row[2], 1);
    end();
    gave(g, x[1], rows * n);
    gave(g, row[2], rows);
}

static void golden_mask_to_bits(golden *g) {
    static uint8_t mask[FV_SEGMENT];
    const int64_t first = rng_below(&g->r, FV_SEGMENT), last = rng_between(&g->r, first, FV_SEGMENT);
    const int64_t step = rng_below(&g->r, 4) != 0;
    fv_keybits bits;
    draw_bits(g, &bits);
    for (int64_t i = 0; i < FV_SEGMENT; i++) {
        const int64_t byte = rng_between(&g->r, -255, 255);
        mask[i] = (uint8_t)(byte > 0 ? byte : 0);
        g->hash.inputs = fnv_byte(g->hash.inputs, mask[i]);
    }
    begin(g);
    g->kernel->run.mask_to_bits_u8(first, last, mask, step, &bits);
    end();
    gave_bits(g, &bits);
}

static void golden_add_mask(golden *g) {
    const int64_t first = FV_LANES * rng_below(&g->r, FV_SEGMENT / FV_LANES);
    const int64_t last = rng_between(&g->r, first, FV_SEGMENT), step = rng_below(&g->r, 4) != 0;
    fv_keybits bits;
    draw_bits(g, &bits);
    draw_scores(g, x[0], FV_SEGMENT);
    draw_scores(g, x[1], FV_SEGMENT);
    begin(g);
    g->kernel->run.add_mask_f32(first, last, x[0], step, 1.0f, x[1], &bits, row[0]);
    end();
    gave_bits(g, &bits);
    for (int64_t i = first; i < last; i++)
        if (bits.word[i / 64] >> (i % 64) & 1)
            gave(g, x[1] + i, 1);
}

static void golden_softcap(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, 9), n = FV_LANES * rng_between(&g->r, 1, FV_SEGMENT / FV_LANES);
    const float cap = 1.0f + 60.0f * rng_unit(&g->r), factor = 4.0f * rng_unit(&g->r) + 0.25f;
    draw(g, x[0], rows * n);
    begin(g);
    g->kernel->run.softcap_f32(rows, n, factor, cap, x[0], n);
    end();
    gave(g, x[0], rows * n);
}

static void golden_weights(golden *g) {
    const int64_t first = FV_LANES * rng_below(&g->r, FV_SEGMENT / FV_LANES);
    const int64_t last = rng_between(&g->r, first, FV_SEGMENT);
    const float lse = 5.0f + rng_normal(&g->r);
    fv_keybits bits;
    draw_bits(g, &bits);
    draw_scores(g, x[0], FV_SEGMENT);
    begin(g);
    g->kernel->run.weights_f32(first, last, x[0], 1.0f, lse, &bits, x[1]);
    end();
    gave(g, x[1] + first, last - first);
}

static void golden_weight_sums(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, 9), begins = FV_SEGMENT / FV_LANES;
    const int64_t first = FV_LANES * rng_below(&g->r, begins);
    const int64_t last = first + FV_LANES * rng_between(&g->r, 1, begins - first / FV_LANES);
    fv_keybits bits;
    draw_bits(g, &bits);
    for (int64_t i = 0; i < rows; i++) {
        draw_scores(g, x[0] + i * FV_SEGMENT, FV_SEGMENT);
        row[0][i] = 5.0f + rng_normal(&g->r);
    }
    for (int64_t i = 0; i < FV_SEGMENT; i++)
        x[1][i] = 0.0f;
    begin(g);
    g->kernel->run.weight_sums_f32(rows, first, last, x[0], FV_SEGMENT, 1.0f, row[0], &bits, 0, x[1]);
    end();
    gave(g, x[1] + first, last - first);
}

static void golden_finite(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, 9), n = rng_between(&g->r, 1, 200), kind = rng_below(&g->r, 3);
    draw(g, x[0], rows * n);
    if (kind)
        x[0][rng_below(&g->r, rows * n)] = kind == 1 ? -INFINITY : poison();
    begin(g);
    const int finite = g->kernel->run.finite_f32(rows, n, x[0], n);
    end();
    g->hash.outputs = fnv_byte(g->hash.outputs, (uint8_t)finite);
}

static void golden_bias_act_residual(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, 9), n = rng_between(&g->r, 1, 200), kind = rng_below(&g->r, 16);
    for (int64_t i = 0; i < rows * n; i++)
        x[0][i] = 3.0f * rng_normal(&g->r);
    took(g, x[0], rows * n);
    draw(g, x[1], n);
    draw(g, x[2], rows * n);
    const fv_bias_act_residual args = {.bias = kind & 4 ? x[1] : NULL,
                                       .activation = (fv_activation)(kind % 4),
                                       .residual = kind & 8 ? x[2] : NULL,
                                       .ldresidual = n};
    begin(g);
    g->kernel->run.bias_act_residual_f32(rows, n, x[0], n, &args, x[3], n);
    end();
    gave(g, x[3], rows * n);
    const fv_bias_act_residual gated = {
        .bias = args.bias, .activation = FV_ACT_SILU, .up = x[2], .ldup = n, .up_bias = kind & 8 ? x[1] : NULL};
    begin(g);
    g->kernel->run.bias_act_residual_f32(rows, n, x[0], n, &gated, x[3], n);
    end();
    gave(g, x[3], rows * n);
}

static void golden_normalize(golden *g) {
    const int64_t rows = rng_between(&g->r, 1, 9), n = rng_between(&g->r, 1, 200), kind = rng_below(&g->r, 8);
    for (int64_t i = 0; i < rows * n; i++)
        x[0][i] = 3.0f * rng_normal(&g->r);
    took(g, x[0], rows * n);
    draw(g, x[1], n);
    draw(g, x[2], n);
    const fv_normalize args = {
        .weight = kind & 1 ? x[1] : NULL, .bias = kind & 2 ? x[2] : NULL, .eps = 1e-5f, .centre = kind & 4};
    begin(g);
    g->kernel->run.normalize_f32(rows, n, x[0], n, &args, x[3], n);
    end();
    gave(g, x[3], rows * n);
}

/* Every 9973rd float from -0 to -90, some of them in each trial, and -inf. */
static void golden_exp(golden *g) {
    enum { STEP = 9973, STEPS = 0x42b40000 / STEP, N = 2000 };
    x[0][0] = -INFINITY;
    for (int64_t i = 1; i < N; i++)
        x[0][i] = bits_float(0x80000000u | (uint32_t)(STEP * rng_below(&g->r, STEPS)));
    took(g, x[0], N);
    begin(g);
    g->kernel->run.exp_f32(N, x[0], x[1]);
    end();
    gave(g, x[1], N);
}

static bool of_groups(const golden *g) { return fv_format_of(g->kernel->format).scale == FV_SCALE_group; }

static void golden_multiply(golden *g) {
    if (of_groups(g))
        golden_multiply_groups(g);
    else if (fv_multiply_keys(g->kernel))
        golden_keys(g);
    else if (g->kernel->few)
        golden_few(g);
    else if (g->kernel->kind == FV_KIND_f32 && g->kernel->format != FV_FORMAT_f32)
        golden_multiply_widen(g);
    else if (g->kernel->kind == FV_KIND_f32_amx_order || g->kernel->kind == FV_KIND_bf16x2_amx_order)
        golden_amx_order(g);
    else if (g->kernel->format == FV_FORMAT_f32)
        golden_many(g);
    else
        golden_pairs(g);
}

static void golden_unpack_any(golden *g) { (of_groups(g) ? golden_unpack_groups : golden_unpack)(g); }

/* A row a line. */
/* clang-format off */
static void (*const runs[FV_OP_COUNT])(golden *) = {
    [FV_OP_multiply] = golden_multiply,
    [FV_OP_scale] = golden_scale,
    [FV_OP_copy] = golden_copy,
    [FV_OP_pack] = golden_pack,
    [FV_OP_softmax] = golden_softmax,
    [FV_OP_merge] = golden_merge,
    [FV_OP_accumulate] = golden_accumulate,
    [FV_OP_finish] = golden_finish,
    [FV_OP_mask_to_bits] = golden_mask_to_bits,
    [FV_OP_add_mask] = golden_add_mask,
    [FV_OP_softcap] = golden_softcap,
    [FV_OP_weights] = golden_weights,
    [FV_OP_weight_sums] = golden_weight_sums,
    [FV_OP_finite] = golden_finite,
    [FV_OP_exp] = golden_exp,
    [FV_OP_unpack] = golden_unpack_any,
    [FV_OP_widen] = golden_widen,
    [FV_OP_narrow] = golden_narrow,
    [FV_OP_bias_act_residual] = golden_bias_act_residual,
    [FV_OP_normalize] = golden_normalize,
    [FV_OP_quantize] = golden_quantize,
    [FV_OP_scales] = golden_scales,
    [FV_OP_expand] = golden_expand,
};
/* clang-format on */

bool golden_kernel(const fv_kernel *kernel, bool flush, golden_hash *hash) {
    golden g = {.kernel = kernel, .flush = flush, .hash = {FNV_START, FNV_START}};
    if (runs[kernel->op] == NULL)
        return false;
    g.r = rng_stream(GOLDEN_SEED, "golden kernels");
    for (int i = 0; i < TRIALS; i++)
        runs[kernel->op](&g);
    *hash = g.hash;
    return true;
}

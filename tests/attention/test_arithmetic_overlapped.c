/* Softmax overlapped with products over tiles (fv_tiles_softmax) has the bits of each alone: the kernels, and attention
 * in bf16_tile whose tiles of rows go through it in parts. Over the CPU's tiles, or emulated, which is counted. */
#include "attention_case.h"
#include "context/context.h"
#include "dispatch/dispatch.h"
#include "half_pair.h"
#include "multiply_call.h"

#include <inttypes.h>
#include <stdio.h>

static fovea_context *over_tiles, *scalar;

/* ------------------------------------------------------------------------------------------------------- kernels -- */

enum { BESIDE_ROWS = 70, BESIDE_COLUMNS = 80, BESIDE_WORDS = 40, BESIDE_PRODUCTS = 3 };

/* Operands of products and of a softmax, and results: all that is written is filled before. */
typedef struct beside_case {
    float a[BESIDE_ROWS * BESIDE_WORDS], b[BESIDE_WORDS * BESIDE_COLUMNS], factors[2][BESIDE_ROWS];
    float c[BESIDE_PRODUCTS][BESIDE_ROWS * BESIDE_COLUMNS], row_max[BESIDE_ROWS * FV_LANES];
    float s[BESIDE_ROWS * FV_SEGMENT], p[BESIDE_ROWS * FV_SEGMENT / 2], lanes[BESIDE_ROWS * FV_LANES];
    float m[BESIDE_ROWS], l[BESIDE_ROWS];
} beside_case;

static void fill_words(rng *r, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const float x[2] = {rng_normal(r), rng_normal(r)};
        convert_elements(2, x, FOVEA_DTYPE_F32, &to[i], FOVEA_DTYPE_BF16);
    }
}

/* A chain stored; one that goes on from it, merged; one with maxima, of whole granules. */
static void beside_products(beside_case *x, int64_t m, int64_t n, int64_t k, fv_product *to) {
    for (int i = 0; i < BESIDE_PRODUCTS; i++)
        to[i] = (fv_product){.a = {x->a, m, BESIDE_WORDS},
                             .b = operand_of(FV_FORMAT_bf16x2, n, 2 * k, x->b, BESIDE_COLUMNS),
                             .c = x->c[i],
                             .ldc = BESIDE_COLUMNS};
    to[1].epilogue = (fv_epilogue){
        .start = x->c[0], .ldstart = BESIDE_COLUMNS, .a = n % 2 ? x->factors[0] : NULL, .b = x->factors[1]};
    to[2].b.columns = (n + FV_LANES - 1) / FV_LANES * FV_LANES;
    to[2].epilogue = (fv_epilogue){.row_max = x->row_max};
}

static fv_softmax_f32_args beside_softmax(beside_case *x, int64_t rows, int64_t columns, int64_t row_max_end) {
    return (fv_softmax_f32_args){.rows = rows,
                                 .end = columns,
                                 .s = x->s,
                                 .lds = FV_SEGMENT,
                                 .c = 1.25f,
                                 .p = x->p,
                                 .ldp = FV_SEGMENT / 2,
                                 .paired = 1,
                                 .lanes = x->lanes,
                                 .row_max_end = row_max_end,
                                 .m = x->m,
                                 .l = x->l};
}

/* A softmax overlapped with products has the bits of both alone, whatever their sizes are to each other. */
static void test_kernels(void) {
    static beside_case one, other;
    const fv_kernel *tiles = fv_multiply_best(FV_KIND_bf16x2_amx_order, FV_FORMAT_bf16x2, over_tiles->target);
    fv_softmax_bf16_fn *const softmax[] = {
        fv_kernel_best(FV_OP_softmax, FV_TYPE_bf16, over_tiles->target)->run.softmax_bf16,
        fv_kernel_scalar(FV_OP_softmax, FV_TYPE_bf16)->run.softmax_bf16};
    for (int64_t n = 0, count = test_scaled(60); n < count; n++) {
        rng r = rng_stream(test_seed() + (uint64_t)n, "beside");
        const int64_t rows = 1 + rng_below(&r, BESIDE_ROWS),
                      columns = rng_below(&r, 2) ? FV_SEGMENT : FV_LANES * (1 + rng_below(&r, 15));
        const int64_t sizes[] = {1 + rng_below(&r, BESIDE_ROWS), 1 + rng_below(&r, BESIDE_COLUMNS),
                                 1 + rng_below(&r, BESIDE_WORDS)};
        const int64_t row_max_end = rng_below(&r, 2) ? columns : 0;
        fv_product products[BESIDE_PRODUCTS];
        memset(&one, 0x7f, sizeof one);
        fill_words(&r, one.a, BESIDE_ROWS * BESIDE_WORDS);
        fill_words(&r, one.b, BESIDE_WORDS * BESIDE_COLUMNS);
        for (int64_t i = 0; i < BESIDE_ROWS * FV_SEGMENT; i++)
            one.s[i] = 4.0f * rng_normal(&r);
        for (int64_t i = 0; i < BESIDE_ROWS; i++)
            one.factors[0][i] = one.factors[1][i] = rng_normal(&r);
        for (int64_t i = 0; i < BESIDE_ROWS * FV_LANES && row_max_end > 0; i++) {
            one.lanes[i] = -INFINITY;
            for (int64_t j = i % FV_LANES; j < columns; j += FV_LANES)
                one.lanes[i] = fmaxf(one.lanes[i], one.s[i / FV_LANES * FV_SEGMENT + j]);
        }
        other = one;
        beside_products(&one, sizes[0], sizes[1], sizes[2], products);
        fv_tiles_enter(tiles); /* not before fill_words(): a new context checks instructions and releases tiles */
        for (int i = 0; i < BESIDE_PRODUCTS; i++) {
            const fv_product *x = &products[i];
            tiles->run.multiply(&x->a, &x->b, x->c, x->ldc, &x->epilogue, NULL);
        }
        fv_softmax_f32_args args = beside_softmax(&one, rows, columns, row_max_end);
        softmax[1](&args);
        beside_products(&other, sizes[0], sizes[1], sizes[2], products);
        args = beside_softmax(&other, rows, columns, row_max_end);
        fv_tiles_softmax(tiles, products, BESIDE_PRODUCTS, softmax[n % 2], &args);
        fv_tiles_leave(tiles);
        memcpy(other.lanes, one.lanes, sizeof one.lanes); /* left open */
        test_check(memcmp(&one, &other, sizeof one) == 0,
                   "softmax of %" PRId64 " x %" PRId64 " beside products of %" PRId64 " x %" PRId64 ", %" PRId64
                   " words: other results than those of each alone",
                   rows, columns, sizes[0], sizes[1], sizes[2]);
    }
}

/* ----------------------------------------------------------------------------------------------------- attention -- */

static int64_t run(const fovea_context *ctx, const fovea_attention_desc *desc, const fovea_attention_args *args,
                   int64_t tile_rows) {
    const fv_attention_choice choice = {.tile_rows = tile_rows, .block_rows = 4 * tile_rows};
    fovea_attention_args own = *args;
    fovea_attention_stats stats;
    fovea_attention_plan *plan;
    fovea_attention_stats_init(&stats);
    own.stats = &stats;
    if (!test_check(fv_attention_plan_create_chosen(ctx, desc, &choice, &plan) == FOVEA_OK, "plan: %s",
                    fovea_error_detail()))
        return 0;
    const fovea_status status = fovea_attention_execute(plan, &own, NULL, 0);
    fovea_attention_plan_destroy(plan);
    test_check(status == FOVEA_OK, "execute: %s", fovea_error_detail());
    return stats.fast_tiles;
}

/* Parts of a tile that are whole or not, one or several; one tile or several to a block; rows that see the same keys or
 * not; a pass over the scores. */
static int64_t test_attention(void) {
    static const struct {
        int64_t q_len, kv_len, head_dim, value_dim, tile_rows, window;
        fovea_causal causal;
        double softcap;
    } cases[] = {{300, 600, 64, 64, 96, -1, FOVEA_CAUSAL_NONE, 0.0},
                 {150, 300, 40, 24, 160, -1, FOVEA_CAUSAL_NONE, 0.0},
                 {200, 530, 96, 80, 64, -1, FOVEA_CAUSAL_BOTTOM_RIGHT, 0.0},
                 {130, 400, 33, 200, 128, 50, FOVEA_CAUSAL_BOTTOM_RIGHT, 0.0},
                 {120, 256, 16, 130, 48, -1, FOVEA_CAUSAL_NONE, 30.0},
                 {70, 200, 64, 64, 144, -1, FOVEA_CAUSAL_NONE, 0.0},
                 {70, 200, 20, 576, 70, 50, FOVEA_CAUSAL_BOTTOM_RIGHT, 0.0}};
    int64_t paired = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        attention_case c = case_plain(1, 2, 1, cases[i].q_len, cases[i].kv_len, cases[i].head_dim, cases[i].value_dim);
        rng r = rng_stream(test_seed() + i, "parts");
        inputs *in = inputs_make(&c, &r);
        outputs *want = outputs_make(&c, c.layout), *got = outputs_make(&c, c.layout);
        fovea_attention_args args = case_args(in, want);
        fovea_attention_desc desc = c.desc;
        args.q = half_pair_tensor(&in->args.q, FOVEA_DTYPE_BF16);
        args.k = half_pair_tensor(&in->args.k, FOVEA_DTYPE_BF16);
        args.v = half_pair_tensor(&in->args.v, FOVEA_DTYPE_BF16);
        desc.dtype = FOVEA_DTYPE_BF16;
        desc.out_dtype = FOVEA_DTYPE_F32;
        desc.arithmetic = FOVEA_ARITHMETIC_BF16_TILE;
        desc.causal = cases[i].causal;
        desc.window_left = cases[i].window;
        desc.softcap = cases[i].softcap;
        run(scalar, &desc, &args, 24);
        args.out = got->out;
        args.lse = got->lse;
        paired += run(over_tiles, &desc, &args, cases[i].tile_rows);
        test_check(memcmp(got->out.data, want->out.data, (size_t)tensor_elements(&want->out) * sizeof(float)) == 0,
                   "%" PRId64 " rows in tiles of %" PRId64 ", %" PRId64 " keys: other outputs", cases[i].q_len,
                   cases[i].tile_rows, cases[i].kv_len);
        half_pairs_free();
        outputs_free(got);
        outputs_free(want);
        inputs_free(in);
    }
    return paired;
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "arithmetic_overlapped", NULL);
    over_tiles = context_of(FOVEA_ISA_BEST, 1, NULL);
    scalar = context_of(FOVEA_ISA_SCALAR, 1, NULL);
    const bool emulates =
        fv_multiply_best(FV_KIND_bf16x2_amx_order, FV_FORMAT_bf16x2, over_tiles->target)->isa == FV_ISA_scalar;
    over_tiles->cpu.emulates_tiles = emulates;
    test_kernels();
    const int64_t paired = test_attention();
    printf("arithmetic-beside: %" PRId64 " tiles of scores over %s AMX tiles\n", paired,
           emulates ? "emulated" : "the CPU's");
    test_check(paired > 30, "only %" PRId64 " tiles went over AMX tiles", paired);
    if (emulates)
        test_skip("softmax beside the CPU's tiles: no amx_bf16 here, they were emulated");
    fovea_context_destroy(over_tiles);
    fovea_context_destroy(scalar);
    return test_end();
}

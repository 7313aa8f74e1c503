/* Special scores: +inf and NaN give a NaN row, -inf is legal; all NaN written are 0x7fc00000, all zeros +0. Zeros and
 * NaN of linear maps and of 16-bit outputs have the signs and bits that docs/promise.md says. */
#include "attention_case.h"
#include "mask_rows.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <math.h>

static fovea_context *ctx;

/* The effect of a special score on every row: NaN, a row without weights, or a row as any other. */
typedef enum { TO_NAN, TO_EMPTY, TO_FINITE } effect;

/* One sequence, kv_len keys, additive mask; sets the mask at key to bias and checks all rows. Boundary keys, so that
 * every place of vectors and segments is met. */
static void check_bias(int64_t q_len, int64_t key, float bias, effect expected) {
    attention_case c = case_plain(1, 2, 2, q_len, 520, 8, 8);
    c.desc.mask = FOVEA_MASK_ADDITIVE;
    c.mask_density = 1;
    c.weights = true;
    rng r = rng_stream(test_seed(), "bias");
    inputs *in = inputs_make(&c, &r);
    outputs *out = outputs_make(&c, LAYOUT_BHTD);
    for (int64_t row = 0; row < 2 * q_len; row++)
        ((float *)in->args.mask.data)[row * 520 + key] = bias;
    case_run(ctx, NULL, &c, in, out);
    int64_t wrong = 0;
    for (int64_t h = 0; h < 2; h++)
        for (int64_t i = 0; i < q_len; i++) {
            bool finite = isfinite(element(&out->out, 0, h, i, 0)) && isfinite(element(&out->lse, 0, h, i, 0));
            wrong += expected == TO_NAN ? !row_is_nan(&c, in, out, 0, h, i) : !finite;
        }
    test_check(wrong == 0 && canonical(out), "bias %g at key %" PRId64 ", q_len %" PRId64 ": %" PRId64 " rows wrong",
               (double)bias, key, q_len, wrong);
    inputs_free(in);
    outputs_free(out);
}

/* Scores from q and k themselves: q = 2^64 everywhere, k per key: 0, or a value that makes the score what is wanted. */
static void check_product(const char *what, int64_t q_len, float k_all, int64_t key, float k_one, effect expected) {
    attention_case c = case_plain(1, 1, 1, q_len, 520, 3, 5);
    c.weights = true;
    c.desc.has_scale = 1;
    c.desc.scale = 1;
    rng r = rng_stream(test_seed(), what);
    inputs *in = inputs_make(&c, &r);
    outputs *out = outputs_make(&c, LAYOUT_BHTD);
    set_row(in->args.q.data, q_len * 3, 0x1p64F);
    set_row(in->args.k.data, 520 * 3, k_all);
    if (key >= 0)
        set_row(tensor_row(&in->args.k, 0, 0, key), 3, k_one);
    case_run(ctx, NULL, &c, in, out);
    int64_t wrong = 0;
    for (int64_t i = 0; i < q_len; i++)
        wrong += expected == TO_NAN     ? !row_is_nan(&c, in, out, 0, 0, i)
                 : expected == TO_EMPTY ? !row_is_empty(&c, out, 0, 0, i)
                                        : !isfinite(element(&out->out, 0, 0, i, 4)) ||
                                              (key >= 0 && element(&out->weights, 0, 0, i, key) != 0);
    test_check(wrong == 0 && canonical(out), "%s, key %" PRId64 ", q_len %" PRId64 ": %" PRId64 " rows wrong", what,
               key, q_len, wrong);
    inputs_free(in);
    outputs_free(out);
}

static void test_scores(void) {
    static const int64_t keys[] = {0, 1, 15, 16, 254, 255, 256, 257, 511, 512, 519}, q_lens[] = {1, 9};
    const float nan = bits_float(0xffc12345);
    for (int n = 0; n < 2; n++) {
        for (int i = 0; i < 11; i++) {
            check_bias(q_lens[n], keys[i], INFINITY, TO_NAN);
            check_bias(q_lens[n], keys[i], nan, TO_NAN);
            check_bias(q_lens[n], keys[i], 3e38F, TO_FINITE);
            check_bias(q_lens[n], keys[i], -3e38F, TO_FINITE);
            check_bias(q_lens[n], keys[i], -200, TO_FINITE);
            check_product("a score of +inf", q_lens[n], 0, keys[i], 0x1p64F, TO_NAN);
            check_product("a score of -inf", q_lens[n], 0, keys[i], -0x1p64F, TO_FINITE);
            check_product("a score of +inf after scores of -inf", q_lens[n], -0x1p64F, keys[i], 0x1p64F, TO_NAN);
            check_product("a NaN score after scores of -inf", q_lens[n], -0x1p64F, keys[i], nan, TO_NAN);
        }
        check_product("all scores -inf", q_lens[n], -0x1p64F, -1, 0, TO_EMPTY);
        check_product("all scores +inf", q_lens[n], 0x1p64F, -1, 0, TO_NAN);
        check_product("scores of 1e19 below zero", q_lens[n], -0.5F, -1, 0, TO_FINITE);
    }
}

/* The first segment sees nothing but -inf scores, the second has scores far below zero: 0 must not stand for a maximum
 * of -inf longer than it should. And values of -0, whose sum is -0, and which out may not show. */
static void test_corners(void) {
    static const int64_t q_lens[] = {1, 6};
    for (int n = 0; n < 2; n++) {
        attention_case c = case_plain(1, 1, 1, q_lens[n], 300, 1, 2);
        c.desc.has_scale = 1;
        c.desc.scale = 1;
        c.weights = true;
        rng r = rng_stream(test_seed(), "corners");
        inputs *in = inputs_make(&c, &r);
        outputs *out = outputs_make(&c, LAYOUT_BHTD);
        set_row(in->args.q.data, q_lens[n], 0x1p64F);
        set_row(in->args.k.data, 256, -0x1p64F);
        set_row((float *)in->args.k.data + 256, 44, -500 * 0x1p-64F);
        set_row(in->args.v.data, 600, 3);
        case_run(ctx, NULL, &c, in, out);
        for (int64_t i = 0; i < q_lens[n]; i++) {
            float lse = element(&out->lse, 0, 0, i, 0), value = element(&out->out, 0, 0, i, 1);
            test_check(fabsf(value - 3) < 1e-5F && fabs((double)lse - (-500 + log(44.0))) < 1e-4,
                       "scores of -500 after a segment of -inf: out %g, lse %g", (double)value, (double)lse);
        }
        set_row(in->args.v.data, 600, -0.0F);
        case_run(ctx, NULL, &c, in, out);
        test_check(canonical(out) && element(&out->out, 0, 0, 0, 0) == 0, "values of -0 give an output of -0");
        set_row(in->args.v.data, 600, 0);
        set_row(tensor_row(&in->args.v, 0, 0, 299), 2, -0x1p-149F); /* times its weight of 1/44 it is -0 */
        case_run(ctx, NULL, &c, in, out);
        test_check(canonical(out) && element(&out->out, 0, 0, 0, 0) == 0, "an output that underflows from below is -0");
        inputs_free(in);
        outputs_free(out);
    }
}

/* A scale of 0 is one: all keys weigh the same. */
static void test_scale_zero(void) {
    attention_case c = case_plain(1, 1, 1, 40, 256, 5, 3);
    c.desc.has_scale = 1;
    c.desc.scale = 0;
    c.weights = true;
    rng r = rng_stream(test_seed(), "scale 0");
    inputs *in = inputs_make(&c, &r);
    outputs *out = outputs_make(&c, LAYOUT_BHTD);
    int64_t wrong = case_run(ctx, NULL, &c, in, out) ? 0 : 1;
    for (int64_t i = 0; i < 40; i++)
        for (int64_t j = 0; j < 256; j++)
            wrong += fabsf(element(&out->weights, 0, 0, i, j) * 256 - 1) > 1e-6F;
    test_check(wrong == 0, "scale 0: %" PRId64 " weights are not 1/256", wrong);
    inputs_free(in);
    outputs_free(out);
}

/* Attention of one key whose value is v, into an output of a type. */
static uint32_t attend_one(float v, fovea_dtype type) {
    float one = 1.0f;
    uint32_t out = 0;
    uint16_t half;
    attention_case c = case_plain(1, 1, 1, 1, 1, 1, 1);
    c.desc.out_dtype = type;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = args.k = fovea_tensor_bhtd(&one, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    args.v = fovea_tensor_bhtd(&v, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    args.out = fovea_tensor_bhtd(type == FOVEA_DTYPE_F32 ? (void *)&out : &half, type, 1, 1, 1, 1);
    check_status("one key", attention_once(ctx, &c.desc, &args), FOVEA_OK, NULL);
    return type == FOVEA_DTYPE_F32 ? out : half;
}

/* act(x w) as float32. */
static uint32_t map_one(float x, float w, fovea_activation activation) {
    float y = 0.0f;
    fovea_linear_desc desc;
    fovea_linear *linear;
    fovea_linear_args args;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.in_features = 1;
    desc.activation = activation;
    desc.part.weight = fovea_matrix_in_out(&w, FOVEA_DTYPE_F32, 1, 1);
    const fovea_tensor to = fovea_tensor_bhtd(&y, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    args.x = fovea_tensor_bhtd(&x, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    args.y = &to;
    check_status("a map", fovea_linear_create(ctx, &desc, &linear), FOVEA_OK, NULL);
    check_status("a number", fovea_linear_apply(ctx, linear, &args, NULL, 0), FOVEA_OK, NULL);
    fovea_linear_destroy(linear);
    return float_bits(y);
}

static void test_zeros(void) {
    const struct {
        const char *what;
        uint32_t got, want;
    } all[] = {
        {"out of -0", attend_one(-0.0f, FOVEA_DTYPE_F32), 0},
        {"the least out", attend_one(-0x1p-149f, FOVEA_DTYPE_F32), 0x80000001},
        {"out of -0 as bfloat16", attend_one(-0.0f, FOVEA_DTYPE_BF16), 0},
        {"the least out as bfloat16", attend_one(-0x1p-149f, FOVEA_DTYPE_BF16), 0x8000},
        {"-1e-9 as float16", attend_one(-1e-9f, FOVEA_DTYPE_F16), 0x8000},
        {"NaN", attend_one(poison(), FOVEA_DTYPE_F32), 0x7fc00000},
        {"NaN as bfloat16", attend_one(poison(), FOVEA_DTYPE_BF16), 0x7fc0},
        {"NaN as float16", attend_one(poison(), FOVEA_DTYPE_F16), 0x7e00},
        {"a map of -0", map_one(-0.0f, 1.0f, FOVEA_ACTIVATION_NONE), 0},
        {"a product that underflows", map_one(-0x1p-149f, 0x1p-10f, FOVEA_ACTIVATION_NONE), 0x80000000},
        {"silu(-200)", map_one(-200.0f, 1.0f, FOVEA_ACTIVATION_SILU), 0x80000000},
        {"silu(-inf)", map_one(-INFINITY, 1.0f, FOVEA_ACTIVATION_SILU), 0x7fc00000},
        {"gelu(-inf)", map_one(-INFINITY, 1.0f, FOVEA_ACTIVATION_GELU), 0x7fc00000},
        {"relu(-inf)", map_one(-INFINITY, 1.0f, FOVEA_ACTIVATION_RELU), 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        test_check(all[i].got == all[i].want, "%s is 0x%" PRIx32 " instead of 0x%" PRIx32, all[i].what, all[i].got,
                   all[i].want);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "special_scores", NULL);
    thread_pool *p = thread_pool_create(2);
    ctx = context_of(FOVEA_ISA_BEST, 2, p);
    test_scores();
    test_corners();
    test_scale_zero();
    test_zeros();
    fovea_context_destroy(ctx);
    thread_pool_destroy(p);
    return test_end();
}

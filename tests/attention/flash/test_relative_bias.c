/* Relative biases: T5's buckets against those of transformers and against float64; each kind against a bias
 * tensor that is expanded from it, bit for bit; and what descriptions and arguments may say. Random mixtures are
 * in test_reference.c. */
#include "attention/plan/buckets.h"
#include "attention_case.h"
#include "reference.h"

#include <inttypes.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------------- buckets -- */

/* Where T5's buckets (32, to 128) begin, by the formula of transformers' T5Attention in float32. */
static const int64_t both_ways[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 23, 32, 46, 64, 91};
static const int64_t one_way[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                  16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};

static fovea_attention_desc desc_of(fovea_relative relative, int64_t buckets, int64_t distance, int bidirectional) {
    fovea_attention_desc d = case_plain(1, 2, 1, 5, 300, 16, 16).desc;
    d.relative = relative;
    d.relative_buckets = buckets;
    d.relative_max_distance = distance;
    d.relative_bidirectional = bidirectional;
    d.relative_height = 17;
    d.relative_width = 19;
    return d;
}

static void test_recorded(void) {
    for (int bidirectional = 0; bidirectional < 2; bidirectional++) {
        const fovea_attention_desc d = desc_of(FOVEA_RELATIVE_T5, 32, 128, bidirectional);
        int64_t starts[32];
        fv_relative_bucket_starts(&d, starts);
        for (int b = 0; b < (bidirectional ? 16 : 32); b++) {
            const int64_t want = bidirectional ? both_ways[b] : one_way[b];
            test_check(starts[b] == want, "bucket %d begins at %" PRId64 ", not %" PRId64, b, starts[b], want);
        }
    }
}

static void test_buckets(void) {
    rng r = rng_stream(test_seed(), "buckets");
    for (int n = 0; n < 200; n++) {
        const int bidirectional = (int)rng_below(&r, 2);
        const int64_t buckets = rng_between(&r, bidirectional ? 4 : 2, n % 8 ? 64 : 256);
        const int64_t most = rng_between(&r, buckets, n % 2 ? 300 : 100000);
        const fovea_attention_desc d = desc_of(FOVEA_RELATIVE_T5, buckets, most, bidirectional);
        const int64_t count = fv_relative_buckets(&d);
        int64_t starts[256], wrong = -1, b = 0;
        fv_relative_bucket_starts(&d, starts);
        for (int64_t distance = 0; distance < most + 3 && wrong < 0; distance++) {
            while (b + 1 < count && starts[b + 1] <= distance)
                b++;
            if (reference_bucket(&d, distance) != b)
                wrong = distance;
        }
        test_check(wrong < 0, "%" PRId64 " buckets to %" PRId64 ": distance %" PRId64 " is in another", buckets, most,
                   wrong);
    }
}

/* ------------------------------------------------------------------------------------------------------ expanded -- */

static float bias_of(const fovea_attention_desc *d, const fovea_tensor *t, int64_t h, int64_t distance, int64_t i,
                     int64_t j) {
    const int64_t w = d->relative_width, reach = t->shape[3] / 2;
    switch (d->relative) {
    case FOVEA_RELATIVE_ALIBI: {
        const float product = tensor_f32(t, 0, h, 0, 0) * (float)llabs(distance);
        return -product;
    }
    case FOVEA_RELATIVE_TOEPLITZ:
        return tensor_f32(t, 0, h, 0, reach + (distance < -reach ? -reach : distance > reach ? reach : distance));
    case FOVEA_RELATIVE_T5: return tensor_f32(t, 0, h, 0, reference_bucket(d, distance));
    default:
        return tensor_f32(t, 0, h, 0, (i / w - j / w + d->relative_height - 1) * (2 * w - 1) + i % w - j % w + w - 1);
    }
}

/* As a bias tensor, with decoding rows, tiles of several blocks, and both on every context. */
static void test_expanded(const fovea_context *ctx, fovea_relative relative, int64_t q_len, int64_t kv_len,
                          int64_t offset, fovea_mask_kind mask) {
    rng r = rng_stream(test_seed(), "expanded");
    attention_case c = case_plain(1, 4, 2, q_len, kv_len, 24, 20);
    const fovea_attention_desc d = desc_of(relative, 32, 128, q_len % 2 == 0);
    c.weights = true;
    c.desc.mask = mask;
    c.desc.relative = relative;
    c.desc.relative_buckets = d.relative_buckets;
    c.desc.relative_max_distance = d.relative_max_distance;
    c.desc.relative_bidirectional = d.relative_bidirectional;
    c.desc.relative_height = c.desc.relative_width = 32;
    c.relative_entries = 2 * (kv_len / 2) + 1;
    c.q_offsets = true;
    inputs *in = inputs_make_given(&c, &r, NULL, NULL, &offset);
    outputs *got = outputs_make(&c, c.layout), *want = outputs_make(&c, c.layout);
    case_run(ctx, NULL, &c, in, got);

    fovea_tensor bias =
        fovea_tensor_bhtd(must_alloc(4 * q_len * kv_len, sizeof(float)), FOVEA_DTYPE_F32, 1, 4, q_len, kv_len);
    for (int64_t h = 0; h < 4; h++)
        for (int64_t i = 0; i < q_len; i++)
            for (int64_t j = 0; j < kv_len; j++)
                tensor_row(&bias, 0, h, i)[j] = bias_of(&c.desc, &in->args.relative, h, i + offset - j, i + offset, j);
    inputs with = *in;
    c.desc.relative = FOVEA_RELATIVE_NONE;
    c.desc.has_bias = 1;
    with.args.bias = bias;
    with.args.relative.data = NULL;
    case_run(ctx, NULL, &c, &with, want);
    outputs_same(got, want, "relative %d, %" PRId64 " queries from %" PRId64 " on, %" PRId64 " keys, against a bias",
                 (int)relative, q_len, offset, kv_len);
    free(bias.data);
    outputs_free(got);
    outputs_free(want);
    inputs_free(in);
}

/* Tables are not expanded: memory for them does not grow with the tokens. */
static void test_memory(const fovea_context *ctx) {
    enum { T = 1 << 16, MOST = 64 << 10 };
    size_t bytes[FOVEA_RELATIVE_WINDOW_2D + 1];
    for (int kind = 0; kind <= FOVEA_RELATIVE_WINDOW_2D; kind++) {
        attention_case c = case_plain(1, 8, 8, T, T, 64, 64);
        fovea_attention_plan *plan;
        c.desc.relative = (fovea_relative)kind;
        c.desc.relative_buckets = 32;
        c.desc.relative_max_distance = 128;
        c.desc.relative_height = c.desc.relative_width = 256;
        check_status("a plan", fovea_attention_plan_create(ctx, &c.desc, &plan), FOVEA_OK, NULL);
        bytes[kind] = fovea_attention_plan_workspace_size(plan);
        fovea_attention_plan_destroy(plan);
        test_check(bytes[kind] <= bytes[0] + MOST, "relative %d: a workspace of %zu bytes, %zu without", kind,
                   bytes[kind], bytes[0]);
    }
}

/* -------------------------------------------------------------------------------------------------------- errors -- */

static void check_desc(const fovea_context *ctx, fovea_attention_desc d, fovea_status want, const char *words) {
    fovea_attention_plan *plan = NULL;
    check_status(words, fovea_attention_plan_create(ctx, &d, &plan), want, words);
    fovea_attention_plan_destroy(plan);
}

static void test_descriptions(const fovea_context *ctx) {
    fovea_attention_desc d = desc_of((fovea_relative)5, 32, 128, 0);
    check_desc(ctx, d, FOVEA_ERROR_ARGUMENT, "relative is 5|fovea_relative");
    static const int64_t bad[][3] = {{1, 128, 0}, {3, 128, 1}, {257, 1000, 0}, {32, 16, 0}, {32, 8, 1}, {32, -1, 1}};
    for (int i = 0; i < 6; i++)
        check_desc(ctx, desc_of(FOVEA_RELATIVE_T5, bad[i][0], bad[i][1], (int)bad[i][2]), FOVEA_ERROR_ARGUMENT,
                   i < 3 ? "relative_buckets" : "relative_max_distance");
    check_desc(ctx, desc_of(FOVEA_RELATIVE_T5, 32, (int64_t)1 << 31, 0), FOVEA_ERROR_ARGUMENT,
               "relative_max_distance is 2147483648; it must be at most 1073741824");
    d = desc_of(FOVEA_RELATIVE_WINDOW_2D, 0, 0, 0);
    d.relative_height = 0;
    check_desc(ctx, d, FOVEA_ERROR_SHAPE, "relative_height is 0");
}

static void check_args(const fovea_attention_plan *plan, const fovea_attention_args *args, fovea_status want,
                       const char *words) {
    check_status(words, fovea_attention_execute(plan, args, NULL, 0), want, words);
}

static void test_arguments(const fovea_context *ctx, fovea_relative relative) {
    rng r = rng_stream(test_seed(), "arguments");
    attention_case c = case_plain(1, 2, 1, 5, 300, 16, 16);
    c.desc = desc_of(relative, 32, 128, 1);
    c.relative_entries = 9;
    inputs *in = inputs_make(&c, &r);
    outputs *out = outputs_make(&c, c.layout);
    fovea_attention_plan *plan = NULL;
    check_status("a plan", fovea_attention_plan_create(ctx, &c.desc, &plan), FOVEA_OK, NULL);
    fovea_attention_args args = case_args(in, out);
    check_args(plan, &args, FOVEA_OK, NULL);
    args.relative.data = NULL;
    check_args(plan, &args, FOVEA_ERROR_NULL, "relative is NULL");
    args = case_args(in, out);
    args.relative.shape[3]++;
    check_args(plan, &args, FOVEA_ERROR_SHAPE, "relative|entries");
    args = case_args(in, out);
    args.relative.shape[1] = 3;
    check_args(plan, &args, FOVEA_ERROR_SHAPE, "relative: head axis");
    args = case_args(in, out);
    args.relative.data = args.out.data; /* the larger one: no other operand is near */
    check_args(plan, &args, FOVEA_ERROR_ALIAS, "out|relative");
    args = case_args(in, out);
    args.q_offsets = (const int64_t[]){17 * 19 - 4};
    if (relative == FOVEA_RELATIVE_WINDOW_2D)
        check_args(plan, &args, FOVEA_ERROR_SHAPE, "queries at positions 319 to 323|323 positions");
    else if (relative != FOVEA_RELATIVE_ALIBI) {
        args.relative.stride[3] = 0;
        check_args(plan, &args, FOVEA_ERROR_STRIDE, "relative");
    }
    fovea_attention_plan_destroy(plan);
    plan = NULL;
    c.desc.relative = FOVEA_RELATIVE_NONE;
    check_status("a plan", fovea_attention_plan_create(ctx, &c.desc, &plan), FOVEA_OK, NULL);
    args = case_args(in, out);
    check_args(plan, &args, FOVEA_ERROR_ARGUMENT, "relative is given");
    fovea_attention_plan_destroy(plan);
    outputs_free(out);
    inputs_free(in);
}

/* Where no sequence has a key, no pair has a position: a piece of a state is anywhere, queries too. */
static void test_window_without_keys(const fovea_context *ctx) {
    enum { SIDE = 3, TOKENS = SIDE * SIDE };
    static const int64_t none[] = {0};
    attention_case c = case_plain(1, 2, 2, TOKENS, TOKENS, 8, 8);
    c.desc.relative = FOVEA_RELATIVE_WINDOW_2D;
    c.desc.relative_height = c.desc.relative_width = SIDE;
    rng r = rng_stream(test_seed(), "window");
    inputs *in = inputs_make(&c, &r);
    outputs *want = outputs_make(&c, LAYOUT_BHTD), *got = outputs_make(&c, LAYOUT_BHTD);
    case_run(ctx, NULL, &c, in, want);
    fovea_attention_plan *plan;
    check_status("a plan", fovea_attention_plan_create(ctx, &c.desc, &plan), FOVEA_OK, NULL);
    const size_t size = fovea_attention_plan_state_size(plan);
    void *memory = must_alloc((int64_t)size, 1);
    fovea_attention_args args = in->args;
    check_status("a state", fovea_attention_state_init(plan, memory, size, &args.state), FOVEA_OK, NULL);
    check_status("the keys", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    args.out = got->out;
    args.lse = got->lse;
    args.kv_lens = none;
    args.first_key = 1024; /* past the window */
    check_status("a piece without keys", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    outputs_same(got, want, "a piece without keys");
    args.kv_lens = NULL;
    check_args(plan, &args, FOVEA_ERROR_SHAPE, "1033 keys|9 positions");
    args.first_key = 255;
    check_args(plan, &args, FOVEA_ERROR_ARGUMENT, "first_key is 255");
    args.first_key = INT64_MIN;
    check_args(plan, &args, FOVEA_ERROR_ARGUMENT, "first_key");
    fovea_attention_plan_destroy(plan);
    c.desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    check_status("a plan", fovea_attention_plan_create(ctx, &c.desc, &plan), FOVEA_OK, NULL);
    args = case_args(in, got);
    args.kv_lens = none;
    check_status("no keys before the queries", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    fovea_attention_plan_destroy(plan);
    free(memory);
    inputs_free(in);
    outputs_free(want);
    outputs_free(got);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "relative_bias", NULL);
    const case_contexts x = contexts_make();
    test_recorded();
    test_buckets();
    const fovea_context *const contexts[] = {x.scalar, x.one, x.three};
    for (int i = 0; i < 3; i++)
        for (int kind = FOVEA_RELATIVE_ALIBI; kind <= FOVEA_RELATIVE_WINDOW_2D; kind++) {
            test_expanded(contexts[i], (fovea_relative)kind, 1, 700, 650, FOVEA_MASK_NONE);
            test_expanded(contexts[i], (fovea_relative)kind, 130, 300, 170, FOVEA_MASK_BOOLEAN);
            test_expanded(contexts[i], (fovea_relative)kind, 301, 40, 0, FOVEA_MASK_NONE);
            if (kind != FOVEA_RELATIVE_WINDOW_2D) {
                test_expanded(contexts[i], (fovea_relative)kind, 40, 600, -20, FOVEA_MASK_NONE);
                test_expanded(contexts[i], (fovea_relative)kind, 3, 300, (int64_t)1 << 60, FOVEA_MASK_NONE);
            }
        }
    test_memory(x.one);
    test_descriptions(x.one);
    for (int kind = FOVEA_RELATIVE_ALIBI; kind <= FOVEA_RELATIVE_WINDOW_2D; kind++)
        test_arguments(x.one, (fovea_relative)kind);
    test_window_without_keys(x.one);
    contexts_free(&x);
    return test_end();
}

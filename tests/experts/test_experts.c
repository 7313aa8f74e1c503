/* fovea_experts_apply: row by row on the scalar tier it is right in float64, for random experts of all types of
 * weights; and every tier, number of threads, batch and workspace gives these bits. */
#include "experts_case.h"
#include "guard.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { CASES = 150 };

static int64_t outs(const experts_case *c) { return c->desc.out_features ? c->desc.out_features : c->desc.in_features; }

static fovea_dtype y_type(const experts_case *c) { return c->desc.y_dtype ? c->desc.y_dtype : c->desc.dtype; }

static fovea_experts_args args_of(const experts_case *c, void *y) {
    fovea_experts_args args;
    fovea_experts_args_init(&args);
    args.x = c->x;
    args.y = fovea_tensor_bhtd(y, y_type(c), c->batch, 1, c->tokens, outs(c));
    args.k = c->k;
    args.chosen = c->chosen;
    args.weights = c->weight;
    return args;
}

/* Row by row. */
static char *reference(const fovea_context *scalar, const experts_case *c) {
    const int64_t size = fv_dtype_size(y_type(c)) * outs(c);
    char *y = must_alloc(c->batch * c->tokens * size, 1);
    fovea_experts *experts = experts_case_pack(scalar, c);
    for (int64_t row = 0; row < c->batch * c->tokens; row++) {
        fovea_experts_args args = args_of(c, y + row * size);
        args.x.data = (char *)c->x.data + row * fv_dtype_size(c->desc.dtype) * c->desc.in_features;
        args.x.shape[0] = args.x.shape[2] = args.y.shape[0] = args.y.shape[2] = 1;
        args.chosen += row * c->k;
        args.weights += row * c->k;
        test_check(fovea_experts_apply(scalar, experts, &args, NULL, 0) == FOVEA_OK, "%s: %s", c->title,
                   fovea_error_detail());
    }
    fovea_experts_destroy(experts);
    return y;
}

static void check_oracle(const experts_case *c, const char *y) {
    const int64_t out = outs(c), rows = c->batch * c->tokens;
    double *want = must_alloc(out, sizeof *want), worst = 0, size;
    float *got = must_alloc(rows * out, sizeof *got);
    convert_elements(rows * out, y, y_type(c), got, FOVEA_DTYPE_F32);
    const double rounding = y_type(c) == FOVEA_DTYPE_F32 ? 0 : y_type(c) == FOVEA_DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
    for (int64_t row = 0; row < rows; row++) {
        experts_case_oracle(c, row, want, &size);
        for (int64_t o = 0; o < out; o++)
            if (fabs(want[o]) < 65000 || y_type(c) != FOVEA_DTYPE_F16) /* which has no more */
                worst = fmax(worst, fabs((double)got[row * out + o] - want[o]) /
                                        (c->error * size + rounding * fabs(want[o]) + 0x1p-24 * rounding));
    }
    test_check(worst <= 1, "%s: %g of what is allowed from float64", c->title, worst);
    free(want);
    free(got);
}

/* Experts are added in ascending order, which sums of products with 1 show: these are not rounded. */
static void check_order(const fovea_context *ctx, const experts_case *c) {
    const int64_t out = outs(c);
    fovea_experts *experts = experts_case_pack(ctx, c);
    float *sum = must_alloc(out, sizeof *sum), *y = must_alloc(out, sizeof *y), *ones = must_alloc(c->k, sizeof *ones);
    fovea_experts_args args = args_of(c, y);
    args.x.shape[0] = args.x.shape[2] = args.y.shape[0] = args.y.shape[2] = 1;
    args.weights = ones;
    memset(sum, 0, (size_t)out * sizeof *sum);
    for (int64_t i = 0; i < c->k; i++)
        ones[i] = 1;
    for (int64_t e = 0; e < c->desc.experts; e++)
        for (int64_t i = 0; i < c->k; i++) {
            if (c->chosen[i] != e)
                continue;
            args.k = 1;
            args.chosen = &e;
            test_check(fovea_experts_apply(ctx, experts, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
            for (int64_t o = 0; o < out; o++)
                sum[o] += y[o];
        }
    args.k = c->k;
    args.chosen = c->chosen;
    test_check(fovea_experts_apply(ctx, experts, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
    test_same(y, sum, out, "%s: the sum of experts in their order", c->title);
    fovea_experts_destroy(experts);
    free(sum);
    free(y);
    free(ones);
}

/* The whole batch, with experts packed on that tier; x and y have gaps between rows. */
static void check_batch(const fovea_context *ctx, const experts_case *c, const char *want, rng *r) {
    const int64_t out = outs(c), gap = rng_below(r, 3), rows = c->batch * c->tokens, in = c->desc.in_features,
                  of_x = fv_dtype_size(c->desc.dtype), of_y = fv_dtype_size(y_type(c));
    fovea_experts *experts = experts_case_pack(ctx, c);
    guard *x = guard_alloc("x", (size_t)(((rows - 1) * (in + gap) + in) * of_x), GUARD_END),
          *y = guard_alloc("y", (size_t)(((rows - 1) * (out + gap) + out) * of_y), GUARD_END),
          *workspace =
              guard_alloc("workspace", fovea_experts_apply_workspace_size(ctx, experts, rows, c->k), GUARD_END);
    for (int64_t row = 0; row < rows; row++)
        memcpy((char *)x->data + row * (in + gap) * of_x, (char *)c->x.data + row * in * of_x, (size_t)(in * of_x));
    fovea_experts_args args = args_of(c, y->data);
    args.x.data = x->data;
    args.x.stride[2] = in + gap;
    args.y.stride[2] = out + gap;
    args.x.stride[0] = c->tokens * (in + gap);
    args.y.stride[0] = c->tokens * (out + gap);
    const bool own = rng_below(r, 2);
    int64_t where;
    test_check(fovea_experts_apply(ctx, experts, &args, own ? NULL : workspace->data, own ? 0 : workspace->size) ==
                   FOVEA_OK,
               "%s: %s", c->title, fovea_error_detail());
    bool same = true;
    for (int64_t row = 0; row < rows; row++)
        same = same &&
               memcmp((char *)y->data + row * (out + gap) * of_y, want + row * out * of_y, (size_t)(out * of_y)) == 0;
    test_check(same, "%s: a batch on %s has other bits than its rows alone", c->title, fovea_isa_name(test_isa()));
    test_check(guard_intact(y, &where) && guard_intact(workspace, &where), "%s: written past an end", c->title);
    guard_free(x);
    guard_free(y);
    guard_free(workspace);
    fovea_experts_destroy(experts);
}

static void test_case(const case_contexts *contexts, rng *r) {
    experts_case *c = experts_case_random(contexts->scalar, r);
    char *want = reference(contexts->scalar, c);
    check_oracle(c, want);
    if (y_type(c) == FOVEA_DTYPE_F32)
        check_order(contexts->own, c);
    const fovea_context *const all[] = {contexts->scalar, contexts->one, contexts->own, contexts->three};
    for (int i = 0; i < 4; i++)
        check_batch(all[i], c, want, r);
    free(want);
    experts_case_free(c);
}

/* More rows than are taken at a time, more pairs than a piece has, and an expert that has most of them. y of float32:
 * chosen by a router in the call. */
static void test_pieces(const case_contexts *contexts, fovea_dtype y_dtype, rng *r) {
    enum { EXPERTS = 5, IN = 8, N = 4000, ROWS = 4100, K = 2 };
    static float weights[2][EXPERTS * IN * N], x[ROWS * IN], logits[ROWS * EXPERTS];
    static int64_t chosen[ROWS * K];
    static float weight[ROWS * K], y[ROWS * N], alone[N];
    fovea_matrix up[EXPERTS], down[EXPERTS];
    for (int map = 0; map < 2; map++)
        for (int64_t i = 0; i < EXPERTS * IN * N; i++)
            weights[map][i] = rng_uniform(r, -0.5f, 0.5f);
    for (int64_t i = 0; i < ROWS * IN; i++)
        x[i] = rng_uniform(r, -1, 1);
    for (int64_t i = 0; i < ROWS * K; i++) {
        chosen[i] = rng_below(r, 4) ? 1 : rng_below(r, EXPERTS + 1);
        weight[i] = rng_uniform(r, 0, 1);
    }
    for (int64_t i = 0; i < ROWS * EXPERTS; i++)
        logits[i] = rng_uniform(r, -1, 1) + (i % EXPERTS == 1 ? 2.0f : 0.0f);
    for (int e = 0; e < EXPERTS; e++) {
        up[e] = fovea_matrix_out_in(weights[0] + e * IN * N, FOVEA_DTYPE_F32, 16, IN);
        down[e] = fovea_matrix_out_in(weights[1] + e * IN * N, FOVEA_DTYPE_F32, N / 2, 16);
    }
    fovea_experts_desc desc;
    fovea_experts_weights given;
    fovea_experts_args args;
    fovea_experts *experts;
    fovea_experts_desc_init(&desc);
    fovea_experts_weights_init(&given);
    fovea_experts_args_init(&args);
    desc.experts = EXPERTS;
    desc.in_features = IN;
    desc.intermediate = 16;
    desc.out_features = N / 2;
    desc.y_dtype = y_dtype;
    desc.activation = FOVEA_ACTIVATION_GELU;
    given.up = up;
    given.down = down;
    const fovea_context *ctx = contexts->three;
    const int64_t size = fv_dtype_size(y_dtype);
    test_check(fovea_experts_create(ctx, &desc, &given, &experts) == FOVEA_OK, "%s", fovea_error_detail());
    args.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, ROWS, IN);
    args.y = fovea_tensor_bhtd(y, y_dtype, 1, 1, ROWS, N / 2);
    args.k = K;
    fovea_router router;
    fovea_router_init(&router);
    router.k = K;
    if (y_dtype == FOVEA_DTYPE_F32) {
        args.router = &router;
        args.logits = fovea_tensor_bhtd(logits, FOVEA_DTYPE_F32, 1, 1, ROWS, EXPERTS);
        test_check(fovea_experts_route(ctx, &router, &args.logits, chosen, weight) == FOVEA_OK, "%s",
                   fovea_error_detail());
    } else {
        args.chosen = chosen;
        args.weights = weight;
    }
    test_check(fovea_experts_apply(ctx, experts, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
    bool same = true;
    args.router = NULL;
    for (int64_t row = 0; row < ROWS; row += row < ROWS - 80 ? rng_between(r, 1, 80) : 1) {
        args.x = fovea_tensor_bhtd(x + row * IN, FOVEA_DTYPE_F32, 1, 1, 1, IN);
        args.y = fovea_tensor_bhtd(alone, y_dtype, 1, 1, 1, N / 2);
        args.chosen = chosen + row * K;
        args.weights = weight + row * K;
        test_check(fovea_experts_apply(ctx, experts, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
        same = same && memcmp((char *)y + row * N / 2 * size, alone, (size_t)(N / 2 * size)) == 0;
    }
    test_check(same, "%d rows in pieces have other bits than alone", (int)ROWS);
    const size_t most = fovea_experts_apply_workspace_size(ctx, experts, ROWS, K);
    test_check(most == fovea_experts_apply_workspace_size(ctx, experts, 1 << 30, K), "the workspace grows with rows");
    test_check(most < (size_t)120 << 20, "a workspace of %zu bytes", most);
    fovea_experts_destroy(experts);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "experts", NULL);
    case_contexts contexts = contexts_make();
    rng r = rng_stream(test_seed(), "experts");
    for (int64_t i = test_scaled(CASES); i > 0; i--)
        test_case(&contexts, &r);
    test_pieces(&contexts, FOVEA_DTYPE_F32, &r);
    test_pieces(&contexts, FOVEA_DTYPE_BF16, &r);
    contexts_free(&contexts);
    return test_end();
}

/* Memory for experts: every allocation of fovea_experts_create(), fovea_experts_apply() and fovea_experts_multiply()
 * that fails gives a clean status (failing.h) and nothing written; with a workspace nothing is allocated, and its size
 * is what is needed. */
#include "experts_case.h"
#include "failing.h"

#include <stdlib.h>

enum { CASES = 12 };

static void fail_multiply(const fovea_context *ctx, bool persistent) {
    enum { IN = 5, OUT = 3, BATCH = 4 };
    static float weights[IN * OUT], x[BATCH * IN];
    const int64_t chosen[BATCH] = {0, 1, 1, 0};
    float y[BATCH * OUT] = {7};
    fovea_linear_desc desc;
    fovea_linear *map;
    fovea_linear_desc_init(&desc);
    desc.in_features = IN;
    desc.part.weight = fovea_matrix_out_in(weights, FOVEA_DTYPE_F32, OUT, IN);
    test_check(fovea_linear_create(ctx, &desc, &map) == FOVEA_OK, "%s", fovea_error_detail());
    const fovea_linear *const maps[] = {map, map};
    const fovea_tensor from = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, BATCH, 1, 1, IN),
                       to = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, BATCH, 1, 1, OUT);
    FAIL_EACH("fovea_experts_multiply", 1, persistent,
              fovea_experts_multiply(ctx, maps, 2, 1, chosen, &from, &to, NULL, 0)) {
        test_check(f.through || y[0] == 7.0f, "fovea_experts_multiply: written after an error");
    }
    const size_t size = fovea_experts_multiply_workspace_size(ctx, map, 2, BATCH);
    void *workspace = must_alloc((int64_t)size, 1);
    TAKES_NONE("fovea_experts_multiply", fovea_experts_multiply(ctx, maps, 2, 1, chosen, &from, &to, workspace, size));
    test_check(fovea_experts_multiply(ctx, maps, 2, 1, chosen, &from, &to, workspace, size - 1) ==
                   FOVEA_ERROR_WORKSPACE,
               "fovea_experts_multiply: a smaller workspace is taken");
    free(workspace);
    fovea_linear_destroy(map);
}

static void fail_case(const fovea_context *ctx, const experts_case *c, bool persistent) {
    const int64_t out = c->desc.out_features ? c->desc.out_features : c->desc.in_features, rows = c->batch * c->tokens,
                  bytes = rows * out * fv_dtype_size(c->desc.y_dtype ? c->desc.y_dtype : c->desc.dtype);
    fovea_experts *experts;
    FAIL_MAKING("fovea_experts_create", 3, persistent, experts, fovea_experts_destroy,
                fovea_experts_create(ctx, &c->desc, &c->weights, &experts))
    experts = experts_case_pack(ctx, c);
    char *y = must_alloc(bytes, 1), *untouched = must_alloc(bytes, 1);
    memset(y, 0x5a, (size_t)bytes);
    memset(untouched, 0x5a, (size_t)bytes);
    fovea_experts_args args;
    fovea_experts_args_init(&args);
    args.x = c->x;
    args.y = fovea_tensor_bhtd(y, c->desc.y_dtype ? c->desc.y_dtype : c->desc.dtype, c->batch, 1, c->tokens, out);
    args.k = c->k;
    args.chosen = c->chosen;
    args.weights = c->weight;
    FAIL_EACH("fovea_experts_apply", 1, persistent, fovea_experts_apply(ctx, experts, &args, NULL, 0)) {
        test_check(f.through || memcmp(y, untouched, (size_t)bytes) == 0, "%s: written after an error", c->title);
    }
    const size_t size = fovea_experts_apply_workspace_size(ctx, experts, rows, c->k);
    void *workspace = must_alloc((int64_t)size, 1);
    TAKES_NONE("fovea_experts_apply", fovea_experts_apply(ctx, experts, &args, workspace, size));
    test_check(fovea_experts_apply(ctx, experts, &args, workspace, size - 1) == FOVEA_ERROR_WORKSPACE,
               "%s: a smaller workspace is taken", c->title);
    free(workspace);
    fail_multiply(ctx, persistent);
    free(y);
    free(untouched);
    fovea_experts_destroy(experts);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "allocation_experts", NULL);
    case_contexts contexts = contexts_make();
    rng r = rng_stream(test_seed(), "memory for experts");
    for (int64_t i = test_scaled(CASES); i > 0; i--) {
        experts_case *c = experts_case_random(contexts.scalar, &r);
        fail_case(contexts.one, c, false);
        fail_case(contexts.one, c, true);
        experts_case_free(c);
    }
    contexts_free(&contexts);
    return test_end();
}

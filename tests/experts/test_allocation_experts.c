/* Memory for experts: every allocation of fovea_experts_create() and fovea_experts_apply() that fails gives a clean
 * status (failing.h) and nothing written; with a workspace nothing is allocated, and its size is what is needed. */
#include "experts_case.h"
#include "failing.h"

#include <stdlib.h>

enum { CASES = 12 };

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

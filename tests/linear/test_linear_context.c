/* A map and its contexts: one packs it, any other applies it, of another tier and number of threads, also when the
 * first is gone. */
#include "attention_case.h"
#include "linear_case.h"

#include "linear/linear.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A map whose context is gone. */
static fovea_linear *packed_alone(const fovea_linear_desc *desc, fovea_isa isa, int threads) {
    char before[2048], after[2048];
    fovea_context_options options;
    fovea_context *ctx;
    fovea_linear *linear;
    fovea_context_options_init(&options);
    options.isa = isa;
    options.threads = threads;
    options.threads_backend = FOVEA_THREADS_POOL;
    check_status("context", fovea_context_create(&options, &ctx), FOVEA_OK, NULL);
    check_status("create", fovea_linear_create(ctx, desc, &linear), FOVEA_OK, NULL);
    fovea_linear_describe(linear, before, sizeof before);
    fovea_context_destroy(ctx);
    fovea_linear_describe(linear, after, sizeof after);
    test_check(strcmp(before, after) == 0, "other words without its context:\n%s%s", before, after);
    return linear;
}

/* In a workspace of exactly its size, and of a byte less. */
static void apply(const fovea_context *ctx, const fovea_linear *linear, linear_problem *p) {
    const size_t size = fovea_linear_apply_workspace_size(ctx, linear);
    guard *workspace = guard_alloc("workspace", size, GUARD_END);
    linear_problem_clear(p);
    check_status("small", fovea_linear_apply(ctx, linear, &p->args, workspace->data, size - 1), FOVEA_ERROR_WORKSPACE,
                 "workspace");
    check_status("apply", fovea_linear_apply(ctx, linear, &p->args, workspace->data, size), FOVEA_OK, NULL);
    guard_free(workspace);
}

static void test_contexts(const case_contexts *x) {
    static const fovea_isa tiers[] = {FOVEA_ISA_SCALAR, FOVEA_ISA_BEST};
    const fovea_context *others[] = {x->scalar, x->one, x->own, x->three, x->many};
    static const char *const names[] = {"scalar", "one thread", "default threads", "a pool of 3", "a pool of 3 as 40"};
    rng r = rng_stream(test_seed(), "contexts");
    for (int64_t i = test_scaled(12); i > 0; i--) {
        const linear_case c = i % 3 ? linear_case_random(&r) : linear_case_plain(1, 9 * i, 40 + i, 700);
        linear_problem *p = linear_problem_make(&c, &r);
        fovea_linear *first = packed_alone(&p->desc, FOVEA_ISA_SCALAR, 1);
        float *want[LINEAR_PARTS] = {NULL};
        apply(x->scalar, first, p);
        for (int part = 0; part < c.parts; part++) {
            const int64_t floats = tensor_floats(&p->y[part]);
            want[part] = memcpy(must_alloc(floats, sizeof(float)), p->y[part].data, (size_t)floats * sizeof(float));
        }
        for (int k = 0; k < 4; k++) {
            fovea_linear *linear = packed_alone(&p->desc, tiers[k % 2], k / 2 ? 3 : 1);
            for (int at = 0; at < 5; at++) {
                apply(others[at], linear, p);
                linear_problem_same(p, (const float *const *)want, "packed by another, applied by %s", names[at]);
            }
            fovea_linear_destroy(linear);
        }
        for (int part = 0; part < c.parts; part++)
            free(want[part]);
        fovea_linear_destroy(first);
        linear_problem_free(p);
    }
}

static void test_refused(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "refused");
    const linear_case c = linear_case_plain(1, 5, 30, 20);
    linear_problem *p = linear_problem_make(&c, &r);
    fovea_linear *linear = packed_alone(&p->desc, FOVEA_ISA_BEST, 1);
    const size_t one = fovea_linear_apply_workspace_size(x->one, linear),
                 many = fovea_linear_apply_workspace_size(x->many, linear);
    char *workspace = must_alloc((int64_t)one, 1);
    check_status("no ctx", fovea_linear_apply(NULL, linear, &p->args, NULL, 0), FOVEA_ERROR_NULL, "ctx");
    check_status("no linear", fovea_linear_apply(x->one, NULL, &p->args, NULL, 0), FOVEA_ERROR_NULL, "linear");
    check_status("no args", fovea_linear_apply(x->one, linear, NULL, NULL, 0), FOVEA_ERROR_NULL, "args");
    check_status("another's workspace", fovea_linear_apply(x->many, linear, &p->args, workspace, one),
                 FOVEA_ERROR_WORKSPACE, "workspace");
    test_check(many - FV_ALIGNMENT == 40 * (one - FV_ALIGNMENT), "%zu bytes on 40 threads, %zu on one", many, one);
    test_check(fovea_linear_apply_workspace_size(NULL, linear) == 0 &&
                   fovea_linear_apply_workspace_size(x->one, NULL) == 0,
               "a workspace without a context, or without a map");
    test_check(fv_linear_workspace(INT_MAX, (int64_t)1 << 40) == INT64_MAX, "bytes beyond any number");
    free(workspace);
    fovea_linear_destroy(linear);
    linear_problem_free(p);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "linear_context", NULL);
    const case_contexts x = contexts_make();
    test_contexts(&x);
    test_refused(&x);
    contexts_free(&x);
    return test_end();
}

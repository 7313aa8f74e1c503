/* Floating-point exceptions that trap. With FE_INVALID, FE_DIVBYZERO and FE_OVERFLOW enabled in the caller, no function
 * of the library traps, in any of its threads; results have the bits that they have without; and the caller's
 * exceptions, those that trap and those that have occurred, are as they were. The same for each flag alone that was set
 * or clear before a call. */
#define _GNU_SOURCE /* feenableexcept */
#include "attention_case.h"
#include "linear_case.h"
#include "mha_layer.h"
#include "thread_pool.h"

#include <fenv.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRAPS = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW };

static void set_traps(int traps) {
    feclearexcept(FE_ALL_EXCEPT);
    fedisableexcept(FE_ALL_EXCEPT);
    if (traps)
        feenableexcept(traps);
}

/* Traps on, and no flag set; false where this CPU has no traps. */
static bool begin(void) {
    set_traps(TRAPS);
    return fegetexcept() == TRAPS;
}

static void end(const char *what) {
    const int traps = fegetexcept(), flags = fetestexcept(FE_ALL_EXCEPT);
    set_traps(0);
    test_check(traps == TRAPS, "%s: exceptions 0x%x trap afterwards", what, (unsigned)traps);
    test_check(flags == 0, "%s: flags 0x%x are set afterwards", what, (unsigned)flags);
}

static void check_attention(const fovea_context *ctx, const attention_case *c, const inputs *in, const outputs *want) {
    char text[512];
    case_text(c, text, sizeof text);
    outputs *got = outputs_make(c, c->layout);
    fovea_attention_args args = case_args(in, got);
    fovea_attention_plan *plan = NULL;
    begin();
    const fovea_status made = fovea_attention_plan_create(ctx, &c->desc, &plan);
    end("fovea_attention_plan_create");
    begin();
    const fovea_status status = made == FOVEA_OK ? fovea_attention_execute(plan, &args, NULL, 0) : made;
    end(text);
    begin();
    fovea_attention_plan_describe(plan, text, sizeof text);
    end("fovea_attention_plan_describe");
    test_check(status == FOVEA_OK, "attention: %s", fovea_error_detail());
    outputs_same(got, want, "with traps: %s", case_text(c, text, sizeof text));
    fovea_attention_plan_destroy(plan);
    outputs_free(got);
}

/* Several segments of keys, rows that see none of some segments, and whatever else comes. */
static void test_attention(const fovea_context *scalar, fovea_context *const *contexts, int count) {
    rng r = rng_stream(test_seed(), "traps");
    for (int64_t i = 0, cases = test_scaled(60); i < cases; i++) {
        attention_case c = case_random(&r, 100000);
        if (i < 4)
            c = case_plain(2, 4, 2, i < 2 ? 1 : 90, 900, 24, 24);
        if (i % 2)
            c.desc.causal = FOVEA_CAUSAL_TOP_LEFT, c.q_offsets = false;
        inputs *in = inputs_make(&c, &r);
        outputs *want = outputs_make(&c, c.layout);
        case_run(scalar, NULL, &c, in, want);
        for (int k = 0; k < count; k++)
            check_attention(contexts[k], &c, in, want);
        inputs_free(in);
        outputs_free(want);
    }
}

static void test_linear(const fovea_context *ctx) {
    rng r = rng_stream(test_seed(), "linear");
    for (int64_t i = 0, cases = test_scaled(20); i < cases; i++) {
        const linear_case c = linear_case_random(&r);
        linear_problem *p = linear_problem_make(&c, &r);
        fovea_linear *linear = NULL;
        char text[512];
        begin();
        fovea_status status = fovea_linear_create(ctx, &p->desc, &linear);
        end("fovea_linear_create");
        begin();
        if (status == FOVEA_OK)
            status = fovea_linear_apply(ctx, linear, &p->args, NULL, 0);
        end("fovea_linear_apply");
        begin();
        fovea_linear_describe(linear, text, sizeof text);
        end("fovea_linear_describe");
        test_check(status == FOVEA_OK, "linear: %s", fovea_error_detail());
        fovea_linear_destroy(linear);
        linear_problem_free(p);
    }
}

static void test_layer(const fovea_context *ctx) {
    const layer_sizes sizes = {.batch = 2,
                               .q_len = 300,
                               .kv_len = 300,
                               .heads = 2,
                               .kv_heads = 2,
                               .d_k = 8,
                               .d_v = 8,
                               .features = {16, 16, 16},
                               .out = 16,
                               .causal = FOVEA_CAUSAL_TOP_LEFT};
    rng r = rng_stream(test_seed(), "layer");
    layer *l = layer_make(&sizes, &r);
    for (int form = FOVEA_MHA_FACTORED; form <= FOVEA_MHA_MERGED; form++) {
        l->desc.form = (fovea_mha_form)form;
        l->desc.fold_values = FOVEA_MHA_FOLD_ALWAYS;
        float *out = must_alloc(layer_floats(l), sizeof *out);
        fovea_attention_args args = layer_args(l, out);
        fovea_mha *mha = NULL, *other = NULL;
        fovea_mha_costs costs;
        fovea_mha_costs_init(&costs);
        begin();
        fovea_status status = fovea_mha_create(ctx, &l->desc, &l->w, &mha);
        end("fovea_mha_create");
        begin();
        if (status == FOVEA_OK)
            status = fovea_mha_execute(mha, &args, NULL, 0);
        end("fovea_mha_execute");
        begin();
        fovea_mha_desc_costs(&l->desc, &costs);
        fovea_mha_reshape(mha, 1, 7, 7, &other);
        end("fovea_mha_desc_costs and fovea_mha_reshape");
        test_check(status == FOVEA_OK && other != NULL, "layer: %s", fovea_error_detail());
        fovea_mha_destroy(mha);
        fovea_mha_destroy(other);
        free(out);
    }
    layer_free(l);
}

static void test_one_call(void) {
    enum { LEN = 600, DIM = 16 };
    static float x[LEN * DIM], out[LEN * DIM];
    for (int i = 0; i < LEN * DIM; i++)
        x[i] = (float)(i * 37 % 101) - 50.0F;
    begin();
    fovea_context *ctx;
    const fovea_status made = fovea_context_create(NULL, &ctx);
    end("fovea_context_create");
    test_check(made == FOVEA_OK, "context: %s", fovea_error_detail());
    fovea_context_destroy(ctx);
    begin();
    const fovea_status status = fovea_sdpa_f32(x, x, x, out, 1, 1, 1, LEN, LEN, DIM, DIM, FOVEA_CAUSAL_TOP_LEFT);
    end("fovea_sdpa_f32");
    test_check(status == FOVEA_OK, "fovea_sdpa_f32: %s", fovea_error_detail());
}

/* Flags that were set stay set, and no other is. */
static void test_flags(const fovea_context *ctx) {
    static const int flags[] = {FE_INVALID, FE_DIVBYZERO, FE_OVERFLOW, FE_UNDERFLOW, FE_INEXACT};
    rng r = rng_stream(test_seed(), "flags");
    attention_case c = case_plain(1, 2, 2, 9, 600, 16, 16);
    inputs *in = inputs_make(&c, &r);
    outputs *out = outputs_make(&c, c.layout);
    fovea_attention_args args = case_args(in, out);
    fovea_attention_plan *plan;
    test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail());
    for (int i = 0; i < 5; i++) {
        set_traps(0);
        feraiseexcept(flags[i]);
        const int before = fetestexcept(FE_ALL_EXCEPT); /* raising one may raise FE_INEXACT */
        fovea_attention_execute(plan, &args, NULL, 0);
        const int after = fetestexcept(FE_ALL_EXCEPT);
        test_check(before == after, "flags 0x%x before a call, 0x%x afterwards", (unsigned)before, (unsigned)after);
    }
    set_traps(0);
    fovea_attention_plan_destroy(plan);
    inputs_free(in);
    outputs_free(out);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "fp_traps", NULL);
    if (!begin()) {
        set_traps(0);
        test_skip("this CPU has no floating-point traps");
        return test_end();
    }
    set_traps(0);
    test_one_call();
    const case_contexts x = contexts_make();
    fovea_context *const contexts[] = {x.one, x.own, x.three};
    test_attention(x.scalar, contexts, 3);
    for (int k = 0; k < 3; k++) {
        test_linear(contexts[k]);
        test_layer(contexts[k]);
        test_flags(contexts[k]);
    }
    contexts_free(&x);
    return test_end();
}

/* Named arithmetics: which are taken for which types, what FASTEST takes and FOVEA_ARITHMETIC makes of it, and the
 * sentences that refuse. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "attention_case.h"
#include "context/context.h"

#include <stdio.h>
#include <stdlib.h>

static fovea_attention_desc attention_of(fovea_dtype q, fovea_dtype k, fovea_dtype v, fovea_arithmetic arithmetic) {
    fovea_attention_desc d;
    fovea_attention_desc_init(&d);
    d.dtype = q;
    d.k_dtype = k;
    d.v_dtype = v;
    d.q_heads = d.kv_heads = d.q_len = d.kv_len = d.head_dim = d.value_dim = 4;
    d.arithmetic = arithmetic;
    return d;
}

/* The arithmetic of a plan, or -1 and a sentence. */
static int taken(const fovea_context *ctx, const fovea_attention_desc *d, fovea_status *status) {
    fovea_attention_plan *plan;
    *status = fovea_attention_plan_create(ctx, d, &plan);
    const int found = *status == FOVEA_OK ? (int)fovea_attention_plan_arithmetic(plan) : -1;
    if (*status == FOVEA_OK) {
        char text[2048], line[64];
        fovea_attention_plan_describe(plan, text, sizeof text);
        snprintf(line, sizeof line, "arithmetic %s\n", fovea_arithmetic_name((fovea_arithmetic)found));
        test_check(strstr(text, line) != NULL, "the plan does not say \"%s\": %s", line, text);
    }
    fovea_attention_plan_destroy(plan);
    return found;
}

/* FASTEST of bfloat16 takes the CPU's units for it, if they gain anything. Never tiles, which no CPU has been
 * timed with. */
static fovea_arithmetic by_features(const fovea_context *ctx, bool linear) {
#ifdef FV_HAVE_X86
    if ((ctx->target.features & FV_HAS_avx512_bf16) && ctx->cpu.fast_pairs && !linear) /* maps in bf16 are exact */
        return FOVEA_ARITHMETIC_BF16;
#endif
    (void)ctx, (void)linear;
    return FOVEA_ARITHMETIC_EXACT;
}

static void test_types(const fovea_context *ctx) {
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    fovea_context_info(ctx, &info);
    fovea_status status;
    test_check(info.fastest_attention == by_features(ctx, false) && info.fastest_linear == by_features(ctx, true),
               "fastest is %s, of linear maps %s: not what the CPU's features say",
               fovea_arithmetic_name(info.fastest_attention), fovea_arithmetic_name(info.fastest_linear));
    for (int q = 0; q < 3; q++)
        for (int k = 0; k < 3; k++)
            for (int v = 0; v < 3; v++) {
                const bool all = q == 1 && k == 1 && v == 1;
                fovea_attention_desc d = attention_of(types[q], types[k], types[v], FOVEA_ARITHMETIC_EXACT);
                test_check(taken(ctx, &d, &status) == FOVEA_ARITHMETIC_EXACT, "exact is not exact");
                d.arithmetic = FOVEA_ARITHMETIC_FASTEST;
                const int want = all ? (int)info.fastest_attention : FOVEA_ARITHMETIC_EXACT;
                test_check(taken(ctx, &d, &status) == want, "fastest of types %d %d %d is not %d", q, k, v, want);
                d.arithmetic = FOVEA_ARITHMETIC_BF16;
                if (all)
                    test_check(taken(ctx, &d, &status) == FOVEA_ARITHMETIC_BF16, "bf16: %s", fovea_error_detail());
                else
                    test_check(taken(ctx, &d, &status) < 0 && status == FOVEA_ERROR_UNSUPPORTED &&
                                   strstr(fovea_error_detail(), "arithmetic is FOVEA_ARITHMETIC_BF16, which takes"),
                               "types %d %d %d: %s", q, k, v, fovea_error_detail());
            }
    fovea_attention_desc d = attention_of(FOVEA_DTYPE_BF16, 0, 0, (fovea_arithmetic)7);
    test_check(taken(ctx, &d, &status) < 0 && status == FOVEA_ERROR_ARGUMENT, "an arithmetic of number 7");
    test_check(fovea_attention_plan_arithmetic(NULL) == FOVEA_ARITHMETIC_EXACT, "the arithmetic of nothing");
}

/* The same on CPUs that are not at hand: with and without AMX, with and without pairs that gain anything. */
static void test_made_up_cpus(const fovea_context *ctx) {
#ifdef FV_HAVE_X86
    static const unsigned features[] = {FV_HAS_amx_bf16, FV_HAS_avx512_bf16, FV_HAS_amx_bf16 | FV_HAS_avx512_bf16};
    for (int i = 0; i < 6; i++) {
        fovea_context made = *ctx;
        made.target.features = features[i / 2];
        made.cpu.fast_pairs = i % 2 == 1;
        test_check(fv_arithmetic_fastest(&made, FV_ARITHMETIC_OF_attention, true) == by_features(&made, false) &&
                       fv_arithmetic_fastest(&made, FV_ARITHMETIC_OF_linear, true) == by_features(&made, true),
                   "features %x, fast pairs %d: fastest is another", made.target.features, made.cpu.fast_pairs);
    }
#endif
    (void)ctx;
}

/* FOVEA_ARITHMETIC narrows FASTEST and nothing else. */
static void test_environment(void) {
    static const struct {
        const char *word;
        int fastest; /* -1: by the CPU */
    } all[] = {{"exact", FOVEA_ARITHMETIC_EXACT},
               {"bf16", FOVEA_ARITHMETIC_BF16},
               {"bf16_tile", FOVEA_ARITHMETIC_BF16_TILE},
               {"fastest", -1},
               {"", -1}};
    fovea_status status;
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
    const fovea_attention_desc d = attention_of(FOVEA_DTYPE_BF16, 0, 0, FOVEA_ARITHMETIC_FASTEST),
                               named = attention_of(FOVEA_DTYPE_BF16, 0, 0, FOVEA_ARITHMETIC_BF16);
    const int by_cpu = taken(ctx, &d, &status);
    fovea_context_destroy(ctx);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        setenv("FOVEA_ARITHMETIC", all[i].word, 1);
        ctx = context_of(FOVEA_ISA_BEST, 1, NULL);
        const int want = all[i].fastest < 0 ? by_cpu : all[i].fastest;
        test_check(taken(ctx, &d, &status) == want, "FOVEA_ARITHMETIC=%s: fastest is not %d", all[i].word, want);
        test_check(taken(ctx, &named, &status) == FOVEA_ARITHMETIC_BF16, "FOVEA_ARITHMETIC=%s replaces bf16",
                   all[i].word);
        fovea_context_destroy(ctx);
    }
    setenv("FOVEA_ARITHMETIC", "BF16", 1);
    test_check(fovea_context_create(NULL, &ctx) == FOVEA_ERROR_ENVIRONMENT && !ctx &&
                   strstr(fovea_error_detail(), "FOVEA_ARITHMETIC=\"BF16\" is not an arithmetic; known: exact, bf16"),
               "an unknown word: %s", fovea_error_detail());
    unsetenv("FOVEA_ARITHMETIC");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "arithmetic_selection", NULL);
    unsetenv("FOVEA_ARITHMETIC");
    static const fovea_isa tiers[] = {FOVEA_ISA_BEST, FOVEA_ISA_SCALAR, FOVEA_ISA_AVX2};
    for (int i = 0; i < 3; i++) {
        fovea_context *ctx = context_of(tiers[i], 1, NULL);
        test_types(ctx);
        test_made_up_cpus(ctx);
        fovea_context_destroy(ctx);
    }
    test_environment();
    return test_end();
}

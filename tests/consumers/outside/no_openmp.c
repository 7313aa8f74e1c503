/* With a library that was built without OpenMP: threads of its own pool, or a caller's by parallel_for; equal bits. The
 * argument: how many threads a context has, "" if any number will do. */
#include <fovea/fovea.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 8, TOKENS = 100, CHANNELS = 16, FLOATS = HEADS * TOKENS * CHANNELS };

static float q[FLOATS], out[3][FLOATS];
static int pool_calls;

static void backwards(void *pool, int64_t count, void (*task)(void *arg, int64_t index), void *arg) {
    (void)pool;
    pool_calls += count > 1;
    for (int64_t i = count - 1; i >= 0; i--)
        task(arg, i);
}

/* In a context of that many threads: its description of itself. */
static int compute(int threads, fovea_parallel_for_fn parallel_for, float *result, fovea_context_facts *info) {
    fovea_context_options options;
    fovea_context *ctx;
    fovea_attention_desc desc;
    fovea_attention_plan *plan;
    fovea_attention_args args;
    fovea_context_options_init(&options);
    options.threads = threads;
    options.parallel_for = parallel_for;
    fovea_context_facts_init(info);
    fovea_attention_desc_init(&desc);
    desc.q_heads = desc.kv_heads = HEADS;
    desc.q_len = desc.kv_len = TOKENS;
    desc.head_dim = desc.value_dim = CHANNELS;
    fovea_attention_args_init(&args);
    args.q = args.k = args.v = fovea_tensor_bhtd(q, FOVEA_DTYPE_F32, 1, HEADS, TOKENS, CHANNELS);
    args.out = fovea_tensor_bhtd(result, FOVEA_DTYPE_F32, 1, HEADS, TOKENS, CHANNELS);
    if (fovea_context_create(&options, &ctx) != FOVEA_OK || fovea_context_info(ctx, info) != FOVEA_OK ||
        fovea_attention_plan_create(ctx, &desc, &plan) != FOVEA_OK ||
        fovea_attention_execute(plan, &args, NULL, 0) != FOVEA_OK) {
        fprintf(stderr, "%s\n", fovea_error_detail());
        return 0;
    }
    fovea_attention_plan_destroy(plan);
    fovea_context_destroy(ctx);
    return 1;
}

int main(int argc, char **argv) {
    fovea_context_facts own, pooled;
    fovea_context_options options;
    fovea_context *ctx;
    for (int i = 0; i < FLOATS; i++)
        q[i] = (float)(i * 37 % 101) / 101.0F;
    if (!compute(8, NULL, out[0], &own) || pool_calls != 0 || !compute(4, backwards, out[1], &pooled) ||
        fovea_sdpa_f32(q, q, q, out[2], 1, HEADS, HEADS, TOKENS, TOKENS, CHANNELS, CHANNELS, FOVEA_CAUSAL_NONE) !=
            FOVEA_OK)
        return 1;
    printf("%s\n%s\n", own.reason, pooled.reason);
    if (argc != 2 || !strstr(own.reason, "of the context's pool") || (*argv[1] && own.threads != atoi(argv[1]))) {
        fprintf(stderr, "%d threads without OpenMP\n", own.threads);
        return 1;
    }
    fovea_context_options_init(&options);
    options.threads_backend = FOVEA_THREADS_OPENMP;
    if (fovea_context_create(&options, &ctx) != FOVEA_ERROR_UNSUPPORTED) {
        fprintf(stderr, "OpenMP's threads without OpenMP\n");
        return 1;
    }
    if (pooled.threads != 4 || pool_calls == 0) {
        fprintf(stderr, "a pool of 4: %d threads, %d calls\n", pooled.threads, pool_calls);
        return 1;
    }
    return memcmp(out[0], out[1], sizeof out[0]) != 0 || memcmp(out[0], out[2], sizeof out[0]) != 0;
}

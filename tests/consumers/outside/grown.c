/* A program that is older or newer than its library.
 *   these headers  run with a library whose structs have grown: what it passes is completed by defaults, and what it is
 *                  given ends where its structs end.
 *   grown headers  run with this library, with NEWER: each struct is refused. */
#include <fovea/fovea.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 2, TOKENS = 3, DIM = 4, WIDTH = HEADS * DIM, SIZE = TOKENS * WIDTH, CANARY = 64 };

static int failures;

#ifdef NEWER
enum { EXPECTED = FOVEA_ERROR_VERSION };
#else
enum { EXPECTED = FOVEA_OK };
#endif

static void check(const char *what, fovea_status status) {
    if ((int)status == EXPECTED)
        return;
    fprintf(stderr, "%s: %s (%s)\n", what, fovea_status_name(status), fovea_error_detail());
    failures++;
}

static void require(const char *what, int holds) {
    if (holds)
        return;
    fprintf(stderr, "%s does not hold\n", what);
    failures++;
}

/* A struct with bytes behind it that nobody may write. */
static void *guarded(size_t size) {
    char *memory = malloc(size + CANARY);
    if (!memory)
        exit(1);
    memset(memory, 0x5a, size + CANARY);
    return memory;
}

static int untouched(const void *memory, size_t size) {
    const char *end = (const char *)memory + size;
    for (int i = 0; i < CANARY; i++)
        if (end[i] != 0x5a)
            return 0;
    return 1;
}

static void check_context(const fovea_context *ctx) {
    fovea_context_facts *info = guarded(sizeof *info);
    fovea_context_facts_init(info);
    require("info's init ends with its struct", untouched(info, sizeof *info));
    check("fovea_context_info", fovea_context_info(ctx, info));
    require("info ends with its struct", untouched(info, sizeof *info) && info->struct_size == sizeof *info);
#ifndef NEWER
    require("info tells the threads", info->threads == 1 && info->reason[0]);
#endif
    free(info);
}

static void check_attention(const fovea_context *ctx, float *numbers) {
    fovea_attention_desc *desc = guarded(sizeof *desc);
    fovea_attention_args *args = guarded(sizeof *args);
    fovea_attention_plan *plan = NULL;
    float out[SIZE];
    float once[SIZE];
    fovea_attention_desc_init(desc);
    fovea_attention_args_init(args);
    require("inits end with their structs", untouched(desc, sizeof *desc) && untouched(args, sizeof *args));
    desc->q_heads = desc->kv_heads = HEADS;
    desc->q_len = desc->kv_len = TOKENS;
    desc->head_dim = desc->value_dim = DIM;
    check("fovea_attention_plan_create", fovea_attention_plan_create(ctx, desc, &plan));
    args->q = args->k = args->v = fovea_tensor_bhtd(numbers, FOVEA_DTYPE_F32, 1, HEADS, TOKENS, DIM);
    args->out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, HEADS, TOKENS, DIM);
    if (plan) {
        check("fovea_attention_execute", fovea_attention_execute(plan, args, NULL, 0));
        fovea_sdpa_f32(numbers, numbers, numbers, once, 1, HEADS, HEADS, TOKENS, TOKENS, DIM, DIM, FOVEA_CAUSAL_NONE);
        require("the planned form has the bits of the one call", memcmp(out, once, sizeof out) == 0);
    }
    int64_t offsets[1] = {-7};
    check("fovea_from_flash", fovea_from_flash(desc, args, 0, -1, -1, offsets));
    require("a refused call writes nothing", offsets[0] == (EXPECTED == (int)FOVEA_OK ? 0 : -7));
    fovea_attention_plan_destroy(plan);
    free(args);
    free(desc);
}

static void check_linear(const fovea_context *ctx, float *numbers) {
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear *linear = NULL;
    float identity[WIDTH * WIDTH] = {0}, out[SIZE];
    for (int i = 0; i < WIDTH; i++)
        identity[i * WIDTH + i] = 1;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.in_features = WIDTH;
    desc.part.weight = fovea_matrix_in_out(identity, FOVEA_DTYPE_F32, WIDTH, WIDTH);
    check("fovea_linear_create", fovea_linear_create(ctx, &desc, &linear));
    const fovea_tensor y = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, TOKENS, WIDTH);
    args.x = fovea_tensor_bhtd(numbers, FOVEA_DTYPE_F32, 1, 1, TOKENS, WIDTH);
    args.y = &y;
    if (linear) {
        check("fovea_linear_apply", fovea_linear_apply(ctx, linear, &args, NULL, 0));
        require("x I is x", memcmp(out, numbers, sizeof out) == 0);
    }
    fovea_linear_destroy(linear);
}

static void check_mha(const fovea_context *ctx, float *numbers) {
    fovea_mha_desc desc;
    fovea_attention_desc attention;
    fovea_mha_weights weights;
    fovea_mha_costs *costs = guarded(sizeof *costs);
    fovea_mha *mha = NULL;
    fovea_mha_desc_init(&desc);
    fovea_attention_desc_init(&attention);
    fovea_mha_weights_init(&weights);
    fovea_mha_costs_init(costs);
    attention.q_heads = attention.kv_heads = HEADS;
    attention.q_len = attention.kv_len = TOKENS;
    attention.head_dim = attention.value_dim = DIM;
    desc.attention = &attention;
    desc.q_features = desc.out_features = WIDTH;
    weights.q = weights.k = weights.v = weights.o = fovea_matrix_in_out(numbers, FOVEA_DTYPE_F32, WIDTH, WIDTH);
    check("fovea_mha_desc_costs", fovea_mha_desc_costs(&desc, costs));
    require("costs end with their struct", untouched(costs, sizeof *costs));
#ifndef NEWER
    require("costs are told", costs->parameters == 4 * WIDTH * WIDTH);
#endif
    check("fovea_mha_create", fovea_mha_create(ctx, &desc, &weights, &mha));
    fovea_mha_destroy(mha);
    free(costs);
}

static void check_others(const fovea_context *ctx, float *numbers) {
    float y[WIDTH] = {0};
    fovea_norm_args norm;
    fovea_norm_args_init(&norm);
    norm.x = fovea_tensor_bhtd(numbers, FOVEA_DTYPE_F32, 1, 1, 1, WIDTH);
    norm.y = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, 1, WIDTH);
    check("fovea_norm_rms", fovea_norm_rms(ctx, &norm, NULL, 0));
    require("the norm is written", (y[1] != 0) == (EXPECTED == (int)FOVEA_OK));

    fovea_rope_desc angles;
    fovea_rope *rope = NULL;
    fovea_rope_desc_init(&angles);
    angles.rotary_dim = 2;
    check("fovea_rope_create", fovea_rope_create(&angles, &rope));
    fovea_rope_destroy(rope);

    const uint8_t seen[2] = {1, 0};
    fovea_mask_desc described;
    fovea_mask *mask = NULL;
    fovea_mask_desc_init(&described);
    described.kind = FOVEA_MASK_KEY_PADDING;
    described.q_len = 1;
    described.kv_len = 2;
    described.mask = fovea_tensor_bhtd((void *)seen, FOVEA_DTYPE_BOOL, 1, 1, 1, 2);
    check("fovea_mask_create", fovea_mask_create(ctx, &described, &mask));
    fovea_mask_destroy(mask);

    fovea_kv_cache_desc desc;
    fovea_kv_cache *cache = NULL;
    fovea_kv_cache_desc_init(&desc);
    desc.kv_heads = HEADS;
    desc.head_dim = desc.value_dim = DIM;
    desc.max_pages = 1;
    check("fovea_kv_cache_create", fovea_kv_cache_create(ctx, &desc, &cache));
    if (!cache)
        return;
    fovea_kv_append_args append;
    int64_t sequence, length = 0;
    fovea_kv_append_args_init(&append);
    fovea_kv_cache_add(cache, &sequence);
    append.count = 1;
    append.sequences = &sequence;
    append.k = append.v = fovea_tensor_bhtd(numbers, FOVEA_DTYPE_F32, 1, HEADS, TOKENS, DIM);
    check("fovea_kv_cache_append", fovea_kv_cache_append(cache, &append));
    fovea_kv_cache_length(cache, 0, sequence, &length);
    require("tokens were appended", length == TOKENS);
    fovea_kv_cache_destroy(cache);
}

int main(void) {
    static float numbers[WIDTH * WIDTH];
    for (int i = 0; i < WIDTH * WIDTH; i++)
        numbers[i] = sinf((float)i);
    fovea_context_options options;
    fovea_context *ctx = NULL;
    fovea_context_options_init(&options);
    options.threads = 1;
    options.tuning_file = "";
    check("fovea_context_create", fovea_context_create(&options, &ctx));
    if (!ctx && fovea_context_create(NULL, &ctx) != FOVEA_OK)
        return 1;
    check_context(ctx);
    check_attention(ctx, numbers);
    check_linear(ctx, numbers);
    check_mha(ctx, numbers);
    check_others(ctx, numbers);
    fovea_tuning_match match;
    fovea_tuning_match_init(&match);
    require("match knows its size", match.struct_size == sizeof match);
    fovea_context_destroy(ctx);
    return failures != 0;
}

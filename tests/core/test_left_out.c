/* Element types that a build leaves out (FOVEA_TYPES): each function that takes a type refuses those by a status and a
 * sentence, and takes all others. In a build of all types none is refused. tests/consumers builds some that leave types
 * out. */
#include "core/core.h"
#include "test.h"

#include <string.h>

enum { ROWS = 4, IN = 24, OUT = 40, HEADS = 2, KEYS = 20, DIM = 16 };
static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16, FOVEA_DTYPE_I8};

/* Operands are zeros, which are the same numbers in all types. */
static char zeros[OUT * IN * 4], out[OUT * IN * 4];

static void check(fovea_dtype type, bool takes, fovea_status status, const char *who) {
    const char *name = fv_enum_name(FV_ENUM_dtype, (int)type);
    if (takes && fv_dtype_built(type))
        test_check(status == FOVEA_OK, "%s, %s: %s", who, name, fovea_error_detail());
    else
        test_check(status == FOVEA_ERROR_DTYPE && strstr(fovea_error_detail(), name) &&
                       (fv_dtype_built(type) || strstr(fovea_error_detail(), "leaves out (FOVEA_TYPES)")),
                   "%s, %s: %s, \"%s\"", who, name, fovea_status_name(status), fovea_error_detail());
}

static void test_arrays(const fovea_context *ctx, fovea_dtype type, bool takes) {
    check(type, takes, fovea_convert(DIM, zeros, type, out, FOVEA_DTYPE_F32), "convert from");
    check(type, takes, fovea_convert(DIM, zeros, FOVEA_DTYPE_F32, out, type), "convert to");
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    args.x = fovea_tensor_bhtd(zeros, type, 1, 1, ROWS, IN);
    args.y = fovea_tensor_bhtd(out, type, 1, 1, ROWS, IN);
    check(type, takes, fovea_norm_rms(ctx, &args, NULL, 0), "norm");
    args.x = args.y = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, ROWS, IN);
    args.weight = zeros;
    args.weight_dtype = type;
    check(type, takes, fovea_norm_layer(ctx, &args, NULL, 0), "norm's weight");
    check(type, takes,
          fovea_normalize_rows(ctx, &(fovea_tensor){zeros, type, {1, 1, ROWS, IN}, {IN, IN, IN, 1}, NULL}, &args.y),
          "a row");
}

static void test_linear(const fovea_context *ctx, fovea_dtype weights, fovea_dtype x) {
    fovea_linear_part part = {.weight = fovea_matrix_out_in(zeros, weights, OUT, IN)};
    fovea_quantization scales;
    fovea_quantization_init(&scales);
    scales.scales = (const float *)(const void *)zeros;
    part.weight.quantization = weights == FOVEA_DTYPE_I8 ? &scales : NULL;
    fovea_linear *map = NULL;
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.in_features = IN;
    desc.part_count = 1;
    desc.parts = &part;
    desc.dtype = x;
    const fovea_dtype shown = x == FOVEA_DTYPE_F32 ? weights : x;
    const fovea_status status = fovea_linear_create(ctx, &desc, &map);
    check(shown, x != FOVEA_DTYPE_I8, status, "linear");
    test_check((status == FOVEA_OK) == (map != NULL), "a map after an error");
    if (status != FOVEA_OK)
        return;
    const fovea_tensor y = fovea_tensor_bhtd(out, x, 1, 1, ROWS, OUT);
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = fovea_tensor_bhtd(zeros, x, 1, 1, ROWS, IN);
    args.y = &y;
    memset(out, 1, sizeof out);
    test_check(fovea_linear_apply(ctx, map, &args, NULL, 0) == FOVEA_OK, "linear: %s", fovea_error_detail());
    for (int64_t i = 0; i < ROWS * OUT * fv_dtype_size(x); i++)
        test_check(out[i] == 0, "linear: byte %lld of the output is %d", (long long)i, out[i]);
    fovea_linear_destroy(map);
}

static void test_attention(const fovea_context *ctx, fovea_dtype type, fovea_dtype k, fovea_arithmetic arithmetic) {
    fovea_attention_desc desc;
    fovea_attention_plan *plan = NULL;
    fovea_attention_desc_init(&desc);
    desc.batch = 1;
    desc.q_heads = desc.kv_heads = HEADS;
    desc.q_len = ROWS;
    desc.kv_len = KEYS;
    desc.head_dim = desc.value_dim = DIM;
    desc.dtype = desc.out_dtype = type;
    desc.k_dtype = desc.v_dtype = k;
    desc.arithmetic = arithmetic;
    const fovea_status status = fovea_attention_plan_create(ctx, &desc, &plan);
    check(type == FOVEA_DTYPE_F32 ? k : type, k != FOVEA_DTYPE_I8, status, "attention");
    if (status != FOVEA_OK)
        return;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(zeros, type, 1, HEADS, ROWS, DIM);
    args.k = fovea_tensor_bhtd(zeros, k, 1, HEADS, KEYS, DIM);
    args.v = args.k;
    args.out = fovea_tensor_bhtd(out, type, 1, HEADS, ROWS, DIM);
    memset(out, 1, sizeof out);
    test_check(fovea_attention_execute(plan, &args, NULL, 0) == FOVEA_OK, "attention: %s", fovea_error_detail());
    for (int64_t i = 0; i < HEADS * ROWS * DIM * fv_dtype_size(type); i++)
        test_check(out[i] == 0, "attention: byte %lld of the output is %d", (long long)i, out[i]);
    fovea_attention_plan_destroy(plan);
}

static void test_cache(const fovea_context *ctx, fovea_dtype type) {
    fovea_kv_cache_desc desc;
    fovea_kv_cache *cache = NULL;
    int64_t sequence;
    fovea_kv_cache_desc_init(&desc);
    desc.layers = 1;
    desc.kv_heads = HEADS;
    desc.head_dim = desc.value_dim = DIM;
    desc.k_dtype = desc.v_dtype = type;
    desc.max_pages = 1;
    const fovea_status status = fovea_kv_cache_create(ctx, &desc, &cache);
    check(type, true, status, "cache");
    if (status != FOVEA_OK)
        return;
    fovea_kv_append_args append;
    fovea_kv_append_args_init(&append);
    append.count = 1;
    append.sequences = &sequence;
    append.k = append.v = fovea_tensor_bhtd(zeros, FOVEA_DTYPE_F32, 1, HEADS, KEYS, DIM);
    test_check(fovea_kv_cache_add(cache, &sequence) == FOVEA_OK && fovea_kv_cache_append(cache, &append) == FOVEA_OK,
               "cache: %s", fovea_error_detail());
    fovea_kv_cache_destroy(cache);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "left-out", NULL);
    fovea_context *ctx = test_context_untuned();
    for (int i = 0; i < 4; i++) {
        test_arrays(ctx, types[i], i < 3);
        test_linear(ctx, types[i], FOVEA_DTYPE_F32);
        test_attention(ctx, FOVEA_DTYPE_F32, types[i], FOVEA_ARITHMETIC_EXACT);
        test_cache(ctx, types[i]);
        if (i == 3)
            continue;
        test_linear(ctx, types[i], types[i]);
        test_attention(ctx, types[i], types[i], FOVEA_ARITHMETIC_EXACT);
        test_attention(ctx, types[i], types[i], FOVEA_ARITHMETIC_FASTEST);
    }
    test_attention(ctx, FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_BF16);
    test_attention(ctx, FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_BF16_TILE);
    fovea_context_destroy(ctx);
    return test_end();
}

/* Golden results of 16-bit types and named arithmetics (golden.h): a line for each operation, type and arithmetic, each
 * of several problems. */
#include "golden.h"

#include "attention_case.h"
#include "fp_control.h"
#include "half_pair.h"
#include "mha_layer.h"

#include <stdio.h>
#include <stdlib.h>

enum { TRIALS = 8, WORK = 300000 };

/* The part: a type, an arithmetic. */
typedef struct line {
    fovea_dtype dtype;
    fovea_arithmetic arithmetic;
} line;

static uint64_t hash_half_pair(uint64_t hash, const half_pair *x, int64_t n) {
    return fnv_bytes(hash, x->half, n * fv_dtype_size(x->dtype));
}

/* Ordinary numbers, of enough keys and rows for blocks of both; in every fourth trial small ones, for flush-to-zero. */
static attention_case draw_case(int trial, rng *r) {
    attention_case c = case_random(r, WORK);
    while (c.desc.q_len < 5 || c.desc.kv_len < 20)
        c = case_random(r, WORK);
    c.values = trial % 4 == 3 ? VALUES_SUBNORMAL : VALUES_RANDOM;
    c.mask_density = 0.9F;
    c.q_lens = c.kv_lens = false;
    return c;
}

/* Every other one with a result of float32. */
static void run_attention(const fovea_context *ctx, const line *l, int trial, rng *r, bool flush, golden_hash *hash) {
    attention_case c = draw_case(trial, r);
    inputs *in = inputs_make(&c, r);
    outputs *out = outputs_make(&c, c.layout);
    fovea_attention_args args = case_args(in, out);
    fovea_tensor *operand[] = {&args.q, &args.k, &args.v};
    for (int i = 0; i < 3; i++) {
        *operand[i] = half_pair_tensor(operand[i], l->dtype);
        hash->inputs = fnv_bytes(hash->inputs, operand[i]->data, tensor_elements(operand[i]) * 2);
    }
    c.desc.dtype = l->dtype;
    c.desc.out_dtype = args.out.dtype = trial % 2 ? FOVEA_DTYPE_F32 : l->dtype;
    c.desc.arithmetic = l->arithmetic;
    fovea_attention_plan *plan;
    if (test_check(fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK, "plan: %s", fovea_error_detail())) {
        fp_flush(flush);
        const fovea_status status = fovea_attention_execute(plan, &args, NULL, 0);
        fp_flush(false);
        test_check(status == FOVEA_OK, "execute: %s", fovea_error_detail());
        fovea_attention_plan_destroy(plan);
    }
    hash->outputs = fnv_bytes(hash->outputs, out->memory, out->floats * (int64_t)sizeof(float));
    outputs_free(out);
    inputs_free(in);
}

static void run_map(const fovea_context *ctx, const line *l, int trial, rng *r, bool flush, golden_hash *hash) {
    const int64_t rows = trial % 2 ? rng_between(r, 20, 70) : rng_between(r, 1, 16), in = rng_between(r, 1, 300),
                  out = rng_between(r, 1, 150);
    const half_pair x = half_pair_make(rows * in, l->dtype, 1.0f, r), w = half_pair_make(in * out, l->dtype, 1.0f, r),
                    bias = half_pair_make(out, l->dtype, 1.0f, r),
                    residual = half_pair_make(rows * out, l->dtype, 1.0f, r),
                    y = half_pair_alloc(rows * out, trial % 3 ? l->dtype : FOVEA_DTYPE_F32);
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear *map;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.dtype = desc.residual_dtype = l->dtype;
    desc.y_dtype = y.dtype;
    desc.in_features = in;
    desc.arithmetic = l->arithmetic;
    desc.activation = (fovea_activation)(trial % 4);
    desc.part.weight =
        trial % 3 ? fovea_matrix_in_out(w.half, l->dtype, in, out) : fovea_matrix_out_in(w.half, l->dtype, out, in);
    desc.part.bias = bias.half;
    const fovea_tensor to = fovea_tensor_bhtd(y.half, y.dtype, 1, 1, rows, out),
                       added = fovea_tensor_bhtd(residual.half, l->dtype, 1, 1, rows, out);
    args.x = fovea_tensor_bhtd(x.half, l->dtype, 1, 1, rows, in);
    args.y = &to;
    args.residual = trial % 2 ? &added : NULL;
    if (test_check(fovea_linear_create(ctx, &desc, &map) == FOVEA_OK, "pack: %s", fovea_error_detail())) {
        fp_flush(flush);
        const fovea_status status = fovea_linear_apply(ctx, map, &args, NULL, 0);
        fp_flush(false);
        test_check(status == FOVEA_OK, "execute: %s", fovea_error_detail());
        fovea_linear_destroy(map);
    }
    hash->inputs = hash_half_pair(hash->inputs, &x, rows * in);
    hash->inputs = hash_half_pair(hash->inputs, &w, in * out);
    hash->inputs = hash_half_pair(hash->inputs, &bias, out);
    hash->inputs = hash_half_pair(hash->inputs, &residual, rows * out);
    hash->outputs = hash_half_pair(hash->outputs, &y, rows * out);
}

/* A layer of factored weights; its result is of float32 in every other trial. */
static void run_layer(const fovea_context *ctx, const line *l, int trial, rng *r, bool flush, golden_hash *hash) {
    layer *from = layer_make(&layer_sizes_tested[trial % LAYER_SIZES], r);
    fovea_attention_args args = layer_args(from, NULL);
    fovea_tensor *operand[] = {&args.q, &args.k, &args.v};
    fovea_matrix *matrix[] = {&from->w.q, &from->w.k, &from->w.v, &from->w.o};
    for (int i = 0; i < 3; i++)
        if (operand[i]->data) {
            *operand[i] = half_pair_tensor(operand[i], l->dtype);
            hash->inputs = fnv_bytes(hash->inputs, operand[i]->data, tensor_elements(operand[i]) * 2);
        }
    for (int i = 0; i < 4; i++) {
        const int64_t n = layer_rows(from, i) * layer_columns(from, i);
        const half_pair w = half_pair_alloc(n, l->dtype);
        convert_elements(n, from->m[i], FOVEA_DTYPE_F32, w.half, l->dtype);
        hash->inputs = hash_half_pair(hash->inputs, &w, n);
        matrix[i]->data = w.half;
        matrix[i]->dtype = l->dtype;
    }
    from->attention.dtype = l->dtype;
    from->attention.out_dtype = args.out.dtype = trial % 2 ? FOVEA_DTYPE_F32 : l->dtype;
    from->attention.arithmetic = l->arithmetic;
    fp_flush(flush);
    float *out = layer_run_args(ctx, &from->desc, &from->w, &args, layer_floats(from), "a layer");
    fp_flush(false);
    hash->outputs = fnv_bytes(hash->outputs, out, layer_floats(from) * (int64_t)sizeof(float));
    free(out);
    layer_free(from);
}

/* Attention over a cache that keeps keys and values as integers, and every third trial keys alone. */
static void run_integers(const fovea_context *ctx, fovea_dtype dtype, int trial, rng *r, bool flush,
                         golden_hash *hash) {
    attention_case c = draw_case(trial, r);
    inputs *in = inputs_make(&c, r);
    outputs *out = outputs_make(&c, c.layout);
    fovea_attention_args args = case_args(in, out);
    int64_t sequences[64];
    const int64_t batch = c.desc.batch < 64 ? c.desc.batch : 64;
    fovea_kv_cache_desc d;
    fovea_kv_cache *cache;
    fovea_kv_append_args a;
    fovea_attention_plan *plan;
    for (int i = 0; i < 3; i++) {
        const fovea_tensor *t[] = {&args.q, &args.k, &args.v};
        hash->inputs = fnv_bytes(hash->inputs, t[i]->data, tensor_elements(t[i]) * (int64_t)sizeof(float));
    }
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = c.desc.kv_heads;
    d.head_dim = c.desc.head_dim;
    d.value_dim = c.desc.value_dim;
    d.k_dtype = c.desc.k_dtype = dtype;
    d.v_dtype = c.desc.v_dtype = trial % 3 == 2 ? FOVEA_DTYPE_F32 : dtype;
    d.max_pages = batch * (c.desc.kv_len / FOVEA_KV_PAGE_KEYS + 1);
    c.desc.batch = batch;
    c.desc.page_keys = FOVEA_KV_PAGE_KEYS;
    fovea_kv_append_args_init(&a);
    a.count = batch;
    a.sequences = sequences;
    a.k = args.k;
    a.v = args.v;
    bool ran = fovea_kv_cache_create(ctx, &d, &cache) == FOVEA_OK;
    for (int64_t i = 0; i < batch && ran; i++)
        ran = fovea_kv_cache_add(cache, &sequences[i]) == FOVEA_OK;
    args.k.data = args.v.data = NULL;
    args.cache = cache;
    args.cache_sequences = sequences;
    ran = ran && fovea_attention_plan_create(ctx, &c.desc, &plan) == FOVEA_OK;
    fp_flush(flush);
    ran = ran && fovea_kv_cache_append(cache, &a) == FOVEA_OK &&
          fovea_attention_execute(plan, &args, NULL, 0) == FOVEA_OK;
    fp_flush(false);
    if (test_check(ran, "integers: %s", fovea_error_detail()))
        fovea_attention_plan_destroy(plan);
    fovea_kv_cache_destroy(cache);
    hash->outputs = fnv_bytes(hash->outputs, out->memory, out->floats * (int64_t)sizeof(float));
    outputs_free(out);
    inputs_free(in);
}

typedef void run_fn(const fovea_context *ctx, const line *l, int trial, rng *r, bool flush, golden_hash *hash);
enum { OPERATIONS = 3, LINES = 4 };
static const struct {
    const char *name;
    run_fn *run;
} operations[OPERATIONS] = {{"attention", run_attention}, {"linear", run_map}, {"mha", run_layer}};
static const line lines[LINES] = {{FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_EXACT},
                                  {FOVEA_DTYPE_F16, FOVEA_ARITHMETIC_EXACT},
                                  {FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_BF16},
                                  {FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_BF16_TILE}};

bool golden_type_name(int number, char name[32]) {
    if (number >= OPERATIONS * LINES + 2)
        return false;
    if (number >= OPERATIONS * LINES) {
        snprintf(name, 32, "attention over int%d", number == OPERATIONS * LINES ? 8 : 4);
        return true;
    }
    const line *l = &lines[number % LINES];
    snprintf(name, 32, "%s of %s, %s", operations[number / LINES].name, l->dtype == FOVEA_DTYPE_F16 ? "f16" : "bf16",
             fovea_arithmetic_name(l->arithmetic));
    return true;
}

golden_hash golden_type(const fovea_context *ctx, int number, bool flush) {
    golden_hash hash = {FNV_START, FNV_START};
    for (int trial = 0; trial < TRIALS; trial++) {
        char name[32];
        snprintf(name, sizeof name, "type %d", trial); /* the same numbers for all types */
        rng r = rng_stream(GOLDEN_SEED, name);
        if (number >= OPERATIONS * LINES)
            run_integers(ctx, number == OPERATIONS * LINES ? FOVEA_DTYPE_I8 : FOVEA_DTYPE_I4, trial, &r, flush, &hash);
        else
            operations[number / LINES].run(ctx, &lines[number % LINES], trial, &r, flush, &hash);
        half_pairs_free();
    }
    return hash;
}

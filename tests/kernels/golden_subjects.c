/* Golden results of what is neither attention nor a map of floats (golden.h): a line for each subject and each kind of
 * quantized weights, of several problems. */
#include "golden.h"

#include "experts_case.h"
#include "fp_control.h"
#include "recurrence_case.h"

#include <stdio.h>
#include <stdlib.h>

enum { TRIALS = 8, CHANNELS = 80, TOKENS = 9, SIZE = TOKENS * CHANNELS, SEQUENCES = 3 };

static void take(golden_hash *hash, const void *data, int64_t bytes) {
    hash->inputs = fnv_bytes(hash->inputs, data, bytes);
}

static void give(golden_hash *hash, const void *data, int64_t bytes) {
    hash->outputs = fnv_bytes(hash->outputs, data, bytes);
}

static void draw(rng *r, float *x, int64_t n, golden_hash *hash) {
    rng_fill_normal(r, x, n);
    take(hash, x, n * (int64_t)sizeof *x);
}

static void ran(fovea_status status, const char *what) {
    test_check(status == FOVEA_OK, "%s: %s", what, fovea_error_detail());
}

static fovea_tensor rows(void *data, int64_t n) { return fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, 1, 1, n, CHANNELS); }

static void run_rope(const fovea_context *ctx, int trial, rng *r, bool flush, golden_hash *hash) {
    fovea_rope_desc d;
    fovea_rope *rope;
    float x[SIZE], y[SIZE];
    int64_t positions[TOKENS];
    fovea_rope_desc_init(&d);
    d.rotary_dim = trial % 2 ? CHANNELS : 64;
    d.pairing = trial % 3 ? FOVEA_ROPE_HALVES : FOVEA_ROPE_ADJACENT;
    d.scaling = (fovea_rope_scaling)(trial % (FOVEA_ROPE_LLAMA3 + 1));
    d.base = 5000 + (double)rng_below(r, 1000000);
    d.factor = 1 + rng_unit(r) * 40;
    d.original_positions = 4096;
    draw(r, x, SIZE, hash);
    for (int i = 0; i < TOKENS; i++)
        positions[i] = i % 2 ? rng_below(r, FOVEA_ROPE_MAX_POSITION) : rng_below(r, 5000);
    take(hash, positions, sizeof positions);
    const fovea_tensor from = rows(x, TOKENS), to = rows(y, TOKENS);
    fp_flush(flush);
    ran(fovea_rope_create(&d, &rope), "rope");
    ran(fovea_rope_apply(ctx, rope, &from, positions, &to), "rope");
    fp_flush(false);
    fovea_rope_destroy(rope);
    give(hash, y, sizeof y);
}

static void run_norm(const fovea_context *ctx, int trial, rng *r, bool flush, golden_hash *hash) {
    float x[SIZE], y[SIZE], weight[CHANNELS], bias[CHANNELS];
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    draw(r, x, SIZE, hash);
    draw(r, weight, CHANNELS, hash);
    draw(r, bias, CHANNELS, hash);
    args.x = rows(x, TOKENS);
    args.y = rows(y, TOKENS);
    args.weight = weight;
    args.bias = bias;
    fp_flush(flush);
    ran(trial % 2 ? fovea_norm_rms(ctx, &args, NULL, 0) : fovea_norm_layer(ctx, &args, NULL, 0), "norm");
    fp_flush(false);
    give(hash, y, sizeof y);
}

static void run_activations(const fovea_context *ctx, int trial, rng *r, bool flush, golden_hash *hash) {
    (void)trial;
    float x[SIZE], y[SIZE];
    fovea_activate_args args;
    const fovea_activation_facts *facts;
    fovea_activate_args_init(&args);
    draw(r, x, SIZE, hash);
    for (int i = 0; i < SIZE; i++)
        x[i] *= 4;
    args.x = rows(x, TOKENS);
    args.y = rows(y, TOKENS);
    for (int a = 0; (facts = fovea_activation_info((fovea_activation)a)) != NULL; a++) {
        if (facts->gate != (fovea_activation)a) /* what is gated is another one, and multiplied */
            continue;
        args.activation = (fovea_activation)a;
        fp_flush(flush);
        ran(fovea_activate(ctx, &args), "activate");
        fp_flush(false);
        give(hash, y, sizeof y);
    }
}

static void run_pooling(const fovea_context *ctx, int trial, rng *r, bool flush, golden_hash *hash) {
    float x[SIZE], y[SEQUENCES * CHANNELS], sum[SIZE];
    const int64_t begin[] = {0, 1, 4}, end[] = {1, 4, TOKENS};
    int64_t ids[TOKENS];
    fovea_embedding_args embedding;
    fovea_pool_tokens_args args;
    fovea_embedding_args_init(&embedding);
    fovea_pool_tokens_args_init(&args);
    draw(r, x, SIZE, hash);
    for (int i = 0; i < TOKENS; i++)
        ids[i] = rng_below(r, TOKENS);
    take(hash, ids, sizeof ids);
    const fovea_embedding_table table = {x, FOVEA_DTYPE_F32, TOKENS, CHANNELS, ids, NULL};
    const fovea_embedding_table tables[] = {table, {x, FOVEA_DTYPE_F32, TOKENS, CHANNELS, NULL, NULL}};
    embedding.tables = tables;
    embedding.table_count = 2;
    embedding.scale = 1.7;
    embedding.y = args.x = rows(sum, TOKENS);
    args.y = rows(y, SEQUENCES);
    args.begin = begin;
    args.end = end;
    args.pooling = (fovea_pooling)(trial % (FOVEA_POOLING_MAX + 1));
    fp_flush(flush);
    ran(fovea_embedding_sum(ctx, &embedding), "embedding");
    ran(fovea_pool_tokens(ctx, &args), "pool");
    ran(fovea_normalize_rows(ctx, &args.y, &args.y), "normalize");
    fp_flush(false);
    give(hash, y, sizeof y);
}

static void run_conversions(const fovea_context *ctx, int trial, rng *r, bool flush, golden_hash *hash) {
    (void)ctx;
    static const fovea_dtype types[] = {FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};
    float x[SIZE], y[SIZE];
    uint16_t half[SIZE];
    draw(r, x, SIZE, hash);
    for (int i = 0; i < SIZE; i++)
        x[i] *= trial % 2 ? 30 : 1;
    fp_flush(flush);
    ran(fovea_exp_f32(SIZE, x, y), "exp");
    ran(fovea_convert(SIZE, y, FOVEA_DTYPE_F32, half, types[trial % 2]), "convert");
    fp_flush(false);
    give(hash, y, sizeof y);
    give(hash, half, sizeof half);
}

static void run_quantized(const fovea_context *ctx, const quantized_kind *kind, int trial, rng *r, bool flush,
                          golden_hash *hash) {
    static const fovea_arithmetic arithmetics[] = {FOVEA_ARITHMETIC_Q16, FOVEA_ARITHMETIC_Q8, FOVEA_ARITHMETIC_EXACT};
    enum { OUT = 24, ROWS = 5 };
    const int64_t count = trial % 2 ? ROWS : 1, in = kind->unit * fv_max(1, 64 / kind->unit);
    float *x = must_alloc(ROWS * in, sizeof *x), *numbers = must_alloc(in * OUT, sizeof *numbers), y[ROWS * OUT];
    quantized_weight w;
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear *map;
    quantized_make(&w, kind, in, OUT, r);
    draw(r, x, count * in, hash);
    ran(fovea_dequantize(ctx, &w.matrix, numbers), kind->name);
    take(hash, numbers, in * OUT * (int64_t)sizeof *numbers);
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.in_features = in;
    desc.part.weight = w.matrix;
    desc.arithmetic = arithmetics[trial % 3];
    const fovea_tensor to = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, count, OUT);
    args.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, count, in);
    args.y = &to;
    if (test_check(fovea_linear_create(ctx, &desc, &map) == FOVEA_OK, "%s: %s", kind->name, fovea_error_detail())) {
        fp_flush(flush);
        ran(fovea_linear_apply(ctx, map, &args, NULL, 0), kind->name);
        fp_flush(false);
        fovea_linear_destroy(map);
        give(hash, y, count * OUT * (int64_t)sizeof *y);
    }
    quantized_free(&w);
    free(numbers);
    free(x);
}

static void run_recurrence(const fovea_context *ctx, int trial, rng *r, bool flush, golden_hash *hash) {
    recurrence_case *c = recurrence_case_random((recurrence)(trial % RECURRENCES), r);
    const int64_t bytes = recurrence_bytes(c);
    fovea_tensor out = c->tensor[T_OUT];
    out.data = must_alloc(bytes + 1, 1);
    memset(out.data, 0, (size_t)bytes);
    hash->inputs = fnv_text(hash->inputs, c->title);
    for (int i = T_OUT + 1; i < T_TENSORS; i++)
        if (c->tensor[i].data)
            take(hash, c->floats[i], tensor_elements(&c->tensor[i]) * (int64_t)sizeof(float));
    fp_flush(flush);
    ran(recurrence_call(ctx, c, -1, 0, c->tokens, out, NULL, NULL, 0), c->title);
    fp_flush(false);
    give(hash, out.data, bytes);
    free(out.data);
    recurrence_case_free(c);
}

static void run_experts(const fovea_context *ctx, int trial, rng *r, bool flush, golden_hash *hash) {
    (void)trial;
    experts_case *c = experts_case_random(ctx, r);
    fovea_experts *experts = experts_case_pack(ctx, c);
    const fovea_dtype type = c->desc.y_dtype ? c->desc.y_dtype : c->desc.dtype;
    const int64_t out = c->desc.out_features ? c->desc.out_features : c->desc.in_features,
                  tokens = c->batch * c->tokens, bytes = tokens * out * fv_dtype_size(type);
    void *y = must_alloc(bytes + 1, 1);
    fovea_experts_args args;
    fovea_experts_args_init(&args);
    args.x = c->x;
    args.y = fovea_tensor_bhtd(y, type, c->batch, 1, c->tokens, out);
    args.k = c->k;
    args.chosen = c->chosen;
    args.weights = c->weight;
    hash->inputs = fnv_text(hash->inputs, c->title);
    take(hash, c->x_floats, tokens * c->desc.in_features * (int64_t)sizeof(float));
    fp_flush(flush);
    ran(fovea_experts_apply(ctx, experts, &args, NULL, 0), c->title);
    fp_flush(false);
    give(hash, y, bytes);
    free(y);
    fovea_experts_destroy(experts);
    experts_case_free(c);
}

static void run_router(const fovea_context *ctx, int trial, rng *r, bool flush, golden_hash *hash) {
    enum { K = 4 };
    float logits[SIZE], weights[TOKENS * K];
    int64_t chosen[TOKENS * K];
    fovea_router router;
    fovea_router_init(&router);
    router.k = K;
    router.score = (fovea_router_score)(trial % 2);
    router.after_top_k = trial / 2 % 2;
    draw(r, logits, SIZE, hash);
    const fovea_tensor all = rows(logits, TOKENS);
    fp_flush(flush);
    ran(fovea_experts_route(ctx, &router, &all, chosen, weights), "route");
    fp_flush(false);
    give(hash, chosen, sizeof chosen);
    give(hash, weights, sizeof weights);
}

static const struct {
    const char *name;
    void (*run)(const fovea_context *ctx, int trial, rng *r, bool flush, golden_hash *hash);
} subjects[] = {
    {"rope", run_rope},
    {"norm", run_norm},
    {"activations", run_activations},
    {"embedding, pooling", run_pooling},
    {"exp, conversions", run_conversions},
    {"recurrences", run_recurrence},
    {"experts", run_experts},
    {"router", run_router},
};

enum { SUBJECTS = sizeof subjects / sizeof subjects[0] };

bool golden_subject_name(int number, char name[32]) {
    if (number < SUBJECTS)
        snprintf(name, 32, "%s", subjects[number].name);
    else if (number < SUBJECTS + quantized_kind_count)
        snprintf(name, 32, "linear of %s", quantized_kinds[number - SUBJECTS].name);
    return number < SUBJECTS + quantized_kind_count;
}

golden_hash golden_subject(const fovea_context *ctx, int number, bool flush) {
    golden_hash hash = {FNV_START, FNV_START};
    char name[32] = "";
    golden_subject_name(number, name);
    for (int trial = 0; trial < TRIALS; trial++) {
        rng r = rng_stream(GOLDEN_SEED + (uint64_t)trial, name);
        if (number < SUBJECTS)
            subjects[number].run(ctx, trial, &r, flush, &hash);
        else
            run_quantized(ctx, &quantized_kinds[number - SUBJECTS], trial, &r, flush, &hash);
    }
    return hash;
}

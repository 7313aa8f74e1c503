/* One hash of logits: a small model of llama's shape, in ggml's scheduler, with FOVEA_GGML=all, for prompt and token,
 * with 1, 2, 4 and 8 threads and whatever the build of ggml. Weights are made of integers, since ggml's own rounding
 * to blocks depends on its build. */
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LAYERS = 2,
    WIDTH = 256,
    HEADS = 4,
    KV_HEADS = 2,
    DIM = WIDTH / HEADS,
    HIDDEN = 512,
    WORDS = 300,
    KEYS = 64,
    PROMPT = 21
};
static const uint64_t HASH = 0x4a24170f78f52734;

typedef struct ggml_tensor tensor;
typedef struct layer {
    tensor *attention_norm, *q, *k, *v, *out, *hidden_norm, *gate, *up, *down, *keys, *values;
} layer;
typedef struct model {
    struct ggml_context *weights, *plain;
    ggml_backend_buffer_t packed, host;
    tensor *words, *norm, *logits;
    layer layers[LAYERS];
} model;

static uint64_t state = 1;

static uint32_t random_bits(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

/* Blocks of random integers, whose scales at these bytes are 2^-14; floats of 1/64ths. */
static void fill(tensor *t) {
    const size_t size = ggml_nbytes(t), block = ggml_type_size(t->type);
    char *bytes = malloc(size);
    const ggml_fp16_t scale = 0x0400;
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)(random_bits() & 0xff);
    for (size_t i = 0; i < size; i += block) {
        if (t->type == GGML_TYPE_F32) {
            const float number = (float)(random_bits() % 64) / 64 + 0.5f;
            memcpy(bytes + i, &number, sizeof number);
        } else {
            memcpy(bytes + i + (t->type == GGML_TYPE_Q6_K ? 208 : 0), &scale, sizeof scale);
            if (t->type == GGML_TYPE_Q4_K || t->type == GGML_TYPE_Q5_K)
                memcpy(bytes + i + 2, &scale, sizeof scale);
        }
    }
    ggml_backend_tensor_set(t, bytes, 0, size);
    free(bytes);
}

static void fill_all(struct ggml_context *ctx) {
    for (tensor *t = ggml_get_first_tensor(ctx); t; t = ggml_get_next_tensor(ctx, t))
        if (t->type != GGML_TYPE_F16)
            fill(t);
}

static tensor *matrix(const model *m, enum ggml_type type, int64_t in, int64_t out) {
    return ggml_new_tensor_2d(m->weights, type, in, out);
}

static tensor *norm(const model *m) { return ggml_new_tensor_1d(m->plain, GGML_TYPE_F32, WIDTH); }

static model make(ggml_backend_buffer_type_t type) {
    struct ggml_init_params params = {.mem_size = 64 * ggml_tensor_overhead(), .no_alloc = true};
    model m = {.weights = ggml_init(params), .plain = ggml_init(params)};
    m.words = ggml_new_tensor_2d(m.plain, GGML_TYPE_Q6_K, WIDTH, WORDS);
    m.norm = norm(&m);
    m.logits = matrix(&m, GGML_TYPE_Q6_K, WIDTH, WORDS);
    for (int i = 0; i < LAYERS; i++)
        m.layers[i] = (layer){.attention_norm = norm(&m),
                              .q = matrix(&m, GGML_TYPE_Q4_K, WIDTH, WIDTH),
                              .k = matrix(&m, GGML_TYPE_Q8_0, WIDTH, KV_HEADS * DIM),
                              .v = matrix(&m, GGML_TYPE_Q5_K, WIDTH, KV_HEADS * DIM),
                              .out = matrix(&m, GGML_TYPE_Q4_K, WIDTH, WIDTH),
                              .hidden_norm = norm(&m),
                              .gate = matrix(&m, GGML_TYPE_Q4_0, WIDTH, HIDDEN),
                              .up = matrix(&m, GGML_TYPE_Q4_0, WIDTH, HIDDEN),
                              .down = matrix(&m, GGML_TYPE_Q6_K, HIDDEN, WIDTH),
                              .keys = ggml_new_tensor_2d(m.plain, GGML_TYPE_F16, KV_HEADS * DIM, KEYS),
                              .values = ggml_new_tensor_2d(m.plain, GGML_TYPE_F16, KV_HEADS * DIM, KEYS)};
    m.packed = ggml_backend_alloc_ctx_tensors_from_buft(m.weights, type);
    m.host = ggml_backend_alloc_ctx_tensors_from_buft(m.plain, ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_set_usage(m.packed, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    fill_all(m.weights);
    return m;
}

/* Inputs of a pass. */
typedef struct inputs {
    tensor *words, *positions, *mask;
} inputs;

static tensor *attend(struct ggml_context *ctx, struct ggml_cgraph *graph, const layer *l, tensor *x,
                      const inputs *in) {
    const int64_t n = x->ne[1];
    tensor *q = ggml_reshape_3d(ctx, ggml_mul_mat(ctx, l->q, x), DIM, HEADS, n);
    tensor *k = ggml_reshape_3d(ctx, ggml_mul_mat(ctx, l->k, x), DIM, KV_HEADS, n), *v = ggml_mul_mat(ctx, l->v, x);
    q = ggml_rope_ext(ctx, q, in->positions, NULL, DIM, 0, 2048, 10000, 1, 0, 1, 32, 1);
    k = ggml_rope_ext(ctx, k, in->positions, NULL, DIM, 0, 2048, 10000, 1, 0, 1, 32, 1);
    ggml_build_forward_expand(graph,
                              ggml_set_rows(ctx, l->keys, ggml_reshape_2d(ctx, k, KV_HEADS * DIM, n), in->positions));
    ggml_build_forward_expand(graph, ggml_set_rows(ctx, l->values, v, in->positions));
    tensor *keys = ggml_permute(ctx, ggml_reshape_3d(ctx, l->keys, DIM, KV_HEADS, KEYS), 0, 2, 1, 3);
    tensor *values = ggml_permute(ctx, ggml_reshape_3d(ctx, l->values, DIM, KV_HEADS, KEYS), 0, 2, 1, 3);
    tensor *y = ggml_flash_attn_ext(ctx, ggml_permute(ctx, q, 0, 2, 1, 3), keys, values, in->mask, 0.125f, 0, 0);
    return ggml_mul_mat(ctx, l->out, ggml_reshape_2d(ctx, y, WIDTH, n));
}

static tensor *scaled_norm(struct ggml_context *ctx, tensor *x, tensor *weight) {
    return ggml_mul(ctx, ggml_rms_norm(ctx, x, 1e-5f), weight);
}

static void set_inputs(const inputs *in, int64_t first, int64_t n) {
    ggml_fp16_t mask[PROMPT * KEYS];
    for (int64_t i = 0; i < n; i++) {
        ((int32_t *)in->words->data)[i] = (int32_t)((first + i) * 37 % WORDS);
        ((int32_t *)in->positions->data)[i] = (int32_t)(first + i);
        for (int64_t j = 0; j < KEYS; j++)
            mask[i * KEYS + j] = j <= first + i ? 0 : 0xfc00; /* -inf */
    }
    memcpy(in->mask->data, mask, (size_t)(n * KEYS) * sizeof *mask);
}

/* Words first to first + n - 1; adds the last one's logits to the hash. */
static uint64_t pass(const model *m, ggml_backend_sched_t sched, int64_t first, int64_t n, uint64_t hash,
                     const char **wrong) {
    struct ggml_context *ctx = ggml_init(
        (struct ggml_init_params){.mem_size = 256 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true});
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    inputs in = {ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n), ggml_new_tensor_1d(ctx, GGML_TYPE_I32, n),
                 ggml_new_tensor_2d(ctx, GGML_TYPE_F16, KEYS, n)};
    ggml_set_input(in.words);
    ggml_set_input(in.positions);
    ggml_set_input(in.mask);
    tensor *x = ggml_get_rows(ctx, m->words, in.words);
    for (const layer *l = m->layers; l < m->layers + LAYERS; l++) {
        x = ggml_add(ctx, attend(ctx, graph, l, scaled_norm(ctx, x, l->attention_norm), &in), x);
        tensor *y = scaled_norm(ctx, x, l->hidden_norm);
        y = ggml_swiglu_split(ctx, ggml_mul_mat(ctx, l->gate, y), ggml_mul_mat(ctx, l->up, y));
        x = ggml_add(ctx, ggml_mul_mat(ctx, l->down, y), x);
    }
    x = ggml_mul_mat(ctx, m->logits, scaled_norm(ctx, x, m->norm));
    ggml_set_output(x);
    ggml_build_forward_expand(graph, x);
    ggml_backend_sched_reset(sched);
    if (!ggml_backend_sched_alloc_graph(sched, graph))
        *wrong = "no graph";
    set_inputs(&in, first, n);
    if (ggml_backend_sched_graph_compute(sched, graph) != GGML_STATUS_SUCCESS)
        *wrong = "an operation failed";
    if (ggml_backend_sched_get_n_splits(sched) != 1)
        *wrong = "the graph is split";
    const float *logits = (const float *)x->data + (n - 1) * WORDS;
    float most = 0;
    for (int i = 0; i < WORDS; i++) {
        uint32_t bits;
        memcpy(&bits, logits + i, sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
        most = fmaxf(most, fabsf(logits[i]));
    }
    if (!isfinite(most) || most < 1e-3f || most > 1e3f)
        *wrong = "logits of no use";
    ggml_free(ctx);
    return hash;
}

int main(void) {
    static const int threads[] = {1, 2, 4, 8};
    int failed = 0;
    ggml_backend_load_all();
    ggml_backend_reg_t reg = load_fovea();
    model m = make(ggml_backend_dev_buffer_type(ggml_backend_reg_dev_get(reg, 1)));
    for (int t = 0; t < 4; t++) {
        const char *wrong = NULL;
        ggml_backend_t backends[3] = {make_fovea(reg, threads[t]),
                                      ggml_backend_dev_init(ggml_backend_reg_dev_get(reg, 1), NULL),
                                      ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL)};
        ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, 3, GGML_DEFAULT_GRAPH_SIZE, false, true);
        ggml_backend_buffer_clear(m.host, 0); /* the cache among it */
        state = 9;
        fill_all(m.plain);
        uint64_t hash = pass(&m, sched, 0, PROMPT, 14695981039346656037u, &wrong);
        for (int i = 0; i < 5; i++)
            hash = pass(&m, sched, PROMPT + i, 1, hash, &wrong);
        if (hash != HASH)
            wrong = wrong ? wrong : "another hash";
        printf("%s: %d threads: %016llx%s%s\n", wrong ? "FAILED" : "passed", threads[t], (unsigned long long)hash,
               wrong ? ": " : "", wrong ? wrong : "");
        failed += wrong != NULL;
        ggml_backend_sched_free(sched);
        for (int i = 0; i < 3; i++)
            ggml_backend_free(backends[i]);
    }
    ggml_backend_buffer_free(m.packed);
    ggml_backend_buffer_free(m.host);
    ggml_free(m.weights);
    ggml_free(m.plain);
    return failed != 0;
}

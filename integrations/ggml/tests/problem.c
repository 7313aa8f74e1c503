#include "problem.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

float random_float(uint64_t *state) {
    uint64_t x = (*state += 0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return (float)((x ^ (x >> 31)) >> 40) / (float)(1 << 23) - 1;
}

static void fill(struct ggml_tensor *t, uint64_t seed) {
    const int64_t n = ggml_nelements(t);
    float *x = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = random_float(&seed) * 1.7f;
    if (t->type == GGML_TYPE_F32) {
        memcpy(t->data, x, (size_t)n * sizeof *x);
    } else {
        ggml_quantize_chunk(t->type, x, t->data, 0, ggml_nrows(t), t->ne[0], NULL);
    }
    free(x);
}

static bool visible(const problem *p, int64_t row, int64_t key, uint64_t *seed) {
    const int64_t last = p->keys - p->rows + row;
    switch (p->mask) {
    case MASK_CAUSAL: return key <= last;
    case MASK_PADDED: return key < p->keys - p->keys / 8;
    case MASK_HOLES: return key == 0 || key % 3;
    case MASK_NUMBERS: return random_float(seed) < 0.5f;
    case MASK_EMPTY_ROW: return row > 0 && key <= last;
    default: return true;
    }
}

static void fill_mask(const problem *p, struct ggml_tensor *t) {
    uint64_t seed = 77;
    ggml_fp16_t *m = t->data;
    for (int64_t i = 0; i < ggml_nelements(t); i++) {
        const int64_t key = i % t->ne[0], row = i / t->ne[0] % t->ne[1];
        const bool seen = row < p->rows && visible(p, row, key, &seed);
        const float x = p->mask == MASK_NUMBERS || p->max_bias > 0 ? random_float(&seed) * 4 : 0;
        m[i] = ggml_fp32_to_fp16(seen ? x : -INFINITY);
    }
}

/* [channel, token, head, sequence], in memory as views says. */
static struct ggml_tensor *operand(struct ggml_context *ctx, const problem *p, enum ggml_type type, int64_t channels,
                                   int64_t tokens, int64_t heads, struct ggml_tensor **whole) {
    if (p->views == 1) { /* a cache: tokens outermost, more of them than are used */
        *whole = ggml_new_tensor_4d(ctx, type, channels, heads, tokens + 5, p->batch);
        struct ggml_tensor *t = *whole;
        t = ggml_view_4d(ctx, t, channels, heads, tokens, p->batch, t->nb[1], t->nb[2], t->nb[3], 2 * t->nb[2]);
        return ggml_permute(ctx, t, 0, 2, 1, 3);
    }
    if (p->views == 3) {
        *whole = ggml_new_tensor_4d(ctx, type, channels, tokens, p->batch, heads);
        return ggml_permute(ctx, *whole, 0, 1, 3, 2);
    }
    return *whole = ggml_new_tensor_4d(ctx, type, channels, tokens, heads, p->batch);
}

problem_tensors problem_make(const problem *p) {
    problem_tensors s = {.ctx = ggml_init((struct ggml_init_params){
                             .mem_size = 32 * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true})};
    struct ggml_tensor *q, *k, *v = NULL;
    s.q = operand(s.ctx, p, GGML_TYPE_F32, p->head_dim, p->rows, p->heads, &q);
    s.k = operand(s.ctx, p, p->k_type, p->head_dim, p->keys, p->kv_heads, &k);
    if (p->views == 2)
        s.v = ggml_view_4d(s.ctx, s.k, p->value_dim, p->keys, p->kv_heads, p->batch, s.k->nb[1], s.k->nb[2], s.k->nb[3],
                           0);
    else
        s.v = operand(s.ctx, p, p->v_type, p->value_dim, p->keys, p->kv_heads, &v);
    if (p->mask != MASK_ABSENT)
        s.mask = ggml_new_tensor_4d(s.ctx, GGML_TYPE_F16, p->keys, p->rows + (p->mask == MASK_PADDED ? 9 : 0),
                                    p->mask_heads ? p->mask_heads : 1, p->mask_batch ? p->mask_batch : 1);
    s.out = ggml_flash_attn_ext(s.ctx, s.q, s.k, s.v, s.mask, 1 / sqrtf((float)p->head_dim), p->max_bias, p->softcap);
    if (p->sinks)
        s.sinks = ggml_new_tensor_1d(s.ctx, GGML_TYPE_F32, p->heads);
    ggml_flash_attn_ext_add_sinks(s.out, s.sinks);
    s.graph = ggml_new_graph(s.ctx);
    ggml_build_forward_expand(s.graph, s.out);
    s.buffer = ggml_backend_alloc_ctx_tensors_from_buft(s.ctx, ggml_backend_cpu_buffer_type());
    fill(q, 1);
    fill(k, 2);
    if (v)
        fill(v, 3);
    if (s.mask)
        fill_mask(p, s.mask);
    if (s.sinks)
        fill(s.sinks, 4);
    return s;
}

void problem_free(problem_tensors *s) {
    ggml_backend_buffer_free(s->buffer);
    ggml_free(s->ctx);
}

static void widen_row(const struct ggml_tensor *t, int64_t token, int64_t head, int64_t sequence, float *x) {
    const char *row =
        (const char *)t->data + token * (int64_t)t->nb[1] + head * (int64_t)t->nb[2] + sequence * (int64_t)t->nb[3];
    if (t->type == GGML_TYPE_F32)
        memcpy(x, row, (size_t)t->ne[0] * sizeof *x);
    else
        ggml_get_type_traits(t->type)->to_float(row, x, t->ne[0]);
}

static double slope_of(const problem *p, int64_t head) {
    if (!(p->max_bias > 0))
        return 1;
    int64_t n = 1;
    while (2 * n <= p->heads)
        n *= 2;
    return head < n ? exp2(-(double)p->max_bias * (double)(head + 1) / (double)n)
                    : exp2(-(double)p->max_bias / 2 * (double)(2 * (head - n) + 1) / (double)n);
}

static double score(const problem *p, const problem_tensors *s, const float *q, const float *k, int64_t key,
                    int64_t row, int64_t head, int64_t sequence) {
    double x = 0;
    for (int64_t c = 0; c < p->head_dim; c++)
        x += (double)q[c] * (double)k[c];
    x *= (double)(1 / sqrtf((float)p->head_dim));
    if (p->softcap != 0)
        x = (double)p->softcap * tanh(x / (double)p->softcap);
    if (s->mask) {
        const struct ggml_tensor *m = s->mask;
        const char *data = (const char *)m->data + key * 2 + row * (int64_t)m->nb[1] +
                           head % m->ne[2] * (int64_t)m->nb[2] + sequence % m->ne[3] * (int64_t)m->nb[3];
        ggml_fp16_t half;
        memcpy(&half, data, sizeof half);
        x += slope_of(p, head) * (double)ggml_fp16_to_fp32(half);
    }
    return x;
}

static void reference_row(const problem *p, const problem_tensors *s, int64_t row, int64_t head, int64_t sequence,
                          double *out) {
    const int64_t kv_head = head / (p->heads / p->kv_heads);
    float *x = malloc((size_t)(p->head_dim + p->value_dim) * sizeof *x + (size_t)p->head_dim * sizeof *x);
    float *k = x + p->head_dim, *v = k + p->head_dim;
    double *scores = malloc((size_t)p->keys * sizeof *scores), most = -INFINITY, sum = 0;
    widen_row(s->q, row, head, sequence, x);
    for (int64_t j = 0; j < p->keys; j++) {
        widen_row(s->k, j, kv_head, sequence, k);
        scores[j] = score(p, s, x, k, j, row, head, sequence);
        most = fmax(most, scores[j]);
    }
    const double sink = s->sinks ? (double)((const float *)s->sinks->data)[head] : -INFINITY;
    most = fmax(most, sink);
    memset(out, 0, (size_t)p->value_dim * sizeof *out);
    for (int64_t j = 0; j < p->keys && most > -INFINITY; j++) {
        const double weight = exp(scores[j] - most);
        if (weight == 0)
            continue;
        sum += weight;
        widen_row(s->v, j, kv_head, sequence, v);
        for (int64_t c = 0; c < p->value_dim; c++)
            out[c] += weight * (double)v[c];
    }
    if (sink > -INFINITY)
        sum += exp(sink - most);
    for (int64_t c = 0; c < p->value_dim; c++)
        out[c] = sum > 0 ? out[c] / sum : 0;
    free(scores);
    free(x);
}

void problem_reference(const problem *p, const problem_tensors *s, double *out) {
    for (int64_t i = 0; i < p->batch * p->rows * p->heads; i++)
        reference_row(p, s, i / p->heads % p->rows, i % p->heads, i / p->heads / p->rows, &out[i * p->value_dim]);
}

double problem_error(const float *out, const double *reference, int64_t n) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        error += ((double)out[i] - reference[i]) * ((double)out[i] - reference[i]);
        size += reference[i] * reference[i];
    }
    return sqrt(error / (size > 0 ? size : 1));
}

ggml_backend_reg_t load_fovea(void) {
    const char *path = getenv("FOVEA_GGML_BACKEND");
    ggml_backend_reg_t reg = ggml_backend_load(path ? path : FG_BACKEND);
    if (!reg) {
        fprintf(stderr, "%s cannot be loaded\n", path ? path : FG_BACKEND);
        exit(1);
    }
    return reg;
}

ggml_backend_t make_fovea(ggml_backend_reg_t reg, int threads) {
    ggml_backend_t backend = ggml_backend_dev_init(ggml_backend_reg_dev_get(reg, 0), NULL);
    ggml_backend_set_n_threads_t set;
    void *const address = ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads");
    memcpy(&set, &address, sizeof set);
    if (!backend || !set) {
        fprintf(stderr, "no backend\n");
        exit(1);
    }
    set(backend, threads);
    return backend;
}

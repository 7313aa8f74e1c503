#include "case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t rng_next(rng *r) {
    uint64_t z = r->state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

int64_t rng_below(rng *r, int64_t n) { return (int64_t)(rng_next(r) % (uint64_t)n); }
int64_t rng_between(rng *r, int64_t low, int64_t high) { return low + rng_below(r, high - low + 1); }

static int64_t size_of(fovea_dtype dtype) { return dtype == FOVEA_DTYPE_F32 ? 4 : 2; }

problem problem_plain(void) {
    problem p = {.lse = true, .threads = 1};
    fovea_attention_desc_init(&p.desc);
    fovea_mpi_attention_desc_init(&p.over);
    p.desc.q_heads = 4;
    p.desc.kv_heads = 2;
    p.desc.q_len = p.desc.kv_len = 1500;
    p.desc.head_dim = 16;
    p.desc.value_dim = 24;
    return p;
}

problem problem_random(rng *r) {
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};
    static const int64_t lengths[] = {0, 1, 1, 3, 64, 200, 513, 900};
    problem p = problem_plain();
    fovea_attention_desc *d = &p.desc;
    d->batch = rng_between(r, 1, 3);
    d->kv_heads = rng_between(r, 1, 3);
    d->q_heads = d->kv_heads * rng_between(r, 1, 3);
    d->q_len = lengths[rng_below(r, 8)];
    d->kv_len = rng_below(r, 12) == 0 ? rng_below(r, 2) : rng_between(r, 1, 2600);
    if (rng_below(r, 4) == 0)
        d->kv_len = d->q_len;
    d->head_dim = rng_between(r, 1, 40);
    d->value_dim = rng_between(r, 1, 40);
    d->dtype = types[rng_below(r, 3)];
    if (rng_below(r, 3) == 0)
        d->k_dtype = types[rng_below(r, 3)], d->v_dtype = types[rng_below(r, 3)], d->out_dtype = types[rng_below(r, 3)];
    else if (d->dtype == FOVEA_DTYPE_BF16)
        d->arithmetic = (fovea_arithmetic)rng_below(r, 3);
    d->causal = (fovea_causal)rng_below(r, 4);
    d->window_left = rng_below(r, 3) == 0 ? rng_below(r, 700) : -1;
    d->window_right = rng_below(r, 4) == 0 ? rng_below(r, 700) : -1;
    d->has_sinks = rng_below(r, 3) == 0;
    d->softcap = rng_below(r, 4) == 0 ? 3 : 0;
    d->has_scale = rng_below(r, 4) == 0;
    d->scale = 0.3;
    d->relative = (fovea_relative)(rng_below(r, 2) ? rng_below(r, 5) : 0);
    d->relative_buckets = 32;
    d->relative_bidirectional = (int)rng_below(r, 2);
    d->relative_max_distance = 500;
    if (d->relative == FOVEA_RELATIVE_WINDOW_2D)
        d->relative_width = 50, d->relative_height = 54, d->q_len = d->kv_len;
    p.lens = rng_below(r, 2) && d->relative != FOVEA_RELATIVE_WINDOW_2D;
    p.offsets = d->causal == FOVEA_CAUSAL_OFFSET || (d->causal == FOVEA_CAUSAL_NONE && rng_below(r, 3) == 0);
    if (d->relative == FOVEA_RELATIVE_WINDOW_2D && (p.offsets || d->causal == FOVEA_CAUSAL_BOTTOM_RIGHT))
        d->causal = FOVEA_CAUSAL_TOP_LEFT, p.offsets = false;
    p.lse = rng_below(r, 2);
    p.threads = rng_below(r, 4) == 0 ? 3 : 1;
    fovea_mpi_attention_desc *o = &p.over;
    o->queries = (fovea_mpi_queries)rng_below(r, 2);
    o->method = (fovea_mpi_method)rng_below(r, d->relative == FOVEA_RELATIVE_WINDOW_2D ? 2 : 3);
    o->stripe_segments = rng_below(r, 3) ? rng_between(r, 1, 4) : 0;
    o->query_stripe = rng_below(r, 3) ? 0 : rng_between(r, 1, 300);
    o->block_queries = rng_below(r, 2) ? rng_between(r, 30, 300) : 0;
    o->block_kv_heads = rng_below(r, 2) ? rng_between(r, 1, 4) : 0;
    o->in_flight = rng_below(r, 2) ? rng_between(r, 1, 6) : 0;
    /* so that lengths and offsets stay within the routes */
    if (p.lens || p.offsets)
        o->min_offset = -3000, o->max_offset = 3000;
    return p;
}

/* Numbers near 1 in size. */
static void put(void *data, fovea_dtype dtype, int64_t index, float x) {
    float *as_float = data;
    if (dtype == FOVEA_DTYPE_F32)
        as_float[index] = x;
    else
        fovea_convert(1, &x, FOVEA_DTYPE_F32, (uint16_t *)data + index, dtype);
}

static fovea_tensor filled(fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens, int64_t channels, rng *r) {
    const int64_t n = batch * heads * tokens * channels;
    void *data = malloc((size_t)(n * size_of(dtype)) + 64);
    for (int64_t i = 0; i < n; i++)
        put(data, dtype, i, (float)(rng_below(r, 4001) - 2000) * (rng_below(r, 50) ? 1e-3f : 1e-2f));
    return fovea_tensor_bhtd(data, dtype, batch, heads, tokens, channels);
}

static void poison(fovea_tensor *t, const int64_t *lens) {
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t i = lens[b]; i < t->shape[2]; i++)
                for (int64_t c = 0; c < t->shape[3]; c++)
                    put(t->data, t->dtype, b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + c, NAN);
}

void problem_fill(problem *p, rng *r) {
    const fovea_attention_desc *d = &p->desc;
    const fovea_dtype k = d->k_dtype ? d->k_dtype : d->dtype, v = d->v_dtype ? d->v_dtype : d->dtype;
    const fovea_dtype out = d->out_dtype ? d->out_dtype : d->dtype;
    p->q = filled(d->dtype, d->batch, d->q_heads, d->q_len, d->head_dim, r);
    p->k = filled(k, d->batch, d->kv_heads, d->kv_len, d->head_dim, r);
    p->v = filled(v, d->batch, d->kv_heads, d->kv_len, d->value_dim, r);
    p->out = filled(out, d->batch, d->q_heads, d->q_len, d->value_dim, r);
    p->lse_out = filled(FOVEA_DTYPE_F32, d->batch, d->q_heads, d->q_len, 1, r);
    static const int64_t entries[] = {0, 1, 201, 32, 0};
    const int64_t n = d->relative == FOVEA_RELATIVE_WINDOW_2D
                          ? (2 * d->relative_height - 1) * (2 * d->relative_width - 1)
                          : entries[d->relative];
    if (n > 0)
        p->relative =
            filled(FOVEA_DTYPE_F32, rng_below(r, 2) ? d->batch : 1, rng_below(r, 2) ? d->q_heads : 1, 1, n, r);
    for (int i = 0; i < 16; i++)
        p->sinks[i] = (float)rng_below(r, 100) * 0.05f - 2;
    for (int64_t b = 0; b < d->batch; b++) {
        p->q_lens[b] = rng_below(r, d->q_len + 1);
        p->kv_lens[b] = rng_below(r, 3) ? rng_between(r, d->kv_len / 2, d->kv_len) : rng_below(r, d->kv_len + 1);
        p->q_offsets[b] = rng_between(r, -100, d->kv_len - d->q_len > 200 ? d->kv_len - d->q_len : 200);
    }
    if (p->lens)
        poison(&p->k, p->kv_lens), poison(&p->v, p->kv_lens);
}

void problem_free(problem *p) {
    void *all[] = {p->q.data, p->k.data, p->v.data, p->out.data, p->lse_out.data, p->relative.data};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

fovea_attention_args problem_args(const problem *p) {
    fovea_attention_args a;
    fovea_attention_args_init(&a);
    a.q = p->q;
    a.k = p->k;
    a.v = p->v;
    a.out = p->out;
    a.lse = p->lse ? p->lse_out : (fovea_tensor){0};
    a.q_lens = p->lens ? p->q_lens : NULL;
    a.kv_lens = p->lens ? p->kv_lens : NULL;
    a.q_offsets = p->offsets ? p->q_offsets : NULL;
    a.relative = p->relative;
    a.sinks = p->desc.has_sinks ? p->sinks : NULL;
    return a;
}

const char *problem_text(const problem *p) {
    static char text[512];
    const fovea_attention_desc *d = &p->desc;
    const fovea_mpi_attention_desc *o = &p->over;
    snprintf(text, sizeof text,
             "batch %lld heads %lld/%lld queries %lld keys %lld dims %lld/%lld types %d/%d/%d/%d arithmetic %d causal "
             "%d window "
             "%lld/%lld relative %d sinks %d softcap %g lens %d offsets %d lse %d; threads %d, %s, method %d, stripes "
             "%lld/%lld, "
             "blocks %lld x %lld, in flight %lld",
             (long long)d->batch, (long long)d->q_heads, (long long)d->kv_heads, (long long)d->q_len,
             (long long)d->kv_len, (long long)d->head_dim, (long long)d->value_dim, d->dtype, d->k_dtype, d->v_dtype,
             d->out_dtype, d->arithmetic, d->causal, (long long)d->window_left, (long long)d->window_right, d->relative,
             d->has_sinks, d->softcap, p->lens, p->offsets, p->lse, p->threads, o->queries ? "replicated" : "dealt",
             o->method, (long long)o->stripe_segments, (long long)o->query_stripe, (long long)o->block_queries,
             (long long)o->block_kv_heads, (long long)o->in_flight);
    return text;
}

/* --------------------------------------------------------------------------------------------------------- parts -- */

enum { CANARY = 0xa5 };

static char *at(const fovea_tensor *t, int64_t b, int64_t h, int64_t i) {
    return (char *)t->data + (b * t->stride[0] + h * t->stride[1] + i * t->stride[2]) * size_of(t->dtype);
}

/* Copies rows or compares them. */
static bool rows(const fovea_tensor *part, const fovea_tensor *whole, const fovea_mpi_attention_plan *plan, int rank,
                 stripe_function *stripe, bool copy) {
    bool same = true;
    const size_t bytes = (size_t)(whole->shape[3] * size_of(whole->dtype));
    int64_t count, first = 0, local = 0;
    for (int64_t s = 0; (count = stripe(plan, rank, s, &first)) > 0; s++)
        for (int64_t i = 0; i < count; i++, local++)
            for (int64_t b = 0; b < whole->shape[0]; b++)
                for (int64_t h = 0; h < whole->shape[1]; h++) {
                    if (copy)
                        memcpy(at(part, b, h, local), at(whole, b, h, first + i), bytes);
                    else
                        same = same && memcmp(at(part, b, h, local), at(whole, b, h, first + i), bytes) == 0;
                }
    return same && local == part->shape[2];
}

fovea_tensor part_of(const fovea_tensor *whole, const fovea_mpi_attention_plan *plan, int rank, stripe_function *stripe,
                     bool copy) {
    int64_t tokens = 0, count, first;
    for (int64_t s = 0; (count = stripe(plan, rank, s, &first)) > 0; s++)
        tokens += count;
    const int64_t channels = whole->shape[3], heads = whole->shape[1];
    const size_t bytes = (size_t)(whole->shape[0] * (tokens + 1) * heads * (channels + 1) * size_of(whole->dtype)) + 64;
    fovea_tensor part = *whole; /* [batch, token, head, channel], with a gap after each row */
    part.data = malloc(bytes);
    memset(part.data, CANARY, bytes);
    part.shape[2] = tokens;
    part.stride[1] = channels + 1;
    part.stride[2] = heads * (channels + 1);
    part.stride[0] = (tokens + 1) * part.stride[2];
    if (copy && !rows(&part, whole, plan, rank, stripe, true))
        abort();
    return part;
}

bool part_same(const fovea_tensor *part, const fovea_tensor *whole, const fovea_mpi_attention_plan *plan, int rank,
               stripe_function *stripe) {
    return rows(part, whole, plan, rank, stripe, false);
}

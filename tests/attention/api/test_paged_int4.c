/* Attention over 4-bit keys and values (kernels/int4.h): scores have the bits of its formulas, outputs are those of
 * float64 over the values that integers and scales stand for, rotated back, for sizes that fill no group, panel or
 * half; rows of 4 and 8 bits with infinities and NaN; and states of rotated outputs take no others. That tiers,
 * threads, chunks, forks and pieces give the same bits: test_cache.c, test_state_pages.c. */
#include "cache_holder.h"
#include "kernels.h"

#include "simd/half_scalar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEYS = 333,
    HEADS = 3,
    MOST = 200,
    LEFT = 50 /* keys that a window leaves: of one segment, the first in no panel's beginning */
};

typedef struct problem {
    int64_t dim, values, rows;
    fovea_dtype k_dtype, v_dtype;
    float q[HEADS * 16 * MOST], k[KEYS * MOST], v[KEYS * MOST];
    float scores[HEADS * 16 * KEYS], out[HEADS * 16 * MOST + 1];
} problem;

static fovea_attention_plan *plan_of(const fovea_context *ctx, const problem *p, bool window) {
    fovea_attention_desc d;
    fovea_attention_plan *plan;
    fovea_attention_desc_init(&d);
    d.q_heads = HEADS;
    d.kv_heads = 1;
    d.q_len = p->rows;
    d.kv_len = KEYS;
    d.head_dim = p->dim;
    d.value_dim = p->values;
    d.scale = 0.125;
    d.has_scale = true;
    d.k_dtype = p->k_dtype;
    d.v_dtype = p->v_dtype;
    d.causal = FOVEA_CAUSAL_OFFSET;
    d.window_left = window ? LEFT : -1;
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    require(fovea_attention_plan_create(ctx, &d, &plan), "plan");
    return plan;
}

static void attend(const fovea_context *ctx, problem *p, bool window, bool view) {
    const holder x = hold(ctx, p->dim, p->values, p->k_dtype, p->v_dtype);
    const int64_t offset = KEYS - p->rows;
    append(&x, p->k, p->v, FOVEA_DTYPE_F32, KEYS);
    fovea_attention_plan *plan = plan_of(ctx, p, window);
    fovea_attention_args args;
    fovea_attention_scores scores;
    fovea_attention_args_init(&args);
    fovea_attention_scores_init(&scores);
    scores.kind = FOVEA_SCORES_BIASED;
    scores.out = fovea_tensor_bhtd(p->scores, FOVEA_DTYPE_F32, 1, HEADS, p->rows, KEYS);
    args.q = fovea_tensor_bhtd(p->q, FOVEA_DTYPE_F32, 1, HEADS, p->rows, p->dim);
    args.out = fovea_tensor_bhtd(p->out, FOVEA_DTYPE_F32, 1, HEADS, p->rows, p->values);
    args.scores = view ? &scores : NULL;
    args.q_offsets = &offset;
    args.cache = x.cache;
    args.cache_sequences = &x.sequence;
    float *const behind = p->out + HEADS * p->rows * p->values;
    *behind = -7.0f;
    require(fovea_attention_execute(plan, &args, NULL, 0), "execute");
    test_check(*behind == -7.0f, "%lld channels of values: more is written", (long long)p->values);
    fovea_attention_plan_destroy(plan);
    fovea_kv_cache_destroy(x.cache);
}

/* A rotated row as it is kept: w, and the scale of each channel. */
static void keep(const float *row, int64_t n, int *w, float *scale) {
    float x[MOST];
    uint32_t words[MOST];
    uint16_t scales[MOST];
    fv_i4_rotate(1, n, 0, row, n, x, n);
    fv_i4_pack(FV_I4_KEY, n, x, words, 1, scales, 1);
    for (int64_t t = 0; t < n; t++) {
        w[t] = (int)(words[t / 8] >> (t % 4 * 8 + t % 8 / 4 * 4) & 15) - 8;
        scale[t] = half_widen_f16(scales[t / FV_I4_GROUP]);
    }
}

/* By the formulas; the scale is 2^-3. */
static float score_of(const float *q, const int *w, const float *scale, int64_t n) {
    float x[MOST], acc = 0.0f;
    for (int64_t t = 0; t < n; t++)
        x[t] = 0.125f * q[t];
    fv_i4_rotate(1, n, 1, x, n, x, n);
    for (int64_t first = 0; first < n; first += FV_I4_GROUP) {
        const int64_t end = first + FV_I4_GROUP < n ? first + FV_I4_GROUP : n;
        float top = 0.0f;
        int32_t sum = 0;
        for (int64_t t = first; t < end; t++)
            top = fmaxf(top, fabsf(x[t]));
        for (int64_t t = first; t < end; t++)
            sum += (int32_t)nearbyintf(x[t] * (FV_I8_MOST / top)) * w[t];
        acc = fmaf((float)sum, scale[first] * (top / FV_I8_MOST), acc);
    }
    return acc;
}

static void check_scores(const problem *p, bool window) {
    int64_t wrong = 0;
    for (int64_t key = 0; key < KEYS; key++) {
        int w[MOST];
        float scale[MOST];
        keep(p->k + key * p->dim, p->dim, w, scale);
        for (int64_t row = 0; row < HEADS * p->rows; row++) {
            const int64_t at = KEYS - p->rows + row % p->rows;
            const bool sees = key <= at && (!window || key >= at - LEFT);
            const float want = sees ? score_of(p->q + row * p->dim, w, scale, p->dim) : -INFINITY;
            wrong += p->scores[row * KEYS + key] != want;
        }
    }
    test_check(wrong == 0, "%lld channels, window %d: %lld scores are wrong", (long long)p->dim, window,
               (long long)wrong);
}

/* From the scores that came with them. */
static void check_outputs(const problem *p, bool window) {
    static double kept[KEYS * MOST];
    for (int64_t key = 0; key < KEYS; key++) {
        int w[MOST];
        float scale[MOST], numbers[MOST];
        keep(p->v + key * p->values, p->values, w, scale);
        for (int64_t t = 0; t < p->values; t++)
            numbers[t] = (float)w[t] * scale[t];
        fv_i4_rotate(1, p->values, 1, numbers, p->values, numbers, p->values);
        for (int64_t t = 0; t < p->values; t++)
            kept[key * p->values + t] =
                p->v_dtype == FOVEA_DTYPE_I4 ? (double)numbers[t] : (double)p->v[key * p->values + t];
    }
    double worst = 0.0;
    for (int64_t row = 0; row < HEADS * p->rows; row++) {
        const float *s = p->scores + row * KEYS;
        double most = -INFINITY, sum = 0.0, o[MOST] = {0};
        for (int64_t key = 0; key < KEYS; key++)
            most = fmax(most, (double)s[key]);
        for (int64_t key = 0; key < KEYS; key++) {
            const double weight = exp((double)s[key] - most);
            sum += weight;
            for (int64_t t = 0; t < p->values; t++)
                o[t] += weight * kept[key * p->values + t];
        }
        for (int64_t t = 0; t < p->values; t++)
            worst = fmax(worst, fabs((double)p->out[row * p->values + t] - o[t] / sum));
    }
    test_check(worst < 3e-6, "%lld channels of values, window %d: outputs are off by %g", (long long)p->values, window,
               worst);
}

static void test_formulas(const fovea_context *ctx, rng *r) {
    static const int64_t dims[] = {64, 1, 24, 33, 80, 128, 200, 8}, widths[] = {64, 96, 5, 200, 40, 31, 72, 3};
    static problem p;
    for (int i = 0; i < 24; i++) {
        p.dim = dims[i % 8];
        p.values = widths[i % 8];
        p.rows = i % 3 == 0 ? 1 : i % 3 == 1 ? 5 : 16;
        p.k_dtype = i % 5 == 3 ? FOVEA_DTYPE_F32 : i % 5 == 4 ? FOVEA_DTYPE_I8 : FOVEA_DTYPE_I4;
        p.v_dtype = i % 5 == 1 ? FOVEA_DTYPE_F32 : FOVEA_DTYPE_I4;
        rng_fill_normal(r, p.q, HEADS * p.rows * p.dim);
        rng_fill_normal(r, p.k, KEYS * p.dim);
        rng_fill_normal(r, p.v, KEYS * p.values);
        for (int window = 0; window < 2; window++) {
            attend(ctx, &p, window, true);
            if (p.k_dtype == FOVEA_DTYPE_I4)
                check_scores(&p, window);
            check_outputs(&p, window);
        }
    }
}

/* A key or a value that is no number makes what sees it NaN, and changes nothing else. */
static void test_nan(const fovea_context *ctx, rng *r, fovea_dtype dtype) {
    static problem p;
    static float sound[HEADS * 16 * MOST];
    p = (problem){.dim = 64, .values = 48, .rows = 16, .k_dtype = dtype, .v_dtype = dtype};
    rng_fill_normal(r, p.q, HEADS * p.rows * p.dim);
    rng_fill_normal(r, p.k, KEYS * p.dim);
    rng_fill_normal(r, p.v, KEYS * p.values);
    const int64_t key = KEYS - 4, count = HEADS * p.rows * p.values;
    attend(ctx, &p, false, false);
    memcpy(sound, p.out, (size_t)count * sizeof *sound);
    for (int n = 0; n < 4; n++) {
        const bool values = n % 2;
        float *const at = values ? p.v + key * p.values + 20 : p.k + key * p.dim + 33, before = *at;
        *at = n < 2 ? -INFINITY : NAN;
        attend(ctx, &p, false, false);
        *at = before;
        for (int64_t i = 0; i < count; i++) {
            const bool sees = KEYS - p.rows + i / p.values % p.rows >= key;
            const bool block = !values || dtype == FOVEA_DTYPE_I8 || i % p.values / 16 == 1; /* rotated together */
            if (!test_check(isnan(p.out[i]) ? sees : !(sees && block) && (sees || p.out[i] == sound[i]),
                            "no number in %s: output %lld is %g", values ? "values" : "keys", (long long)i,
                            (double)p.out[i]))
                return;
        }
    }
}

/* A state of each kind, and what it refuses. */
static void test_states(const fovea_context *ctx) {
    static problem p;
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_I4};
    fovea_attention_state *state[2];
    fovea_attention_plan *plan[2];
    void *memory[2];
    p = (problem){.dim = 24, .values = 40, .rows = 2, .k_dtype = FOVEA_DTYPE_I4};
    for (int i = 0; i < 2; i++) {
        p.v_dtype = types[i];
        plan[i] = plan_of(ctx, &p, false);
        const size_t size = fovea_attention_plan_state_size(plan[i]);
        memory[i] = must_alloc((int64_t)size, 1);
        require(fovea_attention_state_init(plan[i], memory[i], size, &state[i]), "state");
    }
    for (int i = 0; i < 2; i++) {
        const holder x = hold(ctx, p.dim, p.values, FOVEA_DTYPE_I4, types[i]);
        const int64_t offset = 0;
        append(&x, p.k, p.v, FOVEA_DTYPE_F32, 10);
        fovea_attention_args args;
        fovea_attention_args_init(&args);
        args.q = fovea_tensor_bhtd(p.q, FOVEA_DTYPE_F32, 1, HEADS, p.rows, p.dim);
        args.q_offsets = &offset;
        args.cache = x.cache;
        args.cache_sequences = &x.sequence;
        args.state = state[1 - i];
        check_status("execute", fovea_attention_execute(plan[i], &args, NULL, 0), FOVEA_ERROR_DTYPE,
                     i ? "state has plain outputs|rotated|FOVEA_DTYPE_I4" : "state has rotated outputs|plain");
        args.state = state[i];
        require(fovea_attention_execute(plan[i], &args, NULL, 0), "its own");
        fovea_kv_cache_destroy(x.cache);
    }
    check_status("merge", fovea_attention_state_merge(state[0], state[1]), FOVEA_ERROR_DTYPE, "later has rotated");
    check_status("merge", fovea_attention_state_merge(state[1], state[0]), FOVEA_ERROR_DTYPE, "later has plain");
    for (int i = 0; i < 2; i++) {
        fovea_attention_plan_destroy(plan[i]);
        free(memory[i]);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "paged_int4", NULL);
    const case_contexts x = contexts_make();
    rng r = rng_stream(test_seed(), "problems");
    test_formulas(x.one, &r);
    test_nan(x.one, &r, FOVEA_DTYPE_I4);
    test_nan(x.one, &r, FOVEA_DTYPE_I8);
    test_states(x.one);
    contexts_free(&x);
    return test_end();
}

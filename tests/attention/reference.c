/* The formulas, and the derivation of the bound. See reference.h.
 *
 * The bound. u = 2^-24 is the largest relative error of one float32 rounding, g(n) = n u / (1 - n u) that of n of them.
 * For one row with n attended keys in S segments, let s_j be the exact score (with the scale that the library uses,
 * which is a float32), w_j = exp(s_j - lse) the exact weight, M the largest score.
 *
 * Score. The computed score is s_j + e_j. With scale = +-2^e c, the query is multiplied by +-2^e (exact), a chain of
 * head_dim fma follows, and the sum is multiplied by c (1 rounding, none where c is 1), so each product q k meets at
 * most head_dim + 1 roundings; a bias, additive mask or relative bias costs one rounding of the sum, the slope of
 * ALiBi one of its product. With A_j = |scale| sum_d |q_d k_d|:
 *     |e_j| <= g(head_dim + (c != 1)) A_j  [+ u (|s_j| + g A_j) with a bias]
 *              + c 2^-150 (head_dim + sum_d |k_d|) + 2^-150
 * the last line for results that are subnormal. This is why the error grows with head_dim and with |q| |k|.
 *
 * A softcap multiplies by c / cap instead, a rounded number, in a product that is rounded (2u of the score, as tanh is
 * no steeper than 1), has tanh's error, cap * 2^-24 or 2^-22 of the result, and rounds the product with cap. A sink is
 * a segment of one key whose score is exact and whose value is 0.
 *
 * Weight before division. exp is taken of the rounded x = s - m, then the segment is multiplied by b = exp(m - M'), and
 * each later merge by a = exp(M - M'). Each exp has an error of 1 ulp <= 2u and each argument a rounding of u times
 * itself. The arguments add up to s_j - M whatever the order of the maxima, so all together they cost u (M - s_j) + 2u
 * X, where X counts the exps: 1 in a single segment, whose merge is exact (a is 0, b is 1), else S + 1. So
 *     eps_j = |e_j| + u (M - s_j + 2 X + |e_j|)
 * is a bound of the error of the exponent. exp gives 0 below 2^-126: at most that much of a weight is lost, once or
 * twice.
 *
 * Sums. l: 16 additions in a lane, 4 in the tree, but additions to 0 are exact, so A = min(n - 1, 20); L: a product and
 * an fma for each merge but the first; the chain of o: C = min(n, 256) fma; O: as L; then 1/L and the product with it.
 * The sum L is >= 1, its relative error from the weights is at most rho = sum_j w_j (exp(eps_j) - 1), and so
 *     |out - exact| <= sum_j w_j |v_j| (exp(eps_j) (1 + g(C + A + 4 (S - 1) + 2)) / (1 - rho) - 1) + tiny
 *     |lse - exact| <= -log(1 - rho) + g(A + 2 (S - 1)) + 2u |log L| + u |lse|          (log within 1 ulp)
 *     |weight - exact| <= w_j (exp(|e_j| + lse error + u (|s_j - lse| + 2)) - 1) + tiny
 * A row is trusted while rho <= 1/8: beyond that (scores near overflow) float32 cannot give an answer worth
 * comparing. */
#include "reference.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SEGMENT 256
#define LANES 16

static const double U = 0x1p-24;

static double gamma_of(double n) { return n * U / (1.0 - n * U); }

static double *doubles(int64_t n) {
    double *array = malloc((size_t)(n + 1) * sizeof *array);
    if (array == NULL) {
        fputs("reference: out of memory\n", stderr);
        exit(1);
    }
    return array;
}

void reference_alloc(reference_result *result, const fovea_attention_desc *desc) {
    result->out = doubles(desc->value_dim);
    result->out_bound = doubles(desc->value_dim);
    result->magnitude = doubles(desc->value_dim);
    result->weights = doubles(desc->kv_len);
    result->weights_bound = doubles(desc->kv_len);
}

void reference_free(reference_result *result) {
    free(result->out);
    free(result->out_bound);
    free(result->magnitude);
    free(result->weights);
    free(result->weights_bound);
}

int64_t tensor_index(const fovea_tensor *tensor, int64_t b, int64_t h, int64_t t, int64_t c) {
    const int64_t at[4] = {b, h, t, c};
    int64_t index = 0;
    for (int axis = 0; axis < 4; axis++)
        index += (tensor->shape[axis] == 1 ? 0 : at[axis]) * tensor->stride[axis];
    return index;
}

float tensor_f32(const fovea_tensor *tensor, int64_t b, int64_t h, int64_t t, int64_t c) {
    return ((const float *)tensor->data)[tensor_index(tensor, b, h, t, c)];
}

/* Key position of query 0 of a sequence. */
static int64_t offset_of(const fovea_attention_desc *desc, const fovea_attention_args *args, int64_t b) {
    if (desc->causal == FOVEA_CAUSAL_BOTTOM_RIGHT)
        return (args->kv_lens ? args->kv_lens[b] : desc->kv_len) - (args->q_lens ? args->q_lens[b] : desc->q_len);
    return args->q_offsets ? args->q_offsets[b] : 0;
}

/* The terms added to a score, in order; exact, and so is the product of ALIBI here. Returns how many. */
enum { ADDED = 2 };

static int added_to_score(const fovea_attention_desc *desc, const fovea_attention_args *args, int64_t b, int64_t h,
                          int64_t i, int64_t j, double added[ADDED]) {
    int n = 0;
    if (desc->mask == FOVEA_MASK_ADDITIVE || desc->has_bias)
        added[n++] = (double)tensor_f32(desc->has_bias ? &args->bias : &args->mask, b, h, i, j);
    if (desc->relative != FOVEA_RELATIVE_NONE)
        added[n++] = reference_relative(desc, &args->relative, b, h, i + offset_of(desc, args, b), j);
    return n;
}

int reference_attends(const fovea_attention_desc *desc, const fovea_attention_args *args, int64_t b, int64_t h,
                      int64_t i, int64_t j) {
    int64_t q_len = args->q_lens ? args->q_lens[b] : desc->q_len;
    int64_t kv_len = args->kv_lens ? args->kv_lens[b] : desc->kv_len;
    if (i >= q_len || j >= kv_len)
        return 0;

    int64_t position = i + offset_of(desc, args, b);
    if (desc->causal != FOVEA_CAUSAL_NONE && j > position)
        return 0;
    if (desc->window_left >= 0 && position - j > desc->window_left)
        return 0;
    if (desc->window_right >= 0 && j - position > desc->window_right)
        return 0;

    if (desc->mask == FOVEA_MASK_BOOLEAN &&
        ((const uint8_t *)args->mask.data)[tensor_index(&args->mask, b, h, i, j)] == 0)
        return 0;
    double added[ADDED];
    for (int n = added_to_score(desc, args, b, h, i, j, added); n > 0; n--)
        if (added[n - 1] == -INFINITY)
            return 0;
    return 1;
}

/* scale = two * c: two is +-2^e or 0, c is at least 1 and less than 2. */
typedef struct split_scale {
    float two, c;
} split_scale;

static split_scale split(float scale) {
    float c = fabsf(scale), two = scale < 0 ? -1.0F : 1.0F;
    if (scale == 0)
        return (split_scale){0, 1};
    for (; c >= 2; c /= 2)
        two *= 2;
    for (; c < 1; c *= 2)
        two /= 2;
    return (split_scale){two, c};
}

static float scale_of(const fovea_attention_desc *desc) {
    return (float)(desc->has_scale ? desc->scale : 1.0 / sqrt((double)desc->head_dim));
}

static double biggest(double a, double b) { return a > b ? a : b; }

enum { SINK = -1 }; /* among keys: a segment of its own, of value 0 */

/* A row under work: the keys it attends to, with exact score and bound of the score's error. */
typedef struct row {
    int64_t n;     /* attended keys */
    int64_t *key;  /* [n] */
    double *score; /* [n] */
    double *error; /* [n] */
    double segments;
} row;

/* The score and the bound of its error after the softcap. */
static void cap_score(double cap, double *score, double *error) {
    const double before = fabs(*score) + *error, t = tanh(*score / cap);
    *error += 2.01 * U * before + cap * 0x1p-149;                               /* of c / cap and the product */
    *error += cap * fmin(0x1p-24, 0x1p-22 * fmin(1.0, fabs(t) + *error / cap)); /* of tanh */
    *score = cap * t;
    *error += U * (fabs(*score) + *error) + 0x1p-149; /* of the product with cap */
}

static void find_scores(const fovea_attention_desc *desc, const fovea_attention_args *args, int64_t b, int64_t h,
                        int64_t i, row *r) {
    int64_t group = desc->q_heads / desc->kv_heads;
    double scale = (double)scale_of(desc), c = (double)split(scale_of(desc)).c;
    int64_t segment = -1;
    r->n = 0;
    r->segments = 0;
    for (int64_t j = 0; j < desc->kv_len; j++) {
        if (!reference_attends(desc, args, b, h, i, j))
            continue;
        double sum = 0, magnitude = 0, keys = 0;
        for (int64_t d = 0; d < desc->head_dim; d++) {
            double q = (double)tensor_f32(&args->q, b, h, i, d);
            double k = (double)tensor_f32(&args->k, b, h / group, j, d);
            sum += q * k;
            magnitude += fabs(q * k);
            keys += fabs(k);
        }
        double score = scale * sum;
        double error = gamma_of((double)desc->head_dim + (c != 1)) * fabs(scale) * magnitude;
        if (desc->softcap > 0)
            cap_score((double)(float)desc->softcap, &score, &error);
        double added[ADDED];
        const int n = added_to_score(desc, args, b, h, i, j, added);
        for (int a = 0; a < n; a++) {
            score += added[a];
            error += U * (fabs(score) + error);
            if (desc->relative == FOVEA_RELATIVE_ALIBI && a == n - 1)
                error += (1 + U) * (U * fabs(added[a]) + 0x1p-150); /* the product's rounding, too */
        }
        error += c * 0x1p-150 * ((double)desc->head_dim + keys) + 0x1p-150;
        r->key[r->n] = j;
        r->score[r->n] = score;
        /* A partial sum past the largest float would be infinite in float32. */
        r->error[r->n] = fabs(scale) * magnitude + fabs(score) < 0.5 * (double)FLT_MAX ? error : INFINITY;
        r->n++;
        if (j / SEGMENT != segment) {
            segment = j / SEGMENT;
            r->segments++;
        }
    }
    if (desc->has_sinks && args->sinks[h] != -INFINITY) {
        r->key[r->n] = SINK;
        r->score[r->n] = (double)args->sinks[h];
        r->error[r->n++] = 0;
        r->segments++;
    }
}

/* Bound of the error of the exponent of key a's weight: eps_j above. */
static double exponent_error(const row *r, int64_t a, double most) {
    double exps = r->segments > 1 ? r->segments + 1 : 1;
    return r->error[a] + U * (most - r->score[a] + 2 * exps + r->error[a]);
}

static void softmax_and_values(const fovea_attention_desc *desc, const fovea_attention_args *args, int64_t b, int64_t h,
                               const row *r, reference_result *result) {
    int64_t group = desc->q_heads / desc->kv_heads;
    double most = -INFINITY, L = 0, rho = 0, worst_error = 0, worst_value = 0;
    for (int64_t a = 0; a < r->n; a++)
        most = biggest(most, r->score[a]);
    for (int64_t a = 0; a < r->n; a++)
        L += exp(r->score[a] - most);
    result->lse = most + log(L);

    double keys = (double)r->n, merges = r->segments - 1;
    double additions = keys - 1 < 20 ? keys - 1 : 20, chain = keys < SEGMENT ? keys : SEGMENT;
    for (int64_t a = 0; a < r->n; a++) {
        rho += exp(r->score[a] - result->lse) * expm1(exponent_error(r, a, most));
        worst_error = biggest(worst_error, r->error[a]);
    }
    double roundings = gamma_of(chain + additions + 4 * merges + 2);
    result->trusted = rho <= 0.125; /* false for NaN too */
    result->lse_bound = -log1p(-rho) + gamma_of(additions + 2 * merges) + 2 * U * (log(L) + worst_error) +
                        U * (fabs(result->lse) + worst_error);

    for (int64_t a = 0; a < r->n; a++) {
        double w = exp(r->score[a] - result->lse);
        double relative = exp(exponent_error(r, a, most)) * (1 + roundings) / (1 - rho) - 1;
        if (r->key[a] == SINK)
            continue;
        for (int64_t c = 0; c < desc->value_dim; c++) {
            double v = (double)tensor_f32(&args->v, b, h / group, r->key[a], c);
            result->out[c] += w * v;
            result->magnitude[c] += w * fabs(v);
            result->out_bound[c] += w * fabs(v) * relative;
            worst_value = biggest(worst_value, fabs(v));
        }
        double exponent = r->error[a] + result->lse_bound + U * (fabs(r->score[a] - result->lse) + 2);
        result->weights[r->key[a]] = w;
        result->weights_bound[r->key[a]] = w * expm1(exponent * (1 + 4 * U)) + 0x1p-125;
    }
    for (int64_t c = 0; c < desc->value_dim; c++)
        result->out_bound[c] += keys * 0x1p-125 * worst_value + (keys + 2 * r->segments + 2) * 0x1p-149;
}

void reference_row(const fovea_attention_desc *desc, const fovea_attention_args *args, int64_t b, int64_t h, int64_t i,
                   reference_result *result) {
    for (int64_t c = 0; c < desc->value_dim; c++)
        result->out[c] = result->out_bound[c] = result->magnitude[c] = 0;
    for (int64_t j = 0; j < desc->kv_len; j++)
        result->weights[j] = result->weights_bound[j] = 0;

    row r = {.score = doubles(desc->kv_len + 1), .error = doubles(desc->kv_len + 1)};
    r.key = malloc((size_t)(desc->kv_len + 1) * sizeof *r.key);
    if (r.key == NULL)
        exit(1);
    find_scores(desc, args, b, h, i, &r);
    result->attended = r.n - (r.n > 0 && r.key[r.n - 1] == SINK);
    if (r.n == 0) {
        result->trusted = 1;
        result->lse = -INFINITY;
        result->lse_bound = 0;
    } else {
        softmax_and_values(desc, args, b, h, &r, result);
    }
    free(r.key);
    free(r.score);
    free(r.error);
}

/* ---------------------------------------------------------------------------------- the arithmetic, word by word -- */

/* The segment's score at key j, for an attended key. */
static float literal_score(const literal_kernels *kernels, const fovea_attention_desc *desc,
                           const fovea_attention_args *args, int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t group = desc->q_heads / desc->kv_heads;
    const split_scale scale = split(scale_of(desc));
    float acc = 0;
    for (int64_t d = 0; d < desc->head_dim; d++)
        acc = fmaf(scale.two * tensor_f32(&args->q, b, h, i, d), tensor_f32(&args->k, b, h / group, j, d), acc);
    const float cap = (float)desc->softcap;
    float score = cap > 0 ? kernels->softcap((float)((double)scale.c / (double)cap), cap, acc) : scale.c * acc;
    double added[ADDED];
    const int n = added_to_score(desc, args, b, h, i, j, added);
    for (int a = 0; a < n; a++)
        score += (float)added[a];
    return score;
}

static float or_zero(float maximum) { return maximum == -INFINITY ? 0.0F : maximum; }

/* The larger one; NaN if there is one. */
static float maximum_of(float a, float b) { return isnan(a) || a > b ? a : b; }

static float canonical(float x) {
    union {
        uint32_t bits;
        float value;
    } quiet = {.bits = 0x7fc00000U};
    return isnan(x) ? quiet.value : x == 0 ? 0.0F : x;
}

void literal_row(const fovea_attention_desc *desc, const fovea_attention_args *args, int64_t b, int64_t h, int64_t i,
                 const literal_kernels *kernels, float lse, float *out, float *weights) {
    int64_t group = desc->q_heads / desc->kv_heads, n = desc->value_dim;
    float M = -INFINITY, L = 0, *O = calloc((size_t)n * 2, sizeof *O), *o = O + n;
    if (O == NULL)
        exit(1);
    for (int64_t begin = 0; begin < desc->kv_len; begin += SEGMENT) {
        int64_t end = begin + SEGMENT < desc->kv_len ? begin + SEGMENT : desc->kv_len;
        float s[SEGMENT], m = -INFINITY, lane[LANES] = {0};
        char attended[SEGMENT], any = 0;
        for (int64_t j = begin; j < end; j++) {
            attended[j - begin] = (char)reference_attends(desc, args, b, h, i, j);
            if (attended[j - begin]) {
                s[j - begin] = literal_score(kernels, desc, args, b, h, i, j);
                m = any ? maximum_of(m, s[j - begin]) : s[j - begin];
                any = 1;
            }
            if (weights)
                weights[j] =
                    attended[j - begin] && lse != -INFINITY ? canonical(kernels->exp(s[j - begin] - lse)) : 0.0F;
        }
        if (!any)
            continue;
        for (int64_t c = 0; c < n; c++)
            o[c] = 0;
        for (int64_t j = begin; j < end; j++) {
            if (!attended[j - begin])
                continue;
            float p = kernels->exp(s[j - begin] - or_zero(m));
            lane[(j - begin) % LANES] += p;
            for (int64_t c = 0; c < n; c++)
                o[c] = fmaf(p, tensor_f32(&args->v, b, h / group, j, c), o[c]);
        }
        for (int half = LANES / 2; half > 0; half /= 2)
            for (int a = 0; a < half; a++)
                lane[a] += lane[a + half];
        float l = lane[0];
        float next = maximum_of(M, m), a = kernels->exp(M - or_zero(next)), f = kernels->exp(m - or_zero(next));
        L = fmaf(L, a, l * f);
        for (int64_t c = 0; c < n; c++)
            O[c] = fmaf(O[c], a, o[c] * f);
        M = next;
    }
    if (desc->has_sinks) {
        const float sink = args->sinks[h], next = maximum_of(M, sink);
        const float a = kernels->exp(M - or_zero(next)), f = kernels->exp(sink - or_zero(next));
        L = fmaf(L, a, f);
        for (int64_t c = 0; c < n; c++)
            O[c] = fmaf(O[c], a, 0.0F * f);
    }
    float R = L == 0 ? 0.0F : 1.0F / L;
    if (out)
        for (int64_t c = 0; c < n; c++)
            out[c] = canonical(O[c] * R);
    free(O);
}

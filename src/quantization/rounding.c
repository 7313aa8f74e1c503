/* How a group becomes integers and a scale (rounding.h): by the rule of its type; with a search, scales near that one
 * are tried, and what least squares make of their integers, and the smallest squared error stays. Sums are doubles in a
 * fixed order, so that the choice is the same everywhere. */
#include "quantization/rounding.h"

#include <float.h>
#include <math.h>

/* A group to be rounded: its numbers become scale * w + minimum, low <= w <= high. */
typedef struct trial {
    const float *x;
    int64_t n;
    int low, high;
    fv_scale_words stored;
    bool minimum;         /* and is it stored as the scale is? */
    int8_t *best, *other; /* [n]: integers */
    float scale, least;   /* of the best: the numbers that are stored */
    double error;
    bool any;
} trial;

/* A float of at most 2^65 as float16 or bfloat16, to nearest even. */
static uint16_t half_of(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size >= 0x47800000)
        return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) { /* subnormal: the sum ends with units of 2^-24 */
        float magnitude;
        memcpy(&magnitude, &size, sizeof magnitude);
        magnitude += 0.5f;
        memcpy(&bits, &magnitude, sizeof bits);
        return (uint16_t)(sign | (bits - 0x3f000000));
    }
    return (uint16_t)(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

static uint16_t bfloat_of(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static int put_scale(fv_scale_words stored, float scale, uint8_t *to) {
    const uint16_t half = stored == FV_SCALES_bf16 ? bfloat_of(scale) : half_of(scale);
    const int size = fv_scale_size(stored);
    memcpy(to, size == 4 ? (const void *)&scale : (const void *)&half, (size_t)size);
    return size;
}

/* The scale as it is read back; infinite if it is too large. */
static float as_stored(fv_scale_words stored, float scale) {
    uint8_t bytes[4];
    put_scale(stored, scale, bytes);
    if (stored == FV_SCALES_f16 && (bytes[1] & 0x7c) == 0x7c)
        return INFINITY;
    return fv_scale_float(stored, bytes);
}

static inline float inverse(float scale) { return fabsf(scale) >= FLT_MIN ? 1.0f / scale : 0.0f; }

/* The nearest integer from low to high, ties to even. */
static inline int nearest(float v, int low, int high) {
    v = v < (float)low ? (float)low : v > (float)high ? (float)high : v;
    return (int)((v + 0x1.8p23f) - 0x1.8p23f);
}

static double error_of(const trial *t, const int8_t *w, float scale, float minimum) {
    double sum[4] = {0};
    for (int64_t i = 0; i < t->n; i++) {
        const float product = scale * (float)w[i], number = t->minimum ? product + minimum : product;
        const double error = (double)number - t->x[i];
        sum[i % 4] += error * error;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* Takes the integers in `other` if they are the best. */
static void consider_integers(trial *t, float scale, float minimum) {
    const double error = error_of(t, t->other, scale, minimum);
    if (t->any && !(error < t->error))
        return;
    int8_t *const integers = t->best;
    t->best = t->other;
    t->other = integers;
    t->scale = scale;
    t->least = minimum;
    t->error = error;
    t->any = true;
}

/* Rounds to stored scales, if these are finite. */
static void consider(trial *t, float scale, float minimum) {
    scale = as_stored(t->stored, scale);
    minimum = as_stored(t->stored, minimum);
    if (!isfinite(scale) || !isfinite(minimum))
        return;
    const float factor = inverse(scale);
    for (int64_t i = 0; i < t->n; i++)
        t->other[i] = (int8_t)nearest((t->x[i] - minimum) * factor, t->low, t->high);
    consider_integers(t, scale, minimum);
}

/* Least squares: the scale, and the minimum, that are best for the integers that are. */
static void refit(trial *t) {
    double w = 0, x = 0, ww = 0, wx = 0;
    for (int64_t i = 0; i < t->n; i++) {
        w += t->best[i];
        x += t->x[i];
        ww += (double)t->best[i] * t->best[i];
        wx += (double)t->best[i] * t->x[i];
    }
    const double n = (double)t->n, all = t->minimum ? ww - w * w / n : ww;
    if (!(all > 0))
        return;
    const double scale = (t->minimum ? wx - w * x / n : wx) / all, minimum = t->minimum ? (x - scale * w) / n : 0;
    if (fabs(scale) <= FLT_MAX && fabs(minimum) <= FLT_MAX)
        consider(t, (float)scale, (float)minimum);
}

enum { STEPS = 16 }; /* of a search, of 1/64 of the scale, on either side */

static void search(trial *t, float scale, float minimum) {
    for (int k = -STEPS; k <= STEPS; k++)
        consider(t, scale / (1.0f + (float)k / 64), minimum);
    refit(t);
    refit(t);
}

typedef struct extremes {
    float low, high, top; /* top: the first of the largest magnitude */
} extremes;

static extremes extremes_of(int64_t n, const float *x) {
    extremes e = {x[0], x[0], x[0]};
    for (int64_t i = 1; i < n; i++) {
        e.low = x[i] < e.low ? x[i] : e.low;
        e.high = x[i] > e.high ? x[i] : e.high;
        e.top = fabsf(x[i]) > fabsf(e.top) ? x[i] : e.top;
    }
    return e;
}

/* -------------------------------------------------------------------------------- blocks by the formulas of GGUF -- */

static void round_q8_0(trial *t, float top) {
    const float scale = fabsf(top) / 127, factor = inverse(scale);
    for (int i = 0; i < 32; i++) { /* ties away from 0 */
        const float v = t->x[i] * factor, whole = (float)(int)v;
        t->other[i] = (int8_t)(whole + (float)(int)(2 * (v - whole)));
    }
    consider_integers(t, as_stored(t->stored, scale), 0.0f);
}

static void round_q4_0(trial *t, float top) {
    const float scale = top / -8, factor = inverse(scale);
    for (int i = 0; i < 32; i++) {
        const int w = (int)(t->x[i] * factor + 8.5f);
        t->other[i] = (int8_t)((w > 15 ? 15 : w) - 8);
    }
    consider_integers(t, as_stored(t->stored, scale), 0.0f);
}

static void round_q4_1(trial *t, float low, float high) {
    const float scale = (high - low) / 15, factor = inverse(scale);
    for (int i = 0; i < 32; i++) {
        const int w = (int)((t->x[i] - low) * factor + 0.5f);
        t->other[i] = (int8_t)(w > 15 ? 15 : w);
    }
    consider_integers(t, as_stored(t->stored, scale), as_stored(t->stored, low));
}

/* --------------------------------------------------------------------------------------------- one group's scale -- */

/* The best integers of a group; false: no scale is finite. */
static bool round_group(const fv_rounding *r, trial *t) {
    const extremes e = extremes_of(t->n, t->x);
    const float most = fabsf(e.top);
    switch (r->to) {
    case FOVEA_DTYPE_I8:
        consider(t, most / 127, 0.0f);
        if (r->search)
            search(t, most / 127, 0.0f);
        break;
    case FOVEA_DTYPE_Q8_0:
        round_q8_0(t, e.top);
        if (r->search)
            search(t, most / 127, 0.0f);
        break;
    case FOVEA_DTYPE_Q4_1:
        if (!isfinite(e.high - e.low))
            return false;
        round_q4_1(t, e.low, e.high);
        if (r->search)
            search(t, (e.high - e.low) / 15, e.low);
        break;
    default: /* of Q4_0 and U4: the largest becomes -8, or 7 or -7 */
        if (r->to == FOVEA_DTYPE_Q4_0)
            round_q4_0(t, e.top);
        else
            consider(t, e.top / -8, 0.0f);
        if (r->to == FOVEA_DTYPE_U4 || r->search)
            consider(t, most / 7, 0.0f);
        if (r->search) {
            search(t, e.top / -8, 0.0f);
            search(t, most / 7, 0.0f);
        }
    }
    return t->any && isfinite(t->scale) && isfinite(t->least);
}

/* ---------------------------------------------------------------------------------------------------------- Q4_K -- */

enum { GROUPS = 8, GROUP = 32, CODES = 63 };

/* 32 elements of a super-block whose d and e are chosen: s and m of 6 bits. The numbers are (d * s) * w - e * m. */
static void round_k_group(bool wide, const float *x, float d, float e, float step, float depth, trial *t, uint8_t *s,
                          uint8_t *m) {
    const int most_s = nearest(step * inverse(d), 0, CODES), most_m = nearest(depth * inverse(e), 0, CODES);
    *t = (trial){
        .x = x, .n = GROUP, .high = 15, .stored = FV_SCALES_f32, .minimum = true, .best = t->best, .other = t->other};
    *s = (uint8_t)most_s;
    *m = (uint8_t)most_m;
    consider(t, d * (float)most_s, -(e * (float)most_m));
    for (int round = 0; wide && round < 4; round++) { /* one of the two, then the other, twice */
        const int of_s = round % 2 == 0, most = of_s ? most_s : most_m;
        for (int k = most * 3 / 4; k <= most + 1 && k <= CODES; k++) {
            const uint8_t try_s = of_s ? (uint8_t)k : *s, try_m = of_s ? *m : (uint8_t)k;
            const double before = t->error;
            consider(t, d * (float)try_s, -(e * (float)try_m));
            if (t->error < before) {
                *s = try_s;
                *m = try_m;
            }
        }
    }
}

/* A super-block. The 15 steps of a group go from its minimum, or 0 if that is positive, to its maximum. d and e make
 * the largest step and the largest depth of a minimum 63. */
static bool round_q4_k(const fv_rounding *r, const float *x, int8_t *integers, uint8_t *to) {
    float step[GROUPS], depth[GROUPS], most_step = 0, most_depth = 0;
    for (int g = 0; g < GROUPS; g++) {
        const extremes e = extremes_of(GROUP, x + GROUP * g);
        const float low = e.low < 0 ? e.low : 0.0f;
        step[g] = (e.high - low) / 15;
        depth[g] = -low;
        most_step = step[g] > most_step ? step[g] : most_step;
        most_depth = depth[g] > most_depth ? depth[g] : most_depth;
    }
    const float d = as_stored(FV_SCALES_f16, most_step / CODES), e = as_stored(FV_SCALES_f16, most_depth / CODES);
    if (!isfinite(most_step) || !isfinite(d) || !isfinite(e))
        return false;
    fv_block_scales scales = {.d = half_of(d), .e = half_of(e)};
    uint8_t w[FV_SUPER];
    for (int g = 0; g < GROUPS; g++) {
        trial t = {.best = integers, .other = integers + GROUP};
        round_k_group(r->search, x + GROUP * g, d, e, step[g], depth[g], &t, &scales.s[g], &scales.m[g]);
        memcpy(w + GROUP * g, t.best, GROUP);
    }
    fv_block_write(FOVEA_DTYPE_Q4_K, &scales, w, to);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------------ */

static void put_integers(fovea_dtype to, int64_t n, const int8_t *w, uint8_t *data) {
    if (to == FOVEA_DTYPE_I8) {
        memcpy(data, w, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i += 2)
        data[i / 2] = (uint8_t)((w[i] + 8) | (w[i + 1] + 8) << 4);
}

bool fv_round_row(const fv_rounding *r, int64_t n, const float *x, int8_t *integers, uint8_t *data, uint8_t *scales) {
    const fv_dtype_block block = fv_dtype_block_of(r->to);
    const bool blocks = block.elements > 1, super = r->to == FOVEA_DTYPE_Q4_K;
    const int64_t each = blocks ? block.elements : r->group;
    for (int64_t i = 0; i < n; i += each, data += fv_dtype_bytes(r->to, each)) {
        if (super) {
            if (!round_q4_k(r, x + i, integers, data))
                return false;
            continue;
        }
        const int low = r->to == FOVEA_DTYPE_I8 || r->to == FOVEA_DTYPE_Q8_0 ? -127
                        : r->to == FOVEA_DTYPE_Q4_1                          ? 0
                                                                             : -8;
        trial t = {.x = x + i,
                   .n = each,
                   .low = low,
                   .high = low == -127 ? 127 : low + 15,
                   .stored = r->scales,
                   .minimum = r->to == FOVEA_DTYPE_Q4_1,
                   .best = integers,
                   .other = integers + each};
        if (!round_group(r, &t))
            return false;
        if (!blocks) {
            put_integers(r->to, each, t.best, data);
            scales += put_scale(r->scales, t.scale, scales);
            continue;
        }
        uint8_t w[32];
        for (int k = 0; k < 32; k++)
            w[k] = (uint8_t)(t.best[k] + (r->to == FOVEA_DTYPE_Q4_0 ? 8 : 0));
        const fv_block_scales own = {.d = half_of(t.scale), .e = half_of(t.least)};
        fv_block_write(r->to, &own, w, data);
    }
    return true;
}

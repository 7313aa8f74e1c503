/* 4-bit keys and values (kernels/int4.h): rotations by their definition and by what they keep, integers and scales by
 * theirs, and that the products and the unpacking of each tier find them where rows were packed. */
#include "dispatch/dispatch.h"
#include "rng.h"
#include "target.h"
#include "test.h"

#include "simd/half_scalar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = FV_I8_CHANNELS, ROWS = 3, GROUPS = MOST / FV_I4_GROUP, LONG_ROW = 2 * MOST };

static const int64_t dims[] = {1, 2, 3, 8, 15, 16, 31, 32, 33, 40, 64, 80, 96, 127, 128, 200, 320, 1000, MOST};
enum { DIMS = sizeof dims / sizeof dims[0] };

/* ----------------------------------------------------------------------------------------------------- rotation -- */

/* As the header says it, in place. */
static void rotate_plainly(int64_t channels, bool up, float *x) {
    int64_t n = 1, m = 0;
    for (; channels % (2 * n) == 0; m++)
        n *= 2;
    for (int64_t first = 0; first < channels; first += n)
        for (int64_t h = 1; h < n; h *= 2)
            for (int64_t t = 0; t < n; t++) {
                float *const at = x + first + t;
                if (t & h)
                    continue;
                const float sum = at[0] + at[h], difference = at[0] - at[h];
                at[0] = sum;
                at[h] = difference;
            }
    for (int64_t t = 0; t < channels; t++)
        x[t] = ldexpf(x[t], -(int)((m + up) / 2));
}

static void test_rotation(rng *r) {
    static float x[ROWS * LONG_ROW], y[ROWS * LONG_ROW], want[MOST], k[MOST], q[MOST];
    for (int i = 0; i < DIMS; i++) {
        const int64_t n = dims[i], ld = n + 3;
        rng_fill_normal(r, x, ROWS * ld);
        for (int up = 0; up < 2; up++) {
            memset(y, 0x5a, sizeof y);
            fv_i4_rotate(ROWS, n, up, x, ld, y, ld + 1);
            for (int64_t row = 0; row < ROWS; row++) {
                float between;
                memcpy(want, x + row * ld, (size_t)n * sizeof *want);
                rotate_plainly(n, up, want);
                test_same(y + row * (ld + 1), want, n, "%lld channels, up %d, row %lld", (long long)n, up,
                          (long long)row);
                memset(&between, 0x5a, sizeof between);
                test_check(memcmp(y + row * (ld + 1) + n, &between, sizeof between) == 0,
                           "%lld channels: wrote behind a row", (long long)n);
            }
            fv_i4_rotate(ROWS, n, up, x, ld, x, ld);
            for (int64_t row = 0; row < ROWS; row++)
                test_same(x + row * ld, y + row * (ld + 1), n, "%lld channels, in place", (long long)n);
        }
        double plain = 0.0, rotated = 0.0;
        for (int64_t t = 0; t < n; t++) { /* so small that all is exact */
            k[t] = (float)rng_between(r, -8, 8);
            q[t] = (float)rng_between(r, -8, 8);
            plain += (double)q[t] * (double)k[t];
        }
        memcpy(x, k, (size_t)n * sizeof *x);
        fv_i4_rotate(1, n, 0, k, n, k, n);
        fv_i4_rotate(1, n, 1, q, n, q, n);
        for (int64_t t = 0; t < n; t++)
            rotated += (double)q[t] * (double)k[t];
        test_check(rotated == plain, "%lld channels: q.k is %g, rotated %g", (long long)n, plain, rotated);
        fv_i4_rotate(1, n, 1, k, n, k, n);
        for (int64_t t = 0; t < n; t++)
            test_check(k[t] == x[t], "%lld channels, there and back: %lld was %g, is %g", (long long)n, (long long)t,
                       (double)x[t], (double)k[t]);
    }
}

/* ----------------------------------------------------------------------------------------------------- integers -- */

/* The w of a channel, where the orders have it. */
static int integer_of(const uint32_t *words, fv_i4_order order, int64_t channels, int64_t t) {
    const uint8_t *bytes = (const uint8_t *)words;
    const int64_t half = 4 * fv_i4_words(FV_I4_VALUE, channels);
    const int64_t byte = order == FV_I4_KEY ? t / 8 * 4 + t % 4 : t % half;
    const bool upper = order == FV_I4_KEY ? t % 8 >= 4 : t >= half;
    return (bytes[byte] >> (upper ? 4 : 0) & 15) - 8;
}

/* A group by its definition, in float64 but for the scale and what multiplies x. */
static void check_group(const float *x, int64_t n, const int *w, uint16_t scale, const char *what) {
    float most = 0.0f;
    bool none = false;
    for (int64_t t = 0; t < n; t++) {
        none = none || isnan(x[t]);
        most = fmaxf(most, fabsf(x[t]));
    }
    const float wide = half_widen_f16(half_narrow_f16(most / 7.0f));
    none = none || isinf(wide);
    if (none)
        test_check(isnan(half_widen_f16(scale)), "%s: the scale is 0x%x, no NaN", what, scale);
    else
        test_check(half_widen_f16(scale) == wide, "%s: the scale is %g, not %g", what, (double)half_widen_f16(scale),
                   (double)wide);
    for (int64_t t = 0; t < n; t++) {
        const double exact = none || wide == 0.0f ? 0.0 : nearbyint((double)(x[t] * (1.0f / wide)));
        const int want = (int)fmin(fmax(exact, -7.0), 7.0);
        test_check(w[t] == want, "%s: w[%lld] of %a is %d, not %d", what, (long long)t, (double)x[t], w[t], want);
        if (!none && wide >= 0x1p-14f) /* no float16 of fewer digits: half a step, and what the scale was rounded by */
            test_check(fabs((double)x[t] - w[t] * (double)wide) <= wide * (0.5 + 7 * 0x1p-11 + 0x1p-20),
                       "%s: %a became %d of %a", what, (double)x[t], w[t], (double)wide);
    }
}

static void test_integers(rng *r) {
    static const float specials[] = {0.0f,       -0.0f,    0x1p-149f, 7 * 0x1p-26f, 7 * 0x1.01p-25f, 10.4f * 0x1p-24f,
                                     0x1.7p-16f, 65504.0f, 458528.0f, 458640.0f,    458752.0f,       0x1p127f,
                                     INFINITY,   NAN,      0.5f,      3.5f};
    for (int i = 0; i < DIMS; i++)
        for (int trial = 0; trial < 40; trial++) {
            const int64_t n = dims[i];
            const fv_i4_order order = trial % 2 ? FV_I4_VALUE : FV_I4_KEY;
            float x[MOST];
            uint32_t words[MOST / 8];
            uint16_t scales[2 * GROUPS];
            char what[80];
            rng_fill_normal(r, x, n);
            if (trial >= 2)
                x[rng_below(r, n)] = specials[trial / 2 % (int)(sizeof specials / sizeof specials[0])];
            for (int64_t t = 0; t < n && trial >= 30; t++) /* alone, with what is near 0 */
                x[t] = fabsf(x[t]) < 6.0f && t != trial % n ? x[t] * 0x1p-26f : x[t];
            fv_i4_pack(order, n, x, words, 1, scales, 2);
            for (int64_t g = 0; g < fv_i4_groups(n); g++) {
                int w[FV_I4_GROUP];
                const int64_t first = g * FV_I4_GROUP, count = n - first < FV_I4_GROUP ? n - first : FV_I4_GROUP;
                for (int64_t t = 0; t < count; t++)
                    w[t] = integer_of(words, order, n, first + t);
                snprintf(what, sizeof what, "%lld channels, trial %d, group %lld", (long long)n, trial, (long long)g);
                check_group(x + first, count, w, scales[2 * g], what);
            }
        }
}

/* --------------------------------------------------------------------------------------------- what kernels find -- */

typedef struct page {
    uint32_t keys[MOST / 8 * FV_I4_KEYS], values[FV_I4_KEYS * MOST / 8];
    uint16_t key_scales[GROUPS * FV_I4_KEYS], value_scales[GROUPS * FV_I4_KEYS];
    float scales[GROUPS * FV_I4_KEYS]; /* of keys, as products take them */
    float k[FV_I4_KEYS * MOST], v[FV_I4_KEYS * MOST];
} page;

static void fill_page(rng *r, int64_t n, page *p) {
    const int64_t words = fv_i4_words(FV_I4_VALUE, n);
    memset(p, 0xff, sizeof *p);
    rng_fill_normal(r, p->k, FV_I4_KEYS * n);
    rng_fill_normal(r, p->v, FV_I4_KEYS * n);
    for (int64_t key = 0; key < FV_I4_KEYS; key++) {
        fv_i4_pack(FV_I4_KEY, n, p->k + key * n, p->keys + key, FV_I4_KEYS, p->key_scales + key, FV_I4_KEYS);
        fv_i4_pack(FV_I4_VALUE, n, p->v + key * n, p->values + key * words, 1, p->value_scales + key, FV_I4_KEYS);
    }
    for (int64_t i = 0; i < fv_i4_groups(n) * FV_I4_KEYS; i++)
        p->scales[i] = half_widen_f16(p->key_scales[i]);
}

/* The score of a row of q and a key by the formulas; *away: the most that it may be away from q.k. */
static float score_of(const page *p, int64_t n, const float *q, int64_t key, double *away) {
    float acc = 0.0f;
    *away = 0.0;
    for (int64_t g = 0, first = 0; first < n; g++, first += FV_I4_GROUP) {
        const float scale = p->scales[g * FV_I4_KEYS + key];
        const int64_t count = n - first < FV_I4_GROUP ? n - first : FV_I4_GROUP;
        float top = 0.0f;
        int32_t sum = 0;
        double terms = 0.0;
        for (int64_t t = first; t < first + count; t++)
            top = fmaxf(top, fabsf(q[t]));
        const float q_scale = top / FV_I8_MOST;
        for (int64_t t = first; t < first + count; t++) {
            const uint32_t *words = p->keys + t / 8 * FV_I4_KEYS + key;
            const int w = integer_of(words, FV_I4_KEY, n, t % 8);
            sum += (int32_t)nearbyintf(q[t] * (FV_I8_MOST / top)) * w;
            terms += fabs((double)q[t]) * scale * (0.5 + 7 * 0x1p-11) + 0.5 * (double)q_scale * abs(w) * scale;
        }
        acc = fmaf((float)sum, scale * q_scale, acc);
        *away += terms * (1 + 0x1p-18) + 0x1p-20 * fabs((double)acc);
    }
    return acc;
}

static void test_scores(rng *r, const page *p, int64_t n, const fv_kernel *kernel) {
    static float q[FV_FEW_ROWS * MOST], c[FV_FEW_ROWS * FV_I4_KEYS];
    static uint32_t integers[FV_FEW_ROWS * (MOST + GROUPS * FV_GROUP_HEAD)];
    const int64_t words = fv_group_words(kernel->kind, n, FV_I4_GROUP), rows = rng_between(r, 1, FV_FEW_ROWS);
    const fv_operand keys = {.data = p->keys,
                             .scales = p->scales,
                             .columns = FV_I4_KEYS,
                             .steps = n,
                             .row = FV_I4_KEYS,
                             .width = FV_I4_KEYS,
                             .group = {.steps = FV_I4_GROUP},
                             .format = FV_FORMAT_i4g};
    rng_fill_normal(r, q, rows * n);
    fv_kernel_scalar(FV_OP_quantize, FV_TYPE_i8)
        ->run.quantize_i8(rows, n, FV_I4_GROUP, kernel->kind, FV_I8_MOST, q, n, integers);
    test_check(FV_I4_KEYS % kernel->nr == 0, "%s takes %d columns at once", kernel->name, kernel->nr);
    kernel->run.multiply(&(fv_rows){integers, rows, words}, &keys, c, FV_I4_KEYS, NULL, NULL);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t key = 0; key < FV_I4_KEYS; key++) {
            double exact = 0.0, away;
            const float got = c[i * FV_I4_KEYS + key], want = score_of(p, n, q + i * n, key, &away);
            test_check(memcmp(&got, &want, sizeof got) == 0, "%s, %lld channels: a score is %a, not %a", kernel->name,
                       (long long)n, (double)got, (double)want);
            for (int64_t t = 0; t < n; t++)
                exact += (double)q[i * n + t] * (double)p->k[key * n + t];
            test_check(fabs(exact - (double)got) <= away, "%s, %lld channels: a score is %g, q.k %g", kernel->name,
                       (long long)n, (double)got, exact);
        }
}

/* Values are words of a panel of one row of them, whose columns are those of all keys. */
static void test_values(rng *r, const page *p, int64_t n, const fv_kernel *kernel) {
    static uint32_t planes[2][FV_I4_KEYS * MOST / 8];
    const int64_t words = fv_i4_words(FV_I4_VALUE, n), columns = FV_I4_KEYS * words;
    const fv_operand values = {.data = p->values,
                               .scales = p->scales,
                               .columns = columns,
                               .steps = 8,
                               .row = columns,
                               .width = (int16_t)columns,
                               .group = {.steps = FV_I4_GROUP},
                               .format = FV_FORMAT_i4g};
    int64_t wrong = 0;
    (void)r;
    kernel->run.expand_i4(&values, planes[0], FV_I4_KEYS * MOST / 8);
    for (int64_t key = 0; key < FV_I4_KEYS; key++)
        for (int64_t t = 0; t < n; t++) {
            const int8_t *plane = (const int8_t *)planes[t / (4 * words)] + key * 4 * words;
            wrong += plane[t % (4 * words)] != integer_of(p->values + key * words, FV_I4_VALUE, n, t);
        }
    test_check(wrong == 0, "%s, %lld channels: %lld values are wrong", kernel->name, (long long)n, (long long)wrong);
}

int main(int argc, char **argv) {
    static page p;
    test_begin(argc, argv, "int4", NULL);
    rng r = rng_stream(test_seed(), "rows");
    test_rotation(&r);
    test_integers(&r);
    for (int k = 0; k < fv_kernel_count; k++) {
        const fv_kernel *kernel = &fv_kernels[k];
        const bool scores = kernel->op == FV_OP_multiply && kernel->format == FV_FORMAT_i4g && kernel->few;
        const bool values = kernel->op == FV_OP_expand && kernel->type == FV_TYPE_i4;
        if ((!scores && !values) || !test_runs(kernel))
            continue;
        for (int i = 0; i < DIMS; i++) {
            fill_page(&r, dims[i], &p);
            (scores ? test_scores : test_values)(&r, &p, dims[i], kernel);
        }
    }
    return test_end();
}

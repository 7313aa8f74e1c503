/* normalize: root mean square norm and layer norm of rows (kernels.h has the contract).
 *
 * Bound: one read of a row from memory, two or three of it from the first-level cache, and one store. Sums go through
 * as many vectors as hold FV_LANES lanes, so a row is a chain of n / FV_LANES operations: short compared with the
 * products about it. */
#include "near_one.h"

#include <math.h>
#include <stdbool.h>

enum { NORMALIZE_GROUP = FV_LANES / FV_W };

/* The first left elements, and zeros. */
static inline vf normalize_load(const float *x, int64_t left) {
    return left >= FV_W ? v_load(x) : left > 0 ? v_load_n(x, left) : v_set1(0.0f);
}

static inline float normalize_tree(const vf *acc) {
    float lane[FV_LANES];
    for (int g = 0; g < NORMALIZE_GROUP; g++)
        v_store(lane + g * FV_W, acc[g]);
    for (int half = FV_LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++)
            lane[j] += lane[j + half];
    return lane[0];
}

static inline float normalize_sum(int64_t n, const float *x) {
    vf acc[NORMALIZE_GROUP];
    for (int g = 0; g < NORMALIZE_GROUP; g++)
        acc[g] = v_set1(0.0f);
    for (int64_t j = 0; j < n; j += FV_LANES)
        for (int g = 0; g < NORMALIZE_GROUP; g++)
            acc[g] = v_add(acc[g], normalize_load(x + j + g * FV_W, n - j - g * FV_W));
    return normalize_tree(acc);
}

/* The sum of (x - mean)^2; past the end nothing is added. */
static inline float normalize_squares(int64_t n, const float *x, vf mean) {
    vf acc[NORMALIZE_GROUP];
    for (int g = 0; g < NORMALIZE_GROUP; g++)
        acc[g] = v_set1(0.0f);
    for (int64_t j = 0; j < n; j += FV_LANES)
        for (int g = 0; g < NORMALIZE_GROUP; g++) {
            const int64_t left = n - j - g * FV_W;
            vf d = v_sub(normalize_load(x + j + g * FV_W, left), mean);
            if (left < FV_W) {
                float named[FV_W] = {0};
                if (left > 0)
                    v_store_n(named, left, d);
                d = v_load(named);
            }
            acc[g] = v_fma(d, d, acc[g]);
        }
    return normalize_tree(acc);
}

/* Brings a row near 1, into y. Returns the eps that goes with it. */
static float normalize_again(int64_t n, const float *x, float eps, float *y) {
    const float factor = fv_near_one(fv_largest(n, x, sqrtf(eps)));
    for (int64_t j = 0; j < n; j++)
        y[j] = x[j] * factor;
    const float near = eps * factor * factor;
    return eps > 0.0f && near < FLT_MIN ? FLT_MIN : near; /* that keeps rows of one number 0 */
}

static inline void normalize_row(int64_t n, const float *x, const fv_normalize *args, float *y) {
    const float count = (float)n;
    float eps = args->eps, squares, variance;
    vf mean;
    for (bool again = false;; again = true) {
        mean = v_set1(args->centre ? normalize_sum(n, x) / count : 0.0f);
        squares = normalize_squares(n, x, mean);
        variance = squares / count + eps;
        if (again || (squares < FLT_MAX && variance >= 0x1p-96f && variance < FLT_MAX))
            break;
        eps = normalize_again(n, x, eps, y);
        x = y;
    }
    const vf factor = v_set1(1.0f / sqrtf(variance));
    for (int64_t j = 0; j < n; j += FV_W) {
        const int64_t left = n - j;
        vf t = v_mul(v_sub(normalize_load(x + j, left), mean), factor);
        if (args->weight && args->bias)
            t = v_fma(t, normalize_load(args->weight + j, left), normalize_load(args->bias + j, left));
        else if (args->weight)
            t = v_mul(t, normalize_load(args->weight + j, left));
        else if (args->bias)
            t = v_add(t, normalize_load(args->bias + j, left));
        t = v_select(v_nan(t), v_set1(NAN), t);
        if (left < FV_W)
            v_store_n(y + j, left, t);
        else
            v_store(y + j, t);
    }
}

void FV_NAME(int64_t rows, int64_t n, const float *x, int64_t ldx, const fv_normalize *args, float *y, int64_t ldy) {
    assert(rows >= 0 && n >= 1 && ldx >= 0);
    assert(rows <= 1 || ldy >= n);
    assert(x != y || ldx == ldy || rows <= 1);
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy)
        normalize_row(n, x, args, y);
}

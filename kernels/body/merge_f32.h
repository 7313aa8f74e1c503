/* merge: the results m, l of a segment into the running M, L of its rows, FV_W rows at once, and the factors a, b by
 * which the row's old and new output are weighed (kernels.h has the formulas). */
#include "v_exp.h"

/* exp(x - row_max), where 0 stands for a row_max of -inf, so that a row without keys gives 0 and not NaN. exp(0) is 1
 * in any rounding mode, so that to merge the first segment, or one without keys, changes no bit: whether it is done is
 * up to blocks and threads. */
static inline vf merge_factor(vf x, vf row_max) {
    const vf less = v_sub(x, v_select(v_eq(row_max, v_set1(-INFINITY)), v_set1(0.0f), row_max));
    return v_select(v_eq(less, v_set1(0.0f)), v_set1(1.0f), v_exp(less));
}

static inline vf merge_load(const float *p, int64_t n) { return n < FV_W ? v_load_n(p, n) : v_load(p); }

static inline void merge_store(float *p, int64_t n, vf x) {
    if (n < FV_W)
        v_store_n(p, n, x);
    else
        v_store(p, x);
}

void FV_NAME(int64_t rows, const float *m, const float *l, float *M, float *L, float *a, float *b) {
    assert(rows >= 0 && M != m && L != l && a != b);
    for (int64_t i = 0; i < rows; i += FV_W) {
        const int64_t n = rows - i;
        const vf old = merge_load(M + i, n), new = merge_load(m + i, n), row_max = v_max(old, new);
        const vf factor_old = merge_factor(old, row_max), factor_new = merge_factor(new, row_max);
        const vf sum = v_fma(merge_load(L + i, n), factor_old, v_mul(merge_load(l + i, n), factor_new));
        merge_store(M + i, n, row_max);
        merge_store(L + i, n, sum);
        merge_store(a + i, n, factor_old);
        merge_store(b + i, n, factor_new);
    }
}

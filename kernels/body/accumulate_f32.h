/* accumulate: O = O a + o b row by row, for rows that were split over segments (kernels.h has the contract). */
void FV_NAME(int64_t rows, int64_t n, const float *o, int64_t ldo, const float *a, const float *b, float *O,
             int64_t ldO) {
    assert(rows >= 0 && n >= 0 && ldo >= 0);
    assert(rows <= 1 || ldO >= n);
    for (int64_t i = 0; i < rows; i++, o += ldo, O += ldO) {
        const vf factor_old = v_set1(a[i]), factor_new = v_set1(b[i]);
        int64_t j = 0;
        for (; j + FV_W <= n; j += FV_W)
            v_store(O + j, v_fma(v_load(O + j), factor_old, v_mul(v_load(o + j), factor_new)));
        if (j < n)
            v_store_n(O + j, n - j,
                      v_fma(v_load_n(O + j, n - j), factor_old, v_mul(v_load_n(o + j, n - j), factor_new)));
    }
}

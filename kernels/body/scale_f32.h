/* scale: rows times a factor into rows (kernels.h has the contract). */
void FV_NAME(int64_t rows, int64_t n, float factor, const float *x, int64_t ldx, float *y, int64_t ldy) {
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= n);
    const vf f = v_set1(factor);
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy) {
        int64_t j = 0;
        for (; j + FV_W <= n; j += FV_W)
            v_store(y + j, v_mul(v_load(x + j), f));
        if (j < n)
            v_store_n(y + j, n - j, v_mul(v_load_n(x + j, n - j), f));
    }
}

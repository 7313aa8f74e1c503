/* copy: rows into rows, bit by bit (kernels.h has the contract). Bound: a load and a store a vector. */
void FV_NAME(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy) {
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= n);
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy) {
        int64_t j = 0;
        for (; j + FV_W <= n; j += FV_W)
            v_store(y + j, v_load(x + j));
        if (j < n)
            v_store_n(y + j, n - j, v_load_n(x + j, n - j));
    }
}

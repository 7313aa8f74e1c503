/* widen: elements of 16 bits become floats (kernels.h has the contract). FV_WIDEN, FV_WIDEN_N: the words of the type.
 * Bound: a load of half a vector and a store of a whole one. */
void FV_NAME(int64_t rows, int64_t n, const uint16_t *x, int64_t ldx, float *y, int64_t ldy) {
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= n);
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy) {
        int64_t j = 0;
        for (; j + FV_W <= n; j += FV_W)
            v_store(y + j, FV_WIDEN(x + j));
        if (j < n)
            v_store_n(y + j, n - j, FV_WIDEN_N(x + j, n - j));
    }
}

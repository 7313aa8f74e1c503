/* narrow: floats become elements of 16 bits (kernels.h has the contract). FV_NARROW, FV_NARROW_N: the words of the
 * type. Bound: a load of a vector and a store of half a one. */
void FV_NAME(int64_t rows, int64_t n, const float *x, int64_t ldx, uint16_t *y, int64_t ldy) {
    assert(rows >= 0 && n >= 0 && ldx >= 0);
    assert(rows <= 1 || ldy >= n);
    for (int64_t i = 0; i < rows; i++, x += ldx, y += ldy) {
        int64_t j = 0;
        for (; j + FV_W <= n; j += FV_W)
            FV_NARROW(y + j, v_load(x + j));
        if (j < n)
            FV_NARROW_N(y + j, n - j, v_load_n(x + j, n - j));
    }
}

/* from_pairs: words of pairs become two rows of floats (kernels.h has the contract). Bound: two stores for a load. */
void FV_NAME(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy) {
    assert(rows >= 0 && n >= 0 && (n % FV_LANES == 0 || FV_W == 1) && ldx >= 0);
    assert(rows == 0 || ldy >= n);
    for (int64_t i = 0; i < rows; i++, x += ldx, y += 2 * ldy)
        for (int64_t j = 0; j < n; j += FV_W) {
            v_store(y + j, v_pair_first(x + j));
            v_store(y + ldy + j, v_pair_second(x + j));
        }
}

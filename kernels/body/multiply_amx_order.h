/* The inner loop of products in amx order: multiply_tile.h includes it (FV_TILE_STEPS).
 *
 * The chains of even and of odd steps are in registers, FV_MR * FV_NR / FV_W vectors each, so a tile is half as high as
 * that of the float product; the sums over blocks are in memory meanwhile, which costs a load, an addition and a store
 * for 32 multiply-adds. */
#define FV_FEW_WIDTHS

FV_ALWAYS_INLINE void blocks_step(vf chain[FV_MR][NV], const float *a, int64_t lda, const float *b, int64_t left,
                                  const int mr, const int nv, const int part) {
    vf y[NV];
    for (int j = 0; j < nv; j++)
        y[j] = multiply_load(b + j * FV_W, left, j == nv - 1, part);
    for (int i = 0; i < mr; i++) {
        const vf x = v_set1(a[i * lda]);
        for (int j = 0; j < nv; j++)
            chain[i][j] = FV_ACCUMULATE(x, y[j], chain[i][j]);
    }
}

FV_ALWAYS_INLINE void multiply_chain(vf acc[FV_MR][NV], const multiply_tiles *t, const int mr, const int nv,
                                     const int part) {
    const int64_t left = multiply_left(t->n), lda = t->lda, ldb = t->ldb;
    const float *a = t->a, *b = t->b;
    for (int64_t k = 0; k < t->k; k += FV_BLOCK) {
        const int64_t end = t->k - k < FV_BLOCK ? t->k : k + FV_BLOCK;
        vf even[FV_MR][NV], odd[FV_MR][NV];
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nv; j++)
                even[i][j] = odd[i][j] = v_set1(0.0f);
        int64_t p = k;
        for (; p + 2 <= end; p += 2, b += 2 * ldb) {
            blocks_step(even, a + p, lda, b, left, mr, nv, part);
            blocks_step(odd, a + p + 1, lda, b + ldb, left, mr, nv, part);
        }
        if (p < end)
            blocks_step(even, a + p, lda, b, left, mr, nv, part);
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nv; j++)
                acc[i][j] = v_add(acc[i][j], v_add(even[i][j], odd[i][j]));
    }
}

/* The inner loop of products of many rows on neon: body/multiply_tile.h includes it (FV_TILE_STEPS).
 *
 * A multiply-add here can take one lane of a vector as its factor. So four steps of k of a row of A are one load, where
 * the body would load and broadcast four times, and a load that broadcasts takes a slot of the very units that multiply
 * (Neoverse, Cortex-A76: "ld1r" is a load and a vector operation: 24 of 30 slots would be left for multiply-adds). A
 * vector of B is used by all rows as soon as it is there, so that one or two are alive with mr * nv accumulators and
 * mr vectors of A: 6 x 16 is 24 + 6 of 32 registers. Where that does not fit (8 x 12), rows are taken in two halves,
 * and B is loaded for each.
 *
 * Measured on no hardware, modelled by llvm-mca (make mca). gcc's scheduling before registers are given out
 * (-fschedule-insns) would load all of B first and spill; cmake/FoveaCompile.cmake turns it off.
 */
FV_ALWAYS_INLINE vf multiply_fma_lane(vf x, vf y, vf acc, const int lane) {
    switch (lane) {
    case 0: return vfmaq_laneq_f32(acc, y, x, 0);
    case 1: return vfmaq_laneq_f32(acc, y, x, 1);
    case 2: return vfmaq_laneq_f32(acc, y, x, 2);
    default: return vfmaq_laneq_f32(acc, y, x, 3);
    }
}

/* One step of k for rows rows. x[i] holds the factor of row i in that lane. */
FV_ALWAYS_INLINE void multiply_step(vf acc[][NV], const vf x[], const float *b, int64_t left, const int rows,
                                    const int nv, const int part, const int lane) {
    for (int j = 0; j < nv; j++) {
        const vf y = multiply_load(b + j * FV_W, left, j == nv - 1, part);
        for (int i = 0; i < rows; i++)
            acc[i][j] = multiply_fma_lane(x[i], y, acc[i][j], lane);
    }
}

/* Four steps of k for rows rows. */
FV_ALWAYS_INLINE void multiply_steps(vf acc[][NV], const float *a, int64_t lda, const float *b, int64_t ldb,
                                     int64_t left, const int rows, const int nv, const int part) {
    vf x[FV_MR];
    for (int i = 0; i < rows; i++)
        x[i] = v_load(a + i * lda);
    multiply_step(acc, x, b, left, rows, nv, part, 0);
    multiply_step(acc, x, b + ldb, left, rows, nv, part, 1);
    multiply_step(acc, x, b + 2 * ldb, left, rows, nv, part, 2);
    multiply_step(acc, x, b + 3 * ldb, left, rows, nv, part, 3);
}

FV_ALWAYS_INLINE void multiply_chain(vf acc[FV_MR][NV], const multiply_tiles *t, const int mr, const int nv,
                                     const int part) {
    const int64_t k = t->k, lda = t->lda, ldb = t->ldb, left = t->n % FV_W;
    const int upper = mr * nv + mr + 2 <= 32 ? mr : mr / 2;
    const float *a = t->a, *b = t->b;
    int64_t p = 0; /* hardware fetches ahead well enough, as far as is known: nothing was measured here */
    for (; p + 4 <= k; p += 4, b += 4 * ldb) {
        multiply_steps(acc, a + p, lda, b, ldb, left, upper, nv, part);
        if (upper < mr) {
            __asm__ volatile("" : : : "memory"); /* or compilers would keep B for the other half, and spill */
            multiply_steps(acc + upper, a + upper * lda + p, lda, b, ldb, left, mr - upper, nv, part);
        }
    }
    for (; p < k; p++, b += ldb) {
        vf x[FV_MR];
        for (int i = 0; i < mr; i++)
            x[i] = vsetq_lane_f32(a[i * lda + p], v_set1(0.0f), 0);
        multiply_step(acc, x, b, left, mr, nv, part, 0);
    }
}

/* The inner loop of products of words of two elements of 16 bits on neon: body/multiply_tile.h includes it
 * (FV_TILE_STEPS). As multiply_lanes.h, but a load has four words of a row of A, that is, eight steps of the chain, and
 * a vector of B the words of four columns. The instructions multiply by one element of A and widen as they multiply: as
 * many products a cycle as of floats, from half the bytes, and exactly the chain of float32, subnormal numbers too.
 *
 * The including file names them: pairs_first(acc, y, x, word) and pairs_second(), statements, word a constant, which
 * change acc. Elements come from the lower 16 registers only: rows of A are there.
 */
FV_ALWAYS_INLINE vf multiply_pairs_first(vf acc, vf y, vf x, const int word) {
    switch (word) {
    case 0: pairs_first(acc, y, x, 0); break;
    case 1: pairs_first(acc, y, x, 1); break;
    case 2: pairs_first(acc, y, x, 2); break;
    default: pairs_first(acc, y, x, 3); break;
    }
    return acc;
}

FV_ALWAYS_INLINE vf multiply_pairs_second(vf acc, vf y, vf x, const int word) {
    switch (word) {
    case 0: pairs_second(acc, y, x, 0); break;
    case 1: pairs_second(acc, y, x, 1); break;
    case 2: pairs_second(acc, y, x, 2); break;
    default: pairs_second(acc, y, x, 3); break;
    }
    return acc;
}

/* One word of each row. */
FV_ALWAYS_INLINE void multiply_step(vf acc[][NV], const vf x[], const float *b, int64_t left, const int mr,
                                    const int nv, const int part, const int word) {
    for (int j = 0; j < nv; j++) {
        const vf y = multiply_load(b + j * FV_W, left, j == nv - 1, part);
        for (int i = 0; i < mr; i++)
            acc[i][j] = multiply_pairs_first(acc[i][j], y, x[i], word);
        for (int i = 0; i < mr; i++)
            acc[i][j] = multiply_pairs_second(acc[i][j], y, x[i], word);
    }
}

FV_ALWAYS_INLINE void multiply_chain(vf acc[FV_MR][NV], const multiply_tiles *t, const int mr, const int nv,
                                     const int part) {
    const int64_t k = t->k, lda = t->lda, ldb = t->ldb, left = multiply_left(t->n);
    const float *a = t->a, *b = t->b;
    int64_t p = 0;
    vf x[FV_MR];
    for (; p + 4 <= k; p += 4, b += 4 * ldb) {
        for (int i = 0; i < mr; i++)
            x[i] = v_load(a + i * lda + p);
        multiply_step(acc, x, b, left, mr, nv, part, 0);
        multiply_step(acc, x, b + ldb, left, mr, nv, part, 1);
        multiply_step(acc, x, b + 2 * ldb, left, mr, nv, part, 2);
        multiply_step(acc, x, b + 3 * ldb, left, mr, nv, part, 3);
    }
    for (; p < k; p++, b += ldb) {
        for (int i = 0; i < mr; i++)
            x[i] = v_set1(a[i * lda + p]);
        multiply_step(acc, x, b, left, mr, nv, part, 0);
    }
}

/* gemm: the micro-kernel of scores and values, a register tile of FV_MR rows by FV_NR columns (kernels.h has the
 * contract).
 *
 * Instantiated by a file that includes a vocabulary header, defines FV_MR, FV_NR (a multiple of FV_W) and FV_NAME, and
 * then includes this. The tile is an array of vectors that the compiler keeps in registers, as its size is a constant
 * in each case of the switch below: FV_MR * FV_NR / FV_W accumulators, FV_NR / FV_W vectors of B, and a broadcast of A
 * (from memory where the tier can).
 *
 * The bound is the FMA units: per step of k a full tile does mr * nr / W multiply-adds for mr + nr / W loads. Every
 * height up to FV_MR and width up to FV_NR has its own case, so an edge costs its own work; rows are dealt evenly to
 * tiles (20 rows by 14 are 10 + 10, not 14 + 6), so that no tile is too small to hide the latency of the FMA.
 *
 * Measured on AMD Zen 5 (fovea-bench --filter kernel/gemm, k = 64 as in scores of 64 channels): 6x64 on AVX-512 92% of
 * the FMA peak, 3x32 on AVX2 95%, the others 86% to 93%; what is missing is a tile's beginning and end, and at k = 256
 * (values) 96% to 97% were reached. Weights of 768 x 768 that come from beyond the second-level cache (Intel family 6
 * model 207): fetching ahead makes 8 rows 18% faster, 32 rows 4%, 512 rows 1%; at k = 64 it costs 3%. Tried and lost:
 * two and four steps of k unrolled (0 to -10%); a call for each tile instead of for each run of equal tiles (-4%).
 */
#ifndef FV_ALWAYS_INLINE
#define FV_ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

enum { NV = FV_NR / FV_W };

/* B of a chain this long (a projection's) comes from farther than the first-level cache, and is asked for so many steps
 * before it is needed. Shorter ones lose by it. */
enum { GEMM_LONG = 384, GEMM_AHEAD = 16 };

/* Tiles of the same height, one below the other. */
typedef struct gemm_tiles {
    int64_t count, n, k, lda, ldb, ldc;
    const float *a, *b;
    float *c;
    const float *merge_a, *merge_b; /* of the first row; merge_b NULL: store */
    int carry;                      /* the chains begin with c */
    int64_t ahead;                  /* how far from what is multiplied b is fetched; 0: it is near already */
} gemm_tiles;

/* part: the last vector of a row has only n % FV_W columns. */
FV_ALWAYS_INLINE vf gemm_load(const float *p, int64_t n, int last, int part) {
    return part && last ? v_load_n(p, n) : v_load(p);
}

FV_ALWAYS_INLINE void gemm_store(float *p, int64_t n, int last, int part, vf x) {
    if (part && last)
        v_store_n(p, n, x);
    else
        v_store(p, x);
}

/* acc += A B for one tile; FV_GEMM_MULTIPLY names a file that does it otherwise. */
#ifdef FV_GEMM_MULTIPLY
#include FV_GEMM_MULTIPLY
#else
FV_ALWAYS_INLINE void gemm_multiply(vf acc[FV_MR][NV], const float *a, const gemm_tiles *t, const int mr, const int nv,
                                    const int part) {
    const int64_t k = t->k, lda = t->lda, ldb = t->ldb, left = t->n % FV_W;
    const float *b = t->b;
    for (int64_t p = 0; p < k; p++, b += ldb) {
        vf row[NV];
        for (int j = 0; j < nv && t->ahead; j++)
            __builtin_prefetch(b + t->ahead + j * FV_W, 0, 3);
        for (int j = 0; j < nv; j++)
            row[j] = gemm_load(b + j * FV_W, left, j == nv - 1, part);
        for (int i = 0; i < mr; i++) {
            const vf x = v_set1(a[i * lda + p]);
            for (int j = 0; j < nv; j++)
                acc[i][j] = v_fma(x, row[j], acc[i][j]);
        }
    }
}
#endif

FV_ALWAYS_INLINE void gemm_run(const gemm_tiles *t, const int mr, const int nv, const int part) {
    const int64_t ldc = t->ldc, left = t->n % FV_W;
    const float *a = t->a, *merge_a = t->merge_a, *merge_b = t->merge_b;
    float *c = t->c;
    for (int64_t tile = 0; tile < t->count; tile++, a += mr * t->lda, c += mr * ldc) {
        vf acc[FV_MR][NV];
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nv; j++)
                acc[i][j] = v_set1(0.0f);
        if (t->carry)
            for (int i = 0; i < mr; i++)
                for (int j = 0; j < nv; j++)
                    acc[i][j] = gemm_load(c + i * ldc + j * FV_W, left, j == nv - 1, part);
        gemm_multiply(acc, a, t, mr, nv, part);
        if (merge_b) {
            for (int i = 0; i < mr; i++)
                for (int j = 0; j < nv; j++)
                    acc[i][j] = v_mul(acc[i][j], v_set1(merge_b[i]));
            merge_b += mr;
        }
        if (merge_a) {
            for (int i = 0; i < mr; i++)
                for (int j = 0; j < nv; j++) {
                    const vf old = gemm_load(c + i * ldc + j * FV_W, left, j == nv - 1, part);
                    acc[i][j] = v_fma(old, v_set1(merge_a[i]), acc[i][j]);
                }
            merge_a += mr;
        }
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nv; j++)
                gemm_store(c + i * ldc + j * FV_W, left, j == nv - 1, part, acc[i][j]);
    }
}

FV_ALWAYS_INLINE void gemm_width(const gemm_tiles *t, const int mr) {
    const int nv = (int)((t->n + FV_W - 1) / FV_W), part = t->n % FV_W != 0;
    switch (part ? -nv : nv) {
    case 1: gemm_run(t, mr, 1, 0); break;
    case -1: gemm_run(t, mr, 1, 1); break;
#if FV_NR >= 2 * FV_W
    case 2: gemm_run(t, mr, 2, 0); break;
    case -2: gemm_run(t, mr, 2, 1); break;
#endif
#if FV_NR >= 3 * FV_W
    case 3: gemm_run(t, mr, 3, 0); break;
    case -3: gemm_run(t, mr, 3, 1); break;
#endif
#if FV_NR >= 4 * FV_W
    case 4: gemm_run(t, mr, 4, 0); break;
    case -4: gemm_run(t, mr, 4, 1); break;
#endif
#if FV_NR >= 5 * FV_W
    case 5: gemm_run(t, mr, 5, 0); break;
    case -5: gemm_run(t, mr, 5, 1); break;
    case 6: gemm_run(t, mr, 6, 0); break;
    case -6: gemm_run(t, mr, 6, 1); break;
#endif
    default: break;
    }
}

static void gemm_height(const gemm_tiles *t, int64_t rows) {
    switch (rows) {
    case 1: gemm_width(t, 1); break;
#if FV_MR >= 2
    case 2: gemm_width(t, 2); break;
#endif
#if FV_MR >= 3
    case 3: gemm_width(t, 3); break;
#endif
#if FV_MR >= 4
    case 4: gemm_width(t, 4); break;
#endif
#if FV_MR >= 5
    case 5: gemm_width(t, 5); break;
    case 6: gemm_width(t, 6); break;
#endif
#if FV_MR >= 7
    case 7: gemm_width(t, 7); break;
    case 8: gemm_width(t, 8); break;
#endif
#if FV_MR >= 9
    case 9: gemm_width(t, 9); break;
    case 10: gemm_width(t, 10); break;
    case 11: gemm_width(t, 11); break;
    case 12: gemm_width(t, 12); break;
#endif
#if FV_MR >= 13
    case 13: gemm_width(t, 13); break;
    case 14: gemm_width(t, 14); break;
#endif
    default: break;
    }
}

void FV_NAME(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
             int64_t ldc, const fv_merge *merge) {
    const int64_t tiles = (m + FV_MR - 1) / FV_MR, low = m / tiles,
                  higher = m % tiles; /* that many tiles have a row more */
    for (int64_t j = 0; j < n; j += FV_NR) {
        gemm_tiles t = {higher, n - j < FV_NR ? n - j : FV_NR,        k, lda, ldb, ldc, a, b + j, c + j, NULL, NULL,
                        0,      k >= GEMM_LONG ? GEMM_AHEAD * ldb : 0};
        if (merge) {
            t.merge_a = merge->a;
            t.merge_b = merge->b;
            t.carry = !merge->b;
        }
        if (higher > 0)
            gemm_height(&t, low + 1);
        const int64_t done = higher * (low + 1);
        t.count = tiles - higher;
        t.a += done * lda;
        t.c += done * ldc;
        t.merge_a = t.merge_a ? t.merge_a + done : NULL;
        t.merge_b = t.merge_b ? t.merge_b + done : NULL;
        gemm_height(&t, low);
    }
}

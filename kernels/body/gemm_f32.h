/* gemm: the micro-kernel of scores and values, a register tile of FV_MR rows by FV_NR columns (kernels.h has the
 * contract).
 *
 * Instantiated by a file that includes a vocabulary header, defines FV_MR, FV_NR (a multiple of FV_W) and FV_NAME, and
 * then includes this. The tile is an array of vectors that the compiler keeps in registers, as its size is a constant
 * in each case of the switch below: FV_MR * FV_NR / FV_W accumulators, the vectors of a step of B or the broadcasts of
 * a step of A, whichever are fewer, and one of the other.
 *
 * The bound is the FMA units: per step of k a full tile does mr * nr / W multiply-adds for mr + nr / W loads. Every
 * height up to FV_MR and width up to FV_NR has its own case, so an edge costs its own work; rows are dealt evenly to
 * tiles (20 rows by 14 are 10 + 10, not 14 + 6), so that no tile is too small to hide the latency of the FMA.
 *
 * As many ports of a core compute addresses as multiply, or the same ones do, and a core that another hardware thread
 * shares issues half as much: so of what is not a multiply-add there is as little as can be, by addresses that the
 * instructions form themselves, UNROLL steps of k a branch, and accumulators that stay where they are (v_accumulate).
 *
 * Measured on Intel family 6 model 207 (FMA peak 179 GF/s, AVX2 89; 24 rows, operands in the first-level cache): 6x64
 * on AVX-512 98% of the peak at k = 64 (scores of 64 channels) and at k = 256 (values, merged), 8x48 96%, 12x32 95% and
 * 98%; 6x16 on AVX2 97% and 98%, 3x32 97% and 99%; what is missing is a tile's beginning and end. Weights of 768 x 768
 * from beyond the second-level cache, the next panel fetched meanwhile: 8x48 94% with 32 rows and more, 82% with 8,
 * where memory is the bound. Tried and lost: a pointer for each row (94%, gcc 12 keeps those that find no register
 * in vectors); two steps of k a branch (values of 64 channels -0.8% on AVX-512, where code was a third shorter); a call
 * for each tile instead of for each run of equal tiles (-4%); fetching for each tile what another has just read (-6%);
 * B that streams fetched 16 steps ahead whatever its width (1 to 5 rows of 4096 x 4096 on AVX2, panels of 16 columns:
 * -12% to -24%).
 *
 * On AMD family 25 model 17 (FMA peak 118 GF/s) a 6x64 tile of AVX-512 takes 55 to 64 cycles more than its products, 80
 * to 90 where the lines that it writes are not in the first-level cache, whatever k is: 95.5% of the peak at k = 64.
 * Without its 24 stores it takes none; one alone takes 2.5 cycles. Lost there: lines fetched for writing when the tile
 * begins (-1%), stores of half the width (-4%), the last four steps of k two rows at a time, each pair stored as soon
 * as it is done (half of it hidden with everything in the first-level cache, but 2048 x 64 1.01, causal 1.00, 12 x 512
 * x 64 1.00, causal 0.98, linear maps 0.99, AVX2 0.97).
 *
 * The maxima of its rows, which softmax needs, a tile takes from its accumulators: on AMD family 26 model 2 (AVX-512, k
 * = 64, 144 rows) that is 0.5% of the time of scores, where beside the exp of softmax they took 1.8%. How the code of a
 * tile ends matters as much: a case for columns of which not all count made scores 1.3% slower even where nobody asked
 * for maxima.
 *
 * B that streams comes to the second-level cache first, as the first one waits for fewer lines at once: on AMD family
 * 25 model 17, AVX-512, decoding from memory became 1.5 times as fast, 4 x 4096 x 4096 1.3 times, while 1 x 768 x 768
 * from the third level takes 7% longer (fovea-bench --case "linear m=4 n=4096 k=4096"). How much sooner was measured
 * there, too: 2048 floats before are 1.05 to 1.09 times as fast as 16 steps for 4 rows on AVX2, 1.17 to 1.47 for 5 and
 * 6, 1.03 to 1.25 for 7 and 8 on AVX-512, and 0.83 to 0.96 for fewer.
 */
#include "ahead.h"

#ifndef FV_ALWAYS_INLINE
#define FV_ALWAYS_INLINE static inline __attribute__((always_inline))
#endif

enum {
    NV = FV_NR / FV_W,
    UNROLL = FV_W >= 8 ? 4 : 2, /* steps of k for each branch */
    LINE = 16,                  /* floats of a cache line */
    LINE_VECTORS = LINE / FV_W, /* (of at most that many floats) */
    STREAM_STEPS = 16,          /* at least so many steps of k is a line fetched before a tile needs it, */
    STREAM_FLOATS = 2048,       /* and so many floats of B: a step of a narrow panel is soon over; */
    FAR_STEPS = 16,             /* and so many steps before that into the second-level cache, */
    FAR_FLOATS = 2048,          /* and so many floats, where a line takes */
    FAR_WORK = 7                /* so many multiply-adds */
};

/* Tiles of the same height, one below the other. */
typedef struct gemm_tiles {
    int64_t count, n, k, lda, ldb, ldc;
    const float *a, *b;
    float *c;
    const float *merge_a, *merge_b; /* of the first row; merge_b NULL: store */
    int carry;                      /* the chains begin with c */
    float *highest;                 /* of the first row; NULL: nobody asks for maxima */
    int raise;                      /* they go on from what is there */
    const float *next, *next_end;   /* brought nearer meanwhile; next NULL: nothing is */
    int64_t pace;                   /* lines of it in UNROLL steps of k */
    const float *near;              /* what a tile needs itself a few steps on; NULL: it comes without being fetched */
    int64_t far;                    /* so many floats further on it comes to the second-level cache; 0: it is there */
} gemm_tiles;

/* How many columns the last vector of a row has: FV_W, n % FV_W, or FV_W / 2, which half a vector multiplies. Where
 * units are half as wide as vectors that takes half the time: values of 40 channels (2.5 vectors) are 1.2 times as fast
 * on AMD family 25 model 17, attention of 16 x 500 x 40 1.09 times, of 72 channels 1.04, of 24 and of 8 1.09. */
enum { WHOLE, PART, HALF };

FV_ALWAYS_INLINE vf gemm_load(const float *p, int64_t n, int last, int part) {
#if FV_HALVES
    if (part == HALF && last)
        return v_load_half(p);
#endif
    return part == PART && last ? v_load_n(p, n) : v_load(p);
}

FV_ALWAYS_INLINE void gemm_store(float *p, int64_t n, int last, int part, vf x) {
#if FV_HALVES
    if (part == HALF && last) {
        v_store_half(p, x);
        return;
    }
#endif
    if (part == PART && last)
        v_store_n(p, n, x);
    else
        v_store(p, x);
}

FV_ALWAYS_INLINE vf gemm_accumulate(vf a, vf b, vf acc, int last, int part) {
#if FV_HALVES
    if (part == HALF && last)
        return v_accumulate_half(a, b, acc);
#endif
    (void)last, (void)part;
    return v_accumulate(a, b, acc);
}

/* A stride that the compiler knows nothing about. It would keep each of the addresses derived from it in a register of
 * its own, or in a vector register where there are no more, from which they come back through a port that multiplies.
 */
FV_ALWAYS_INLINE int64_t gemm_opaque(int64_t stride) {
    __asm__("" : "+r"(stride));
    return stride;
}

/* acc += A B for one tile; FV_GEMM_MULTIPLY names a file that does it otherwise. */
#ifdef FV_GEMM_MULTIPLY
#include FV_GEMM_MULTIPLY
#else
enum { GROUP_ROWS = 3, GROUPS = (FV_MR + GROUP_ROWS - 1) / GROUP_ROWS };

/* count steps of k. Registers hold either a step of B or one of A, whichever is less, and one vector of the other. Rows
 * of A are addressed from one pointer for three: base, base + lda, base + 2 lda. */
FV_ALWAYS_INLINE void gemm_steps(vf acc[FV_MR][NV], const float *a[GROUPS], int64_t *lda, const float **b, int64_t *ldb,
                                 int64_t left, const int count, const int mr, const int nv, const int part) {
    for (int p = 0; p < count; p++) {
        if (nv <= mr) {
            vf y[NV];
            for (int j = 0; j < nv; j++)
                y[j] = gemm_load(*b + j * FV_W, left, j == nv - 1, part);
            for (int i = 0; i < mr; i++) {
                const vf x = v_set1(a[i / GROUP_ROWS][i % GROUP_ROWS * *lda + p]);
                for (int j = 0; j < nv; j++)
                    acc[i][j] = gemm_accumulate(x, y[j], acc[i][j], j == nv - 1, part);
            }
        } else {
            vf x[FV_MR];
            for (int i = 0; i < mr; i++)
                x[i] = v_set1(a[i / GROUP_ROWS][i % GROUP_ROWS * *lda + p]);
            for (int j = 0; j < nv; j++) {
                const vf y = gemm_load(*b + j * FV_W, left, j == nv - 1, part);
                for (int i = 0; i < mr; i++)
                    acc[i][j] = gemm_accumulate(x[i], y, acc[i][j], j == nv - 1, part);
            }
        }
        *b += *ldb;
        *lda = gemm_opaque(*lda);
        *ldb = gemm_opaque(*ldb);
    }
    for (int g = 0; g * GROUP_ROWS < mr; g++)
        a[g] += count;
}

/* Fetches UNROLL steps of B, and those that many floats further on, if any. */
FV_ALWAYS_INLINE const float *gemm_fetch(const float *near, int64_t *ldb, int64_t far, const int nv) {
    for (int p = 0; p < UNROLL; p++, near = fv_ahead(near, *ldb), *ldb = gemm_opaque(*ldb))
        for (int j = 0; j < nv; j += LINE_VECTORS) {
            __builtin_prefetch(fv_ahead(near, j * FV_W), 0, 3);
            if (far)
                __builtin_prefetch(fv_ahead(near, j * FV_W + far), 0, 2);
        }
    return near;
}

FV_ALWAYS_INLINE void gemm_multiply(vf acc[FV_MR][NV], const float *a, const gemm_tiles *t, const float *next,
                                    const int mr, const int nv, const int part) {
    const int64_t left = t->n & (FV_W - 1);
    int64_t lda = t->lda, ldb = t->ldb;
    const float *b = t->b, *rows[GROUPS];
    for (int g = 0; g * GROUP_ROWS < mr; g++, a += GROUP_ROWS * lda, lda = gemm_opaque(lda))
        rows[g] = a;
    const float *near = t->near;
    int64_t k = t->k;
    for (; k >= UNROLL; k -= UNROLL) {
        if (near && t->far)
            near = gemm_fetch(near, &ldb, t->far, nv);
        else if (near)
            near = gemm_fetch(near, &ldb, 0, nv);
        if (next)
            for (int64_t line = 0; line < t->pace; line++, next = fv_ahead(next, LINE))
                __builtin_prefetch(next, 0, 2);
        gemm_steps(acc, rows, &lda, &b, &ldb, left, UNROLL, mr, nv, part);
    }
    for (; k > 0; k--)
        gemm_steps(acc, rows, &lda, &b, &ldb, left, 1, mr, nv, part);
}
#endif

/* Raises the maxima of a row to its vectors, or begins them. */
FV_ALWAYS_INLINE void gemm_highest(const vf *acc, const int nv, float *highest, const int raise) {
    vf x = v_max(acc[0], raise ? v_load(highest) : v_set1(-INFINITY));
    for (int j = 1; j < nv; j++)
        x = v_max(acc[j], x);
    v_store(highest, x);
    for (int lane = FV_W; lane < FV_LANES && !raise; lane += FV_W)
        v_store(highest + lane, v_set1(-INFINITY));
}

/* Stores a tile row by row, so that maxima are found while rows before are on their way to the cache; gives the row
 * after it. */
FV_ALWAYS_INLINE float *gemm_store_tile(vf acc[FV_MR][NV], const gemm_tiles *t, float *c, float *highest, const int mr,
                                        const int nv, const int part, const int raise) {
    const int64_t left = t->n & (FV_W - 1);
    int64_t ldc = t->ldc;
    for (int i = 0; i < mr; i++, c += ldc, ldc = gemm_opaque(ldc)) {
        if (highest)
            gemm_highest(acc[i], nv, highest + i * FV_LANES, raise);
        for (int j = 0; j < nv; j++)
            gemm_store(c + j * FV_W, left, j == nv - 1, part, acc[i][j]);
    }
    return c;
}

/* What is to be brought nearer after so many tiles. */
FV_ALWAYS_INLINE const float *gemm_next(const gemm_tiles *t, const float *next, int64_t tiles) {
    const int64_t floats = tiles * (t->k / UNROLL) * t->pace * LINE;
    return next && t->next_end - next > floats ? fv_ahead(next, floats) : NULL;
}

FV_ALWAYS_INLINE void gemm_run(const gemm_tiles *t, const int mr, const int nv, const int part) {
    const int64_t left = t->n & (FV_W - 1);
    const float *a = t->a, *merge_a = t->merge_a, *merge_b = t->merge_b;
    float *c = t->c, *highest = t->highest;
    const float *next = t->next;
    int64_t ldc = t->ldc;
    for (int64_t tile = t->count; tile > 0; tile--, a += mr * t->lda) {
        vf acc[FV_MR][NV];
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nv; j++)
                acc[i][j] = v_set1(0.0f);
        float *row = c;
        for (int i = 0; i < mr && t->carry; i++, row += ldc, ldc = gemm_opaque(ldc))
            for (int j = 0; j < nv; j++)
                acc[i][j] = gemm_load(row + j * FV_W, left, j == nv - 1, part);
        gemm_multiply(acc, a, t, next, mr, nv, part);
        next = gemm_next(t, next, 1);
        if (merge_b) {
            for (int i = 0; i < mr; i++)
                for (int j = 0; j < nv; j++)
                    acc[i][j] = v_mul(acc[i][j], v_set1(merge_b[i]));
            merge_b += mr;
        }
        if (merge_a) {
            row = c;
            for (int i = 0; i < mr; i++, row += ldc, ldc = gemm_opaque(ldc))
                for (int j = 0; j < nv; j++) {
                    const vf old = gemm_load(row + j * FV_W, left, j == nv - 1, part);
                    acc[i][j] = v_accumulate(old, v_set1(merge_a[i]), acc[i][j]);
                }
            merge_a += mr;
        }
        if (!highest)
            c = gemm_store_tile(acc, t, c, NULL, mr, nv, part, 0);
        else {
            c = t->raise ? gemm_store_tile(acc, t, c, highest, mr, nv, WHOLE, 1)
                         : gemm_store_tile(acc, t, c, highest, mr, nv, WHOLE, 0);
            highest += mr * FV_LANES;
        }
    }
}

FV_ALWAYS_INLINE void gemm_vectors(const gemm_tiles *t, const int mr, const int part) {
    switch ((t->n + FV_W - 1) / FV_W) {
    case 1: gemm_run(t, mr, 1, part); break;
#if FV_NR >= 2 * FV_W
    case 2: gemm_run(t, mr, 2, part); break;
#endif
#if FV_NR >= 3 * FV_W
    case 3: gemm_run(t, mr, 3, part); break;
#endif
#if FV_NR >= 4 * FV_W
    case 4: gemm_run(t, mr, 4, part); break;
#endif
#if FV_NR >= 5 * FV_W
    case 5: gemm_run(t, mr, 5, part); break;
    case 6: gemm_run(t, mr, 6, part); break;
#endif
    default: break;
    }
}

FV_ALWAYS_INLINE void gemm_width(const gemm_tiles *t, const int mr) {
    const int64_t left = t->n % FV_W;
    if (left == 0)
        gemm_vectors(t, mr, WHOLE);
#if FV_HALVES
    else if (left == FV_W / 2)
        gemm_vectors(t, mr, HALF);
#endif
    else
        gemm_vectors(t, mr, PART);
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

/* What the tiles bring near, all of them together in so many strips: what the caller names, evenly, so that memory is
 * never idle; of B that streams through one tile each vector a few steps before the tile would wait for it. */
static void gemm_hints(gemm_tiles *t, const fv_merge *merge, int64_t rows, int64_t tiles, int64_t strips) {
    const int64_t steps = strips * tiles * t->k * LINE;
    t->next = merge->next;
    t->next_end = merge->next_end;
    t->pace = t->next ? (UNROLL * (t->next_end - t->next) + steps - 1) / steps : 0;
    if (!merge->streams || tiles > 1)
        return;
    int64_t ahead = STREAM_STEPS;
    if (t->ldb > 0 && ahead * t->ldb < STREAM_FLOATS)
        ahead = (STREAM_FLOATS + t->ldb - 1) / t->ldb;
    t->near = fv_ahead(t->b, ahead * t->ldb);
    if (merge->next)
        return;
    t->far = FAR_STEPS * t->ldb;
    if (rows * LINE_VECTORS >= FAR_WORK && t->far < FAR_FLOATS)
        t->far = FAR_FLOATS;
}

void FV_NAME(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *b, int64_t ldb, float *c,
             int64_t ldc, const fv_merge *merge) {
    assert(m >= 1 && n >= 1 && k >= 1 && lda >= 0 && ldb >= 0);
    assert(m == 1 || ldc >= n);
    assert(!merge || merge->b || !merge->a);
    assert(!merge || !merge->highest || (!merge->b && n % FV_LANES == 0));
    assert(!merge || !merge->next || merge->next <= merge->next_end);
    const int64_t tiles = (m + FV_MR - 1) / FV_MR, low = m / tiles,
                  higher = m % tiles; /* that many tiles have a row more */
    const float *next = NULL;         /* of one tile a strip: what strips before have not brought near */
    for (int64_t j = 0; j < n; j += FV_NR) {
        gemm_tiles t = {.count = higher,
                        .n = n - j < FV_NR ? n - j : FV_NR,
                        .k = k,
                        .lda = lda,
                        .ldb = ldb,
                        .ldc = ldc,
                        .a = a,
                        .b = b + j,
                        .c = c + j};
        if (merge) {
            t.merge_a = merge->a;
            t.merge_b = merge->b;
            t.carry = merge->carry;
            t.highest = merge->highest;
            t.raise = merge->raise || j > 0;
            if (tiles == 1) {
                gemm_hints(&t, merge, m, 1, (n + FV_NR - 1) / FV_NR);
                if (j > 0)
                    t.next = next;
                next = gemm_next(&t, t.next, 1);
            } else if (j == 0)
                gemm_hints(&t, merge, m, tiles, 1);
        }
        if (higher > 0)
            gemm_height(&t, low + 1);
        const int64_t done = higher * (low + 1);
        t.count = tiles - higher;
        t.a += done * lda;
        t.c += done * ldc;
        t.merge_a = t.merge_a ? t.merge_a + done : NULL;
        t.merge_b = t.merge_b ? t.merge_b + done : NULL;
        t.highest = t.highest ? t.highest + done * FV_LANES : NULL;
        t.next = gemm_next(&t, t.next, higher);
        gemm_height(&t, low);
    }
}

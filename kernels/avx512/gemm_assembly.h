/* Tiles of the gemm in assembly, of vectors of 16 floats of which the last one in a row may be half used:
 * body/gemm_tile.h includes it (FV_GEMM_ASSEMBLY).
 *
 * A tile that stores its accumulators after all multiply-adds ends slowly. On AMD family 25 model 17 a multiply-add
 * reads three registers, and a store whose vector does not just leave a unit seems to take its port of the register
 * file: 24 multiply-adds and 6 stores take 24.0 cycles where each store follows the one that it waits for, 33 where its
 * vector was there before; beside operations of two registers stores cost nothing. So the accumulators end one after
 * the other, each with its last steps of k, its merge and its store, four steps and one store in turn, since a store
 * takes two cycles. In such a group, the steps are those of four accumulators, the first of one, the second of the one
 * before it, and so on: the steps of one are then further apart than a multiply-add takes. (Three where there are 28
 * accumulators, for want of a register.)
 *
 * So a 6x64 tile takes 1 to 8 cycles more than its multiply-adds, no matter whether the lines that it writes are in the
 * first or in the second-level cache, where the body's took 40 to 90. Whole calls on that machine, the two interleaved:
 * attention 2048 x 64 1.018 times as fast, causal 1.019, 8 x 12 x 128 x 64 1.034, 32 x 8 x 32 x 64 1.043, 500 x 40
 * 1.029, decoding of 4096 keys 1.04; linear maps of 512 rows 1.014 to 1.022, of 4 x 4096 x 4096 from memory 1.2 (what
 * comes from memory is fetched before each step, not before each fourth), but 7 x 4096 x 4096 0.90. Narrow tiles gain
 * by how they are called, too: 3 rows of 64 columns in the second-level cache ran at 78% of the peak and run at 98%
 * (fovea-bench --case "kernel name=gemm_f32_6x64_avx512 m=3 n=64 k=512").
 *
 * It is assembly as compilers neither keep that order nor find registers for the addresses: the same in C, kept in
 * order by volatile, was 1.00 to 1.006 times as fast, and changed with any code nearby. One text serves all sizes
 * (gemm_text.h).
 *
 * Two ports that load and two that multiply whole vectors are what this does least for: on Intel it was not measured,
 * and llvm-mca expects 783 cycles for 64 steps of a 6x64 tile on Sapphire Rapids where products and then stores take
 * 776, since each multiply-add of the last steps loads its factor.
 *
 * Half a vector, where half of the last one counts, takes half the time on units that are half as wide: values of 40
 * channels (2.5 vectors) are 1.2 times as fast there, attention of 16 x 500 x 40 1.09 times, of 72 channels 1.04.
 *
 * Lost there: the last four steps of two rows at a time, then their stores (2048 x 64 1.01, but 12 x 512 x 64 causal
 * 0.98); lines fetched for writing when the tile begins (0.99); stores of half the width (0.96, by vextractf32x8 1.00);
 * outputs of a row's only segment finished before they are stored (32 x 64 1.01 to 1.02, one row of 64 channels 0.95).
 */
#ifndef FV_GEMM_ASSEMBLY_H
#define FV_GEMM_ASSEMBLY_H

#include "avx512/gemm_text.h"

/* clang-format off */

/* Tiles of mr rows and nv vectors, of the last of which half counts or all. With 28 accumulators there is one register
 * less for B. */
#define TILES(name, mr, nv, half) \
    static void name(gemm_tiles *t) { \
        const int64_t lda = t->lda * (int64_t)sizeof(float), ldb = t->ldb * (int64_t)sizeof(float); \
        for (int64_t tile = t->count; tile > 0; tile--, gemm_pass(t, mr, 1)) { \
            const float *a0 = t->a, *a3, *a5, *a10, *b = t->b; \
            int64_t x0, x1, x2, x3, x4; \
            __asm__ volatile( \
                TEXT(".altmacro") \
                TEXT(".Lmr = " #mr) TEXT(".Lnv = " #nv) TEXT(".Lwhole = " #nv " - " #half) \
                TEXT(".Lsteps = 4") IF(".Lmr * .Lnv > 27") TEXT(".Lsteps = 3") ENDIF \
                MACROS BEGIN STEPS END NO_MACROS \
                TEXT(".noaltmacro") \
                : [a0] "+&r"(a0), [a3] "=&r"(a3), [a5] "=&r"(a5), [a10] "=&r"(a10), [b] "+&r"(b), [x0] "=&r"(x0), \
                  [x1] "=&r"(x1), [x2] "=&r"(x2), [x3] "=&r"(x3), [x4] "=&r"(x4) \
                : [t] "r"(t), [lda] "r"(lda), [ldb] "r"(ldb), FIELD(c), FIELD(ldc), FIELD(k), FIELD(start), \
                  FIELD(ldstart), FIELD(next), FIELD(pace), FIELD(prefetch_b), FIELD(l2_distance), FIELD(merge_a), \
                  FIELD(merge_b), FIELD(row_max), FIELD(accumulate_max) \
                : "memory", "cc", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", \
                  "zmm10", "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", \
                  "zmm21", "zmm22", "zmm23", "zmm24", "zmm25", "zmm26", "zmm27", "zmm28", "zmm29", "zmm30", "zmm31"); \
        } \
    }
/* clang-format on */

#define WHOLE_TILES(mr, nv) TILES(gemm_whole_##mr##x##nv, mr, nv, 0)
#define HALF_TILES(mr, nv) TILES(gemm_half_##mr##x##nv, mr, nv, 1)
#define WHOLE_NAME(mr, nv) gemm_whole_##mr##x##nv,
#define HALF_NAME(mr, nv) gemm_half_##mr##x##nv,

#define WIDTHS_2(of, mr) of(mr, 1) of(mr, 2)
#define WIDTHS_3(of, mr) WIDTHS_2(of, mr) of(mr, 3)
#define WIDTHS_4(of, mr) WIDTHS_3(of, mr) of(mr, 4)
#define HEIGHTS_6(of) of(1) of(2) of(3) of(4) of(5) of(6)
#define HEIGHTS_8(of) HEIGHTS_6(of) of(7) of(8)
#define HEIGHTS_12(of) HEIGHTS_8(of) of(9) of(10) of(11) of(12)
#define HEIGHTS_14(of) HEIGHTS_12(of) of(13) of(14)
#define JOINED(a, b) a##b
#define CHOSEN(a, b) JOINED(a, b)
#if FV_NR == 32
#define WIDTHS WIDTHS_2
#elif FV_NR == 48
#define WIDTHS WIDTHS_3
#else
#define WIDTHS WIDTHS_4
#endif
#define HEIGHTS CHOSEN(HEIGHTS_, FV_MR)

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings" /* longer than ISO C99 asks of a compiler */
#define DEFINITIONS(mr) WIDTHS(WHOLE_TILES, mr) WIDTHS(HALF_TILES, mr)
HEIGHTS(DEFINITIONS)
#pragma GCC diagnostic pop

#define WHOLE_NAMES(mr) {WIDTHS(WHOLE_NAME, mr)},
#define HALF_NAMES(mr) {WIDTHS(HALF_NAME, mr)},
enum { ENDS_WHOLE, ENDS_HALF };
static void (*const gemm_sizes[2][FV_MR][NV])(gemm_tiles *) = {
    [ENDS_WHOLE] = {HEIGHTS(WHOLE_NAMES)}, [ENDS_HALF] = {HEIGHTS(HALF_NAMES)}};

/* Takes the tiles, or leaves them to the body: other widths, and few steps of k. */
static int gemm_assembly(gemm_tiles *t, int64_t rows) {
    const int64_t left = t->n % FV_W, vectors = (t->n + FV_W - 1) / FV_W;
    if (t->k < LAST_STEPS || left % (FV_W / 2) != 0)
        return 0;
    assert(1 <= rows && rows <= FV_MR && vectors <= NV);
    gemm_sizes[left ? ENDS_HALF : ENDS_WHOLE][rows - 1][vectors - 1](t);
    return 1;
}

#endif

/* Exp and sums of chunks of eight vectors of scores whose p are all normal numbers, as one software pipeline (Lam,
 * "Software pipelining: an effective scheduling technique for VLIW machines", PLDI 1988) that goes on from chunk to chunk
 * and from row to row.
 *
 * A step begins one vector of 16 scores and takes each of the seven before it one stage further, so that nothing waits
 * and the scheduler is never full. The operations are those of v_exp.h, bit by bit, and of softmax_f32.h around them.
 * It is assembly as compilers spill some of what 30 registers hold: X and T of eight vectors, eight constants, and one
 * of each kind of what lives from one stage to the next, since a step takes the oldest vector first. The assembler makes
 * two copies, one of which takes what is attended from bits.
 *
 * Bound: 13 operations a vector, seven of them for the units that multiply: 7 cycles on AMD family 25 model 17 (Zen 4),
 * of which 7.6 are reached, 8.2 with bits; 3.5 on family 26 model 2 (Zen 5). With a comparison, whose mask lives for
 * five steps, so that it took a pipeline of 16 vectors, 8.4 and 4.15, of which the trees are 0.16 (the comparison seems
 * to be for the two units that multiply, too: 0.25 less without, with a maximum in its place 0.1). Lost, each measured
 * on Zen 5 with comparisons and with the maxima of later rows in the loop, one operation and one load more (4.74): the
 * same in C, a pipeline of each row (4.83, or 5.8 instead of 5.3 while the core did less, as if another thread shared
 * it) or one from row to row (5.2); FV_SIDE vectors side by side (5.5); forty other orders of the operations (4.74 to
 * 4.9); the subtraction with scores from memory, of the other sign (4.73, nothing within attention); rows dealt out
 * between the tiles of a gemm, whose multiply-adds leave units idle (1 to 2% of attention, as the scheduler is full of
 * those). On Zen 4 attention is 0.99 to 1.015 times as fast for pipelines and maxima from the gemm; on Intel neither is
 * measured (llvm-mca expects the same of a pipeline and of vectors side by side). Lost on Zen 4: rows with bits 24 to
 * 96 at a time, each as far as any of them sees (0.998 to 1.003).
 *
 * Not taken: scores in eighths of an octave, scaled by 8 log2(e) with the queries, need no multiplication to reduce the
 * range (13 operations, 3.52 cycles instead of 3.69 in one run: attention 2048 x 64 is 1.0045 times as fast, 1.007 on
 * AVX2). But p is exp(s - m) by contract, and masks below -2.9e37 would be -inf. With maxima rounded to whole octaves
 * it would be 3.23, and the output of a row of one key no longer its value. On Zen 4 it takes 7.7 of that kind where it
 * takes 8.4.
 */
#ifndef FV_SOFTMAX_PIPELINE_H
#define FV_SOFTMAX_PIPELINE_H

_Static_assert(FV_W == 16 && GROUP == 1, "a vector has the lanes of a sum, and 16 bits tell of it");

/* Registers of vector g of a chunk. */
#define X_0 "%%zmm0"
#define X_1 "%%zmm1"
#define X_2 "%%zmm2"
#define X_3 "%%zmm3"
#define X_4 "%%zmm4"
#define X_5 "%%zmm5"
#define X_6 "%%zmm6"
#define X_7 "%%zmm7"
#define T_0 "%%zmm8"
#define T_1 "%%zmm9"
#define T_2 "%%zmm10"
#define T_3 "%%zmm11"
#define T_4 "%%zmm12"
#define T_5 "%%zmm13"
#define T_6 "%%zmm14"
#define T_7 "%%zmm15"

/* One of each. */
#define K "%%zmm16" /* as a float */
#define SHIFTED "%%zmm17"
#define E "%%zmm18"
#define SQUARE "%%zmm19"
#define SUM "%%zmm20"
#define BASE "%%zmm21"
#define ATTENDED "%%k1"

#define OP(name, ...) name " " __VA_ARGS__ "\n"
#define TO ", "

/* Scores of vector g of this chunk and of the one before it, and their bits. */
#define THIS(g) "64*" #g "(%[s])"
#define BEFORE(g) "64*" #g "(%[before])"
#define THIS_BITS(g) "2*" #g "(%[bits])"
#define BEFORE_BITS(g) "2*" #g "(%[bits_before])"

/* In one of the assembler's two copies of all this. */
#define IF_MASKED(ops) ".if \\masked\n" ops ".endif\n"

#define STAGE_0(g)                                                                                                     \
    OP("vmovups", THIS(g) TO X_##g)                                                                                    \
    OP("vsubps", BASE TO X_##g TO X_##g)                                                                               \
    OP("vmovaps", "%[magic]" TO T_##g)                                                                                 \
    OP("vfmadd231ps", "%[log2e]" TO X_##g TO T_##g)
#define STAGE_1(g) OP("vsubps", "%[magic]" TO T_##g TO K)
#define STAGE_2(g) OP("vfmadd231ps", "%[step]" TO K TO X_##g)
#define STAGE_3(g) OP("vfmadd231ps", "%[off]" TO T_##g TO X_##g)
#define STAGE_4(g)                                                                                                     \
    OP("vmovaps", "%[c2]" TO E)                                                                                        \
    OP("vfmadd231ps", "%[c3]" TO X_##g TO E)                                                                           \
    OP("vmulps", X_##g TO X_##g TO SQUARE)
#define STAGE_5(g)                                                                                                     \
    OP("vfmadd231ps", SQUARE TO E TO X_##g)                                                                            \
    OP("vpslld", "$20" TO T_##g TO SHIFTED)                                                                            \
    OP("vpermd", "%[eighths]" TO T_##g TO T_##g)                                                                       \
    OP("vpsubd", SHIFTED TO T_##g TO T_##g)
#define STAGE_6(g) OP("vfmadd213ps", T_##g TO T_##g TO X_##g)
#define STAGE_7(g, chunk)                                                                                              \
    IF_MASKED(OP("kmovw", chunk##_BITS(g) TO ATTENDED)                                                                 \
                  OP("vblendmps", X_##g TO "%[minus_zero]" TO X_##g "%{" ATTENDED "%}"))                               \
    OP("vmovups", X_##g TO chunk(g))                                                                                   \
    OP("vaddps", X_##g TO SUM TO SUM)

#define STEP(chunk, g7, g6, g5, g4, g3, g2, g1, g0)                                                                    \
    STAGE_7(g7, chunk) STAGE_6(g6) STAGE_5(g5) STAGE_4(g4) STAGE_3(g3) STAGE_2(g2) STAGE_1(g1) STAGE_0(g0)

/* Seven vectors of this chunk begin, and those of the chunk before it end. */
#define SEVEN_STEPS                                                                                                    \
    STEP(BEFORE, 1, 2, 3, 4, 5, 6, 7, 0)                                                                               \
    STEP(BEFORE, 2, 3, 4, 5, 6, 7, 0, 1)                                                                               \
    STEP(BEFORE, 3, 4, 5, 6, 7, 0, 1, 2)                                                                               \
    STEP(BEFORE, 4, 5, 6, 7, 0, 1, 2, 3)                                                                               \
    STEP(BEFORE, 5, 6, 7, 0, 1, 2, 3, 4)                                                                               \
    STEP(BEFORE, 6, 7, 0, 1, 2, 3, 4, 5)                                                                               \
    STEP(BEFORE, 7, 0, 1, 2, 3, 4, 5, 6)

#define BEGIN_ROW OP("vbroadcastss", "(%[base])" TO BASE)
#define BEGIN_SUM OP("vpxord", SUM TO SUM TO SUM)
#define END_SUM OP("vmovups", SUM TO "(%[sum])")

enum { PIPELINE = 8 * FV_W }; /* scores of a chunk */

/* Replaces the scores of count >= 1 rows, lds apart, of so many >= 1 chunks, by p = exp(s - base[row]), all of which are
 * normal numbers, or -0 where a key is not attended, and gives the lanes of their sums. bits: of the first score, a
 * multiple of FV_W, of the first row, bits_step apart, or NULL: all are attended. */
static __attribute__((noinline)) void softmax_pipeline(int64_t count, int64_t chunks, float *s, int64_t lds,
                                                       const float *base, const uint16_t *bits, int64_t bits_step,
                                                       float *sum) {
    /* From the last chunk of a row to the first of the next one, in bytes. */
    const int64_t next_row = (lds - (chunks - 1) * PIPELINE) * (int64_t)sizeof *s;
    const int64_t next_bits = bits_step * (int64_t)sizeof(fv_keybits) - (chunks - 1) * 8 * (int64_t)sizeof *bits;
    int64_t left = chunks;
    float *before;
    const uint16_t *bits_before;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings" /* longer than ISO C99 asks of a compiler */
    /* clang-format off */
    __asm__ volatile(
        OP("test", "%[bits]" TO "%[bits]")
        OP("jz", "5f")
        ".irp masked, 1, 0\n"
        ".if \\masked == 0\n5:\n.endif\n"
        BEGIN_ROW BEGIN_SUM /* of the first row */
        STAGE_0(0)
        STAGE_1(0) STAGE_0(1)
        STAGE_2(0) STAGE_1(1) STAGE_0(2)
        STAGE_3(0) STAGE_2(1) STAGE_1(2) STAGE_0(3)
        STAGE_4(0) STAGE_3(1) STAGE_2(2) STAGE_1(3) STAGE_0(4)
        STAGE_5(0) STAGE_4(1) STAGE_3(2) STAGE_2(3) STAGE_1(4) STAGE_0(5)
        STAGE_6(0) STAGE_5(1) STAGE_4(2) STAGE_3(3) STAGE_2(4) STAGE_1(5) STAGE_0(6)
        OP("jmp", "2f")
        ".p2align 6\n"
        "1:\n" /* a row */
        BEGIN_ROW
        SEVEN_STEPS
        END_SUM BEGIN_SUM
        OP("add", "$64" TO "%[sum]")
        "2:\n"
        STEP(THIS, 0, 1, 2, 3, 4, 5, 6, 7)
        OP("mov", "%[s]" TO "%[before]")
        IF_MASKED(OP("mov", "%[bits]" TO "%[bits_before]"))
        OP("dec", "%[left]")
        OP("jnz", "3f")
        OP("add", "%[next_row]" TO "%[s]")
        IF_MASKED(OP("add", "%[next_bits]" TO "%[bits]"))
        OP("mov", "%[chunks]" TO "%[left]")
        OP("add", "$4" TO "%[base]")
        OP("dec", "%[count]")
        OP("jnz", "1b")
        OP("jmp", "4f")
        ".p2align 6\n"
        "3:\n" /* one more chunk of a row */
        OP("add", "$64*8" TO "%[s]")
        IF_MASKED(OP("add", "$2*8" TO "%[bits]"))
        SEVEN_STEPS
        OP("jmp", "2b")
        "4:\n"
        STAGE_7(1, BEFORE) STAGE_6(2) STAGE_5(3) STAGE_4(4) STAGE_3(5) STAGE_2(6) STAGE_1(7)
        STAGE_7(2, BEFORE) STAGE_6(3) STAGE_5(4) STAGE_4(5) STAGE_3(6) STAGE_2(7)
        STAGE_7(3, BEFORE) STAGE_6(4) STAGE_5(5) STAGE_4(6) STAGE_3(7)
        STAGE_7(4, BEFORE) STAGE_6(5) STAGE_5(6) STAGE_4(7)
        STAGE_7(5, BEFORE) STAGE_6(6) STAGE_5(7)
        STAGE_7(6, BEFORE) STAGE_6(7)
        STAGE_7(7, BEFORE)
        END_SUM
        IF_MASKED(OP("jmp", "6f"))
        ".endr\n"
        "6:\n"
        : [count] "+&r"(count), [left] "+&r"(left), [s] "+&r"(s), [before] "=&r"(before), [base] "+&r"(base),
          [bits] "+&r"(bits), [bits_before] "=&r"(bits_before), [sum] "+&r"(sum)
        : [chunks] "r"(chunks), [next_row] "r"(next_row), [next_bits] "r"(next_bits),
          [log2e] "v"(v_set1(EXP_EIGHTHS)), [magic] "v"(v_set1(EXP_MAGIC)), [step] "v"(v_set1(EXP_STEP)),
          [off] "v"(v_set1(EXP_STEP_OFF)), [c2] "v"(v_set1(EXP_C2)), [c3] "v"(v_set1(EXP_C3)),
          [eighths] "v"(v_twice(exp_eighths)), [minus_zero] "v"(v_set1(-0.0f))
        : "memory", "cc", "k1", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6", "zmm7", "zmm8", "zmm9", "zmm10",
          "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21");
    /* clang-format on */
#pragma GCC diagnostic pop
}

#endif

/* Exp and sums of whole segments that are all attended, as one software pipeline (Lam, "Software pipelining: an
 * effective scheduling technique for VLIW machines", PLDI 1988) that goes on from row to row.
 *
 * A step begins one vector of 16 scores and takes each of the seven before it one stage further, so that nothing waits
 * and the scheduler is never full. The operations are those of v_exp.h, bit by bit, and of softmax_f32.h around them.
 * It is assembly as compilers spill some of what 30 registers hold: X and T of eight vectors, eight constants, and one
 * of each kind of what lives from one stage to the next, since a step takes the oldest vector first. A mask lives for
 * five steps, so 5 + 5 + 6 of them serve the 16 vectors of a row. The assembler makes two copies, one without
 * comparisons, for rows whose p are all normal.
 *
 * Bound: 13 operations a vector, seven of them for the units that multiply, and a comparison: 7 or 8 cycles on AMD
 * family 25 model 17 (Zen 4), of which 7.6 and 8.4 are reached; 3.5 or, if comparisons are for the two units that
 * multiply, as it seems, 4 on family 26 model 2 (Zen 5), where 144 rows take 4.15 with comparisons, of which the trees
 * are 0.16, and 0.25 less without (with a maximum in place of the comparison 0.1 less). Lost, each measured with
 * comparisons and with the maxima of later rows in the loop, one operation and one load more (4.74): the same in C, a
 * pipeline of each row (4.83, or 5.8 instead of 5.3 while the core did less, as if another thread shared it) or one
 * from row to row (5.2); FV_SIDE vectors side by side (5.5); forty other orders of the operations (4.74 to 4.9); the
 * subtraction with scores from memory, of the other sign (4.73, nothing within attention); rows dealt out between the
 * tiles of a gemm, whose multiply-adds leave units idle (1 to 2% of attention, as the scheduler is full of those). On
 * family 25 model 17 (Zen 4) attention is 0.99 to 1.015 times as fast for pipelines and maxima from the gemm; on Intel
 * neither is measured (llvm-mca expects the same of a pipeline and of vectors side by side).
 *
 * Not taken: scores in eighths of an octave, scaled by 8 log2(e) with the queries, need no multiplication to reduce the
 * range (13 operations, 3.52 cycles instead of 3.69 in one run: attention 2048 x 64 is 1.0045 times as fast, 1.007 on
 * AVX2). But p is exp(s - m) by contract, and masks below -2.9e37 would be -inf. With maxima rounded to whole octaves
 * it would be 3.23, and the output of a row of one key no longer its value. On Zen 4 it takes 7.7 of that kind where it
 * takes 8.4.
 */
#ifndef FV_SOFTMAX_PIPELINE_H
#define FV_SOFTMAX_PIPELINE_H

_Static_assert(FV_SEGMENT == 16 * FV_W && GROUP == 1, "a row is 16 vectors");

/* Registers of vector g of a row. */
#define X_0 "%%zmm0"
#define X_1 "%%zmm1"
#define X_2 "%%zmm2"
#define X_3 "%%zmm3"
#define X_4 "%%zmm4"
#define X_5 "%%zmm5"
#define X_6 "%%zmm6"
#define X_7 "%%zmm7"
#define X_8 X_0
#define X_9 X_1
#define X_10 X_2
#define X_11 X_3
#define X_12 X_4
#define X_13 X_5
#define X_14 X_6
#define X_15 X_7
#define T_0 "%%zmm8"
#define T_1 "%%zmm9"
#define T_2 "%%zmm10"
#define T_3 "%%zmm11"
#define T_4 "%%zmm12"
#define T_5 "%%zmm13"
#define T_6 "%%zmm14"
#define T_7 "%%zmm15"
#define T_8 T_0
#define T_9 T_1
#define T_10 T_2
#define T_11 T_3
#define T_12 T_4
#define T_13 T_5
#define T_14 T_6
#define T_15 T_7
#define NORMAL_0 "%%k1"
#define NORMAL_1 "%%k2"
#define NORMAL_2 "%%k3"
#define NORMAL_3 "%%k4"
#define NORMAL_4 "%%k5"
#define NORMAL_5 NORMAL_0
#define NORMAL_6 NORMAL_1
#define NORMAL_7 NORMAL_2
#define NORMAL_8 NORMAL_3
#define NORMAL_9 NORMAL_4
#define NORMAL_10 NORMAL_0
#define NORMAL_11 NORMAL_1
#define NORMAL_12 NORMAL_2
#define NORMAL_13 NORMAL_3
#define NORMAL_14 NORMAL_4
#define NORMAL_15 "%%k6"

/* One of each. */
#define K "%%zmm16" /* as a float */
#define SHIFTED "%%zmm17"
#define E "%%zmm18"
#define SQUARE "%%zmm19"
#define SUM "%%zmm20"
#define BASE "%%zmm21"

#define OP(name, ...) name " " __VA_ARGS__ "\n"
#define TO ", "
#define AT(g) "64*" #g

/* In one of the assembler's two copies of all this. */
#define IF_NORMAL(ops) ".if \\normal\n" ops ".endif\n"
#define UNLESS_NORMAL(ops) ".if \\normal == 0\n" ops ".endif\n"

#define STAGE_0(g)                                                                                                     \
    OP("vmovups", AT(g) "(%[s])" TO X_##g)                                                                             \
    OP("vsubps", BASE TO X_##g TO X_##g)                                                                               \
    OP("vmovaps", "%[magic]" TO T_##g)                                                                                 \
    OP("vfmadd231ps", "%[log2e]" TO X_##g TO T_##g)
#define STAGE_1(g)                                                                                                     \
    UNLESS_NORMAL(OP("vcmpnlt_uqps", "%[lowest]" TO X_##g TO NORMAL_##g)) OP("vsubps", "%[magic]" TO T_##g TO K)
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
#define STAGE_6(g)                                                                                                     \
    IF_NORMAL(OP("vfmadd213ps", T_##g TO T_##g TO X_##g))                                                              \
    UNLESS_NORMAL(OP("vfmadd213ps", T_##g TO T_##g TO X_##g "%{" NORMAL_##g "%}%{z%}"))
#define STAGE_7(g, row) OP("vmovups", X_##g TO row(g)) OP("vaddps", X_##g TO SUM TO SUM)

/* Where a vector of this row goes, and where one of the row before it. */
#define THIS(g) AT(g) "(%[s])"
#define BEFORE(g) AT(g) "(%[s],%[back])"

#define STEP(row, g7, g6, g5, g4, g3, g2, g1, g0)                                                                      \
    STAGE_7(g7, row) STAGE_6(g6) STAGE_5(g5) STAGE_4(g4) STAGE_3(g3) STAGE_2(g2) STAGE_1(g1) STAGE_0(g0)

#define BEGIN_ROW OP("vbroadcastss", "(%[base])" TO BASE)
#define BEGIN_SUM OP("vpxord", SUM TO SUM TO SUM)
#define END_SUM OP("vmovups", SUM TO "(%[sum])")

/* Replaces the scores s[0..255] of count >= 1 rows, lds apart, by p = exp(s - base[row]), and gives the lanes of their
 * sums. normal: no p is less than a normal number. */
static __attribute__((noinline)) void softmax_pipeline(int64_t count, float *s, int64_t lds, const float *base,
                                                       int normal, float *sum) {
    const int64_t back = -lds * (int64_t)sizeof *s;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings" /* longer than ISO C99 asks of a compiler */
    /* clang-format off */
    __asm__ volatile(
        OP("test", "%[normal]" TO "%[normal]")
        OP("jz", "3f")
        ".irp normal, 1, 0\n"
        UNLESS_NORMAL("3:\n")
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
        "1:\n"
        BEGIN_ROW
        STEP(BEFORE, 9, 10, 11, 12, 13, 14, 15, 0)
        STEP(BEFORE, 10, 11, 12, 13, 14, 15, 0, 1)
        STEP(BEFORE, 11, 12, 13, 14, 15, 0, 1, 2)
        STEP(BEFORE, 12, 13, 14, 15, 0, 1, 2, 3)
        STEP(BEFORE, 13, 14, 15, 0, 1, 2, 3, 4)
        STEP(BEFORE, 14, 15, 0, 1, 2, 3, 4, 5)
        STEP(BEFORE, 15, 0, 1, 2, 3, 4, 5, 6)
        END_SUM BEGIN_SUM
        OP("add", "$64" TO "%[sum]")
        "2:\n"
        STEP(THIS, 0, 1, 2, 3, 4, 5, 6, 7)
        STEP(THIS, 1, 2, 3, 4, 5, 6, 7, 8)
        STEP(THIS, 2, 3, 4, 5, 6, 7, 8, 9)
        STEP(THIS, 3, 4, 5, 6, 7, 8, 9, 10)
        STEP(THIS, 4, 5, 6, 7, 8, 9, 10, 11)
        STEP(THIS, 5, 6, 7, 8, 9, 10, 11, 12)
        STEP(THIS, 6, 7, 8, 9, 10, 11, 12, 13)
        STEP(THIS, 7, 8, 9, 10, 11, 12, 13, 14)
        STEP(THIS, 8, 9, 10, 11, 12, 13, 14, 15)
        OP("add", "$4" TO "%[base]")
        OP("sub", "%[back]" TO "%[s]")
        OP("dec", "%[count]")
        OP("jnz", "1b")
        STAGE_7(9, BEFORE) STAGE_6(10) STAGE_5(11) STAGE_4(12) STAGE_3(13) STAGE_2(14) STAGE_1(15)
        STAGE_7(10, BEFORE) STAGE_6(11) STAGE_5(12) STAGE_4(13) STAGE_3(14) STAGE_2(15)
        STAGE_7(11, BEFORE) STAGE_6(12) STAGE_5(13) STAGE_4(14) STAGE_3(15)
        STAGE_7(12, BEFORE) STAGE_6(13) STAGE_5(14) STAGE_4(15)
        STAGE_7(13, BEFORE) STAGE_6(14) STAGE_5(15)
        STAGE_7(14, BEFORE) STAGE_6(15)
        STAGE_7(15, BEFORE)
        END_SUM
        IF_NORMAL(OP("jmp", "4f"))
        ".endr\n"
        "4:\n"
        : [count] "+r"(count), [s] "+r"(s), [base] "+r"(base), [sum] "+r"(sum)
        : [normal] "r"(normal), [back] "r"(back), [log2e] "v"(v_set1(EXP_EIGHTHS)), [magic] "v"(v_set1(EXP_MAGIC)),
          [lowest] "v"(v_set1(EXP_LOWEST)), [step] "v"(v_set1(EXP_STEP)), [off] "v"(v_set1(EXP_STEP_OFF)),
          [c2] "v"(v_set1(EXP_C2)), [c3] "v"(v_set1(EXP_C3)), [eighths] "v"(v_twice(exp_eighths))
        : "memory", "cc", "k1", "k2", "k3", "k4", "k5", "k6", "zmm0", "zmm1", "zmm2", "zmm3", "zmm4", "zmm5", "zmm6",
          "zmm7", "zmm8", "zmm9", "zmm10", "zmm11", "zmm12", "zmm13", "zmm14", "zmm15", "zmm16", "zmm17", "zmm18",
          "zmm19", "zmm20", "zmm21");
    /* clang-format on */
#pragma GCC diagnostic pop
}

#endif

/* The text of a tile of the gemm, for the assembler, which counts rows (.Li), vectors of a row (.Lj) and accumulators,
 * one column of vectors after the other: number .Lj * .Lmr + .Li is also the number of its register. Strides are in
 * bytes. gemm_assembly.h makes functions of it and says why.
 */
#ifndef FV_GEMM_TEXT_H
#define FV_GEMM_TEXT_H

#define TEXT(...) __VA_ARGS__ "\n"
#define MACRO(name) TEXT(".macro " name)
#define ENDM TEXT(".endm")
#define IF(condition) TEXT(".if " condition)
#define ELSE TEXT(".else")
#define ENDIF TEXT(".endif")
#define FOR(symbol, times) TEXT(symbol " = 0") TEXT(".rept " times)
#define NEXT(symbol) TEXT(symbol " = " symbol " + 1") TEXT(".endr")

/* op(v, n) for vector .Lj of a row: all of it (z, 16), or a half at the end of the row (y, 8). */
#define SIZED(op) IF(".Lj < .Lwhole") op("z", "16") ELSE op("y", "8") ENDIF

/* op, row .Li of A, rest: with an index, four addresses reach 14 rows. */
#define ROW(i, address, op, rest) IF(".Li == " #i) TEXT(op address rest) ENDIF
#define OF_A(op, rest)                                                                                                 \
    ROW(0, "(%[a0])", op, rest)                                                                                        \
    ROW(1, "(%[a0],%[lda])", op, rest)                                                                                 \
    ROW(2, "(%[a0],%[lda],2)", op, rest)                                                                               \
    ROW(3, "(%[a3])", op, rest)                                                                                        \
    ROW(4, "(%[a3],%[lda])", op, rest)                                                                                 \
    ROW(5, "(%[a5])", op, rest)                                                                                        \
    ROW(6, "(%[a5],%[lda])", op, rest)                                                                                 \
    ROW(7, "(%[a5],%[lda],2)", op, rest)                                                                               \
    ROW(8, "(%[a0],%[lda],8)", op, rest)                                                                               \
    ROW(9, "(%[a5],%[lda],4)", op, rest)                                                                               \
    ROW(10, "(%[a10])", op, rest)                                                                                      \
    ROW(11, "(%[a10],%[lda])", op, rest)                                                                               \
    ROW(12, "(%[a10],%[lda],2)", op, rest)                                                                             \
    ROW(13, "(%[a5],%[lda],8)", op, rest)
#define PASS_A(bytes)                                                                                                  \
    TEXT("add $" #bytes ", %[a0]")                                                                                     \
    TEXT("add $" #bytes ", %[a3]")                                                                                     \
    TEXT("add $" #bytes ", %[a5]")                                                                                     \
    TEXT("add $" #bytes ", %[a10]")

/* A field of the tiles, and the operand that tells where it is. */
#define OF_T(field) "%c[" #field "](%[t])"
#define FIELD(field) [field] "i"(offsetof(gemm_tiles, field))

/* clang-format off */

/* One step of k of all accumulators: B in the last nv registers, a factor of A in the one before them. */
#define LOAD_B(v, n) TEXT("vmovups 64*.Lj(%[b]), %%" v "mm\\y")
#define MULTIPLY(v, n) TEXT("vfmadd231ps %%" v "mm\\y, %%" v "mm\\x, %%" v "mm\\n")
#define MACROS_OF_STEP \
    MACRO("fv_load_b y") SIZED(LOAD_B) ENDM \
    MACRO("fv_load_a s, x") OF_A("vbroadcastss 4*\\s", ", %%zmm\\x") ENDM \
    MACRO("fv_multiply n, x, y") SIZED(MULTIPLY) ENDM \
    MACRO("fv_step s") \
        FOR(".Lj", ".Lnv") \
            TEXT("fv_load_b %%(32 - .Lnv + .Lj)") \
        NEXT(".Lj") \
        TEXT("add %[ldb], %[b]") \
        FOR(".Li", ".Lmr") \
            TEXT("fv_load_a \\s, %%(31 - .Lnv)") \
            FOR(".Lj", ".Lnv") \
                TEXT("fv_multiply %%(.Lj * .Lmr + .Li), %%(31 - .Lnv), %%(32 - .Lnv + .Lj)") \
            NEXT(".Lj") \
        NEXT(".Li") \
    ENDM

/* The first values of accumulators, their last steps, their merge and their stores. x0: b + ldb, x1: goes down the
 * columns of C, x2: ldc, x3 and x4: merge_b and merge_a. */
#define LOAD_LAST_B(v, n) \
    IF("\\s == 0") TEXT("vmovups 64*.Lj(%[b]), %%" v "mm\\y") ENDIF \
    IF("\\s == 1") TEXT("vmovups 64*.Lj(%[b],%[ldb]), %%" v "mm\\y") ENDIF \
    IF("\\s == 2") TEXT("vmovups 64*.Lj(%[b],%[ldb],2), %%" v "mm\\y") ENDIF \
    IF("\\s == 3") TEXT("vmovups 64*.Lj(%[x0],%[ldb],2), %%" v "mm\\y") ENDIF
#define MULTIPLY_LAST(v, n) OF_A("vfmadd231ps 4*\\s", "%{1to" n "%}, %%" v "mm\\y, %%" v "mm\\n")
#define TIMES_B(v, n) TEXT("vmulps 4*.Li(%[x3])%{1to" n "%}, %%" v "mm\\n, %%" v "mm\\n")
#define PLUS_OLD(v, n) \
    TEXT("vmovups 64*.Lj(%[x1]), %%" v "mm\\old") \
    TEXT("vfmadd231ps 4*.Li(%[x4])%{1to" n "%}, %%" v "mm\\old, %%" v "mm\\n")
#define LOAD(v, n) TEXT("vmovups 64*.Lj(%[x1]), %%" v "mm\\n")
#define STORE(v, n) TEXT("vmovups %%" v "mm\\n, 64*.Lj(%[x1])")
#define MACROS_OF_END \
    MACRO("fv_zero n") TEXT("vpxord %%xmm\\n, %%xmm\\n, %%xmm\\n") ENDM \
    MACRO("fv_at n") /* sets its row and its column */ \
        TEXT(".Lj = \\n / .Lmr") \
        TEXT(".Li = \\n - .Lj * .Lmr") \
    ENDM \
    MACRO("fv_last n, s, y") /* y: step s of B for its column */ \
        TEXT("fv_at \\n") \
        IF(".Li == 0") SIZED(LOAD_LAST_B) ENDIF \
        SIZED(MULTIPLY_LAST) \
    ENDM \
    MACRO("fv_times_b n") TEXT("fv_at \\n") SIZED(TIMES_B) ENDM \
    MACRO("fv_begin n") \
        TEXT("fv_at \\n") \
        IF(".Li == 0") TEXT("mov " OF_T(start) ", %[x1]") ENDIF \
        SIZED(LOAD) \
        TEXT("add %[x2], %[x1]") \
    ENDM \
    MACRO("fv_end n, merge, old") \
        TEXT("fv_at \\n") \
        IF(".Li == 0") TEXT("mov " OF_T(c) ", %[x1]") ENDIF \
        IF("\\merge == 2") SIZED(PLUS_OLD) ENDIF \
        SIZED(STORE) \
        TEXT("add %[x2], %[x1]") \
    ENDM \
    MACRO("fv_ends merge") /* 0: none, 1: acc * b, 2: fma(c, a, acc * b) */ \
        FOR(".Lg", ".Lmr * .Lnv + .Lsteps + \\merge - 1") \
            FOR(".Ls", ".Lsteps") \
                IF(".Lg >= .Ls") IF(".Lg - .Ls < .Lmr * .Lnv") \
                    TEXT("fv_last %%(.Lg - .Ls), %%(.Ls), %%(28 + .Ls)") \
                ENDIF ENDIF \
            NEXT(".Ls") \
            IF("\\merge > 0") IF(".Lg >= .Lsteps") IF(".Lg - .Lsteps < .Lmr * .Lnv") \
                TEXT("fv_times_b %%(.Lg - .Lsteps)") \
            ENDIF ENDIF ENDIF \
            IF(".Lg >= .Lsteps + \\merge - 1") \
                TEXT("fv_end %%(.Lg - .Lsteps - \\merge + 1), \\merge, %%(43 - 4 * .Lsteps)") \
            ENDIF \
        NEXT(".Lg") \
    ENDM

/* What a step prefetches: a step of B, by x3 into the first-level cache and by x4 into the second, unless they are
 * NULL, and its share of the lines of next, by x1. */
#define MACROS_OF_PREFETCHING \
    MACRO("fv_prefetch_b") \
        TEXT("test %[x3], %[x3]") \
        TEXT("jz 7f") \
        FOR(".Lj", ".Lnv") TEXT("prefetcht0 64*.Lj(%[x3])") NEXT(".Lj") \
        TEXT("add %[ldb], %[x3]") \
        TEXT("test %[x4], %[x4]") \
        TEXT("jz 7f") \
        FOR(".Lj", ".Lnv") TEXT("prefetcht1 64*.Lj(%[x4])") NEXT(".Lj") \
        TEXT("add %[ldb], %[x4]") \
        TEXT("7:") \
    ENDM \
    MACRO("fv_prefetch_next") \
        TEXT("test %[x1], %[x1]") \
        TEXT("jz 8f") \
        TEXT("mov " OF_T(pace) ", %[x2]") \
        TEXT("add $(3 - .Ls), %[x2]") \
        TEXT("shr $2, %[x2]") \
        TEXT("jz 8f") \
        TEXT("7:") \
        TEXT("prefetcht1 (%[x1])") \
        TEXT("add $64, %[x1]") \
        TEXT("dec %[x2]") \
        TEXT("jnz 7b") \
        TEXT("8:") \
    ENDM

/* The maxima of rows. */
#define MACROS_OF_ROW_MAX \
    MACRO("fv_max n") TEXT("vmaxps %%zmm31, %%zmm\\n, %%zmm31") ENDM \
    MACRO("fv_max_first n, accumulate_max") \
        IF("\\accumulate_max") TEXT("vmaxps 64*.Li(%[x1]), %%zmm\\n, %%zmm31") \
        ELSE TEXT("vmaxps %%zmm30, %%zmm\\n, %%zmm31") \
        ENDIF \
    ENDM \
    MACRO("fv_row_max accumulate_max") \
        FOR(".Li", ".Lmr") \
            TEXT("fv_max_first %%(.Li), \\accumulate_max") \
            FOR(".Lj", ".Lnv - 1") \
                TEXT("fv_max %%(.Lj * .Lmr + .Lmr + .Li)") \
            NEXT(".Lj") \
            TEXT("vmovups %%zmm31, 64*.Li(%[x1])") \
        NEXT(".Li") \
    ENDM

#define MACROS MACROS_OF_STEP MACROS_OF_PREFETCHING MACROS_OF_END MACROS_OF_ROW_MAX
#define PURGE(name) TEXT(".purgem " name)
#define NO_MACROS \
    PURGE("fv_load_b") PURGE("fv_load_a") PURGE("fv_multiply") PURGE("fv_step") PURGE("fv_at") PURGE("fv_last") \
    PURGE("fv_times_b") PURGE("fv_begin") PURGE("fv_end") PURGE("fv_ends") PURGE("fv_max") \
    PURGE("fv_max_first") PURGE("fv_row_max") PURGE("fv_zero") PURGE("fv_prefetch_b") PURGE("fv_prefetch_next")

/* The accumulators begin with 0, or with what start holds. */
#define BEGIN \
    TEXT("lea (%[a0],%[lda],2), %[a3]") \
    TEXT("add %[lda], %[a3]") \
    TEXT("lea (%[a3],%[lda],2), %[a5]") \
    TEXT("lea (%[a5],%[lda],4), %[a10]") \
    TEXT("add %[lda], %[a10]") \
    TEXT("cmpq $0, " OF_T(start)) \
    TEXT("jne 1f") \
    FOR(".Ln", ".Lmr * .Lnv") TEXT("fv_zero %%(.Ln)") NEXT(".Ln") \
    TEXT("jmp 2f") \
    TEXT("1:") \
    TEXT("mov " OF_T(ldstart) ", %[x2]") \
    TEXT("shl $2, %[x2]") \
    FOR(".Ln", ".Lmr * .Lnv") TEXT("fv_begin %%(.Ln)") NEXT(".Ln") \
    TEXT("2:")

/* All steps of k but the last ones: four at a time, and what is prefetched meanwhile, then one at a time. */
#define STEPS \
    TEXT("mov " OF_T(next) ", %[x1]") \
    TEXT("mov " OF_T(prefetch_b) ", %[x3]") \
    TEXT("mov " OF_T(l2_distance) ", %[x4]") \
    TEXT("shl $2, %[x4]") \
    TEXT("jz 1f") \
    TEXT("add %[x3], %[x4]") \
    TEXT("1:") \
    TEXT("mov " OF_T(k) ", %[x0]") \
    TEXT("sub $.Lsteps, %[x0]") \
    TEXT("shr $2, %[x0]") \
    TEXT("jz 5f") \
    TEXT(".p2align 5") \
    TEXT("1:") \
    TEXT("mov %[x1], %[x2]") \
    TEXT("or %[x3], %[x2]") \
    TEXT("jz 2f") \
    FOR(".Ls", "4") TEXT("fv_prefetch_b") TEXT("fv_prefetch_next") TEXT("fv_step %%(.Ls)") NEXT(".Ls") \
    TEXT("jmp 3f") \
    TEXT("2:") \
    TEXT("fv_step 0") TEXT("fv_step 1") TEXT("fv_step 2") TEXT("fv_step 3") \
    TEXT("3:") \
    PASS_A(16) \
    TEXT("dec %[x0]") \
    TEXT("jnz 1b") \
    TEXT("5:") /* as much as the last steps take */ \
    FOR(".Ls", "4") TEXT("fv_prefetch_b") NEXT(".Ls") \
    TEXT("mov " OF_T(k) ", %[x0]") \
    TEXT("sub $.Lsteps, %[x0]") \
    TEXT("and $3, %[x0]") \
    TEXT("jz 2f") \
    TEXT("1:") \
    TEXT("fv_step 0") \
    PASS_A(4) \
    TEXT("dec %[x0]") \
    TEXT("jnz 1b") \
    TEXT("2:")

#define END \
    TEXT("lea (%[b],%[ldb]), %[x0]") \
    TEXT("mov " OF_T(ldc) ", %[x2]") \
    TEXT("shl $2, %[x2]") \
    TEXT("mov " OF_T(merge_b) ", %[x3]") \
    TEXT("mov " OF_T(merge_a) ", %[x4]") \
    TEXT("test %[x3], %[x3]") \
    TEXT("jz 2f") \
    TEXT("test %[x4], %[x4]") \
    TEXT("jz 1f") \
    TEXT("fv_ends 2") \
    TEXT("jmp 4f") \
    TEXT("1:") \
    TEXT("fv_ends 1") \
    TEXT("jmp 4f") \
    TEXT("2:") \
    TEXT("fv_ends 0") \
    IF(".Lwhole == .Lnv") /* maxima are of whole vectors only */ \
    TEXT("mov " OF_T(row_max) ", %[x1]") \
    TEXT("test %[x1], %[x1]") \
    TEXT("jz 4f") \
    TEXT("cmpl $0, " OF_T(accumulate_max)) \
    TEXT("je 3f") \
    TEXT("fv_row_max 1") \
    TEXT("jmp 4f") \
    TEXT("3:") \
    TEXT("mov $0xff800000, %k[x0]") /* -inf */ \
    TEXT("vpbroadcastd %k[x0], %%zmm30") \
    TEXT("fv_row_max 0") \
    ENDIF \
    TEXT("4:")
/* clang-format on */

#endif

/* Tiles of the gemm in AVX-512 assembly: fv_gemm_tiles_avx512(gemm_tiles *t), one below the other, all of one size.
 *
 * gemm_tiles.h has the operands (struct gemm_tiles) and the sizes. docs/measurements.md ("gemm_tiles.S") tells what was
 * measured, and what lost.
 *
 * Why assembly. A tile that stores its accumulators after all multiply-adds ends slowly: on Zen 4 a store takes the
 * register port of a multiply-add unless the vector just left a unit. So the accumulators end one after the other, each
 * with its last four steps of k, its merge and its store, and between two steps of one there are steps of others, so that
 * none waits for the one before. Compilers keep neither that order nor the addresses in registers.
 *
 * How it works. The function takes the place of a size from a table and jumps there for each tile. The text of a size:
 *   chains    begin with +0 or with what start holds;
 *   steps     all steps of k but the last four, four a branch. Where something is prefetched, one a branch with its share
 *             of that;
 *   ends      the last steps, group by group: the first step of accumulator g, the second of g - 1, and so on; then stores,
 *             or merges and stores, with the same delay. 28 accumulators leave registers for three last steps only;
 *   row_max   of tiles of whole vectors, where it is asked for.
 * A tile is mr rows of nv vectors of 16 columns, or of nv vectors of which the last one has at most 8 columns (HALF), those
 * in k1. */
#include "simd/assembly.h"
#include "gemm_tiles.h"

/* ---------------------------------------------------------------------------------------------------- registers -- */

#define T %rdi /* the operands: */
#define FIELD(name) GEMM_TILES_##name(T)
#define B %rsi /* the next step of B */
#define LDB %rdx /* strides in bytes */
#define LDA %rcx
#define A0 %r8 /* the next element of A in rows 0, 3, 5 and 10: with LDA, 2, 4 and 8 LDA they reach all rows */
#define A3 %r9
#define A5 %r10
#define A10 %r11
#define X0 %rax /* steps to go; in ends: B + LDB */
#define X1 %rbx /* what is prefetched of next; in ends: goes down a column of C (start, row_max) */
#define X2 %rbp /* in ends: stride of C in bytes */
#define X3 %r12 /* B some steps ahead, or 0; in ends: merge_b */
#define X4 %r13 /* B ahead for the second-level cache, or 0; in ends: merge_a */
#define CREDIT %r14 /* quarters of lines of next that are due */
#define TILE %r15 /* the text of the size */
/* zmm0 ...          accumulators: row i of vector j is number j * mr + i
 * the last nv       a step of B; before them a factor of A
 * zmm28 to zmm31    in ends: B of the last steps. zmm27 (zmm31 where these are three): old values of C
 * k1                lanes of a half vector
 * k2                merge: all lanes, or none where what C held does not count
 * k3                row_max: all lanes, or none where there are no maxima of columns before */

/* The size of the tile in the making; rows i, vectors j, accumulators n = j * mr + i, last steps s and groups g are counted. */
#define MR LOCAL(mr)
#define NV LOCAL(nv)
#define HALF LOCAL(half) /* 1: the last vector is a half one */
#define LAST LOCAL(last) /* last steps */
#define ACCUMULATORS (MR * NV)
#define I LOCAL(i)
#define J LOCAL(j)
#define S LOCAL(s)
#define G LOCAL(g)
#define J_IS_HALF HALF && (J == NV - 1)

.altmacro
/* Each macro that has numbers has a parameter: in one without, $4 is its fifth argument for Mach-O. */

/* --------------------------------------------------------------------------------------------------------- words -- */

/* op 4*s(row I of A) rest */
.macro with_a op, s, rest
    .if I == 0
        \op 4*\s(A0)\rest
    .elseif I == 1
        \op 4*\s(A0, LDA)\rest
    .elseif I == 2
        \op 4*\s(A0, LDA, 2)\rest
    .elseif I == 3
        \op 4*\s(A3)\rest
    .elseif I == 4
        \op 4*\s(A3, LDA)\rest
    .elseif I == 5
        \op 4*\s(A5)\rest
    .elseif I == 6
        \op 4*\s(A5, LDA)\rest
    .elseif I == 7
        \op 4*\s(A5, LDA, 2)\rest
    .elseif I == 8
        \op 4*\s(A0, LDA, 8)\rest
    .elseif I == 9
        \op 4*\s(A5, LDA, 4)\rest
    .elseif I == 10
        \op 4*\s(A10)\rest
    .elseif I == 11
        \op 4*\s(A10, LDA)\rest
    .elseif I == 12
        \op 4*\s(A10, LDA, 2)\rest
    .else
        \op 4*\s(A5, LDA, 8)\rest
    .endif
.endm

/* The pointers of rows that the tile has, after so many steps. */
.macro pass_a steps
    add $4*\steps, A0
    .if MR > 3
        add $4*\steps, A3
    .endif
    .if MR > 5
        add $4*\steps, A5
    .endif
    .if MR > 10
        add $4*\steps, A10
    .endif
.endm

/* Vector n, of vectors J of rows, from memory. */
.macro load address, n
    .if J_IS_HALF
        vmovups \address, %ymm\n{%k1}{z}
    .else
        vmovups \address, %zmm\n
    .endif
.endm

/* acc += y * (element s of row I of A), of vectors J */
.macro multiply_a s, y, acc
    .if J_IS_HALF
        with_a vfmadd231ps, \s, <{1to8}, %ymm\y, %ymm\acc>
    .else
        with_a vfmadd231ps, \s, <{1to16}, %zmm\y, %zmm\acc>
    .endif
.endm

/* acc += x * y, of vectors J */
.macro multiply x, y, acc
    .if J_IS_HALF
        vfmadd231ps %ymm\x, %ymm\y, %ymm\acc
    .else
        vfmadd231ps %zmm\x, %zmm\y, %zmm\acc
    .endif
.endm

/* Sets row and vector of accumulator n. */
.macro at n
    J = \n / MR
    I = \n - J * MR
.endm

/* -------------------------------------------------------------------------------------------------------- chains -- */

.macro zero n
    vpxord %xmm\n, %xmm\n, %xmm\n
.endm

.macro begin n
    at \n
    .if I == 0
        mov FIELD(START), X1
    .endif
    load 64*J(X1), \n
    add X2, X1
.endm

.macro chains count
    cmpq $0, FIELD(START)
    jne 1f
    LOCAL(n) = 0
    .rept \count
        zero %LOCAL(n)
        LOCAL(n) = LOCAL(n) + 1
    .endr
    jmp 2f
1:
    mov FIELD(LDSTART), X2
    shl $2, X2
    LOCAL(n) = 0
    .rept \count
        begin %LOCAL(n)
        LOCAL(n) = LOCAL(n) + 1
    .endr
2:
.endm

/* --------------------------------------------------------------------------------------------------------- steps -- */

.macro broadcast_a s, x
    with_a vbroadcastss, \s, <, %zmm\x>
.endm

.macro load_b y
    load 64*J(B), \y
.endm

.macro multiply_b acc
    vfmadd231ps 64*J(B), %zmm31, %zmm\acc
.endm

/* One step of k, the s-th after the pointers of A. */
.macro step s
    .if MR == 1 && HALF == 0
        I = 0
        broadcast_a \s, 31
        J = 0
        .rept NV
            multiply_b %J
            J = J + 1
        .endr
        add LDB, B
    .else
        J = 0
        .rept NV
            load_b %(32 - NV + J)
            J = J + 1
        .endr
        add LDB, B
        I = 0
        .rept MR
            .if NV == 1
                J = 0
                multiply_a \s, 31, %I
            .else
                broadcast_a \s, %(31 - NV)
                J = 0
                .rept NV
                    multiply %(31 - NV), %(32 - NV + J), %(J * MR + I)
                    J = J + 1
                .endr
            .endif
            I = I + 1
        .endr
    .endif
.endm

/* A step of B ahead: by X3 into the first-level cache, by X4 into the second, unless they are 0. */
.macro prefetch_b vectors
    test X3, X3
    jz 8f
    J = 0
    .rept \vectors
        prefetcht0 64*J(X3)
        J = J + 1
    .endr
    add LDB, X3
    test X4, X4
    jz 8f
    J = 0
    .rept \vectors
        prefetcht1 64*J(X4)
        J = J + 1
    .endr
    add LDB, X4
8:
.endm

/* A step's share of next, unless X1 is 0: lines of which pace are due in four steps. */
.macro prefetch_next pace
    test X1, X1
    jz 9f
    add \pace, CREDIT
    cmp $4, CREDIT
    jb 9f
8:
    prefetcht1 (X1)
    add $64, X1
    sub $4, CREDIT
    cmp $4, CREDIT
    jae 8b
9:
.endm

.macro steps last
    mov FIELD(NEXT), X1
    mov FIELD(PREFETCH_B), X3
    mov FIELD(L2_DISTANCE), X4
    xor %r14d, %r14d /* CREDIT */
    mov FIELD(K), X0
    sub $\last, X0
    mov X1, X2
    or X3, X2
    jnz 3f
    mov X0, X2
    and $3, X2
    shr $2, X0
    jz 2f
    .p2align 5
1:
    step 0
    step 1
    step 2
    step 3
    pass_a 4
    dec X0
    jnz 1b
2:
    mov X2, X0
    jmp 4f
3:
    shl $2, X4
    jz 4f
    add X3, X4
4:
    test X0, X0
    jz 6f
5:
    prefetch_b %NV
    prefetch_next FIELD(PACE)
    step 0
    pass_a 1
    dec X0
    jnz 5b
6:
    test X3, X3 /* as much of B as the last steps take */
    jz 7f
    mov $\last, %eax
6:
    prefetch_b %NV
    dec X0
    jnz 6b
7:
    test X1, X1
    jz 7f
    cmp FIELD(NEXT_END), X1
    cmovae X0, X1 /* X0 is 0 */
    mov X1, FIELD(NEXT)
7:
.endm

/* ---------------------------------------------------------------------------------------------------------- ends -- */

/* Step s of accumulator n. Row 0 loads the vector of B that all rows take. */
.macro last_step n, s, y
    at \n
    .if I == 0
        .if \s == 0
            load 64*J(B), \y
        .elseif \s == 1
            load <64*J(B, LDB)>, \y
        .elseif \s == 2
            load <64*J(B, LDB, 2)>, \y
        .else
            load <64*J(X0, LDB, 2)>, \y
        .endif
    .endif
    multiply_a \s, \y, \n
.endm

.macro times_b n
    at \n
    vmulps 4*I(X3){1to16}, %zmm\n, %zmm\n
.endm

/* n = fma(c, a, n), or n where k2 has no lanes. */
.macro plus_old n, old
    load 64*J(X1), \old
    vfmadd231ps 4*I(X4){1to16}, %zmm\old, %zmm\n{%k2}
.endm

.macro end n, merges, old
    at \n
    .if I == 0
        mov FIELD(C), X1
    .endif
    .if \merges
        plus_old \n, \old
    .endif
    .if J_IS_HALF
        vmovups %ymm\n, 64*J(X1){%k1}
    .else
        vmovups %zmm\n, 64*J(X1)
    .endif
    add X2, X1
.endm

.macro ends merges
    G = 0
    .rept ACCUMULATORS + LAST + 2 * \merges - 1
        S = 0
        .rept LAST
            .if (G >= S) && (G - S < ACCUMULATORS)
                last_step %(G - S), %S, %(28 + S)
            .endif
            S = S + 1
        .endr
        .if \merges && (G >= LAST) && (G - LAST < ACCUMULATORS)
            times_b %(G - LAST)
        .endif
        .if G >= LAST + 2 * \merges - 1
            end %(G - LAST - 2 * \merges + 1), \merges, %(43 - 4 * LAST)
        .endif
        G = G + 1
    .endr
.endm

/* ------------------------------------------------------------------------------------------------------- row_max -- */

/* NaN is left out: vmaxps gives its first operand here where the second is one. */
.macro raise n
    vmaxps %zmm31, %zmm\n, %zmm31
.endm

.macro row_max rows
    mov $0xff800000, %eax /* -inf */
    vpbroadcastd %eax, %zmm30
    I = 0
    .rept \rows
        vmovaps %zmm30, %zmm31
        vmovups 64*I(X1), %zmm31{%k3}
        J = 0
        .rept NV
            raise %(J * MR + I)
            J = J + 1
        .endr
        vmovups %zmm31, 64*I(X1)
        I = I + 1
    .endr
.endm

/* --------------------------------------------------------------------------------------------------------- tiles -- */

.macro tile mr, nv, half
LOCAL(tile_)\half\()_\nv\()_\mr:
    MR = \mr
    NV = \nv
    HALF = \half
    LAST = 4
    .if ACCUMULATORS > 27
        LAST = 3
    .endif
    chains %ACCUMULATORS
    steps %LAST
    lea (B, LDB), X0
    mov FIELD(LDC), X2
    shl $2, X2
    mov FIELD(MERGE_B), X3
    mov FIELD(MERGE_A), X4
    test X3, X3
    jz 1f
    test X4, X4
    cmovz X3, X4 /* is not read */
    ends 1
    jmp LOCAL(tile_done)
1:
    ends 0
    .if HALF == 0
        mov FIELD(ROW_MAX), X1
        test X1, X1
        jz LOCAL(tile_done)
        row_max %MR
    .endif
    jmp LOCAL(tile_done)
.endm

.macro entry mr, nv, half
    .long LOCAL(tile_)\half\()_\nv\()_\mr - LOCAL(tiles)
.endm

.macro heights op, most, nv, half
    LOCAL(h) = 0
    .rept \most
        LOCAL(h) = LOCAL(h) + 1
        \op %LOCAL(h), \nv, \half
    .endr
.endm

/* All sizes, as gemm_tiles.h numbers them. */
.macro sizes op
    heights \op, 8, 1, 1
    heights \op, 8, 3, 1
    heights \op, 8, 1, 0
    heights \op, 14, 2, 0
    heights \op, 8, 3, 0
    heights \op, 6, 4, 0
.endm

FUNCTION(fv_gemm_tiles_avx512)
    SAVE(%rbx)
    SAVE(%rbp)
    SAVE(%r12)
    SAVE(%r13)
    SAVE(%r14)
    SAVE(%r15)
    SAVE_CALLEE
    PROLOGUE_END
#ifdef _WIN32
    mov ARGUMENT, T
#endif
    kmovw FIELD(LANES), %k1
    kmovw FIELD(ACCUMULATE_MAX), %k3
    kxorw %k2, %k2, %k2
    cmpq $0, FIELD(MERGE_A)
    je 1f
    kxnorw %k2, %k2, %k2
1:
    mov FIELD(LDA), LDA
    shl $2, LDA
    mov FIELD(LDB), LDB
    shl $2, LDB
    lea LOCAL(tiles)(%rip), X0
    mov FIELD(SIZE), TILE
    movslq (X0, TILE, 4), TILE
    add X0, TILE

LOCAL(tile_next):
    mov FIELD(A), A0
    lea (A0, LDA, 2), A3
    add LDA, A3
    lea (A3, LDA, 2), A5
    lea (A5, LDA, 4), A10
    add LDA, A10
    mov FIELD(B), B
    notrack jmp *TILE

    sizes tile

LOCAL(tile_done): /* the operands of the tile below */
    mov FIELD(ROWS), X0
    mov X0, X1
    imul LDA, X1
    add X1, FIELD(A)
    mov FIELD(LDC), X1
    imul X0, X1
    shl $2, X1
    add X1, FIELD(C)
    mov FIELD(LDSTART), X1 /* 0 where start is NULL */
    imul X0, X1
    shl $2, X1
    add X1, FIELD(START)
    cmpq $0, FIELD(ROW_MAX)
    je 1f
    mov X0, X1
    shl $6, X1
    add X1, FIELD(ROW_MAX)
1:
    shl $2, X0
    cmpq $0, FIELD(MERGE_B)
    je 1f
    add X0, FIELD(MERGE_B)
    cmpq $0, FIELD(MERGE_A)
    je 1f
    add X0, FIELD(MERGE_A)
1:
    decq FIELD(COUNT)
    jnz LOCAL(tile_next)
    vzeroupper
    RESTORE_CALLEE
    RESTORE(%r15)
    RESTORE(%r14)
    RESTORE(%r13)
    RESTORE(%r12)
    RESTORE(%rbp)
    RESTORE(%rbx)
    ret

    .p2align 2
LOCAL(tiles):
    sizes entry
END_FUNCTION(fv_gemm_tiles_avx512)

END_FILE

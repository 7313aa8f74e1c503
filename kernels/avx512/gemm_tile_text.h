/* The text of a tile of gemm_tiles.S, which includes this: it has the registers, and MR, NV, HALF and LAST for the size. The
 * macros below count rows (I), vectors (J), accumulators (n = J * MR + I), last steps (S) and groups of steps (G).
 *
 *   chains, steps, ends, row_max   in this order; gemm_tiles.S tells what they do */

#include "gemm_tile_words.h"

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
.macro accumulate_max n
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
            accumulate_max %(J * MR + I)
            J = J + 1
        .endr
        vmovups %zmm31, 64*I(X1)
        I = I + 1
    .endr
.endm

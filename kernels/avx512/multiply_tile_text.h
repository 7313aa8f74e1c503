/* The text of tiles of multiply_tiles.S, which includes this: it has the registers, and MR, NV, HALF, LAST and BRANCH
 * for the size. The macros below count rows (I), vectors (J), accumulators column by column (n = J * MR + I, in
 * register I * NV + J), last steps (S) and groups of steps (G).
 *
 *   steps, ends                          of one size
 *   start_row, merge_row, row_max_row    of one row, for all heights of a width: the last row comes first, so tiles
 *                                        begin at theirs
 *
 * multiply_tiles.S tells what they do. */

#include "multiply_tile_words.h"

/* --------------------------------------------------------------------------------------------------------- steps -- */

.macro broadcast_a s, x
    with_a vbroadcastss, \s, <, %zmm\x>
.endm

.macro load_b y
    load 64*J(B), \y
.endm

.macro multiply_b acc
    MULTIPLY_ADD 64*J(B), %zmm31, %zmm\acc
.endm

/* One step of k, the s-th after the pointers of A. */
.macro step s
    .if MR == 1 && HALF == 0 && !MASKED
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
            multiply_row \s
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

.macro steps last, branch
    mov FIELD(NEXT), X1
    mov FIELD(PREFETCH_B), X3
    mov FIELD(L2_DISTANCE), X4
    xor %r14d, %r14d /* CREDIT */
    mov FIELD(STEPS), X0
    .if \branch > 1
        mov X1, X2
        or X3, X2
        jnz 3f
        mov X0, X2
        and $(\branch - 1), X2
        sub X2, X0
        jz 2f
        .p2align 5
1:
        S = 0
        .rept \branch
            step %S
            S = S + 1
        .endr
        pass_a \branch
        sub $\branch, X0
        jnz 1b
2:
        mov X2, X0
3:
    .endif
    xor %ebp, %ebp /* X2 */
    test X3, X3
    jz 4f
    mov $-\last, X2 /* goes on with prefetching as much of B as the last steps take */
    shl $2, X4
    jz 4f
    add X3, X4
4:
    cmp X2, X0
    je 7f
5:
    prefetch_b %NV
    prefetch_next FIELD(PACE)
    test X0, X0
    jle 6f
    step 0
    pass_a 1
6:
    dec X0
    cmp X2, X0
    jne 5b
7:
    test X1, X1
    jz 8f
    xor %eax, %eax /* X0 */
    cmp FIELD(NEXT_END), X1
    cmovae X0, X1
    mov X1, FIELD(NEXT)
8:
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
    multiply_a \s, \y, %(I * NV + J)
.endm

.macro end n
    at \n
    .if I == 0
        mov FIELD(C), X1
    .endif
    store %(I * NV + J), 0
    add X2, X1
.endm

.macro ends last
    G = 0
    .rept ACCUMULATORS + \last
        S = 0
        .rept \last
            .if (G >= S) && (G - S < ACCUMULATORS)
                last_step %(G - S), %S, %(28 + S)
            .endif
            S = S + 1
        .endr
        .if G >= \last
            end %(G - \last)
        .endif
        G = G + 1
    .endr
.endm

/* ---------------------------------------------------------------------------------------------------------- rows -- */

/* op with the accumulator of each vector of row I, and with a register that it may overwrite */
.macro each op
    J = 0
    .rept NV
        \op %(I * NV + J), %(30 - NV)
        J = J + 1
    .endr
.endm

.macro load_start acc, free
    load 64*J(X1), \acc
.endm

.macro start_row row, nv, half
LOCAL(start_)\half\()_\nv\()_\row:
    I = \row - 1
    each load_start
    sub X2, X1
.endm

.macro times_b acc, free
    vmulps 4*I(X3){1to16}, %zmm\acc, %zmm\acc
.endm

/* acc = fma(c, a, acc), or acc where k2 has no lanes. */
.macro plus_old acc, free
    load 64*J(X1), \free
    vfmadd231ps 4*I(X4){1to16}, %zmm\free, %zmm\acc{%k2}
.endm

/* The last step, of which B is in the last registers, then the merge. */
.macro merge_row row, nv, half
LOCAL(merge_)\half\()_\nv\()_\row:
    I = \row - 1
    multiply_row 0
    each times_b
    each plus_old
    each store
    sub X2, X1
.endm

/* NaN is left out: vmaxps gives its first operand here where the second is one. */
.macro accumulate_max acc, free
    vmaxps %zmm31, %zmm\acc, %zmm31
.endm

.macro row_max_row row, nv, half
LOCAL(row_max_)\half\()_\nv\()_\row:
    I = \row - 1
    vmovups 64*I(X1), %zmm31
    each accumulate_max
    vmovups %zmm31, 64*I(X1)
.endm

/* Macros for the text of a tile (multiply_tile_text.h): operands by row and vector, and their multiply-adds. Each macro
 * that contains numbers has a parameter: in one without, Mach-O takes $4 for its fifth argument. */

.altmacro

/* op 4*s(row I of A) rest */
.macro with_a op, s, rest
    .if I == 0; \op 4*\s(A0)\rest; .endif
    .if I == 1; \op 4*\s(A0, LDA)\rest; .endif
    .if I == 2; \op 4*\s(A0, LDA, 2)\rest; .endif
    .if I == 3; \op 4*\s(A3)\rest; .endif
    .if I == 4; \op 4*\s(A3, LDA)\rest; .endif
    .if I == 5; \op 4*\s(A5)\rest; .endif
    .if I == 6; \op 4*\s(A5, LDA)\rest; .endif
    .if I == 7; \op 4*\s(A5, LDA, 2)\rest; .endif
    .if I == 8; \op 4*\s(A0, LDA, 8)\rest; .endif
    .if I == 9; \op 4*\s(A5, LDA, 4)\rest; .endif
    .if I == 10; \op 4*\s(A10)\rest; .endif
    .if I == 11; \op 4*\s(A10, LDA)\rest; .endif
    .if I == 12; \op 4*\s(A10, LDA, 2)\rest; .endif
    .if I == 13; \op 4*\s(A5, LDA, 8)\rest; .endif
.endm

/* Advances the pointers of the tile's rows by `steps` steps. */
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
    .elseif MASKED
        vmovups \address, %zmm\n{%k1}{z}
    .else
        vmovups \address, %zmm\n
    .endif
.endm

/* acc += y * (element s of row I of A), of vectors J */
.macro multiply_a s, y, acc
    .if J_IS_HALF
        with_a MULTIPLY_ADD, \s, <{1to8}, %ymm\y, %ymm\acc>
    .else
        with_a MULTIPLY_ADD, \s, <{1to16}, %zmm\y, %zmm\acc>
    .endif
.endm

/* acc += x * y, of vectors J */
.macro multiply x, y, acc
    .if J_IS_HALF
        MULTIPLY_ADD %ymm\x, %ymm\y, %ymm\acc
    .else
        MULTIPLY_ADD %zmm\x, %zmm\y, %zmm\acc
    .endif
.endm

/* Step s of row I, of which B is in the last registers. */
.macro multiply_row s
    .if NV == 1
        J = 0
        multiply_a \s, 31, %I
    .else
        broadcast_a \s, %(31 - NV)
        J = 0
        .rept NV
            multiply %(31 - NV), %(32 - NV + J), %(I * NV + J)
            J = J + 1
        .endr
    .endif
.endm

/* Accumulator, vector J of the row at X1. */
.macro store acc, free
    .if J_IS_HALF
        vmovups %ymm\acc, 64*J(X1){%k1}
    .elseif MASKED
        vmovups %zmm\acc, 64*J(X1){%k1}
    .else
        vmovups %zmm\acc, 64*J(X1)
    .endif
.endm

/* Sets row and vector of the n-th accumulator. */
.macro at n
    J = \n / MR
    I = \n - J * MR
.endm

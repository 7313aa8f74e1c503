/* Tiles of the product of many rows in AVX-512 assembly: fv_multiply_tiles_avx512(multiply_tiles *t), one below the
 * other, all of one size. multiply_tiles_bf16x2.S includes this for words of two bfloat16.
 *
 * multiply_tiles.h has the operands (struct multiply_tiles) and the sizes. docs/lab/products.md
 * tells what was measured, and what lost.
 *
 * Why assembly. A tile that stores its accumulators after all multiply-adds ends slowly: on Zen 4 a store takes the
 * register port of a multiply-add unless the vector just left a unit. So the accumulators end one after the other, each
 * with its last four steps of k, its merge and its store, and between two steps of one there are steps of others, so
 * that none waits for the one before. Compilers keep neither that order nor the addresses in registers.
 *
 * How it works. The function takes the place of a size from a table. Each tile begins with +0, or with what start
 * holds, and jumps there. The text of a size:
 *   steps     all steps of k but the last ones, BRANCH of them a branch. Where something is prefetched, one a branch
 *             with its share of that;
 *   ends      stores: the last steps, group by group: the first step of accumulator g, the second of g - 1, and so on,
 *             then the store. 28 accumulators leave registers for three last steps only.
 * Text of rows, from the last to the first, serves all heights of a width:
 *   start     loads what chains begin with;
 *   merge     one last step, the merge and the store of a row, one behind the other. Three multiply-adds for each store
 *             hide it without groups;
 *   row_max   of tiles of whole vectors, where it is asked for.
 * A tile is mr rows of nv vectors of 16 columns, or of nv vectors of which the last one has at most 8 columns (HALF),
 * those in k1. With words of two bfloat16 there are no half vectors: tiles of one vector have the columns in k1. */
#include "simd/assembly.h"
#include "multiply_tiles.h"

#ifndef MULTIPLY_TILES_BF16X2
#define MULTIPLY_TILES fv_multiply_tiles_avx512
#define MULTIPLY_ADD vfmadd231ps
#endif

/* Heights (from, to), vectors and half vectors of all sizes, as multiply_tiles.h numbers them. */
.macro sizes op
    \op 1, 8, 1, 0
    \op 1, 6, 4, 0
#ifndef MULTIPLY_TILES_BF16X2
    \op 1, 14, 2, 0
    \op 1, 8, 1, 1
    \op 7, 8, 3, 1
#endif
.endm

/* ---------------------------------------------------------------------------------------------------- registers -- */

#define T %rdi /* the operands: */
#define FIELD(name) MULTIPLY_TILES_##name(T)
#define B %rsi /* the next step of B */
#define LDB %rdx /* strides in bytes */
#define LDA %rcx
#define A0 %r8 /* the next element of A in rows 0, 3, 5 and 10: with LDA, 2, 4 and 8 LDA they reach all rows */
#define A3 %r9
#define A5 %r10
#define A10 %r11
#define X0 %rax /* steps to go; in ends: B + LDB */
#define X1 %rbx /* what is prefetched of next; in ends: goes down a column of C; in rows: of C, start or row_max */
#define X2 %rbp /* in steps: X0 after the last one; in ends and rows: stride of C (start) in bytes */
#define X3 %r12 /* B some steps ahead, or 0; in ends: merge_b */
#define X4 %r13 /* B ahead for the second-level cache, or 0; in ends: merge_a */
#define CREDIT %r14 /* quarters of lines of next that are due */
#define TILE %r15 /* the text of the size */
/* zmm0 ...          accumulators: vector j of row i in i * nv + j
 * the last nv       a step of B; before them a factor of A
 * zmm28 to zmm31    in ends: B of the last steps
 * k1                lanes of a half vector
 * k2                merge: all lanes, or none where what C held does not count */

/* The size of the tile in the making; rows i, vectors j, last steps s and groups g are counted. */
#define MR LOCAL(mr)
#define NV LOCAL(nv)
#define HALF LOCAL(half) /* 1: the last vector is a half one */
#define LAST LOCAL(last) /* last steps */
#define BRANCH LOCAL(branch) /* steps of k for each branch: few accumulators wait for their chains anyway */
#define ACCUMULATORS (MR * NV)
#define I LOCAL(i)
#define J LOCAL(j)
#define S LOCAL(s)
#define G LOCAL(g)
#define J_IS_HALF HALF && (J == NV - 1)
#ifdef MULTIPLY_TILES_BF16X2
#define MASKED (NV == 1)
#else
#define MASKED 0
#endif

#include "multiply_tile_text.h"

/* --------------------------------------------------------------------------------------------------------- tiles -- */

.macro zero acc
    vpxord %xmm\acc, %xmm\acc, %xmm\acc
.endm

.macro tile mr, nv, half
LOCAL(tile_)\half\()_\nv\()_\mr:
    MR = \mr
    .if ACCUMULATORS > 27
        LAST = 3
    .else
        LAST = 4
    .endif
    .if ACCUMULATORS >= 24
        BRANCH = 4
    .elseif ACCUMULATORS > 8
        BRANCH = 2
    .else
        BRANCH = 1
    .endif
    steps %LAST, %BRANCH
    mov FIELD(LDC), X2
    shl $2, X2
    mov FIELD(MERGE_B), X3
    test X3, X3
    jz 1f
    mov FIELD(MERGE_A), X4
    test X4, X4
    cmovz X3, X4 /* masked out: any address */
    J = 0
    .rept NV
        load_b %(32 - NV + J)
        J = J + 1
    .endr
    imul $(MR - 1), X2, X1
    add FIELD(C), X1
    jmp LOCAL(merge_)\half\()_\nv\()_\mr
1:
    lea (B, LDB), X0
    ends %LAST
    .if HALF == 0
        mov FIELD(ROW_MAX), X1
        test X1, X1
        jnz LOCAL(row_max_)\half\()_\nv\()_\mr
    .endif
    jmp LOCAL(tile_done)
.endm

.macro heights op, least, most, nv, half
    LOCAL(h) = \least
    .rept \most - \least + 1
        \op %LOCAL(h), \nv, \half
        LOCAL(h) = LOCAL(h) + 1
    .endr
.endm

.macro rows op, most, nv, half
    LOCAL(h) = \most
    .rept \most
        \op %LOCAL(h), \nv, \half
        LOCAL(h) = LOCAL(h) - 1
    .endr
.endm

/* All tiles of a width. */
.macro width least, most, nv, half
    NV = \nv
    HALF = \half
    heights tile, \least, \most, \nv, \half
    rows start_row, \most, \nv, \half
    notrack jmp *TILE
    .if HALF == 0
        rows row_max_row, \most, \nv, \half
        jmp LOCAL(tile_done)
    .endif
    rows merge_row, \most, \nv, \half
    jmp LOCAL(tile_done)
.endm

.macro tile_entry mr, nv, half
    .long LOCAL(tile_)\half\()_\nv\()_\mr - LOCAL(tiles)
.endm

.macro start_entry mr, nv, half
    .long LOCAL(start_)\half\()_\nv\()_\mr - LOCAL(starts)
.endm

.macro tile_entries least, most, nv, half
    heights tile_entry, \least, \most, \nv, \half
.endm

.macro start_entries least, most, nv, half
    heights start_entry, \least, \most, \nv, \half
.endm

FUNCTION(MULTIPLY_TILES)
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
    cmpq $0, FIELD(START)
    jne 1f
    I = 0
    .rept 28
        zero %I
        I = I + 1
    .endr
    notrack jmp *TILE
1:
    mov FIELD(LDSTART), X2
    shl $2, X2
    mov FIELD(ROWS), X1
    dec X1
    imul X2, X1
    add FIELD(START), X1
    lea LOCAL(starts)(%rip), X0
    mov FIELD(SIZE), X3
    movslq (X0, X3, 4), X3
    add X0, X3
    notrack jmp *X3

    sizes width

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
    sizes tile_entries
LOCAL(starts):
    sizes start_entries
END_FUNCTION(MULTIPLY_TILES)

END_FILE

/* Shared by products of few rows with integers in groups (groups_few.c): rows go through B block after block. A tier
 * gives the functions that multiply, body/multiply_groups_few.h, of one format. */
#ifndef FV_GROUPS_FEW_H
#define FV_GROUPS_FEW_H

#include "kernels.h"

/* Consecutive groups of a panel, and the rows that are multiplied with them. */
typedef struct fv_groups_block {
    const uint32_t *words; /* of its first step */
    int64_t columns, ldb, steps, group;
    uintptr_t fetch; /* what is fetched first, meanwhile; then so much of what is read, of `share`. Of a stream (panel):
                        bytes from what is read to what is fetched; pairs of lines: twice as many */
    int64_t share;
    const void *scales;  /* floats of its first group, zeros or minimums behind them; or what is in its gap */
    int64_t width, next; /* floats to these, and to the next group */
    int64_t first;       /* columns of the panel before those that are multiplied */
    /* Scales in gaps (layout, else FV_SCALES_COUNT): steps of a chunk, and words of the gap before it; bytes from there
     * to the scales of its first group, from those of a group to its zeros or minimums, and to the next group. */
    int layout;
    int64_t chunk, gap, super, other, groups;
    /* Words to the next panel, where all columns of one are multiplied at once: what is read is one stream, which
     * hardware fetches most of. Else 0. */
    int64_t panel;
    fv_group_extra extra;
    int zero;            /* of all groups, as the tier multiplies integers */
    const int8_t *table; /* of i4tg */
    const uint32_t *a;
    int64_t lda;        /* words to the next row */
    const float *start; /* chains begin with these; NULL: with +0 */
    int64_t ldstart;
    float *c;
    int64_t ldc;
} fv_groups_block;

/* Functions for 1 row and for `rows`. */
typedef struct fv_groups_few {
    int bias, rows; /* of integers of 8 bits, as the tier multiplies them */
    int whole;      /* do `rows`, too, take all columns of a panel group by group? */
    int columns[2]; /* at once, of which there is a multiple */
    void (*product[2])(const fv_groups_block *p);
} fv_groups_few;

void fv_groups_few_run(const fv_groups_few *with, const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                       const fv_epilogue *epilogue, const fv_prefetch *prefetch);

#ifdef FV_TABLE /* codes of 4 bits become bytes with sign */
enum { TABLE = 1 };
#else
enum { TABLE = 0 };
#endif

#define FEW_INLINE static inline __attribute__((always_inline))

enum { LINE_BYTES = 64, MOST_ROWS = 4, MOST_VECTORS = 4 };

/* Hides these numbers from the compiler, which would else keep a pointer to each row and compute the next ones by
 * multiplication: more than the registers hold. */
FEW_INLINE void few_opaque(const uint32_t **b, const char **x, uintptr_t *fetch, int64_t *lda) {
    __asm__("" : "+r"(*b), "+r"(*x), "+r"(*fetch), "+r"(*lda));
}

FEW_INLINE const fv_group_row *few_row(const char *x, int64_t stride, int row) {
    return (const fv_group_row *)(const void *)(x + row * stride);
}

#endif

/* What products of few rows with integers in groups share (groups_few.c): rows go through B piece after piece. A tier
 * gives the functions that multiply, body/multiply_groups_few.h, of one format. */
#ifndef FV_GROUPS_FEW_H
#define FV_GROUPS_FEW_H

#include "kernels.h"

enum { FV_GROUPS_MOST_ROWS = 8, FV_GROUPS_MOST_COLUMNS = 256 };

typedef struct fv_groups_sums {
    float chains[FV_GROUPS_MOST_ROWS][FV_GROUPS_MOST_COLUMNS];
    int32_t totals[FV_GROUPS_MOST_ROWS][FV_GROUPS_MOST_COLUMNS]; /* of the group so far */
} fv_groups_sums;

/* A piece of a group, of `rows` rows from `row` on. Those that are not there are the last one once more. */
typedef struct fv_groups_piece {
    fv_groups_sums *sums;
    const uint32_t *words; /* of its first step */
    int64_t half;          /* of these words, where a row of them holds more than 16 steps */
    int64_t columns, ldb;
    int64_t fetch; /* bytes from what is read to what is fetched; 0: to nothing new */
    int64_t row, rows;
    int64_t done, steps;        /* of the group before, and of the piece */
    const float *scales, *more; /* of the group; its zeros or minimums, if it has any */
    fv_group_extra extra;
    const fv_i8_row *group[FV_GROUPS_MOST_ROWS]; /* of the rows */
    int32_t start[FV_GROUPS_MOST_ROWS];          /* of the group's sums */
} fv_groups_piece;

typedef struct fv_groups_few {
    int most;  /* rows at once: 4 or 8 */
    int bias;  /* of integers of 8 bits, as the tier multiplies them */
    int piece; /* steps of a group for which sums stay in registers, a multiple of 32 */
    void (*columns[4])(const fv_groups_piece *p); /* of 1, 2, 4 and `most` rows: totals, of all columns */
    void (*end)(const fv_groups_piece *p);        /* of a group: totals go to the chains */
} fv_groups_few;

void fv_groups_few_run(const fv_groups_few *with, const fv_rows *a, const fv_operand *b, float *c, int64_t ldc,
                       const fv_epilogue *epilogue, const fv_prefetch *prefetch);

#endif

/* call-kernel ROW COUNT: calls a product of the list COUNT times on a tile's worth of scores (48 x 96 of 64 channels,
 * in panels as wide as its tile) and prints the flops of one call. For counting instructions (bench/mca.py): the
 * difference of two counts is the cost of calls, without start and end of the program. */
#include "dispatch/dispatch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 48, COLUMNS = 96, DEPTH = 64 };

static float a[ROWS * DEPTH], b[DEPTH * COLUMNS], c[ROWS * COLUMNS];

int main(int argc, char **argv) {
    const fv_kernel *row = argc == 3 ? fv_kernel_named(argv[1]) : NULL;
    if (!row || !fv_multiply_is(row, FV_KIND_f32, FV_FORMAT_f32, false)) {
        fprintf(stderr,
                "usage: call-kernel ROW COUNT, with a multiply_f32_f32 row of kernels.inc that this build has\n");
        return 2;
    }
    for (int i = 0; i < ROWS * DEPTH; i++)
        a[i] = (float)(i % 7);
    for (int i = 0; i < DEPTH * COLUMNS; i++)
        b[i] = (float)(i % 5);
    for (long n = atol(argv[2]); n > 0; n--)
        for (int64_t j = 0; j < COLUMNS; j += row->nr)
            row->run.multiply(&(fv_rows){a, ROWS, DEPTH},
                              &(fv_operand){.data = b + j * DEPTH, .columns = row->nr, .steps = DEPTH, .row = row->nr},
                              c + j, COLUMNS, NULL, NULL);
    printf("flops %d\n", 2 * ROWS * COLUMNS * DEPTH);
    return 0;
}

/* An execution of a linear map, and what it does with one panel (panel.c). execute.c deals panels to threads. */
#ifndef FV_LINEAR_EXECUTION_H
#define FV_LINEAR_EXECUTION_H

#include "dispatch/dispatch.h"
#include "linear/linear.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Counters that threads share. */
typedef struct fv_linear_counters {
    _Atomic int64_t products, paired; /* fovea_linear_stats */
    _Atomic int64_t next[FV_NODES];   /* items; of weights that are spread, those of each node */
} fv_linear_counters;

typedef struct fv_linear_execution {
    const fovea_context *ctx;
    const fovea_linear *linear;
    const fovea_linear_args *args;
    fv_linear_choice choice;
    fv_activation activation;
    fv_linear_scratch scratch; /* of a thread */
    char *scratches;
    int64_t rows, row_block, group; /* group: panels of an item */
    int64_t tokens;                 /* rows of a sequence of y */
    const int64_t *index;           /* row i is of row index[i] of x, which is gathered; NULL: of row i */
    const int64_t *places;          /* row i goes to row places[i] of y; NULL: to row i. There is no residual */
    int64_t first_panel, panels;    /* those of the first part wanted to the last */
    int64_t items, groups, tasks;
    bool even; /* rows of different sequences are as far apart as those of one */
    /* Rows of x become floats in scratch, as they have another type, or groups that no block can begin with. */
    bool gathers;
    bool pairs; /* rows of x become pairs in scratch */
    const fv_kernel
        *integers; /* what multiplies rows of x as integers, which are in scratch as it wants them; or NULL */
    struct fv_linear_counters *counters;
    int queue; /* the counter of its items */
} fv_linear_execution;

/* Rows whose places in every tensor are evenly apart: count, after done ones from a token of a sequence on. */
typedef struct fv_row_run {
    int64_t batch, token, done, count;
    int64_t first; /* the row of its batch and token, counted in the item */
} fv_row_run;

/* A thread's scratch, and what it holds of the rows of its item. */
typedef struct fv_linear_buffers {
    float *products, *x, *pairs, *weights, *y;
    fv_exponent_range *exponents; /* of rows in pairs */
    bool all_paired;              /* all rows of the item, with all weights */
    uint32_t *integers;
    int64_t integers_first; /* the row that these begin with; -1: none */
    float *scales;
    uint32_t *words;
    fv_operand groups; /* the block that is multiplied, of weights in groups */
    int64_t products_done, paired_done;
} fv_linear_buffers;

/* Are rows of x made to pairs? Not if a group begins within one. */
bool fv_linear_pairs(const fv_linear_execution *e);

/* Is x, as the caller has it, to be multiplied as floats in places where a block of weights may begin? */
bool fv_linear_gathers(const fv_linear_execution *e);

/* Are a row's channels of x one stretch of memory? */
bool fv_linear_one_stretch(const fv_linear_execution *e);

/* Sets gathers, pairs and integers, by what else is known. */
void fv_linear_select_path(fv_linear_execution *e);

/* The product that may go over tiles, or NULL. */
const fv_kernel *fv_linear_over_tiles(const fv_linear_execution *e);

/* A thread's scratch. */
fv_linear_buffers fv_linear_buffers_in(const fv_linear_scratch *s, char *scratch);

/* Runs an item; next: the item after it, or e->items. */
void fv_linear_run_item(const fv_linear_execution *e, int64_t item, int64_t next, fv_linear_buffers *b);

/* How far apart rows of one sequence, or of sequences of one row, are. */
int64_t fv_linear_row_stride(const fovea_tensor *t);

/* Input channels that lie together: of a head of x, or, where its heads follow each other or are in scratch, all. */
int64_t fv_linear_together(const fv_linear_execution *e);

/* Rows of an item as the kernels take them: before its panels, run by run; *all: their exponents. */
void fv_linear_read_pairs(const fv_linear_execution *e, const fv_linear_buffers *b, const fv_row_run *run,
                          fv_exponent_range *all);
void fv_linear_read_floats(const fv_linear_execution *e, const fv_linear_buffers *b, const fv_row_run *run);

void fv_linear_read_integers(const fv_linear_execution *e, const fv_linear_buffers *b, const fv_row_run *run);

/* Channel c of head h, of the first row of a run. */
void *fv_linear_place(const fovea_tensor *t, const fv_row_run *run, int64_t head, int64_t channel);

/* A block of panels in groups, step channels from k on, for a product: as it lies; or, of one panel, its scales as
 * floats, and its integers as words of i8g, if a product of many rows, or unpacking (NULL), needs them. (groups.c) */
fv_operand fv_linear_open_groups(const fovea_linear *l, const fv_linear_buffers *b, int64_t panel, int64_t columns,
                                 int64_t k, int64_t step, const fv_kernel *product);

/* The most panels of a call: several where one row of x reads them as one stream, so that reading never pauses. */
int64_t fv_linear_panels(const fv_linear_execution *e);

/* Panels from `panel` on for the rows of a run. next_rows: floats of x to prefetch meanwhile. */
void fv_linear_run_panels(const fv_linear_execution *e, const fv_row_run *rows, int64_t panel, int64_t panels,
                          const fv_prefetch_range *next_rows, fv_linear_buffers *b);

#endif

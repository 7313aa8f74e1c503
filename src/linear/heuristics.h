/* The choices for one linear map and number of rows, and how tests, benchmarks and the tuner make them instead. The
 * width of packed panels is not among them: weights are packed before rows are known. */
#ifndef FV_LINEAR_HEURISTICS_H
#define FV_LINEAR_HEURISTICS_H

#include "fovea/fovea.h"
#include "kernels.h"

#include <stdbool.h>

/* None of these changes a bit of any result. A field of 0 or NULL: the default. */
typedef struct fv_linear_choice {
    const fv_kernel *gemm; /* any product of floats of the tier: a panel is worked off in strips as wide as its tile */
    int64_t k_block;       /* input channels of one call of it, at most: blocks are of equal length */
    int64_t row_block;     /* rows of a work item, at most: they are read again for each panel */
    int64_t chunk;         /* rows that go through all blocks of k, and then to y, together */
    int64_t items;         /* work items that each thread has at least, if there are panels enough: columns are split */
    int64_t split_rows;    /* rows are split, too, for threads with too few items, into blocks of at least this many */
    int64_t few_rows;    /* most rows for which weights are multiplied as they are packed: 16 bits widened in registers,
                            groups by the product of few rows; beyond, or if -1, a block of them is widened first */
    int64_t integers;    /* which product of many rows multiplies groups: its number (fv_linear_product()) */
    int64_t pair_rows;   /* fewest rows for which x becomes pairs where the weights are; -1: never */
    int64_t widened;     /* channels of a block of weights that becomes floats, at most */
    int64_t prefetch;    /* an fv_linear_prefetch */
    int64_t ahead;       /* fv_prefetch's, of up to FV_LINEAR_FEW_ROWS rows */
    int64_t gather;      /* an fv_linear_gather */
    int64_t cache_scale; /* per cent of the caches' sizes for which defaults are made; 0: 100 */
} fv_linear_choice;

/* Which weights a product prefetches: those that it reads some steps later, or the block after its own. */
typedef enum fv_linear_prefetch { FV_LINEAR_PREFETCH_OWN = 1, FV_LINEAR_PREFETCH_NEXT } fv_linear_prefetch;

/* Whether rows of floats are multiplied where they lie, if they can be, or copied to scratch first. */
typedef enum fv_linear_gather { FV_LINEAR_GATHER_NO = 1, FV_LINEAR_GATHER_YES } fv_linear_gather;

/* Products of many rows of integers in groups, numbered from 1 on as they are listed; NULL after the last. */
const fv_kernel *fv_linear_product(int64_t number);

/* The whole choice for a number of threads and rows: the fields of `requested`, else (NULL) the tuning file's, else the
 * defaults. */
fv_linear_choice fv_linear_heuristics(const fovea_linear *linear, int threads, int64_t rows,
                                      const fv_linear_choice *requested);

/* The effect of a choice for these, in the form of a choice: equal fields mean equal work. cache_scale:
 * whether rows are prefetched. */
fv_linear_choice fv_linear_effect(const fovea_linear *linear, int threads, int64_t rows,
                                  const fv_linear_choice *requested);

/* Whether that many rows and weights fit into the second-level cache, as far as a choice tells. */
bool fv_linear_rows_fit(const fovea_linear *linear, const fv_linear_choice *choice, int64_t rows);

/* Rows of a block where rows meet panels: at most the choice's, in equal parts, in whole tiles. */
int64_t fv_linear_block(const fovea_linear *linear, const fv_linear_choice *choice, int64_t threads, int64_t rows,
                        int64_t panels);

/* Panels of a work item, where all rows go in blocks of row_block. */
int64_t fv_linear_group(const fv_linear_choice *choice, int64_t threads, int64_t row_block, int64_t rows,
                        int64_t panels);

/* Bytes of workspace where each thread has that many, with room to align it; INT64_MAX: too many to count. */
int64_t fv_linear_workspace(int threads, int64_t thread_bytes);

/* fovea_linear_apply() with a choice that fv_linear_heuristics() made; arguments are not checked. workspace: that of
 * fv_linear_lay_out()'s bytes a thread. */
void fv_linear_apply_chosen(const fovea_context *ctx, const fovea_linear *linear, const fovea_linear_args *args,
                            const fv_linear_choice *choice, void *workspace);

/* Writes fovea_linear_describe()'s text to stderr, in a line: FOVEA_DEBUG=1. */
void fv_linear_debug(const fovea_linear *linear);

/* As fovea_linear_describe(), for a number of rows. */
size_t fv_linear_describe_rows(const fovea_linear *linear, int64_t rows, char *text, size_t size);

#endif

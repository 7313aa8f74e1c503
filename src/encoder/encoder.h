/* Rows of tensors, as the operations of fovea/encoder.h read and write them: in runs of channels, as floats. */
#ifndef FV_ENCODER_H
#define FV_ENCODER_H

#include "arrays/arrays.h"
#include "context/context.h"
#include "core/core.h"

enum { FV_RUN = 512 }; /* channels of a run, a multiple of FV_LANES: its floats are little of a stack */

/* A tensor whose rows are read or written. */
typedef struct fv_view {
    const fovea_tensor *tensor;
    fv_converter convert; /* to floats of an input; of floats of an output */
} fv_view;

fv_view fv_view_input(const fovea_tensor *t, fv_target target);
fv_view fv_view_output(const fovea_tensor *t, fv_target target);

/* n channels of a row from first on: where they are, or converted to floats in run. */
const float *fv_view_read(const fv_view *view, int64_t row, int64_t first, int64_t n, float *run);

/* Where to write n such floats: in place, or run, which fv_view_written() converts. */
float *fv_view_write(const fv_view *view, int64_t row, int64_t first, float *run);
void fv_view_written(const fv_view *view, int64_t row, int64_t first, int64_t n, const float *run);

/* Calls rows(arg, begin, end) for ranges of count rows, from several threads; elements is the work of a row. */
typedef void fv_rows_fn(const void *arg, int64_t begin, int64_t end);
void fv_rows_run(const fovea_context *ctx, int64_t count, int64_t elements, fv_rows_fn *rows, const void *arg);

/* Loops over n <= FV_RUN floats. */
void fv_run_add(int64_t n, const float *x, float *sum);
void fv_run_add_weighted(int64_t n, float weight, const float *x, float *sum);
void fv_run_max(int64_t n, const float *x, float *max);
void fv_run_finish(int64_t n, const float *x, float factor, float divisor, float *y); /* one is 1; NaN -> 0x7fc00000 */
void fv_run_squares(int64_t n, const float *x, float lanes[FV_LANES]);                /* adds to them */

#endif

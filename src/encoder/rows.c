/* encoder.h: views and ranges of rows. */
#include "encoder/encoder.h"

enum { TASK_ELEMENTS = 1 << 14 }; /* least for a thread of its own */

fv_view fv_view_input(const fovea_tensor *t, fv_target target) {
    return (fv_view){t, fv_converter_make(t->dtype, FOVEA_DTYPE_F32, target)};
}

fv_view fv_view_output(const fovea_tensor *t, fv_target target) {
    return (fv_view){t, fv_converter_make(FOVEA_DTYPE_F32, t->dtype, target)};
}

static char *place(const fovea_tensor *t, int64_t row, int64_t first, int64_t size) {
    const int64_t token = row % t->shape[2], head = row / t->shape[2] % t->shape[1],
                  batch = row / t->shape[2] / t->shape[1];
    return (char *)t->data + size * (batch * t->stride[0] + head * t->stride[1] + token * t->stride[2] + first);
}

const float *fv_view_read(const fv_view *view, int64_t row, int64_t first, int64_t n, float *run) {
    const char *at = place(view->tensor, row, first, view->convert.from_size);
    if (view->convert.same)
        return (const float *)(const void *)at;
    fv_convert(&view->convert, n, at, run);
    return run;
}

float *fv_view_write(const fv_view *view, int64_t row, int64_t first, float *run) {
    return view->convert.same ? (float *)(void *)place(view->tensor, row, first, view->convert.to_size) : run;
}

void fv_view_written(const fv_view *view, int64_t row, int64_t first, int64_t n, const float *run) {
    if (!view->convert.same)
        fv_convert(&view->convert, n, run, place(view->tensor, row, first, view->convert.to_size));
}

typedef struct ranges {
    fv_rows_fn *rows;
    const void *arg;
    int64_t count, each;
} ranges;

static void range(void *arg, int64_t task) {
    const ranges *r = arg;
    const int64_t begin = task * r->each, end = fv_min(begin + r->each, r->count);
    if (begin < end)
        r->rows(r->arg, begin, end);
}

void fv_rows_run(const fovea_context *ctx, int64_t count, int64_t elements, fv_rows_fn *rows, const void *arg) {
    const int64_t tasks = fv_max(fv_min(fv_min(count * elements / TASK_ELEMENTS, count), ctx->threads.count), 1);
    ranges r = {rows, arg, count, fv_ceil_div(count, tasks)};
    fv_parallel(&ctx->threads, tasks, &(fv_work){.task = range, .arg = &r});
}

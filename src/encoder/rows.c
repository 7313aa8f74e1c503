/* encoder.h: views and ranges of rows. */
#include "encoder/encoder.h"

enum { TASK_ELEMENTS = 1 << 14 }; /* least for a thread of its own */

static const char takes[] = "operations of encoders take FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16 and FOVEA_DTYPE_F16";

fovea_status fv_view_sizes(const char *name, const fovea_tensor *t, bool rows_only) {
    int64_t all = 1;
    for (int i = 0; i < 4; i++) {
        if (t->shape[i] < (i == 3))
            return fv_fail(FOVEA_ERROR_SHAPE, "%s has a size of %lld; it must be at least %d", name,
                           (long long)t->shape[i], i == 3);
        if (rows_only && i < 2 && t->shape[i] != 1)
            return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld x %lld x %lld x %lld elements, not 1 x 1 x rows x channels",
                           name, (long long)t->shape[0], (long long)t->shape[1], (long long)t->shape[2],
                           (long long)t->shape[3]);
        if (t->shape[i] > FV_SIZE_LIMIT || !fv_multiply(all, t->shape[i], &all) || all > FV_SIZE_LIMIT)
            return fv_fail(FOVEA_ERROR_OVERFLOW, "%s has %lld x %lld x %lld x %lld elements: too large", name,
                           (long long)t->shape[0], (long long)t->shape[1], (long long)t->shape[2],
                           (long long)t->shape[3]);
    }
    return FOVEA_OK;
}

fovea_status fv_view_check(const char *name, const fovea_tensor *t, const int64_t shape[4], bool output,
                           fv_span *span) {
    *span = (fv_span){name, 0, 0};
    if (fv_type_of(t->dtype) == FV_TYPE_COUNT)
        return fv_dtype_refuse(name, t->dtype, takes);
    if (!t->data && shape[0] > 0 && shape[1] > 0 && shape[2] > 0)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", name);
    const fv_tensor_rule rule = {name, t->dtype, {shape[0], shape[1], shape[2], shape[3]}, output, false};
    return fv_tensor_check(t, &rule, span);
}

bool fv_view_same(const fovea_tensor *a, const fovea_tensor *b) {
    bool same = a->data == b->data && a->dtype == b->dtype;
    for (int i = 0; i < 4; i++)
        same = same && (a->shape[i] == 1 || a->stride[i] == b->stride[i]);
    return same;
}

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

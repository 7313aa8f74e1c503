/* fovea_attention_merge (fovea/state.h): a few rows and channels at a time, through all parts, by the kernels that
 * merge segments. */
#include "context/context.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Rows and channels that are merged at a time, on the stack. More channels need fewer exp; few rows suit short ones. */
enum { ROWS = 16, CHANNELS = 128 };

typedef struct merging {
    const fovea_attention_part *parts, *whole;
    int64_t count;
    const float *sinks;
    fv_merge_f32_fn *merge;
    fv_accumulate_f32_fn *accumulate;
    fv_finish_f32_fn *finish;
} merging;

/* Rows [first, first + rows) of a head. */
typedef struct rows_at {
    int64_t batch, head, first, rows;
} rows_at;

static float *element(const fovea_tensor *t, const rows_at *at) {
    return (float *)t->data + at->batch * t->stride[0] + at->head * t->stride[1] + at->first * t->stride[2];
}

/* Accumulates n channels of the rows of a part that are not empty. */
static void add_part(const merging *x, int64_t rows, int64_t n, const float *out, int64_t stride, const float *lse,
                     const float *a, const float *b, float *o) {
    for (int64_t row = 0, end; row < rows; row = end + 1) {
        for (end = row; end < rows && lse[end] != -INFINITY; end++)
            continue;
        if (row < end)
            x->accumulate(end - row, n, out + row * stride, stride, a + row, b + row, o + row * n, n);
    }
}

/* M and L are complete after each call, which is for some of the channels. */
static void merge_channels(const merging *x, const rows_at *at, int64_t channel, int64_t n, float M[ROWS],
                           float L[ROWS]) {
    static const float zero[CHANNELS];
    float o[ROWS * CHANNELS], m[ROWS], l[ROWS], a[ROWS], b[ROWS];
    memset(o, 0, (size_t)(at->rows * n) * sizeof *o);
    for (int64_t i = 0; i < at->rows; i++) {
        M[i] = -INFINITY;
        L[i] = 0.0f;
        l[i] = 1.0f; /* times b, which is 0 where lse is -inf */
    }
    for (int64_t i = 0; i < x->count + (x->sinks != NULL); i++) {
        const fovea_attention_part *part = i < x->count ? &x->parts[i] : NULL; /* NULL: the sink */
        const float *lse = part ? element(&part->lse, at) : &x->sinks[at->head];
        const int64_t step = part ? part->lse.stride[2] : 0;
        for (int64_t row = 0; row < at->rows; row++)
            m[row] = lse[row * step];
        x->merge(at->rows, m, l, M, L, a, b);
        add_part(x, at->rows, n, part ? element(&part->out, at) + channel : zero, part ? part->out.stride[2] : 0, m, a,
                 b, o);
    }
    const fovea_tensor *out = &x->whole->out;
    x->finish(at->rows, n, o, n, M, L, element(out, at) + channel, out->stride[2], NULL, 0);
}

static void merge_rows(const merging *x, const rows_at *at) {
    const int64_t channels = x->whole->out.shape[3];
    const fovea_tensor *lse = &x->whole->lse;
    float M[ROWS], L[ROWS];
    for (int64_t channel = 0; channel < channels; channel += CHANNELS)
        merge_channels(x, at, channel, fv_min(CHANNELS, channels - channel), M, L);
    if (lse->data) /* only now: it may be a part's */
        x->finish(at->rows, 0, M, 0, M, L, M, 0, element(lse, at), lse->stride[2]);
}

/* ------------------------------------------------------------------------------------------------------- checks -- */

/* Are both the same elements? */
static bool same_elements(const fovea_tensor *a, const fovea_tensor *b) {
    bool same = a->data == b->data;
    for (int i = 0; i < 4; i++)
        same = same && (a->shape[i] == 1 || a->stride[i] == b->stride[i]);
    return same;
}

/* One tensor of a part, or of the whole. */
typedef struct operand {
    const fovea_tensor *tensor;
    char name[40];
    fv_span span;
} operand;

enum { OUT, LSE, FIELDS };

/* index < 0: of the whole, which may lack lse. */
static fovea_status check_part(const fovea_attention_part *part, int64_t index, const int64_t shape[4],
                               operand x[FIELDS]) {
    static const char *const fields[FIELDS] = {"out", "lse"};
    fovea_status status = FOVEA_OK;
    for (int i = 0; i < FIELDS && status == FOVEA_OK; i++) {
        const fovea_tensor *t = x[i].tensor = i == OUT ? &part->out : &part->lse;
        if (index < 0)
            snprintf(x[i].name, sizeof x[i].name, "whole->%s", fields[i]);
        else
            snprintf(x[i].name, sizeof x[i].name, "parts[%lld].%s", (long long)index, fields[i]);
        x[i].span = (fv_span){x[i].name, 0, 0};
        const fv_tensor_rule rule = {
            x[i].name, FOVEA_DTYPE_F32, {shape[0], shape[1], shape[2], i == OUT ? shape[3] : 1}, index < 0, false};
        if (t->data)
            status = fv_tensor_check(t, &rule, &x[i].span);
        else if ((index >= 0 || i == OUT) && shape[0] > 0 && shape[1] > 0 && shape[2] > 0)
            status = fv_fail(FOVEA_ERROR_NULL, "%s is NULL", x[i].name);
    }
    return status;
}

static fovea_status check_sizes(const int64_t shape[4], int64_t count) {
    static const char *const axes[4] = {"batch", "head", "token", "channel"};
    if (count < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "count is %lld; it must be at least 0", (long long)count);
    for (int i = 0; i < 4; i++)
        if (shape[i] < (i == 3))
            return fv_fail(FOVEA_ERROR_SHAPE, "whole->out: %s axis has %lld elements, it must have at least %d",
                           axes[i], (long long)shape[i], i == 3);
    return FOVEA_OK;
}

static fovea_status check(const fovea_attention_part *parts, int64_t count, const float *sinks,
                          const fovea_attention_part *whole) {
    operand own[FIELDS], of_part[FIELDS];
    if (!whole || (!parts && count > 0))
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", whole ? "parts" : "whole");
    const int64_t *shape = whole->out.shape;
    fovea_status status = check_sizes(shape, count);
    if (status == FOVEA_OK)
        status = check_part(whole, -1, shape, own);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(&own[OUT].span, &own[LSE].span);
    const uintptr_t begin = (uintptr_t)sinks;
    const fv_span span = {"sinks", begin, sinks ? begin + (uintptr_t)shape[1] * sizeof *sinks : begin};
    for (int i = 0; i < FIELDS && status == FOVEA_OK; i++)
        status = fv_spans_disjoint(&own[i].span, &span);
    for (int64_t part = 0; part < count && status == FOVEA_OK; part++) {
        status = check_part(&parts[part], part, shape, of_part);
        for (int i = 0; i < FIELDS * FIELDS && status == FOVEA_OK; i++) {
            const operand *written = &own[i / FIELDS], *read = &of_part[i % FIELDS];
            if (i / FIELDS != i % FIELDS || !same_elements(written->tensor, read->tensor))
                status = fv_spans_disjoint(&written->span, &read->span);
        }
    }
    return status;
}

fovea_status fovea_attention_merge(const fovea_attention_part *parts, int64_t count, const float *sinks,
                                   const fovea_attention_part *whole) {
    FV_HOLD_EXCEPTIONS();
    const fovea_context *ctx;
    fovea_status status = check(parts, count, sinks, whole);
    if (status == FOVEA_OK && fv_tensor_empty(&whole->out))
        return FOVEA_OK;
    if (status == FOVEA_OK)
        status = fv_context_default(&ctx);
    if (status != FOVEA_OK)
        return status;
    const merging x = {.parts = parts,
                       .whole = whole,
                       .count = count,
                       .sinks = sinks,
                       .merge = fv_kernel_best(FV_OP_merge, FV_TYPE_f32, ctx->target)->run.merge_f32,
                       .accumulate = fv_kernel_best(FV_OP_accumulate, FV_TYPE_f32, ctx->target)->run.accumulate_f32,
                       .finish = fv_kernel_best(FV_OP_finish, FV_TYPE_f32, ctx->target)->run.finish_f32};
    const int64_t *shape = whole->out.shape;
    rows_at at;
    for (at.batch = 0; at.batch < shape[0]; at.batch++)
        for (at.head = 0; at.head < shape[1]; at.head++)
            for (at.first = 0; at.first < shape[2]; at.first += ROWS) {
                at.rows = fv_min(ROWS, shape[2] - at.first);
                merge_rows(&x, &at);
            }
    return FOVEA_OK;
}

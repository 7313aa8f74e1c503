/* fovea_attention_merge (fovea/state.h): a few rows and channels at a time, through all parts, by the kernels that merge
 * segments. */
#include "context/context.h"
#include "core/core.h"
#include "dispatch/dispatch.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is in flight, on the stack. More channels need fewer exp, fewer rows fit short sequences. */
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

/* Accumulates channels [channel, channel + n) of the rows that are not empty. */
static void add_part(const merging *x, const fovea_tensor *out, const rows_at *at, const float *lse, int64_t channel,
                     int64_t n, const float *a, const float *b, float *o) {
    const float *from = element(out, at) + channel;
    for (int64_t row = 0, end; row < at->rows; row = end + 1) {
        for (end = row; end < at->rows && lse[end] != -INFINITY; end++)
            continue;
        if (row < end)
            x->accumulate(end - row, n, from + row * out->stride[2], out->stride[2], a + row, b + row, o + row * n, n);
    }
}

/* M and L are complete after each call, which is for some of the channels. */
static void merge_channels(const merging *x, const rows_at *at, int64_t channel, int64_t n, float M[ROWS],
                           float L[ROWS]) {
    float o[ROWS * CHANNELS], m[ROWS], l[ROWS], a[ROWS], b[ROWS];
    memset(o, 0, (size_t)(at->rows * n) * sizeof *o);
    for (int64_t i = 0; i < at->rows; i++) {
        M[i] = -INFINITY;
        L[i] = 0.0f;
        l[i] = 1.0f; /* times b, which is 0 where lse is -inf */
    }
    for (int64_t part = 0; part < x->count; part++) {
        const fovea_tensor *lse = &x->parts[part].lse;
        for (int64_t i = 0; i < at->rows; i++)
            m[i] = element(lse, at)[i * lse->stride[2]];
        x->merge(at->rows, m, l, M, L, a, b);
        add_part(x, &x->parts[part].out, at, m, channel, n, a, b, o);
    }
    if (x->sinks) {
        const float zero[CHANNELS] = {0};
        for (int64_t i = 0; i < at->rows; i++)
            m[i] = x->sinks[at->head];
        x->merge(at->rows, m, l, M, L, a, b);
        x->accumulate(at->rows, n, zero, 0, a, b, o, n);
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

typedef struct operand {
    const fovea_tensor *tensor;
    const char *field; /* "out" */
    char name[40];
    fv_span span;
} operand;

/* part < 0: of the whole. */
static fovea_status check_operand(operand *x, const fovea_tensor *tensor, const char *field, int64_t part,
                                  const int64_t shape[3], int64_t channels) {
    x->tensor = tensor;
    x->field = field;
    if (part < 0)
        snprintf(x->name, sizeof x->name, "whole->%s", field);
    else
        snprintf(x->name, sizeof x->name, "parts[%lld].%s", (long long)part, field);
    x->span = (fv_span){x->name, 0, 0};
    if (!tensor->data && shape[0] && shape[1] && shape[2])
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", x->name);
    const fv_tensor_rule rule = {x->name, FOVEA_DTYPE_F32, {shape[0], shape[1], shape[2], channels}, part < 0, false};
    return fv_tensor_check(tensor, &rule, &x->span);
}

/* Of an operand of the whole and one of a part. */
static fovea_status check_apart(const operand *written, const operand *read) {
    if (written->field == read->field && same_elements(written->tensor, read->tensor))
        return FOVEA_OK;
    return fv_spans_disjoint(&written->span, &read->span);
}

static fovea_status check_whole(const fovea_attention_part *whole, const float *sinks, operand own[2]) {
    static const char *const axes[4] = {"batch", "head", "token", "channel"};
    const int64_t *shape = whole->out.shape;
    for (int i = 0; i < 4; i++)
        if (shape[i] < (i == 3))
            return fv_fail(FOVEA_ERROR_SHAPE, "whole->out: %s axis has %lld elements, it must have at least %d",
                           axes[i], (long long)shape[i], i == 3);
    fovea_status status = check_operand(&own[0], &whole->out, "out", -1, shape, shape[3]);
    own[1] = (operand){.tensor = &whole->lse, .field = "lse"};
    if (status == FOVEA_OK && whole->lse.data)
        status = check_operand(&own[1], &whole->lse, "lse", -1, shape, 1);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(&own[0].span, &own[1].span);
    const uintptr_t begin = (uintptr_t)sinks;
    const fv_span span = {"sinks", begin, sinks ? begin + (uintptr_t)shape[1] * sizeof *sinks : begin};
    for (int i = 0; i < 2 && status == FOVEA_OK; i++)
        status = fv_spans_disjoint(&own[i].span, &span);
    return status;
}

static fovea_status check(const fovea_attention_part *parts, int64_t count, const float *sinks,
                          const fovea_attention_part *whole) {
    operand own[2], of_part[2];
    if (count < 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "count is %lld; it must be at least 0", (long long)count);
    if (!whole || (!parts && count > 0))
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", whole ? "parts" : "whole");
    const int64_t *shape = whole->out.shape;
    fovea_status status = check_whole(whole, sinks, own);
    for (int64_t part = 0; part < count && status == FOVEA_OK; part++) {
        status = check_operand(&of_part[0], &parts[part].out, own[0].field, part, shape, shape[3]);
        if (status == FOVEA_OK)
            status = check_operand(&of_part[1], &parts[part].lse, own[1].field, part, shape, 1);
        for (int i = 0; i < 4 && status == FOVEA_OK; i++)
            status = check_apart(&own[i / 2], &of_part[i % 2]);
    }
    return status;
}

fovea_status fovea_attention_merge(const fovea_attention_part *parts, int64_t count, const float *sinks,
                                   const fovea_attention_part *whole) {
    FV_HOLD_EXCEPTIONS();
    const fovea_context *ctx;
    fovea_status status = check(parts, count, sinks, whole);
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

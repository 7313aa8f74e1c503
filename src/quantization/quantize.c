/* fovea_quantize() and fovea_dequantize() (fovea/quantization.h): checks, threads, errors. Rows are dealt to threads in
 * equal ranges. A first pass, without a search, finds out whether all rows have scales, so that nothing is written if
 * one has not. */
#include "quantization/rounding.h"

#include "dispatch/dispatch.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------------ quantize -- */

/* Sums of the errors of a row. */
typedef struct row_error {
    double most, sum, given;
} row_error;

typedef struct quantizing {
    const fovea_matrix *from;
    fv_target target;
    fv_rounding rounding;
    int64_t row_bytes, scale_bytes;
    uint8_t *data, *scales; /* NULL: the first pass */
    row_error *errors;      /* [out], or NULL */
    char *scratch;
    int64_t floats, integers, row, row_scales, each; /* places in a task's scratch; its bytes */
    int64_t tasks;
    _Atomic int64_t refused; /* 1 + the first row that has no scale, or numbers that are not finite */
} quantizing;

static void lay_out(quantizing *q) {
    const int64_t in = q->from->in;
    q->each = 0;
    q->floats = fv_reserve(&q->each, in, 2 * sizeof(float)); /* and what they become */
    q->integers = fv_reserve(&q->each, in, 2);
    q->row = fv_reserve(&q->each, q->row_bytes, 1);
    q->row_scales = fv_reserve(&q->each, q->scale_bytes, 1);
}

static row_error error_of(const quantizing *q, const float *x, const uint8_t *data, const uint8_t *scales,
                          float *numbers) {
    const int64_t in = q->from->in;
    fovea_quantization with;
    fovea_quantization_init(&with);
    with.group_scales = scales;
    with.group_size = q->rounding.group < in ? q->rounding.group : 0;
    with.scale_dtype = q->rounding.scales == FV_SCALES_f16    ? FOVEA_DTYPE_F16
                       : q->rounding.scales == FV_SCALES_bf16 ? FOVEA_DTYPE_BF16
                                                              : FOVEA_DTYPE_F32;
    fovea_matrix row = fovea_matrix_out_in(data, q->rounding.to, 1, in);
    row.quantization = fv_dtype_scaled(row.dtype) ? &with : NULL;
    fv_quantized_numbers(&row, 0, 1, numbers);
    row_error e = {0};
    for (int64_t i = 0; i < in; i++) {
        const double error = fabs((double)numbers[i] - x[i]);
        e.most = error > e.most ? error : e.most;
        e.sum += error * error;
        e.given += (double)x[i] * x[i];
    }
    return e;
}

static bool all_finite(int64_t n, const float *x) {
    uint32_t bits, all = 0;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&bits, x + i, sizeof bits);
        all |= (bits & 0x7f800000) == 0x7f800000;
    }
    return !all;
}

/* The first row is named, whichever thread finds one first. */
static void refuse(quantizing *q, int64_t row) {
    int64_t before = q->refused;
    while ((before == 0 || row < before) && !atomic_compare_exchange_weak(&q->refused, &before, row))
        ;
}

static void quantize_rows(void *arg, int64_t task) {
    quantizing *q = arg;
    const fovea_matrix *m = q->from;
    char *scratch = q->scratch + task * q->each;
    float *x = (float *)(void *)(scratch + q->floats);
    const int64_t size = fv_dtype_size(m->dtype);
    for (int64_t o = task * m->out / q->tasks; o < (task + 1) * m->out / q->tasks; o++) {
        uint8_t *data = q->data ? q->data + o * q->row_bytes : (uint8_t *)scratch + q->row;
        uint8_t *scales = q->data ? q->scales + o * q->scale_bytes : (uint8_t *)scratch + q->row_scales;
        fv_to_floats(m->in, (const char *)m->data + o * m->out_stride * size, m->in_stride, m->dtype, x, q->target);
        if ((!q->data && !all_finite(m->in, x)) ||
            !fv_round_row(&q->rounding, m->in, x, (int8_t *)scratch + q->integers, data, scales)) {
            refuse(q, o + 1);
            return;
        }
        if (q->data && q->errors)
            q->errors[o] = error_of(q, x, data, scales, x + m->in);
    }
}

static bool can_make(fovea_dtype to) {
    switch (to) {
    case FOVEA_DTYPE_I8:
    case FOVEA_DTYPE_U4:
    case FOVEA_DTYPE_Q8_0:
    case FOVEA_DTYPE_Q4_0:
    case FOVEA_DTYPE_Q4_1:
    case FOVEA_DTYPE_Q4_K: return fv_dtype_built(to);
    default: return false;
    }
}

static fovea_status check_target(fovea_dtype to, int64_t in, int64_t out, const fovea_quantize_options *given,
                                 fovea_quantize_options *options) {
    fovea_quantize_options_init(options);
    const fovea_status status = given ? fv_struct_read(FV_STRUCT(fovea_quantize_options), given, options) : FOVEA_OK;
    if (status != FOVEA_OK)
        return status;
    const fv_dtype_block block = fv_dtype_block_of(to);
    if (!can_make(to))
        return fv_dtype_refuse("to", to, "fovea_quantize makes FOVEA_DTYPE_I8, _U4, _Q8_0, _Q4_0, _Q4_1 and _Q4_K");
    if (in < 1 || out < 1)
        return fv_fail(FOVEA_ERROR_SHAPE, "in is %lld and out is %lld; both must be at least 1", (long long)in,
                       (long long)out);
    if (in > FV_SIZE_LIMIT || out > FV_SIZE_LIMIT / in / 8)
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%lld x %lld weights are too large", (long long)in, (long long)out);
    if (block.elements > 1)
        return in % block.elements == 0
                   ? FOVEA_OK
                   : fv_fail(FOVEA_ERROR_SHAPE, "in is %lld, no multiple of the %d elements of a block", (long long)in,
                             block.elements);
    const fovea_dtype scale = options->scale_dtype;
    if (scale != FOVEA_DTYPE_F32 && scale != FOVEA_DTYPE_F16 && scale != FOVEA_DTYPE_BF16)
        return fv_dtype_refuse("scale_dtype", scale, "scales are FOVEA_DTYPE_F32, FOVEA_DTYPE_F16 or FOVEA_DTYPE_BF16");
    if (to == FOVEA_DTYPE_U4 && options->group_size == 0)
        options->group_size = 32;
    return fv_group_size_check(in, options->group_size, "from");
}

static fv_rounding rounding_of(fovea_dtype to, int64_t in, const fovea_quantize_options *options) {
    const bool blocks = fv_dtype_block_of(to).elements > 1;
    const fovea_dtype scale = blocks                                             ? FOVEA_DTYPE_F16
                              : to == FOVEA_DTYPE_I8 && options->group_size == 0 ? FOVEA_DTYPE_F32
                                                                                 : options->scale_dtype;
    return (fv_rounding){.to = to,
                         .scales = scale == FOVEA_DTYPE_F32   ? FV_SCALES_f32
                                   : scale == FOVEA_DTYPE_F16 ? FV_SCALES_f16
                                                              : FV_SCALES_bf16,
                         .group = options->group_size && !blocks ? options->group_size : in,
                         .search = options->search != 0};
}

/* Bytes of a row's scales. */
static int64_t scale_bytes_of(const fv_rounding *r, int64_t in) {
    return fv_dtype_block_of(r->to).elements > 1 ? 0 : in / r->group * fv_scale_size(r->scales);
}

fovea_status fovea_quantize_size(fovea_dtype to, int64_t in, int64_t out, const fovea_quantize_options *options,
                                 size_t *data, size_t *scales) {
    const fv_pointer pointers[] = {{"data", data}, {"scales", scales}};
    fovea_quantize_options own;
    fovea_status status = fv_pointers_check(pointers, 2);
    if (status == FOVEA_OK)
        status = check_target(to, in, out, options, &own);
    if (status != FOVEA_OK)
        return status;
    const fv_rounding rounding = rounding_of(to, in, &own);
    *data = (size_t)(fv_dtype_bytes(to, in) * out);
    *scales = (size_t)(scale_bytes_of(&rounding, in) * out);
    return FOVEA_OK;
}

static fovea_status check_source(const fovea_matrix *m) {
    int64_t a, b;
    if (fv_type_of(m->dtype) == FV_TYPE_COUNT)
        return fv_dtype_refuse("dtype of from", m->dtype,
                               "fovea_quantize takes FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16 and FOVEA_DTYPE_F16");
    if (m->quantization)
        return fv_quantized_check(m, "from");
    if (m->in_stride < 0 || m->out_stride < 0)
        return fv_fail(FOVEA_ERROR_STRIDE, "from has a negative stride (%lld, %lld)", (long long)m->in_stride,
                       (long long)m->out_stride);
    if (!fv_multiply(m->in, m->in_stride, &a) || !fv_multiply(m->out, m->out_stride, &b) || !fv_add(a, b, &a) ||
        !fv_multiply(a, (int64_t)sizeof(float), &a))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "the strides of from exceed the address space");
    return FOVEA_OK;
}

static fv_span span_of(const char *name, const void *data, int64_t bytes) {
    return (fv_span){name, (uintptr_t)data, (uintptr_t)data + (data ? (uintptr_t)bytes : 0)};
}

/* Checks that what is written overlaps nothing else. */
static fovea_status check_apart(const quantizing *q, const void *data, const void *scales,
                                const fovea_quantize_stats *error) {
    const fovea_matrix *m = q->from;
    const int64_t last = (m->in - 1) * m->in_stride + (m->out - 1) * m->out_stride;
    const fv_span none = {0};
    fv_span spans[] = {span_of("data", data, q->row_bytes * m->out), span_of("scales", scales, q->scale_bytes * m->out),
                       fv_struct_span("error", error),
                       span_of("data of from", m->data, (last + 1) * fv_dtype_size(m->dtype))};
    bool written[] = {true, true, true, false};
    return fv_spans_apart(spans, written, 4, &none);
}

/* The errors of rows, in their order. */
static void sum_errors(const quantizing *q, fovea_quantize_stats *given) {
    double sum = 0, of_given = 0;
    fovea_quantize_stats error;
    fovea_quantize_stats_init(&error);
    for (int64_t o = 0; o < q->from->out; o++) {
        error.max = fmax(error.max, q->errors[o].most);
        sum += q->errors[o].sum;
        of_given += q->errors[o].given;
    }
    error.rms = sqrt(sum / ((double)q->from->in * (double)q->from->out));
    error.relative = of_given > 0 ? sqrt(sum / of_given) : 0;
    fv_struct_write(FV_STRUCT(fovea_quantize_stats), given, &error);
}

/* Both passes, with scratch. */
static fovea_status run(quantizing *q, const fv_threads *threads, void *data, void *scales) {
    const fv_work work = {.task = quantize_rows, .arg = q};
    const bool wide = q->rounding.search;
    q->rounding.search = false;
    fv_parallel(threads, q->tasks, &work);
    if (q->refused)
        return fv_fail(FOVEA_ERROR_ARGUMENT,
                       "output channel %lld of from has a number that is NaN, infinite or too large for a scale",
                       (long long)q->refused - 1);
    q->rounding.search = wide;
    q->data = data;
    q->scales = scales;
    fv_parallel(threads, q->tasks, &work);
    return FOVEA_OK;
}

fovea_status fovea_quantize(const fovea_context *ctx, const fovea_matrix *from, fovea_dtype to,
                            const fovea_quantize_options *options, void *data, void *scales,
                            fovea_quantize_stats *error) {
    FV_HOLD_EXCEPTIONS();
    fv_float_plain(); /* until this returns: the mode is part of the rules */
    const fv_pointer pointers[] = {{"ctx", ctx}, {"from", from}, {"data", data}};
    fovea_status status = fv_pointers_check(pointers, 3);
    if (status == FOVEA_OK && !from->data)
        status = fv_fail(FOVEA_ERROR_NULL, "data of from is NULL");
    fovea_quantize_options own;
    if (status == FOVEA_OK)
        status = check_target(to, from->in, from->out, options, &own);
    if (status == FOVEA_OK)
        status = check_source(from);
    if (status == FOVEA_OK && error)
        status = fv_struct_check(FV_STRUCT(fovea_quantize_stats), error);
    if (status != FOVEA_OK)
        return status;
    quantizing q = {.from = from, .target = ctx->target, .rounding = rounding_of(to, from->in, &own)};
    q.row_bytes = fv_dtype_bytes(to, from->in);
    q.scale_bytes = scale_bytes_of(&q.rounding, from->in);
    q.tasks = fv_min(ctx->threads.count, from->out);
    if (q.scale_bytes > 0 && !scales)
        return fv_fail(FOVEA_ERROR_NULL, "scales is NULL, but %s has scales", fv_enum_name(FV_ENUM_dtype, (int)to));
    status = check_apart(&q, data, scales, error);
    if (status != FOVEA_OK)
        return status;
    lay_out(&q);
    q.scratch = q.each < 0 ? NULL : fv_allocate_pages((size_t)(q.each * q.tasks));
    q.errors = error ? calloc((size_t)from->out, sizeof *q.errors) : NULL;
    status = q.scratch && (q.errors || !error)
                 ? run(&q, &ctx->threads, data, scales)
                 : fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory to quantize rows of %lld", (long long)from->in);
    if (status == FOVEA_OK && error)
        sum_errors(&q, error);
    fv_free_pages(q.scratch);
    free(q.errors);
    return status;
}

/* ---------------------------------------------------------------------------------------------------- dequantize -- */

/* Bytes from the first integer or block of a checked matrix to the last. */
static int64_t bytes_of(const fovea_matrix *m) {
    const fv_reader r = fv_read_begin(m, NULL);
    if (r.block)
        return fv_dtype_bytes(m->dtype, (m->out - 1) * m->out_stride + m->in);
    const int64_t last = (m->in - 1) * r.matrix.in_stride + (m->out - 1) * r.matrix.out_stride;
    return fv_ceil_div((r.quantization.packing == FOVEA_PACKING_PLAIN ? last + 1 : m->in * m->out) * r.bits, 8);
}

typedef struct dequantizing {
    const fovea_matrix *from;
    float *to;
    int64_t tasks;
} dequantizing;

static void dequantize_columns(void *arg, int64_t task) {
    const dequantizing *d = arg;
    const int64_t first = task * d->from->out / d->tasks, end = (task + 1) * d->from->out / d->tasks;
    fv_quantized_numbers(d->from, first, end - first, d->to + first * d->from->in);
}

fovea_status fovea_dequantize(const fovea_context *ctx, const fovea_matrix *from, float *to) {
    FV_HOLD_EXCEPTIONS();
    const fv_pointer pointers[] = {{"ctx", ctx}, {"from", from}, {"to", to}};
    fovea_status status = fv_pointers_check(pointers, 3);
    if (status != FOVEA_OK)
        return status;
    if (!from->data)
        return fv_fail(FOVEA_ERROR_NULL, "data of from is NULL");
    if (!fv_dtype_quantized(from->dtype) || !fv_dtype_built(from->dtype))
        return fv_dtype_refuse("dtype of from", from->dtype, "fovea_dequantize takes quantized weights");
    if (from->in < 1 || from->out < 1)
        return fv_fail(FOVEA_ERROR_SHAPE, "from is %lld x %lld; both sizes must be at least 1", (long long)from->in,
                       (long long)from->out);
    if (from->in > FV_SIZE_LIMIT || from->out > FV_SIZE_LIMIT / from->in / 8)
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%lld x %lld weights are too large", (long long)from->in,
                       (long long)from->out);
    status = fv_quantized_check(from, "from");
    if (status != FOVEA_OK)
        return status;
    const fv_span given = span_of("data of from", from->data, bytes_of(from)),
                  written = span_of("to", to, from->in * from->out * (int64_t)sizeof *to);
    status = fv_spans_disjoint(&written, &given);
    if (status != FOVEA_OK)
        return status;
    dequantizing d = {from, to, fv_min(ctx->threads.count, from->out)};
    const fv_work work = {.task = dequantize_columns, .arg = &d};
    fv_parallel(&ctx->threads, d.tasks, &work);
    return FOVEA_OK;
}

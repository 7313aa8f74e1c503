/* Checks of linear maps and their arguments: everything that can be wrong is found here, before any output is touched.
 */
#include "core/core.h"
#include "dispatch/dispatch.h"
#include "linear/linear.h"

#include <math.h>
#include <stdio.h>

/* More parts than anybody has; their number times a size stays in range. */
static const int64_t part_limit = 1024;

static fovea_status check_size(const char *name, int64_t part, int64_t size) {
    if (size < 1)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s of part %lld is %lld; it must be at least 1", name, (long long)part,
                       (long long)size);
    if (size > FV_SIZE_LIMIT)
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%s of part %lld is %lld: too large", name, (long long)part,
                       (long long)size);
    return FOVEA_OK;
}

static const char takes[] = "linear maps take FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16 and FOVEA_DTYPE_F16";

static fovea_status refuse_dtype(const char *what, int64_t part, fovea_dtype dtype, const char *types) {
    char field[64];
    snprintf(field, sizeof field, "dtype of the %s of part %lld", what, (long long)part);
    return fv_dtype_refuse(field, dtype, types);
}

static fovea_status check_part(const fovea_linear_desc *d, int64_t p) {
    const fovea_linear_part *part = fv_linear_parts(d) + p;
    const fovea_matrix *w = &part->weight;
    if (!w->data)
        return fv_fail(FOVEA_ERROR_NULL, "the weight of part %lld is NULL", (long long)p);
    fovea_status status = check_size("in", p, w->in);
    if (status == FOVEA_OK)
        status = check_size("out", p, w->out);
    if (status != FOVEA_OK)
        return status;
    if (w->in != d->in_features)
        return fv_fail(FOVEA_ERROR_SHAPE, "the weight of part %lld takes %lld channels, but in_features is %lld",
                       (long long)p, (long long)w->in, (long long)d->in_features);
    if (!fv_linear_format_of(w->dtype))
        return refuse_dtype("weight", p, w->dtype, fv_linear_weight_types);
    char name[48];
    snprintf(name, sizeof name, "the weight of part %lld", (long long)p);
    status = fv_quantized_check(w, name);
    if (status != FOVEA_OK)
        return status;
    if (part->bias && part->bias_dtype != 0 && fv_type_of(part->bias_dtype) == FV_TYPE_COUNT)
        return refuse_dtype("bias", p, part->bias_dtype, takes);
    if (part->has_scale && !isfinite((float)part->scale))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "scale %g of part %lld is not a finite float", part->scale, (long long)p);
    if (part->reserved)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "reserved of part %lld is not NULL", (long long)p);
    return FOVEA_OK;
}

static fovea_status read_dtypes(fovea_linear_desc *d) {
    if (d->y_dtype == 0)
        d->y_dtype = d->dtype;
    if (d->residual_dtype == 0)
        d->residual_dtype = d->y_dtype;
    if (fv_type_of(d->dtype) == FV_TYPE_COUNT)
        return fv_dtype_refuse("dtype", d->dtype, takes);
    if (fv_type_of(d->y_dtype) == FV_TYPE_COUNT)
        return fv_dtype_refuse("y_dtype", d->y_dtype, takes);
    return fv_type_of(d->residual_dtype) == FV_TYPE_COUNT ? fv_dtype_refuse("residual_dtype", d->residual_dtype, takes)
                                                          : FOVEA_OK;
}

/* Selects the arithmetic of a map, quantized of whose parts are quantized. */
static fovea_status select_quantized(fovea_linear_desc *d, int64_t quantized) {
    const bool named = d->arithmetic == FOVEA_ARITHMETIC_Q16 || d->arithmetic == FOVEA_ARITHMETIC_Q8;
    for (int64_t p = 0; p < d->part_count; p++)
        if (fv_linear_parts(d)[p].weight.dtype == FOVEA_DTYPE_F8_E4M3) {
            if (named)
                return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                               "arithmetic is %s, which multiplies integers, but the weight of part %lld is "
                               "FOVEA_DTYPE_F8_E4M3: ask for FOVEA_ARITHMETIC_EXACT",
                               fv_enum_name(FV_ENUM_arithmetic, (int)d->arithmetic), (long long)p);
            d->arithmetic = FOVEA_ARITHMETIC_EXACT;
        }
    if (d->arithmetic == FOVEA_ARITHMETIC_EXACT)
        return FOVEA_OK;
    if (quantized < d->part_count)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED,
                       "arithmetic is %s, but %s: ask for FOVEA_ARITHMETIC_EXACT, or make maps of their own",
                       fv_enum_name(FV_ENUM_arithmetic, (int)d->arithmetic),
                       quantized ? "some of the weights are quantized and others are not" : "no weights are quantized");
    d->arithmetic = d->arithmetic == FOVEA_ARITHMETIC_Q8 ? FOVEA_ARITHMETIC_Q8 : FOVEA_ARITHMETIC_Q16;
    return FOVEA_OK;
}

fovea_status fv_linear_select_arithmetic(const fovea_context *ctx, fovea_linear_desc *d) {
    const fovea_linear_part *parts = fv_linear_parts(d);
    int64_t quantized = 0;
    for (int64_t p = 0; p < d->part_count; p++)
        quantized += fv_dtype_quantized(parts[p].weight.dtype);
    const bool of_bf16 = d->arithmetic == FOVEA_ARITHMETIC_BF16 || d->arithmetic == FOVEA_ARITHMETIC_BF16_TILE,
               integers = d->arithmetic == FOVEA_ARITHMETIC_Q16 || d->arithmetic == FOVEA_ARITHMETIC_Q8;
    if ((quantized && !of_bf16) || integers) {
        const fovea_status known = fv_enum_check(FV_ENUM_arithmetic, "arithmetic", (int)d->arithmetic);
        return known == FOVEA_OK ? select_quantized(d, quantized) : known;
    }
    fovea_dtype weights = FOVEA_DTYPE_BF16; /* or that of the first part that has another */
    for (int64_t p = 0; p < d->part_count && weights == FOVEA_DTYPE_BF16; p++)
        weights = parts[p].weight.dtype;
    const fv_arithmetic_operand operands[] = {{"dtype", d->dtype}, {"a weight's dtype", weights}};
    return fv_arithmetic_select(ctx, FV_ARITHMETIC_OF_linear, d->arithmetic, operands, 2, &d->arithmetic);
}

/* A gated map has two parts of one size. */
static fovea_status check_gated(const fovea_linear_desc *d) {
    const fovea_linear_part *parts = fv_linear_parts(d);
    fv_activation gate = FV_ACT_NONE;
    if (!fv_linear_gates(d->activation, &gate))
        return FOVEA_OK;
    const char *name = fv_enum_name(FV_ENUM_activation, (int)d->activation);
    if (d->part_count != 2)
        return fv_fail(FOVEA_ERROR_SHAPE, "part_count is %lld; %s takes 2 parts, gate and up", (long long)d->part_count,
                       name);
    if (parts[0].weight.out != parts[1].weight.out)
        return fv_fail(FOVEA_ERROR_SHAPE, "the gate has %lld output channels and up %lld; %s takes equal parts",
                       (long long)parts[0].weight.out, (long long)parts[1].weight.out, name);
    return FOVEA_OK;
}

fovea_status fv_linear_read_desc(const fovea_linear_desc *given, fovea_linear_desc *d) {
    if (!given)
        return fv_fail(FOVEA_ERROR_NULL, "desc is NULL");
    fovea_linear_desc_init(d);
    fovea_status status = fv_struct_read(FV_STRUCT(fovea_linear_desc), given, d);
    if (status != FOVEA_OK)
        return status;
    status = read_dtypes(d);
    if (status == FOVEA_OK)
        status = fv_enum_check(FV_ENUM_activation, "activation", (int)d->activation);
    if (status != FOVEA_OK)
        return status;
    if (d->part_count < 1 || d->part_count > part_limit)
        return fv_fail(FOVEA_ERROR_SHAPE, "part_count is %lld; it must be from 1 to %lld", (long long)d->part_count,
                       (long long)part_limit);
    if (!d->parts && d->part_count != 1)
        return fv_fail(FOVEA_ERROR_NULL, "parts is NULL, but part_count is %lld", (long long)d->part_count);
    for (int64_t p = 0; status == FOVEA_OK && p < d->part_count; p++)
        status = check_part(d, p);
    return status == FOVEA_OK ? check_gated(d) : status;
}

static bool no_rows(const fovea_tensor *x) { return x->shape[0] == 0 || x->shape[2] == 0; }

/* Tensors of the arguments, and which of them may not share memory with which. */
static fovea_status check_x(const fovea_linear *l, const fovea_linear_args *args, fv_span *span) {
    const fovea_tensor *x = &args->x;
    int64_t channels;
    *span = (fv_span){"x", 0, 0};
    if (!x->data && (!no_rows(x) || x->shape[1] < 1))
        return fv_fail(FOVEA_ERROR_NULL, "x is NULL");
    for (int i = 0; i < 4; i++) {
        const int64_t least = i == 0 || i == 2 ? 0 : 1; /* rows may be none */
        if (x->shape[i] < least)
            return fv_fail(FOVEA_ERROR_SHAPE, "x has a size of %lld; it must be at least %lld", (long long)x->shape[i],
                           (long long)least);
    }
    if (!fv_multiply(x->shape[1], x->shape[3], &channels) || channels != l->in)
        return fv_fail(FOVEA_ERROR_SHAPE, "x has %lld group%s of %lld channel%s, but in_features is %lld",
                       (long long)x->shape[1], fv_plural(x->shape[1]), (long long)x->shape[3], fv_plural(x->shape[3]),
                       (long long)l->in);
    if (x->shape[0] > FV_SIZE_LIMIT || x->shape[2] > FV_SIZE_LIMIT / fv_max(x->shape[0], 1))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "x has %lld x %lld rows: too large", (long long)x->shape[0],
                       (long long)x->shape[2]);
    const fv_tensor_rule rule = {"x", l->x_dtype, {x->shape[0], x->shape[1], x->shape[2], x->shape[3]}, false, false};
    return fv_tensor_check(x, &rule, span);
}

/* "y[1]": by hand, as it is written for each part of each call. */
enum { PART_NAME = 24 };
static const char *name_part(const char *array, int64_t part, char name[PART_NAME]) {
    char digits[8];
    int count = 0, n = 0;
    for (int64_t rest = part; count == 0 || rest > 0; rest /= 10)
        digits[count++] = (char)('0' + rest % 10);
    while (*array)
        name[n++] = *array++;
    name[n++] = '[';
    while (count > 0)
        name[n++] = digits[--count];
    name[n++] = ']';
    name[n] = '\0';
    return name;
}

/* y, or its residual, of a part: any split of the part's columns into heads. */
static fovea_status check_output(const fovea_linear *l, const fovea_linear_args *args, int64_t p, bool output,
                                 char name[PART_NAME], fv_span *span) {
    name_part(output ? "y" : "residual", p, name);
    const fovea_tensor *t = output ? &args->y[p] : &args->residual[p];
    const int64_t heads = args->y[p].shape[1];
    *span = (fv_span){name, 0, 0};
    if (!t->data && no_rows(&args->x))
        return FOVEA_OK;
    if (!t->data)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", name);
    if (heads < 1 || l->parts[p].out % heads != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld heads, which do not divide the part's %lld channels", name,
                       (long long)heads, (long long)l->parts[p].out);
    const fv_tensor_rule rule = {name,
                                 output ? l->y_dtype : l->residual_dtype,
                                 {args->x.shape[0], heads, args->x.shape[2], l->parts[p].out / heads},
                                 output,
                                 false};
    return fv_tensor_check(t, &rule, span);
}

/* The same elements in the same places: a residual that is added in place. */
static bool same_elements(const fovea_tensor *a, const fovea_tensor *b) {
    bool same = a->data == b->data && a->dtype == b->dtype;
    for (int i = 0; i < 4; i++)
        same = same && a->shape[i] == b->shape[i] && (a->shape[i] == 1 || a->stride[i] == b->stride[i]);
    return same;
}

/* Memory that is written besides outputs: nothing else may overlap it. */
enum { WORKSPACE, STATS, WRITTEN };
static fovea_status check_written(const fv_span *span, const fv_span written[WRITTEN]) {
    const fovea_status status = fv_spans_disjoint(span, &written[WORKSPACE]);
    return status == FOVEA_OK ? fv_spans_disjoint(span, &written[STATS]) : status;
}

/* Part p's output against the input, lengths, all residuals, outputs of later parts, the workspace and stats. */
static fovea_status check_overlaps(const fovea_linear *l, const fovea_linear_args *args, int64_t p, const fv_span *x,
                                   const fv_span *lens, const fv_span written[WRITTEN]) {
    char name[PART_NAME], other_name[PART_NAME];
    fv_span own, other;
    fovea_status status = check_output(l, args, p, true, name, &own);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(&own, x);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(&own, lens);
    if (status == FOVEA_OK)
        status = check_written(&own, written);
    for (int64_t q = fv_linear_next_part(l, args, 0); status == FOVEA_OK && q < l->part_count;
         q = fv_linear_next_part(l, args, q + 1)) {
        if (args->residual) {
            status = check_output(l, args, q, false, other_name, &other);
            if (status == FOVEA_OK && !(p == q && same_elements(&args->y[p], &args->residual[q])))
                status = fv_spans_disjoint(&own, &other);
            if (status == FOVEA_OK)
                status = check_written(&other, written);
        }
        if (status == FOVEA_OK && q > p) {
            status = check_output(l, args, q, true, other_name, &other);
            if (status == FOVEA_OK)
                status = fv_spans_disjoint(&own, &other);
        }
    }
    return status;
}

fovea_status fv_linear_read_args(const fovea_linear_args *given, fovea_linear_args *args) {
    fovea_linear_args_init(args);
    return fv_struct_read(FV_STRUCT(fovea_linear_args), given, args);
}

fovea_status fv_linear_check_args(const fovea_linear *l, const fovea_linear_args *args, const void *workspace,
                                  size_t workspace_size, size_t bytes) {
    if (!args->y)
        return fv_fail(FOVEA_ERROR_NULL, "y is NULL");
    if (args->has_activation) {
        const fovea_status known = fv_enum_check(FV_ENUM_activation, "activation", (int)args->activation);
        if (known != FOVEA_OK)
            return known;
        fv_activation gate = l->activation;
        if (l->gated != fv_linear_gates(args->activation, &gate) || (l->gated && gate != l->activation))
            return fv_fail(FOVEA_ERROR_ARGUMENT,
                           "a call cannot change an activation that gates, such as FOVEA_ACTIVATION_SILU_GATED");
    }
    if (args->stats) {
        const fovea_status known = fv_struct_check(FV_STRUCT(fovea_linear_stats), args->stats);
        if (known != FOVEA_OK)
            return known;
    }
    if (workspace && workspace_size < bytes)
        return fv_fail(FOVEA_ERROR_WORKSPACE, "workspace has %zu bytes, but this linear map needs %zu", workspace_size,
                       bytes);
    fv_span x;
    fovea_status status = check_x(l, args, &x);
    const uintptr_t begin = (uintptr_t)workspace;
    const fv_span written[WRITTEN] = {{"the workspace", begin, workspace ? begin + bytes : begin},
                                      fv_struct_span("stats", args->stats)};
    const fv_span lens = fv_lens_span("lens", args->lens, args->x.shape[0]);
    if (status == FOVEA_OK)
        status = check_written(&x, written);
    if (status == FOVEA_OK)
        status = check_written(&lens, written);
    if (status == FOVEA_OK)
        status = fv_spans_disjoint(&written[STATS], &written[WORKSPACE]);
    const int64_t first = fv_linear_next_part(l, args, 0) % l->part_count; /* without any, the first is missed */
    for (int64_t p = first; status == FOVEA_OK && p < l->part_count; p = fv_linear_next_part(l, args, p + 1))
        status = check_overlaps(l, args, p, &x, &lens, written);
    /* Only now: x's batch, by which lens is read, is that of all. */
    for (int64_t b = 0; status == FOVEA_OK && args->lens && b < args->x.shape[0]; b++)
        if (args->lens[b] < 0 || args->lens[b] > args->x.shape[2])
            status = fv_fail(FOVEA_ERROR_SHAPE, "lens[%lld] is %lld; it must be from 0 to %lld", (long long)b,
                             (long long)args->lens[b], (long long)args->x.shape[2]);
    return status;
}

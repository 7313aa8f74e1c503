/* Tensor and matrix constructors, and checks of tensors (tensor.h). */
#include "core/tensor.h"

#include "core/names.h"
#include "core/size.h"
#include "core/status.h"

#include <stdio.h>

/* Wrapping is harmless here: the checks refuse every tensor whose strides could have wrapped. */
static int64_t times(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

fovea_tensor fovea_tensor_bhtd(void *data, fovea_dtype dtype, int64_t batch, int64_t heads, int64_t tokens,
                               int64_t channels) {
    const int64_t token = channels, head = times(tokens, token);
    return (fovea_tensor){data, dtype, {batch, heads, tokens, channels}, {times(heads, head), head, token, 1}, NULL};
}

fovea_tensor fovea_tensor_bthd(void *data, fovea_dtype dtype, int64_t batch, int64_t tokens, int64_t heads,
                               int64_t channels) {
    const int64_t head = channels, token = times(heads, head);
    return (fovea_tensor){data, dtype, {batch, heads, tokens, channels}, {times(tokens, token), head, token, 1}, NULL};
}

fovea_matrix fovea_matrix_in_out(const void *data, fovea_dtype dtype, int64_t in, int64_t out) {
    return (fovea_matrix){data, dtype, in, out, out, 1, NULL};
}

fovea_matrix fovea_matrix_out_in(const void *data, fovea_dtype dtype, int64_t out, int64_t in) {
    return (fovea_matrix){data, dtype, in, out, 1, in, NULL};
}

fovea_tensor fovea_tensor_tokens(fovea_tensor tensor, int64_t first, int64_t count) {
    const bool there = first >= 0 && count >= 0 && first <= tensor.shape[2] && count <= tensor.shape[2] - first;
    tensor.shape[2] = there ? count : -1;
    if (there && tensor.data) {
        const int64_t bytes = times(times(first, tensor.stride[2]), fv_dtype_bits(tensor.dtype)) / 8;
        tensor.data = (void *)((uintptr_t)tensor.data + (uintptr_t)bytes);
    }
    return tensor;
}

/* Where an axis has one element, too: a loop may step past its end before it stops. */
static const int64_t stride_limit = (int64_t)1 << 48;

static fovea_status check_shape(const fovea_tensor *t, const fv_tensor_rule *rule) {
    static const char *const axes[4] = {"batch", "head", "token", "channel"};
    for (int i = 0; i < 4; i++)
        if (t->shape[i] != rule->shape[i] && !(rule->broadcast && t->shape[i] == 1))
            return fv_fail(FOVEA_ERROR_SHAPE, "%s: %s axis has %lld element%s, but the description says %lld",
                           rule->name, axes[i], (long long)t->shape[i], fv_plural(t->shape[i]),
                           (long long)rule->shape[i]);
    if (fv_tensor_empty(t))
        return FOVEA_OK;
    for (int i = 0; i < 4; i++) {
        if (t->stride[i] < 0)
            return fv_fail(FOVEA_ERROR_STRIDE, "%s: %s stride %lld is negative", rule->name, axes[i],
                           (long long)t->stride[i]);
        if (t->stride[i] > stride_limit)
            return fv_fail(FOVEA_ERROR_OVERFLOW, "%s: %s stride %lld is too large", rule->name, axes[i],
                           (long long)t->stride[i]);
    }
    const bool repeated = rule->broadcast && t->stride[3] == 0;
    if (t->stride[3] != 1 && !repeated && t->shape[3] > 1)
        return fv_fail(FOVEA_ERROR_STRIDE, "%s: channel stride is %lld; it must be 1%s", rule->name,
                       (long long)t->stride[3], rule->broadcast ? " or 0" : "");
    return FOVEA_OK;
}

/* Do no two elements share memory? True if, from the smallest stride up, each is past all that the smaller ones reach.
 */
static bool elements_apart(const fovea_tensor *t) {
    bool used[4] = {false};
    int64_t reach = 0; /* offset of the last element over the axes taken so far */
    for (int taken = 0; taken < 4; taken++) {
        int next = -1;
        for (int i = 0; i < 4; i++)
            if (!used[i] && (next < 0 || t->stride[i] < t->stride[next] ||
                             (t->stride[i] == t->stride[next] && t->shape[i] < t->shape[next])))
                next = i;
        used[next] = true;
        if (t->shape[next] == 1)
            continue;
        if (t->stride[next] <= reach)
            return false;
        reach += (t->shape[next] - 1) * t->stride[next];
    }
    return true;
}

static fovea_status refuse_dtype(const fovea_tensor *tensor, const fv_tensor_rule *rule) {
    char field[48], takes[48];
    snprintf(field, sizeof field, "%s: dtype", rule->name);
    snprintf(takes, sizeof takes, "it must be %s", fv_enum_name(FV_ENUM_dtype, (int)rule->dtype));
    return fv_dtype_refuse(field, tensor->dtype, takes);
}

fovea_tensor fv_tensor_repeated(const fovea_tensor *tensor) {
    fovea_tensor t = *tensor;
    for (int i = 0; i < 4; i++)
        if (t.shape[i] == 1)
            t.stride[i] = 0;
    return t;
}

fovea_status fv_tensor_check(const fovea_tensor *tensor, const fv_tensor_rule *rule, fv_span *span) {
    if (tensor->dtype != rule->dtype)
        return refuse_dtype(tensor, rule);
    if (tensor->quantization)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED, "%s: quantization is not supported", rule->name);
    const fovea_status status = check_shape(tensor, rule);
    if (status != FOVEA_OK)
        return status;
    const uintptr_t begin = (uintptr_t)tensor->data;
    *span = (fv_span){rule->name, begin, begin};
    if (fv_tensor_empty(tensor))
        return FOVEA_OK;
    int64_t last = 0; /* offset of the last element */
    for (int i = 0; i < 4; i++) {
        int64_t reach;
        if (!fv_multiply(tensor->shape[i] - 1, tensor->stride[i], &reach) || !fv_add(last, reach, &last))
            return fv_fail(FOVEA_ERROR_OVERFLOW, "%s: strides exceed the address space", rule->name);
    }
    int64_t bytes;
    const int64_t bits = fv_dtype_bits(tensor->dtype), size = fv_max(bits / 8, 1);
    if (!fv_add(last, 1, &bytes) || !fv_multiply(bytes, bits, &bytes) ||
        begin > UINTPTR_MAX - (uintptr_t)(bytes = fv_ceil_div(bytes, 8)))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%s: strides exceed the address space", rule->name);
    if (begin % (uintptr_t)size != 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "%s: data is not aligned to its elements of %lld bytes", rule->name,
                       (long long)size);
    if (rule->output && !elements_apart(tensor))
        return fv_fail(FOVEA_ERROR_STRIDE,
                       "%s: two elements of this output share memory (strides %lld, %lld, %lld, %lld)", rule->name,
                       (long long)tensor->stride[0], (long long)tensor->stride[1], (long long)tensor->stride[2],
                       (long long)tensor->stride[3]);
    span->end = begin + (uintptr_t)bytes;
    return FOVEA_OK;
}

fv_span fv_lens_span(const char *name, const int64_t *lens, int64_t batch) {
    const uintptr_t begin = (uintptr_t)lens;
    return (fv_span){name, begin, lens ? begin + (uintptr_t)batch * sizeof *lens : begin};
}

fv_span fv_struct_span(const char *name, const void *given) {
    const uintptr_t begin = (uintptr_t)given;
    return (fv_span){name, begin, begin + (given ? *(const size_t *)given : 0)};
}

fovea_status fv_spans_disjoint(const fv_span *a, const fv_span *b) {
    const uintptr_t begin = a->begin > b->begin ? a->begin : b->begin, end = a->end < b->end ? a->end : b->end;
    if (begin < end)
        return fv_fail(FOVEA_ERROR_ALIAS, "%s overlaps %s in memory", a->name, b->name);
    return FOVEA_OK;
}

fovea_status fv_spans_apart(fv_span *spans, bool *written, int count, const fv_span *workspace) {
    int there = 0;
    for (int i = 0; i < count; i++)
        if (spans[i].begin < spans[i].end) {
            written[there] = written[i];
            spans[there++] = spans[i];
        }
    fovea_status status = FOVEA_OK;
    for (int i = 0; i < there; i++) {
        for (int j = 0; status == FOVEA_OK && written[i] && j < there; j++)
            if (j > i || !written[j])
                status = fv_spans_disjoint(&spans[i], &spans[j]);
        if (status == FOVEA_OK)
            status = fv_spans_disjoint(&spans[i], workspace);
    }
    return status;
}

fovea_status fv_floats_refuse(const char *name, fovea_dtype dtype) {
    return fv_dtype_refuse(name, dtype, "it must be FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16 or FOVEA_DTYPE_F16");
}

fovea_status fv_floats_sizes(const char *name, const fovea_tensor *t, bool rows_only) {
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

fovea_status fv_floats_check(const char *name, const fovea_tensor *t, const int64_t shape[4], bool output,
                             fv_span *span) {
    *span = (fv_span){name, 0, 0};
    if (!fv_dtype_of(t->dtype)->computed || !fv_dtype_built(t->dtype))
        return fv_floats_refuse(name, t->dtype);
    if (!t->data && shape[0] > 0 && shape[1] > 0 && shape[2] > 0)
        return fv_fail(FOVEA_ERROR_NULL, "%s is NULL", name);
    const fv_tensor_rule rule = {name, t->dtype, {shape[0], shape[1], shape[2], shape[3]}, output, false};
    return fv_tensor_check(t, &rule, span);
}

bool fv_tensor_same(const fovea_tensor *a, const fovea_tensor *b) {
    bool same = a->data == b->data && a->dtype == b->dtype;
    for (int i = 0; i < 4; i++)
        same = same && (a->shape[i] == 1 || a->stride[i] == b->stride[i]);
    return same;
}

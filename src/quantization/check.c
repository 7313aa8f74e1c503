/* Checks of quantized weights (quantization.h). All scales are looked at: one that is not finite would make all numbers
 * of its group so. */
#include "quantization/read.h"

#include <stdlib.h>

static fovea_status check_strides(const fovea_matrix *m, const char *name) {
    const fv_dtype_block block = fv_dtype_block_of(m->dtype);
    const long long in = m->in_stride, out = m->out_stride;
    int64_t a, b, bits;
    if (in < 0 || out < 0)
        return fv_fail(FOVEA_ERROR_STRIDE, "%s has a negative stride (%lld, %lld)", name, in, out);
    if (!fv_multiply(m->in, m->in_stride, &a) || !fv_multiply(m->out, m->out_stride, &b) || !fv_add(a, b, &a) ||
        !fv_multiply(a, 8, &bits))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%s: its strides exceed the address space", name);
    if (block.elements > 1 && m->in % block.elements != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld input channels, no multiple of its blocks of %d", name,
                       (long long)m->in, block.elements);
    if (block.elements > 1 && (in != 1 || out % block.elements != 0))
        return fv_fail(FOVEA_ERROR_STRIDE,
                       "%s has strides (%lld, %lld); of blocks they are 1 and a multiple of %d elements", name, in, out,
                       block.elements);
    return FOVEA_OK;
}

/* Strides of packing PLAIN. */
static fovea_status check_plain(const fovea_matrix *m, const char *name) {
    const int64_t in = m->in_stride, out = m->out_stride;
    if (m->dtype == FOVEA_DTYPE_U4 && !((in == 1 && out % 2 == 0) || (out == 1 && in % 2 == 0)))
        return fv_fail(FOVEA_ERROR_STRIDE,
                       "%s has strides (%lld, %lld); of FOVEA_DTYPE_U4 one is 1 and the other is even", name,
                       (long long)in, (long long)out);
    return FOVEA_OK;
}

/* Words of GPTQ and AWQ. */
static fovea_status check_words(const fovea_matrix *m, const fovea_quantization *q, const char *name) {
    const bool awq = q->packing == FOVEA_PACKING_AWQ;
    const int64_t p = m->dtype == FOVEA_DTYPE_U4 ? 8 : 4;
    int64_t bits;
    if (m->dtype != FOVEA_DTYPE_U4 && (awq || m->dtype != FOVEA_DTYPE_U8))
        return fv_fail(FOVEA_ERROR_DTYPE, "%s is %s, which packing %s does not take", name,
                       fv_enum_name(FV_ENUM_dtype, (int)m->dtype), fv_enum_name(FV_ENUM_packing, (int)q->packing));
    if (!fv_multiply(m->in, m->out, &bits) || !fv_multiply(bits, 8, &bits))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%s: %lld x %lld words exceed the address space", name, (long long)m->in,
                       (long long)m->out);
    if (!awq && m->in % p != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld input channels, no multiple of the %lld of a word", name,
                       (long long)m->in, (long long)p);
    if ((awq || q->zeros) && m->out % p != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld output channels, no multiple of the %lld of a word", name,
                       (long long)m->out, (long long)p);
    return FOVEA_OK;
}

fovea_status fv_group_size_check(int64_t in, int64_t group_size, const char *name) {
    const long long size = group_size;
    if (size < 0 || size % 16 != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s: group_size %lld is no multiple of 16", name, size);
    if (size > 0 && in % size != 0)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld input channels, no multiple of group_size %lld", name,
                       (long long)in, size);
    if (size > FV_I8_CHANNELS && size % FV_I8_CHANNELS != 0 && size != in)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s: group_size %lld is more than %d, and no multiple of it", name, size,
                       FV_I8_CHANNELS);
    return FOVEA_OK;
}

static fovea_status check_groups(const fovea_matrix *m, const fovea_quantization *q, const char *name) {
    const fovea_status status = fv_group_size_check(m->in, q->group_size, name);
    if (status != FOVEA_OK)
        return status;
    const long long span = q->group_size ? q->group_size : m->in;
    if (m->dtype == FOVEA_DTYPE_U8 && q->zeros && span > 512)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s: groups of %lld; of FOVEA_DTYPE_U8 with zeros they have at most 512",
                       name, span);
    int64_t a, b;
    if (q->scale_group_stride < 0 || q->scale_out_stride < 0)
        return fv_fail(FOVEA_ERROR_STRIDE, "%s: a stride of its scales is negative (%lld, %lld)", name,
                       (long long)q->scale_group_stride, (long long)q->scale_out_stride);
    if (!fv_multiply(m->in, fv_max(q->scale_group_stride, 1), &a) ||
        !fv_multiply(m->out, fv_max(q->scale_out_stride, m->in), &b) || !fv_add(a, b, &a) || !fv_multiply(a, 8, &a))
        return fv_fail(FOVEA_ERROR_OVERFLOW, "%s: the strides of its scales exceed the address space", name);
    return FOVEA_OK;
}

static fovea_status check_group_of(const fovea_matrix *m, const fovea_quantization *q, const char *name) {
    const int64_t size = q->group_size ? q->group_size : m->in, groups = m->in / size;
    if (!q->group_of)
        return FOVEA_OK;
    if (m->in > INT32_MAX)
        return fv_fail(FOVEA_ERROR_SHAPE, "%s has %lld input channels; with group_of they are at most 2^31 - 1", name,
                       (long long)m->in);
    int64_t *channels = calloc((size_t)groups, sizeof *channels);
    if (!channels)
        return fv_fail(FOVEA_ERROR_OUT_OF_MEMORY, "no memory to count the channels of %lld groups", (long long)groups);
    fovea_status status = FOVEA_OK;
    for (int64_t i = 0; i < m->in && status == FOVEA_OK; i++) {
        const int64_t g = q->group_of[i];
        if (g < 0 || g >= groups)
            status = fv_fail(FOVEA_ERROR_ARGUMENT, "%s: group_of[%lld] is %lld, but there are %lld groups", name,
                             (long long)i, (long long)g, (long long)groups);
        else if (++channels[g] > size)
            status = fv_fail(FOVEA_ERROR_SHAPE, "%s: group_of gives group %lld more than %lld channels", name,
                             (long long)g, (long long)size);
    }
    free(channels);
    return status;
}

static fovea_status check_quantization(const fovea_matrix *m, const fovea_quantization *q, const char *name) {
    if (!q->scales && !q->group_scales)
        return fv_fail(FOVEA_ERROR_NULL, "%s: the scales of its quantization are NULL", name);
    if (q->scales && (q->group_scales || q->group_size))
        return fv_fail(FOVEA_ERROR_ARGUMENT, "%s: scales are one for each output channel, so there are no %s", name,
                       q->group_scales ? "group_scales" : "groups");
    if (q->scale_dtype != FOVEA_DTYPE_F32 && q->scale_dtype != FOVEA_DTYPE_F16 && q->scale_dtype != FOVEA_DTYPE_BF16)
        return fv_dtype_refuse("scale_dtype", q->scale_dtype,
                               "scales are FOVEA_DTYPE_F32, FOVEA_DTYPE_F16 or FOVEA_DTYPE_BF16");
    fovea_status status = fv_enum_check(FV_ENUM_packing, "packing", (int)q->packing);
    if (status == FOVEA_OK && m->dtype != FOVEA_DTYPE_U4 && m->dtype != FOVEA_DTYPE_U8 && q->zeros)
        status = fv_fail(FOVEA_ERROR_DTYPE, "%s has zeros, but %s takes none", name,
                         fv_enum_name(FV_ENUM_dtype, (int)m->dtype));
    if (status == FOVEA_OK && q->out_group_size < 0)
        status = fv_fail(FOVEA_ERROR_SHAPE, "%s: out_group_size is %lld; it must be at least 0", name,
                         (long long)q->out_group_size);
    if (status == FOVEA_OK && q->out_group_size > 1 && (q->packing != FOVEA_PACKING_PLAIN || q->scales))
        status = fv_fail(FOVEA_ERROR_ARGUMENT, "%s: out_group_size is for packing PLAIN and group_scales", name);
    if (status == FOVEA_OK)
        status = q->packing == FOVEA_PACKING_PLAIN ? check_plain(m, name) : check_words(m, q, name);
    if (status == FOVEA_OK)
        status = check_groups(m, q, name);
    return status == FOVEA_OK ? check_group_of(m, q, name) : status;
}

/* MXFP4 whose scales are separate. */
static fovea_status check_powers(const fovea_matrix *m, const fovea_quantization *q, const char *name) {
    if (!q->group_scales)
        return fv_fail(FOVEA_ERROR_NULL, "%s: the scales of its quantization are NULL", name);
    if (q->scales || q->zeros || q->group_of || q->packing != FOVEA_PACKING_PLAIN || q->out_group_size > 1 ||
        (q->group_size != 0 && q->group_size != 32))
        return fv_fail(
            FOVEA_ERROR_ARGUMENT,
            "%s: the quantization of FOVEA_DTYPE_MXFP4 has group_scales, their strides and groups of 32 alone", name);
    return check_groups(m, q, name);
}

static bool finite(fv_scale_words words, const void *at) {
    if (words == FV_SCALES_e8m0) /* NaN is one of its values */
        return true;
    if (fv_scale_size(words) == 4) {
        uint32_t bits;
        memcpy(&bits, at, sizeof bits);
        return (bits & 0x7f800000) != 0x7f800000;
    }
    const int exponent = words == FV_SCALES_bf16 || words == FV_SCALES_bf16_zero ? 0x7f80 : 0x7c00;
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    return (bits & exponent) != exponent;
}

/* Scales and zeros, one after the other as blocks lie. */
static fovea_status check_values(const fv_reader *r, const char *name) {
    const fovea_matrix *m = &r->matrix;
    const fv_quantized *q = &r->q;
    const int per = fv_scales_per_super(q->scales);
    const bool minimum = fv_scales_extra(q->scales) == FV_GROUP_minimum;
    const int64_t most = r->bits == 8 ? 255 : 16;
    for (int64_t o = 0; o < m->out; o++)
        for (int64_t g = 0; g < q->groups; g += per) {
            const fv_stored_scale scale = fv_read_scale(r, o, g);
            if (!finite(q->scales, scale.scale) || (minimum && !finite(q->scales, scale.minimum)))
                return fv_fail(FOVEA_ERROR_ARGUMENT,
                               "%s: a scale of output channel %lld, input channel %lld is NaN or infinite", name,
                               (long long)o, (long long)(g * q->group));
            if (!r->quantization.zeros)
                continue;
            const int64_t zero = fv_read_zero(r, o, g * q->group / r->group_size);
            if (zero < 0 || zero > most)
                return fv_fail(
                    FOVEA_ERROR_ARGUMENT,
                    "%s: the zero of output channel %lld, input channel %lld is %lld; it must be from 0 to %lld", name,
                    (long long)o, (long long)(g * q->group), (long long)zero, (long long)most);
        }
    return FOVEA_OK;
}

fovea_status fv_quantized_check(const fovea_matrix *m, const char *name) {
    const char *dtype = fv_enum_name(FV_ENUM_dtype, (int)m->dtype);
    fovea_quantization q;
    fovea_quantization_init(&q);
    const bool powers = m->dtype == FOVEA_DTYPE_MXFP4 && m->quantization, scaled = fv_dtype_scaled(m->dtype);
    if (!scaled && m->quantization && !powers)
        return fv_fail(FOVEA_ERROR_DTYPE, "%s has a quantization, but its dtype is %s", name, dtype);
    if (scaled && !m->quantization)
        return fv_fail(FOVEA_ERROR_NULL, "%s is %s, but has no quantization: its scales are needed", name, dtype);
    fovea_status status =
        scaled || powers ? fv_struct_read(FV_STRUCT(fovea_quantization), m->quantization, &q) : FOVEA_OK;
    if (status == FOVEA_OK && q.packing == FOVEA_PACKING_PLAIN)
        status = check_strides(m, name);
    if (status == FOVEA_OK && scaled)
        status = check_quantization(m, &q, name);
    if (status == FOVEA_OK && powers)
        status = check_powers(m, &q, name);
    if (status != FOVEA_OK || !fv_dtype_quantized(m->dtype))
        return status;
    const fv_reader r = fv_read_begin(m, NULL);
    return check_values(&r, name);
}

/* A call of fovea_quantize(), what it gives, and the numbers that stand for; for test-quantize. */
#ifndef FOVEA_TESTS_QUANTIZE_CASE_H
#define FOVEA_TESTS_QUANTIZE_CASE_H

#include "attention_case.h"
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

typedef struct result {
    fovea_status status;
    size_t data_bytes, scale_bytes;
    uint8_t *data, *scales;
    fovea_quantize_stats error;
} result;

static inline result quantize(const fovea_context *ctx, const fovea_matrix *from, fovea_dtype to,
                              const fovea_quantize_options *options) {
    result x = {0};
    x.status = fovea_quantize_size(to, from->in, from->out, options, &x.data_bytes, &x.scale_bytes);
    test_check(x.status == FOVEA_OK, "size: %s", fovea_error_detail());
    x.data = must_alloc((int64_t)x.data_bytes + 1, 1);
    x.scales = must_alloc((int64_t)x.scale_bytes + 1, 1);
    memset(x.data, 0x5a, x.data_bytes + 1);
    memset(x.scales, 0x5a, x.scale_bytes + 1);
    fovea_quantize_stats_init(&x.error);
    x.error.max = -1;
    x.status = fovea_quantize(ctx, from, to, options, x.data, x.scales, &x.error);
    test_check(x.data[x.data_bytes] == 0x5a && x.scales[x.scale_bytes] == 0x5a, "more bytes are written than it said");
    return x;
}

static inline void result_free(const result *x) {
    free(x->data);
    free(x->scales);
}

static inline fovea_quantize_options options_of(int64_t group, fovea_dtype scale, int search) {
    fovea_quantize_options o;
    fovea_quantize_options_init(&o);
    test_check(o.scale_dtype == FOVEA_DTYPE_F16 && o.group_size == 0 && o.search == 0, "the defaults");
    o.group_size = group;
    o.scale_dtype = scale;
    o.search = search;
    return o;
}

/* The numbers that the integers stand for, to be freed. */
static inline float *numbers_of(const fovea_context *ctx, const result *x, fovea_dtype dtype, int64_t in, int64_t out,
                                const fovea_quantize_options *o) {
    fovea_quantization q;
    fovea_quantization_init(&q);
    q.group_scales = x->scales;
    q.group_size = dtype == FOVEA_DTYPE_U4 && !o->group_size ? 32 : o->group_size;
    q.scale_dtype = dtype == FOVEA_DTYPE_I8 && !o->group_size ? FOVEA_DTYPE_F32 : o->scale_dtype;
    fovea_matrix m = fovea_matrix_out_in(x->data, dtype, out, in);
    m.quantization = x->scale_bytes > 0 ? &q : NULL;
    float *numbers = must_alloc(in * out, sizeof *numbers);
    test_check(fovea_dequantize(ctx, &m, numbers) == FOVEA_OK, "dequantize: %s", fovea_error_detail());
    return numbers;
}

/* The scales that are chosen: quantize_scales.c. */
void check_scales(const fovea_context *ctx, rng *r);

#endif

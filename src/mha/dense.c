/* Dense matrices of a layer's weights (mha.h): their memory. */
#include "core/core.h"
#include "linear/linear.h"
#include "mha/mha.h"

#include <stdlib.h>

bool fv_dense_make(fv_dense *d, int64_t in, int64_t out, fovea_dtype dtype, bool bias) {
    int64_t elements;
    *d = (fv_dense){.in = in, .out = out, .dtype = dtype};
    if (!fv_multiply(in, out, &elements) || elements > INT64_MAX / fv_dtype_bits(dtype))
        return false;
    d->w = calloc((size_t)fv_dtype_bytes(dtype, elements), 1);
    d->bias = bias ? calloc((size_t)out, sizeof(float)) : NULL;
    const bool scaled = fv_dtype_scaled(dtype);
    if (scaled)
        d->scales = calloc((size_t)out, sizeof(float));
    fovea_quantization_init(&d->quantization);
    d->quantization.scales = d->scales;
    return d->w && (d->bias || !bias) && (d->scales || !scaled);
}

void fv_dense_free(fv_dense *d) {
    free(d->w);
    free(d->bias);
    free(d->scales);
    *d = (fv_dense){.in = 0};
}

void fv_mha_dense_free(fv_mha_dense *dense) {
    for (int i = 0; i < FV_MHA_ROLES; i++)
        fv_dense_free(&dense->role[i]);
    fv_dense_free(&dense->o);
}

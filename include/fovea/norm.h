/* Fovea: RMS norm and layer norm, row by row. Part of fovea.h. */
#ifndef FOVEA_NORM_H
#define FOVEA_NORM_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fovea_norm_args {
    size_t struct_size;
    fovea_tensor x;           /* [batch, heads, tokens, channels], channels >= 1: a row is one head of one token */
    fovea_tensor y;           /* the same shape; may be x itself */
    const void *weight;       /* [channels], or NULL: 1 */
    const void *bias;         /* [channels], or NULL: 0 */
    fovea_dtype weight_dtype; /* default FOVEA_DTYPE_F32 */
    fovea_dtype bias_dtype;   /* default FOVEA_DTYPE_F32 */
    double eps;               /* >= 0, rounded to float32; default 1e-5 */
} fovea_norm_args;
FOVEA_DEFINE_INIT(fovea_norm_args_init, fovea_norm_args, FOVEA_STRUCT_NORM_ARGS)

/* fovea_norm_rms: y = x / sqrt(mean(x^2) + eps) * weight + bias, the mean over the channels of a row.
 * fovea_norm_layer: y = (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) * weight + bias.
 *
 *   - x, y, weight and bias may each be FOVEA_DTYPE_F32, _BF16 or _F16. Results are, bit for bit, those of float32 on
 *     the same numbers, rounded once at the end as fovea_convert() rounds.
 *   - Rows of any finite numbers are computed right: where sums of squares leave float32's range, the row is multiplied
 *     by a power of two first. A row of zeros has NaN if eps is 0 (0 / 0). The mean is rounded to float32: in a layer
 *     norm, differences of a row near that rounding are lost, and a row of equal numbers that are not 0 has NaN or
 *     about 1 or -1 if eps is 0.
 *   - A row's bits depend only on its x, weight and bias. They are the same on every tier and with every number of
 *     threads. Output NaN is always 0x7fc00000 before rounding.
 *   - y must not overlap weight or bias. It may be x (same data, type and strides), but must not overlap it otherwise.
 *   - workspace: at least fovea_norm_workspace_size() bytes, at any alignment. It is used if a type has 16 bits,
 *     overlaps nothing else, and is not shared with a concurrent call. With NULL, memory is allocated for this call.
 *   - Without rows nothing is done. Rounding mode and nested calls: as for fovea_attention_execute().
 *   - Errors: FOVEA_ERROR_SHAPE, _OVERFLOW, _STRIDE, _DTYPE, _ALIAS, _ARGUMENT (eps), _WORKSPACE, _VERSION,
 *     _OUT_OF_MEMORY.
 * Thread-safe. */
FOVEA_API fovea_status fovea_norm_rms(const fovea_context *ctx, const fovea_norm_args *args, void *workspace,
                                      size_t workspace_size);
FOVEA_API fovea_status fovea_norm_layer(const fovea_context *ctx, const fovea_norm_args *args, void *workspace,
                                        size_t workspace_size);

/* Bytes of workspace for a norm: depends on the shape of x and on all types, and is enough for fewer rows, too. 0 if
 * all types are float32, and for a shape or a struct_size that norms refuse. Tensors need no data. Thread-safe. */
FOVEA_API size_t fovea_norm_workspace_size(const fovea_context *ctx, const fovea_norm_args *args);

#ifdef __cplusplus
}
#endif
#endif

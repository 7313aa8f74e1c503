/* Fovea: weights as integers with scales. Part of fovea.h.
 *
 * A linear map takes quantized weights (fovea_linear_part.weight) as models store them:
 *
 *   FOVEA_DTYPE_Q8_0, _Q4_0, _Q4_1, _Q5_0, _Q5_1, _MXFP4, _IQ4_NL, _Q4_K, _Q5_K, _Q6_K   rows of blocks, as GGUF files
 *            have them: [out][in / block]. in is a multiple of the block, in_stride is 1, out_stride a multiple of the
 *            block; quantization is NULL. MXFP4 may have one, as safetensors of gpt-oss: then data are the codes alone,
 *            two that follow each other in a byte, the first in its low half; group_scales are the bytes e.
 *   FOVEA_DTYPE_I8, _U8, _U4   integers, with a fovea_quantization that says where their scales are.
 *   FOVEA_DTYPE_F8_E4M3        floats of 8 bits, likewise; their only arithmetic is EXACT.
 *
 * The number that element (i, o) of integer w stands for, every operation rounded once to float32, none contracted:
 *
 *   I8, U8, U4     s * (w - z)               s the scale and z the zero of i's group and of o
 *   F8_E4M3        s * w                     w the float of 8 bits; NaN for 0x7f and 0xff
 *   Q8_0           d * w                     d widened from float16
 *   Q4_0           d * (w - 8)
 *   Q5_0           d * (w - 16)
 *   Q4_1, Q5_1     d * w + m
 *   MXFP4          2^(e - 128) * w           w of 0, 1, 2, 3, 4, 6, 8, 12, and these with the other sign; e a byte, of
 *                                            which 255 makes all numbers NaN
 *   IQ4_NL         d * w                     w of 16 integers (kvalues_iq4nl of ggml)
 *   Q4_K, Q5_K     (d * s) * w - (dmin * m)  s and m of 6 bits for each 32 elements
 *   Q6_K           (d * s) * (w - 32)        s of 8 bits for each 16 elements
 *
 * fovea_dequantize() gives these numbers. How maps compute with them: fovea_linear_desc.arithmetic and
 * docs/arithmetics.md. */
#ifndef FOVEA_QUANTIZATION_H
#define FOVEA_QUANTIZATION_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How integers lie in memory, and their zeros. p is 8 for U4 and 4 for U8, the integers of a 32-bit word, of which the
 * first has the lowest bits. */
typedef enum fovea_packing {
    /* By the matrix's strides, in elements. Two U4 that follow in memory share a byte, the first in its low half: one
     * of the strides is 1, the other even. Zeros are bytes, with the strides of the scales. compressed-tensors' words
     * of pack-quantized, [out][in / p], are such bytes. */
    FOVEA_PACKING_PLAIN = 0,
    /* GPTQ's words: qweight [in / p][out], along in; qzeros [groups][out / p], along out. */
    FOVEA_PACKING_GPTQ = 1,
    /* AWQ's words: qweight [in][out / p], qzeros [groups][out / p], both along out; the columns of a word of U4 are in
     * the order 0 2 4 6 1 3 5 7. U4 alone. As of GPTQ's, the matrix's strides are ignored. */
    FOVEA_PACKING_AWQ = 2
} fovea_packing;

/* Where the scales of integers are. All is read when weights are packed, and no longer needed afterwards.
 *
 * Groups: input channels g * group_size to (g + 1) * group_size - 1 are group g. in is a multiple of group_size, which
 * is a multiple of 16; beyond 1024 it is in, or a multiple of 1024. U8 with zeros: group_size is at most 512. Scales
 * are finite. Blocks of 128 x 128 with a scale: group_size and out_group_size are 128. */
struct fovea_quantization {
    size_t struct_size;
    const float *scales; /* [out], one for each output channel; NULL if there are group_scales */

    int64_t group_size;       /* input channels that share a scale; 0, the default: all */
    const void *group_scales; /* of group g and output channel o: [g * scale_group_stride + o * scale_out_stride] */
    /* Both 0, the default: [out][groups], of GPTQ's and AWQ's packing [groups][out]. With out_group_size, o is that
     * of a group of outputs. */
    int64_t scale_group_stride, scale_out_stride;
    fovea_dtype scale_dtype; /* of group_scales: FOVEA_DTYPE_F32 (default), _F16 or _BF16 */

    fovea_packing packing;
    const void *zeros; /* NULL: the zero is 0 of I8, 8 of U4, 128 of U8. Not for I8, F8_E4M3 */
    int zero_offset;   /* added to each zero: 1 for files of GPTQ's first format, which store zeros less 1 */
    /* [in], the group of each channel, for GPTQ's act-order (g_idx); NULL: channel / group_size. Each group has
     * group_size channels. EXACT packs such weights as float32. */
    const int32_t *group_of;
    /* PLAIN: output channels that share scales and zeros, as o div out_group_size; 0, the default: each has its
     * own. */
    int64_t out_group_size;
};
FOVEA_DEFINE_INIT(fovea_quantization_init, fovea_quantization, FOVEA_STRUCT_QUANTIZATION)

/* ----------------------------------------------------------------------------------------------------- quantize -- */

typedef struct fovea_quantize_options {
    size_t struct_size;
    int64_t group_size;      /* of I8 and U4: input channels that share a scale; default 0: all of I8, 32 of U4 */
    fovea_dtype scale_dtype; /* of U4 and of I8 in groups: FOVEA_DTYPE_F16 (default), _F32 or _BF16 */
    int search;              /* nonzero: tries scales near max / most, and keeps that of the smallest squared error */
} fovea_quantize_options;
FOVEA_DEFINE_INIT(fovea_quantize_options_init, fovea_quantize_options, FOVEA_STRUCT_QUANTIZE_OPTIONS)

/* How well integers represent numbers: errors are what they stand for, minus the given numbers. */
typedef struct fovea_quantize_stats {
    size_t struct_size;
    double max;      /* largest magnitude of an error */
    double rms;      /* root of the mean square of errors */
    double relative; /* rms divided by that of the given numbers; 0 if those are 0 */
} fovea_quantize_stats;
FOVEA_DEFINE_INIT(fovea_quantize_stats_init, fovea_quantize_stats, FOVEA_STRUCT_QUANTIZE_STATS)

/* Bytes of the integers or blocks, [out][in], and of their scales, [out][groups] (0 of blocks), that fovea_quantize()
 * writes. options or NULL: the defaults. Thread-safe. */
FOVEA_API fovea_status fovea_quantize_size(fovea_dtype to, int64_t in, int64_t out,
                                           const fovea_quantize_options *options, size_t *data_size,
                                           size_t *scales_size);

/* Quantizes weights of F32, BF16 or F16, any strides, round to nearest: to I8 (from -127 to 127), U4 (symmetric, zero
 * 8), Q8_0, Q4_0, Q4_1 or Q4_K. Rows of in elements go to data, [out][in], scales to scales, [out][groups]: float32 of
 * I8 without groups, else of options->scale_dtype. Q4_K's rule is our own (docs/types.md): its bytes are not
 * llama.cpp's. The same numbers give the same bytes on every machine. stats or NULL; options or NULL: the defaults.
 * FOVEA_ERROR_SHAPE if in is no multiple of the block or group, _ARGUMENT if a number is NaN or infinite, or so large
 * that a scale is, _ALIAS if an output overlaps from or another output, _DTYPE, _STRIDE, _OVERFLOW, _VERSION,
 * _OUT_OF_MEMORY. After an error nothing is written. Allocates scratch for
 * the call: a row of floats for each thread, errors of rows for stats. Runs on the context's threads. Thread-safe. */
FOVEA_API fovea_status fovea_quantize(const fovea_context *ctx, const fovea_matrix *from, fovea_dtype to,
                                      const fovea_quantize_options *options, void *data, void *scales,
                                      fovea_quantize_stats *stats);

/* The numbers that quantized weights stand for, [out][in] floats; of MXFP4 in the mode that rounds to nearest and
 * flushes nothing, else in the caller's. Errors as fovea_linear_create(), and _ALIAS if to
 * overlaps the data of from. Allocates for the call if from has group_of. After an error nothing is written.
 * Thread-safe. */
FOVEA_API fovea_status fovea_dequantize(const fovea_context *ctx, const fovea_matrix *from, float *to);

#ifdef __cplusplus
}
#endif
#endif

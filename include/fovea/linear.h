/* Fovea: projections, y = act(x W + bias) + residual, with packed weights. Part of fovea.h. */
#ifndef FOVEA_LINEAR_H
#define FOVEA_LINEAR_H

#include "context.h"
#include "quantization.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Functions of t = x W + bias. Their formulas are in the rows of fields.inc, FOVEA_ACTIVATION_ROW. Those that gate take
 * two parts of one size, gate and up: SILU_GATED (SwiGLU) gives one y = silu(x Wg + bg) * (x Wu + bu) + residual, with
 * the bits of two maps whose results are multiplied; y and residual are one tensor each. GELU_GATED is GeGLU. */
typedef enum fovea_activation {
    FOVEA_ACTIVATION_NONE = 0,
    FOVEA_ACTIVATION_RELU = 1,
    FOVEA_ACTIVATION_GELU = 2,
    FOVEA_ACTIVATION_GELU_TANH = 3,
    FOVEA_ACTIVATION_SILU = 4,
    FOVEA_ACTIVATION_SILU_GATED = 5,
    FOVEA_ACTIVATION_TANH = 6,
    FOVEA_ACTIVATION_SIGMOID = 7,
    FOVEA_ACTIVATION_GELU_GATED = 8,
    FOVEA_ACTIVATION_GELU_TANH_GATED = 9,
    FOVEA_ACTIVATION_SOFTPLUS = 10
} fovea_activation;

/* Facts of an activation. */
typedef struct fovea_activation_facts {
    const char *name; /* such as "gelu" and "silu_gated": the word of command lines and of Python */
    fovea_activation
        gate; /* SILU of SILU_GATED: what is computed of the gate. One that does not gate has itself here */
} fovea_activation_facts;

/* The facts of an activation, or NULL for a value that is none: like fovea_dtype_info(), with values from 0 on. */
FOVEA_API const fovea_activation_facts *fovea_activation_info(fovea_activation activation);

/* One of several matrices that multiply the same input. */
typedef struct fovea_linear_part {
    fovea_matrix weight;    /* [in_features, any size] */
    const void *bias;       /* [weight.out] or NULL */
    fovea_dtype bias_dtype; /* 0: that of weight, or float32 if weight has integers */
    int has_scale;          /* nonzero: scale is used; 0: the scale is 1 */
    double scale;           /* multiplies weight and bias at packing, rounded to float32; any finite number */
    const void *reserved;   /* NULL: room for later options, because this struct stands in arrays and cannot grow */
} fovea_linear_part;

typedef struct fovea_linear_desc {
    size_t struct_size;
    int64_t in_features; /* >= 1 */

    /* Element types: FOVEA_DTYPE_F32, _BF16 or _F16. Each weight has its own type. */
    fovea_dtype dtype;          /* of x; default FOVEA_DTYPE_F32 */
    fovea_dtype y_dtype;        /* of every y; default 0: dtype */
    fovea_dtype residual_dtype; /* of every residual; default 0: that of y */
    /* FOVEA_ARITHMETIC_DEFAULT is Q16 of quantized weights, else EXACT, which BF16 equals. BF16_TILE: sums by blocks of
     * 32 channels. Both need x and weights of bfloat16. Q16 and Q8 need weights that all are quantized. Fixed when
     * packed, whatever the number of rows. */
    fovea_arithmetic arithmetic;
    fovea_activation activation; /* of all parts; default FOVEA_ACTIVATION_NONE */

    /* Weights: one matrix, or several that multiply the same input, such as Q, K and V. */
    int64_t part_count;             /* from 1 to 1024, default 1 */
    fovea_linear_part part;         /* the only part, if part_count is 1 and parts is NULL */
    const fovea_linear_part *parts; /* [part_count] */

    fovea_placement placement; /* of packed weights (context.h); default FOVEA_PLACEMENT_DEFAULT */
    int placement_node;        /* of FOVEA_PLACEMENT_NODE; else 0 */
} fovea_linear_desc;

/* Element types of 16 bits: results are, bit for bit, those of float32 on the same numbers. y is rounded once at the
 * end, as fovea_convert() rounds. Packed weights keep their type if all parts have the same type and no scale,
 * not even 1. Otherwise they are packed as float32.
 *
 * Quantized weights (quantization.h) stay as they are in memory if all parts have one type, one layout of groups and no
 * scale. Otherwise, and with EXACT if they have group_of, they become float32, which only EXACT takes. With EXACT,
 * results are, bit for bit, those of float32 on the numbers that they stand for. */

FOVEA_DEFINE_INIT(fovea_linear_desc_init, fovea_linear_desc, FOVEA_STRUCT_LINEAR_DESC)

/* Packed weights and biases. Immutable: any number of threads may apply one at once. */
typedef struct fovea_linear fovea_linear;

/* Checks desc and packs copies of its weights and biases; yours may be freed afterwards. ctx decides the map's tier,
 * tuning file and placement, and what FOVEA_ARITHMETIC_FASTEST means; its threads pack. It may be destroyed before the
 * map. FOVEA_ERROR_SHAPE, _STRIDE, _OVERFLOW, _DTYPE, _ARGUMENT, _UNSUPPORTED (an arithmetic that does not take these
 * types), _VERSION, _OUT_OF_MEMORY. Thread-safe. */
FOVEA_API fovea_status fovea_linear_create(const fovea_context *ctx, const fovea_linear_desc *desc,
                                           fovea_linear **linear);

/* Copies the packed weights of a part back, with the bits that were packed. In a gated map part 0 is the gate, and part
 * 1 is up. Each of the outputs may be NULL:
 *   weight  [out, in], contiguous, of type *dtype; rows of an odd number of FOVEA_DTYPE_U4 end with half a byte unused
 *   bias    [out], scaled. Without a bias it is -0, which changes nothing when added.
 *   dtype   the type of the packed weights: that of the parts' weights, if all have one type and no part has a scale,
 *           not even 1, and quantized ones stayed as they are. Otherwise float32, and the weights are scaled.
 * After an error nothing is written. Thread-safe. */
FOVEA_API fovea_status fovea_linear_unpack(const fovea_linear *linear, int64_t part, void *weight, float *bias,
                                           fovea_dtype *dtype);

/* Copies the scales of a part's integers back, if there is one for each output channel: [out]. fovea_linear_unpack()
 * gives the integers. FOVEA_ERROR_UNSUPPORTED if there are none. After an error nothing is written. Thread-safe. */
FOVEA_API fovea_status fovea_linear_unpack_scales(const fovea_linear *linear, int64_t part, float *scales);

/* The same of I8, U8 and U4 in groups. fovea_linear_unpack() gives the integers, [out][in] (FOVEA_PACKING_PLAIN). Each
 * of the outputs may be NULL:
 *   quantization  which of the others the weights have, and what they are; it points to those that were given
 *   scales        [out][groups] of its scale_dtype
 *   zeros         [out][groups], untouched if the weights have none
 *   group_of      [in], likewise
 * Blocks, such as Q4_K, have all inside: FOVEA_ERROR_UNSUPPORTED. After an error nothing is written. Thread-safe. */
FOVEA_API fovea_status fovea_linear_unpack_groups(const fovea_linear *linear, int64_t part,
                                                  fovea_quantization *quantization, void *scales, uint8_t *zeros,
                                                  int32_t *group_of);

/* Bytes of the packed weights, their scales among them: what a call reads. FOVEA_PLACEMENT_COPIES takes that many
 * on each node. Thread-safe. */
FOVEA_API size_t fovea_linear_weight_bytes(const fovea_linear *linear);

/* Frees a map. No thread may be applying it. Thread-safe on different maps. */
FOVEA_API void fovea_linear_destroy(fovea_linear *linear);

/* Bytes of workspace that fovea_linear_apply() needs with this ctx, whatever the number of rows: O(threads).
 * Thread-safe. */
FOVEA_API size_t fovea_linear_apply_workspace_size(const fovea_context *ctx, const fovea_linear *linear);

/* Like fovea_attention_plan_describe(), for the context that created the map. Writes the default choices. A line of at
 * most 500 bytes follows for each row of the tuning file that is for maps of this size. A file has at most about 200
 * rows. If none fits, one line says why. */
FOVEA_API size_t fovea_linear_describe(const fovea_linear *linear, char *text, size_t size);

/* How often a map whose x and weights are both bfloat16, or both float16, took the fast path (docs/arithmetics.md). */
typedef struct fovea_linear_stats {
    size_t struct_size;
    int64_t products; /* rows times panels of weights (fovea_linear_describe() has their width) */
    /* Products that took the fast path, twice as fast. In a map that has one, the others fell back: an operand was too
     * small to keep bits equal, or the caller's mode does not round to nearest. */
    int64_t fast_products;
} fovea_linear_stats;
FOVEA_DEFINE_INIT(fovea_linear_stats_init, fovea_linear_stats, FOVEA_STRUCT_LINEAR_STATS)

typedef struct fovea_linear_args {
    size_t struct_size;
    /* [batch, groups, tokens, channels], groups * channels = in_features: channel c of group g is input channel
     * g * channels + c. So the output of attention fits as it is. Plain rows of in_features have 1 group. */
    fovea_tensor x;
    /* [part_count] (gated: 1) of [batch, heads, tokens, channels], heads * channels = the part's out: the layout that
     * attention reads. Of several parts, those with data NULL are not computed. The bits of the others are the same. */
    const fovea_tensor *y;
    /* [part_count] or NULL: added to y. Has y's shape, and may be y itself. Ignored if y has no data. */
    const fovea_tensor *residual;
    const int64_t *lens; /* [batch] or NULL: only the first lens[b] <= tokens rows of sequence b are read and written */
    fovea_linear_stats *stats;   /* or NULL; an output: overlaps nothing, is not shared with a concurrent call */
    int has_activation;          /* nonzero: activation replaces that of the description */
    fovea_activation activation; /* not to or from one that gates */
} fovea_linear_args;
FOVEA_DEFINE_INIT(fovea_linear_args_init, fovea_linear_args, FOVEA_STRUCT_LINEAR_ARGS)

/* y = act(x W + bias) + residual, row by row: a row's bits depend only on its x, its residual and the weights. Without
 * rows nothing is done. Output NaN is always 0x7fc00000, before it is rounded to a type of 16 bits. Zeros may have
 * either sign. silu and gelu of -inf are NaN. Workspace, overlap, rounding mode and nested calls: as for
 * fovea_attention_execute(). Thread-safe.
 *
 * ctx may be any context. Its threads run the call, and rows of the map's tuning file for that many threads are used.
 * Kernels are those of the map's tier, whatever the tier of ctx. With FOVEA_PLACEMENT_SPREAD or _COPIES, threads that
 * are not bound may read from other nodes. */
FOVEA_API fovea_status fovea_linear_apply(const fovea_context *ctx, const fovea_linear *linear,
                                          const fovea_linear_args *args, void *workspace, size_t workspace_size);

#ifdef __cplusplus
}
#endif
#endif

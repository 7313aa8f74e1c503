/* Fovea: rotary position embedding (RoPE). Part of fovea.h. */
#ifndef FOVEA_ROPE_H
#define FOVEA_ROPE_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Which channels are rotated together. There are n = rotary_dim / 2 pairs:
 *   HALVES      pair i is channels i and i + n (LLaMA in safetensors, GPT-NeoX, Qwen, Gemma: transformers' rotate_half)
 *   ADJACENT    pair i is channels 2i and 2i + 1 (GPT-J; LLaMA in GGUF, whose converter permutes q and k) */
typedef enum fovea_rope_pairing { FOVEA_ROPE_HALVES = 0, FOVEA_ROPE_ADJACENT = 1 } fovea_rope_pairing;

/* How f[i] = base^(-2i / rotary_dim), the angle of pair i at position 1, is scaled. The formulas are those of
 * transformers, in double, with the library's own log, power, sine and cosine: their bits are the same with every
 * system's libm. No f[i] may be greater than 2^20.
 *   LINEAR   f / factor
 *   NTK      base becomes base * factor^(rotary_dim / (rotary_dim - 2)); needs rotary_dim >= 4. For "dynamic" of
 *            transformers, with its factor s, the model's length m and a text of n > m positions, set factor to
 *            s n / m - (s - 1)
 *   YARN     d(r) = rotary_dim * log(original_positions / (2 pi r)) / (2 log(base))
 *            low = max(floor(d(beta_fast)), 0);  high = min(ceil(d(beta_slow)), rotary_dim - 1)
 *            t = (i - low) / max(high - low, 0.001), limited to 0 ... 1;  f = f / factor * t + f * (1 - t)
 *            cos and sin are multiplied by attention_factor; 0: by 0.1 log(factor) + 1, or by 1 if factor <= 1
 *   LLAMA3   w = original_positions * f / (2 pi), turns within the original length
 *            w < low_frequency:  f / factor;  w > high_frequency:  f;
 *            else t = (w - low_frequency) / (high_frequency - low_frequency);  f = (1 - t) * f / factor + t * f */
typedef enum fovea_rope_scaling {
    FOVEA_ROPE_UNSCALED = 0,
    FOVEA_ROPE_LINEAR = 1,
    FOVEA_ROPE_NTK = 2,
    FOVEA_ROPE_YARN = 3,
    FOVEA_ROPE_LLAMA3 = 4
} fovea_rope_scaling;

typedef struct fovea_rope_desc {
    size_t struct_size;
    int64_t rotary_dim;          /* how many channels of a head are rotated, from the first on; even, from 2 to 1024 */
    fovea_rope_pairing pairing;  /* default FOVEA_ROPE_HALVES */
    fovea_rope_scaling scaling;  /* default FOVEA_ROPE_UNSCALED */
    double base;                 /* > 1; default 10000 */
    double factor;               /* of all scalings: > 0; default 1 */
    double original_positions;   /* YARN, LLAMA3: > 0; default 0, which they refuse */
    double beta_fast, beta_slow; /* YARN: > 0; default 32 and 1 */
    double attention_factor;     /* multiplies cos and sin; default 0: 1, with YARN as above */
    double low_frequency, high_frequency; /* LLAMA3: low < high; default 1 and 4 */
    /* [rotary_dim / 2] or NULL: after scaling, f[i] is divided by divisors[i] > 0 (GGUF's rope_freqs, LongRoPE's
     * factors). Read when the rope is created. */
    const float *divisors;
} fovea_rope_desc;
FOVEA_DEFINE_INIT(fovea_rope_desc_init, fovea_rope_desc, FOVEA_STRUCT_ROPE_DESC)

/* The angles of one model. Immutable: any number of threads may use one at once. Takes 6 KiB for each channel of
 * rotary_dim. */
typedef struct fovea_rope fovea_rope;

/* The largest position; the smallest is 0. */
#define FOVEA_ROPE_MAX_POSITION 16777215

/* Computes the tables of a rope, which takes some milliseconds. FOVEA_ERROR_SHAPE (rotary_dim), _ARGUMENT (any other
 * field), _VERSION, _OUT_OF_MEMORY. Thread-safe. */
FOVEA_API fovea_status fovea_rope_create(const fovea_rope_desc *desc, fovea_rope **rope);

/* Frees a rope. No cache that was created with it may be used afterwards. */
FOVEA_API void fovea_rope_destroy(fovea_rope *rope);

/* y = x rotated. Pair (x1, x2) of a token at position p becomes (x1 cos - x2 sin, x2 cos + x1 sin), each product and
 * sum rounded to float32. cos and sin of p * f[i] are computed in double and rounded to float32 once: they are as exact
 * at position 16 million as at 1. Channels from rotary_dim on are copied.
 *   - x and y: [batch, heads, tokens, head_dim], head_dim >= rotary_dim, FOVEA_DTYPE_F32, _BF16 or _F16 each. 16-bit
 *     elements are computed as float32 and rounded once, as fovea_convert() rounds. y may be x (same data, strides and
 *     type), but must not overlap it otherwise.
 *   - positions: [batch * tokens], that of token t of sequence b at [b * tokens + t], from 0 to
 *     FOVEA_ROPE_MAX_POSITION.
 *   - Runs on ctx's threads if there is enough work. Allocates nothing. The bits are the same on every tier and
 *     machine, for any number of threads, and whatever other tokens are in the call.
 *   - Errors: FOVEA_ERROR_SHAPE, _OVERFLOW, _STRIDE, _DTYPE, _ALIAS, _ARGUMENT (a position). Without elements
 *     nothing is done.
 * Thread-safe. */
FOVEA_API fovea_status fovea_rope_apply(const fovea_context *ctx, const fovea_rope *rope, const fovea_tensor *x,
                                        const int64_t *positions, const fovea_tensor *y);

#ifdef __cplusplus
}
#endif
#endif

/* Kernels: one function type per operation, and the contract each kernel of the list (kernels.inc) holds.
 *
 * Kernels see pointers, sizes and strides (in elements) and nothing else of the library. They are single-threaded,
 * allocate nothing, cannot fail, read and write no element that is not named below, and need no alignment beyond 4
 * bytes. Sizes and strides are not negative, and written rows do not overlap. Bodies assert these preconditions on
 * their first lines, where FOVEA_ASSERTS is on.
 *
 * The arithmetic that all tiers share bit for bit (float32, every operation rounded once, no contraction):
 *
 *   scale   = +-2^e * c, 1 <= c < 2; 0 is 0 * 1
 *   qs[d]   = +-2^e * q[d]        exact, unless it is subnormal or overflows
 *   acc     = chain over d ascending: acc = fma(qs[d], k[d], acc), acc = +0
 *   s       = c * acc             acc where c is 1; with a softcap instead cap * tanh(acc * (c / cap)), c / cap rounded
 *                                 once and tanh body/v_tanh.h's
 *   s       = s + mask            additive mask or bias, where there is one
 *   in each segment of FV_SEGMENT keys (absolute positions 0, 256, 512 ... of the sequence):
 *   m       = max of s over the attended keys, -inf if there is none
 *   p       = exp(s - m), x = s - m rounded; masked keys: -0; where m = -inf, 0 stands for it
 *   l       = sum of p: 16 lanes, lane j adds keys j, j+16, ... of the segment;
 *             then lanes j + (j+8), j + (j+4), j + (j+2), j + (j+1)
 *   o       = chain over the attended keys ascending: acc = fma(p, v, acc), acc = +0
 *   merge in ascending order of segments, from M = -inf, L = 0, O = 0 (again 0 stands for a maximum of -inf):
 *   M'      = max(M, m);  a = exp(M - M');  b = exp(m - M'), exp(0) being 1 in any rounding mode
 *   L       = fma(L, a, l * b);  O = fma(O, a, o * b)
 *   a sink is merged last, as a segment of m = sink, l = 1, o = 0
 *   at the end, R = 1/L (0 where L = 0):
 *   out     = O * R, then NaN -> 0x7fc00000, -0 -> +0
 *   lse     = M + log(L), log as in body/v_log.h; -inf where L = 0, NaN -> 0x7fc00000
 *   weight  = exp(s - lse), +0 where masked or lse = -inf, NaN -> 0x7fc00000
 *
 * and of projections, y = act(x W + b) + r, W and b scaled before (each element once, scale * w):
 *   t       = chain over the input channels k ascending: acc = fma(x[k], w[k], acc), acc = +0
 *   t       = t + bias            where there is one
 *   t       = act(t): relu     t where not t < 0, else +0
 *                     gelu     h = 0.5 * t; fma(h, erf(t * 0x1.6a09e6p-1), h), erf as in body/v_erf.h
 *                     tanh     u = t * fma(t * t, 0x1.2444f2p-4, 0x1.988454p+0); e = exp(-|u|);
 *                              t * ((u < 0 ? e : 1) / (1 + e)), which is gelu's approximation by tanh(u / 2)
 *                     silu     the same with u = t
 *                     sigmoid  the same with u = t, 1 in place of the factor t; tanh as in body/v_tanh.h
 *                     softplus t where t > 20, else log(1 + exp(t)) as in body/v_softplus.h
 *   t       = t * (u + bias)      where the map is gated: u the chain of the other part, its bias added first
 *   y       = t + r               where there is one; then NaN -> 0x7fc00000
 *
 * bf16 and bf16_tile are arithmetics that callers name, for operands of bfloat16. In both, p are rounded before l and o
 * are computed from them: +0 where p < 2^-40, else the nearest bfloat16, ties to even. They are computed in the mode
 * that rounds to nearest and flushes nothing, whatever the caller's is. bf16_tile has its own products, too. Element t
 * of a chain, a channel, or a key counted from the beginning of its segment, is in block t / FV_BLOCK; missing
 * elements count as zeros:
 *   even    = chain over the even t of a block ascending: even = fma(a[t], b[t], even), even = +0
 *   odd     = likewise over the odd t
 *   acc     = acc + (even + odd), block after block, acc = +0
 *
 * for acc of scores, of o and of projections. TDPBF16PS computes the same, but flushes subnormals to zero; this
 * definition keeps them. So units of that kind multiply only what fv_pairs_exact() allows, and float32 multiply-adds
 * all else.
 *
 * and of norms of a row of n channels:
 *   mean    = sum of x / n in a layer norm, +0 in an RMS norm; the sum by lanes and tree as l
 *   d       = x - mean
 *   r       = 1 / sqrt(sum of d^2 / n + eps), each operation rounded; the sum by lanes, acc = fma(d, d, acc), and tree
 *   y       = d * r, then fma(y, weight, bias), y * weight or y + bias, as there are; then NaN -> 0x7fc00000
 * Where the sum of d^2 or sum / n + eps is not below FLT_MAX, or the latter not at least 2^-96, x * f and eps * f * f
 * take the places of x and eps in all of that, the latter at least 2^-126 where eps > 0. f = 2^-e, e the exponent of
 * the larger of sqrt(eps) and the largest |x|, NaN left out, but from -126 to 126.
 *
 * and of encoders, rows of n channels, each operation rounded; at the end NaN -> 0x7fc00000:
 *   embeddings  y = e1 + e2, y = y + e3 ..., then y * scale
 *   sums of a sequence  chain over its tokens ascending: acc = acc + x, weighted acc = acc + w * x and w's likewise,
 *               acc = +0; then acc / tokens, acc / sqrt(tokens) or acc / sum of w; +0 where that sum is 0
 *   maximum     m = x where m < x or x is NaN, over the tokens ascending, m = the first one's x
 *   length 1    x / max(sqrt(sum of x * x), 1e-12), the sum by lanes and tree as l, acc = acc + x * x; where that sum
 *               is not below FLT_MAX, all of that with x * f, as in norms, in place of x
 *
 * and of experts (routers of transformers' modeling files, llama.cpp's build_moe_ffn), each operation rounded:
 *   softmax     e = exp(x - max), the sum a chain over the experts ascending, e / sum; sigmoid as above
 *   by          score + bias where there is one; the greatest are chosen, of equal ones the first. A group's score is
 *               its greatest, or the sum of its two greatest
 *   weight      score / (sum + eps), or / max(sum, eps), the sum a chain over those that are chosen, the best first;
 *               then * scale; NaN -> 0x7fc00000
 *   clamped     g = min(g, limit), u = min(max(u, -limit), limit), g * sigmoid(alpha * g) * (u + offset) (gpt-oss)
 *   y           chain over the experts of a row ascending: acc = acc + weight * y, acc = +0; then NaN -> 0x7fc00000
 *
 * c > 0, and rounding keeps order: the maximum of c * acc is c times the maximum of acc. So maxima that come with the
 * product serve, and c is multiplied where scores are first read (softmax, add_mask or weights), without a pass.
 * The sign of a maximum that is zero is left open: nothing that leaves the library depends on it.
 *
 * Why masked p is -0: fma(-0, v, acc) leaves acc as it is for any finite v, so a tile may multiply what some of its
 * rows do not see; and a kernel that must skip such keys (because v is not finite there) can tell them from an attended
 * key whose p underflowed to +0. The sign of a zero in acc never reaches the output, which has no -0.
 */
#ifndef FV_KERNELS_H
#define FV_KERNELS_H

#include "operand.h"

#include <stddef.h>
#include <stdint.h>

enum {
    FV_SEGMENT = 256, /* keys of a segment: part of the results, never tuned */
    FV_LANES = 16,    /* virtual lanes of a row sum: likewise; packed keys are a multiple of it */
    FV_BLOCK = 32,    /* elements of a block of bf16_tile: likewise; a segment has a whole number of them */
    FV_FEW_ROWS = 8,  /* at most, of kernels of few rows that take keys */
    FV_KEY_GROUP = 32 /* columns of a panel of keys in a cache */
};

/* The keys of one segment that one row attends to: key i is bit i % 64 of word[i / 64]. */
typedef struct fv_keybits {
    uint64_t word[FV_SEGMENT / 64];
} fv_keybits;

/* How the chains of a product begin and end. All zero: they begin with +0 and are stored. */
typedef struct fv_epilogue {
    const float *start; /* chain i, j begins with start[i*ldstart + j]; NULL: with +0 */
    int64_t ldstart;
    const float *a; /* [m], or NULL: c = chain * b (the first segment of c, whose content is not read) */
    const float *b; /* [m], or NULL: c = chain. a is NULL then, too */
    /* Maxima of the rows of c, NaN left out: the maximum of the FV_LANES values of a row. Only where b is NULL and n a
     * multiple of FV_LANES: */
    float *row_max;     /* [m][FV_LANES], or NULL: none are computed */
    int accumulate_max; /* row_max holds those of the columns before, no NaN, and is raised to the new ones */
} fv_epilogue;

/* Hints to a product, which may ignore them. They change no result. */
typedef struct fv_prefetch {
    int streams; /* b comes from beyond the caches: if one tile reads it, it is prefetched some steps ahead. If next is
                    set, b is assumed to be in the second-level cache, prefetched as next by an earlier call */
    const void *next, *next_end; /* prefetched into the second-level cache during the call; next NULL: nothing is */
    char *write; /* where rows of c go after the call, write_stride bytes apart: fetched to be written; or NULL */
    int64_t write_stride;
    int64_t ahead; /* bytes from what few rows read of b in groups to what they fetch; 0: FV_AHEAD, below: none is */
} fv_prefetch;

enum { FV_AHEAD = 4096 };

/* Kinds of A of a product: the elements of its rows, and the arithmetic.
 *   f32               floats, in one chain
 *   f32_masked        the same, but terms whose a is -0 are skipped, so that b may be anything there: the careful path
 *                     of boundary tiles over values that are not finite; slow and rare. No row_max
 *   f32_amx_order     floats in the arithmetic of bf16_tile: acc = acc + (even + odd) for each block of FV_BLOCK steps,
 *                     the first of which begins with t = 0; start is what acc begins with. So runs of t end with
 *                     blocks. A block that has lost its first elements, which are zeros, is a call of its own: even and
 *                     odd may change places
 *   f32_amx_order_masked   as f32_masked is to f32
 *   bf16x2            words of two bfloat16, the first in the high half, with +0 behind an odd number of steps; only
 *                     where fv_pairs_exact() allows it
 *   bf16x2_amx_order  the same as blocks. The calling thread is between fv_tiles_enter() and fv_tiles_leave()
 *                     (amx/tiles.h)
 *   f16x2             words of two float16, the first in the low half: any numbers, in any rounding mode, as products
 *                     are exact and never subnormal, as long as the CPU does not flush what is subnormal as float16
 *   i16               integers of 15 bits with a scale a row (int8.h): sums are exact integers, scaled once; with B in
 *                     groups a scale for each group (groups.h)
 *   i8x2              the same as two planes of 8 bits, for B in groups alone
 *   i8                the same of 8 bits. Rows of i8x2 and i8 that need amx_int8 are called as bf16x2_amx_order is */
typedef enum fv_kind {
    FV_KIND_f32,
    FV_KIND_f32_masked,
    FV_KIND_f32_amx_order,
    FV_KIND_f32_amx_order_masked,
    FV_KIND_bf16x2,
    FV_KIND_bf16x2_amx_order,
    FV_KIND_f16x2,
    FV_KIND_i16,
    FV_KIND_i8x2,
    FV_KIND_i8,
    FV_KIND_COUNT
} fv_kind;

/* multiply: the product of rows of A and an operand B, m = a->count, n = b->columns, k = b->steps, all >= 1:
 * chain[i][j] over t < k ascending: acc = fma(a[i][t], b[t][j], acc), for i < m, j < n, elements widened exactly.
 * epilogue NULL: acc = +0 at first, c[i][j] = chain; else acc = start[i][j] at first, then
 *   b NULL       c[i][j] = chain
 *   a NULL       c[i][j] = chain * b[i]
 *   both         c[i][j] = fma(c[i][j], a[i], chain * b[i])
 * So a product may be computed in runs of t: each run but the last stores its chain, each but the first starts from the
 * one stored, and the last one may merge. Its bits are those of one call over all t.
 * start may be c, with ldstart == ldc. Otherwise c and row_max overlap no other operand: parts of them are written
 * while the rest is still being read. prefetch NULL: no hints.
 *
 * B is one panel unless a row says otherwise; columns past n are not read. Scores are A = scaled queries, B = packed
 * keys; values are A = p, B = v as it lies, or copied where v lies badly; projections are A = input, B = packed
 * weights. mr x nr of a row of the list is its register tile. Rows of the list also require:
 *   A f32, B of another type, many rows n, b->width and b->first are multiples of FV_LANES, on scalar n is any number;
 *                                       any number of panels; the epilogue has only start and row_max, maxima of c.
 *                                       The second element behind an odd number of steps is not read as a number.
 *                                       An element of *_columns is its integer times the scale of its column, rounded
 *   A f16x2                             n is a multiple of FV_LANES; the epilogue has no a, but may have b and row_max
 *                                       together: maxima are those of c
 *   few rows (FV_MULTIPLY_FEW)          at most mr, unless B has groups; no row_max. B of i8 may have a scale for each
 *                                       step, of at most FV_SEGMENT: A, of weights, is multiplied by it first, and
 *                                       rounded, but for a weight of -0, which stays that
 *   few rows, B of keys: f32_rows,      at most FV_FEW_ROWS; the epilogue has only row_max. Columns of c past n, up to
 *   bf16_rows, f16_rows; bf16x2, i8x4   a multiple of FV_LANES, are written, too: of rows as for a column of zeros, of
 *                                       the other two as for what lies there, with the scale 0. These have panels of
 *                                       FV_KEY_GROUP columns, any number of them; b->first is 0 or FV_LANES, panels are
 *                                       read whole, and of bf16x2 what is behind the last step is +0 */
typedef void fv_multiply_fn(const fv_rows *a, const fv_operand *b, float *c, int64_t ldc, const fv_epilogue *epilogue,
                            const fv_prefetch *prefetch);

/* scale: y[i][j] = factor * x[i][j] for rows x n; y may be x, with ldy == ldx. *norm, unless NULL, is raised to the
 * largest sum of squares of a row of y, NaN left out: 16 lanes, lane j adds elements j, j+16, ...: acc = fma(y, y,
 * acc), acc = +0; then the tree of l. */
typedef void fv_scale_f32_fn(int64_t rows, int64_t n, float factor, const float *x, int64_t ldx, float *y, int64_t ldy,
                             float *norm);

/* copy: y[i][j] = x[i][j] for rows x n, bit by bit: no NaN changes, no subnormal is flushed. */
typedef void fv_copy_f32_fn(int64_t rows, int64_t n, const float *x, int64_t ldx, float *y, int64_t ldy);

/* Order of the elements in a packer's source: columns of B one after the other, as keys; steps of B, as values; or rows
 * of A. */
typedef enum fv_source { FV_SOURCE_columns, FV_SOURCE_steps, FV_SOURCE_rows } fv_source;

/* pack: a matrix x, rows x n, in the format of the row's name: ldx elements to the next row of x, ldy words to
 * the next of y.
 *   columns    keys are transposed into a panel of ldy columns, rows <= ldy, a multiple of FV_LANES; columns up to the
 *              next multiple of FV_LANES become +0
 *     f32      from floats: y[c*ldy + i] = x[i*ldx + c]; norms have 4 lanes, lane j adds channels j, j+4, ...:
 *              acc = fma(k, k, acc), acc = +0; then lanes 0 + 2 and 1 + 3, and both sums
 *     bf16x2   from bfloat16: y[(c / 2)*ldy + i] has channels c and c + 1 of key i
 *     f16x2x4  the same from float16
 *   steps      bf16x2: y[(t / 2)*ldy + j] has steps t and t + 1 of column j. Finds no norm
 *   rows       bf16x2: y[i*ldy + t / 2] has elements t and t + 1 of row i, times 2^exponent. The bits of those that are
 *              not 0 grow by 128 exponent, modulo 2^16: that is the product if fv_exponents_scaled() gives normal
 *              numbers
 * A word ends with +0 where there is no second element. bf16x2 widens *range by those of x; else it may be
 * NULL. *norm, unless NULL, is raised to the largest sum of squares of a row, as it is written, NaN left out, with sums
 * in any order but for f32. exponent is 0 but for rows. */
typedef void fv_pack_fn(int64_t rows, int64_t n, const void *x, int64_t ldx, int exponent, float *y, int64_t ldy,
                        fv_exponent_range *range, float *norm);

/* Work for another unit of the core meanwhile: a kernel that gets one calls step(done, all) now and then between its
 * own steps, of which `done` are behind it. */
typedef struct fv_overlapped {
    void (*step)(struct fv_overlapped *overlapped, int64_t done, int64_t all);
} fv_overlapped;

/* softmax: p, m and l of each of rows >= 1 rows of one segment, over columns [begin, end), not empty, both multiples of
 * FV_LANES. p may be s, with ldp == lds; else they do not overlap. */
typedef struct fv_softmax_f32_args {
    int64_t rows, begin, end;
    const float *s; /* [row * lds + column]: the scores are c * s */
    int64_t lds;
    float c; /* 1 <= c < 2 */
    float *p;
    int64_t ldp;
    /* 1, of bfloat16 alone: p is words of pairs, as pack makes of rows: column of row in p[row * ldp + column / 2] */
    int paired;
    const fv_keybits
        *bits; /* row r attends by bits[r * bits_step] (step 0: one for all); NULL: all rows to all columns */
    int64_t bits_step;
    /* [rows][FV_LANES]: the maxima of s in columns [begin, row_max_end), in any lane, as the product of scores found
     * them (fv_epilogue.row_max); all rows attend these columns. row_max_end, a multiple of FV_LANES, is begin if
     * there are none. Overwritten. */
    float *lanes;
    int64_t row_max_end;
    /* Nonzero: the maxima are those of the keys that rows attend to by their bits, also in these columns. */
    int row_max_masked;
    /* The caller guarantees that exp(s - m) is a normal number for every attended key, so the kernel may skip its
     * check. Results are the same either way. */
    int no_underflow;
    fv_overlapped *overlapped; /* of bfloat16 alone: stepped at most twice a row; NULL: nothing is */
    float *m, *l;              /* [rows] */
} fv_softmax_f32_args;

typedef void fv_softmax_f32_fn(const fv_softmax_f32_args *args);

/* softmax of bfloat16: p becomes +0 where it is under 2^-40, else it is rounded to bfloat16, to nearest even; a NaN
 * becomes 0x7fc00000; l is the sum of the p so rounded. Floats, or pairs. no_underflow is not read. */
typedef fv_softmax_f32_fn fv_softmax_bf16_fn;

/* merge: merges the results m, l of a segment's `rows` rows into the running M, L, and gives the factors a, b.
 * Arrays of rows elements, none overlapping. */
typedef void fv_merge_f32_fn(int64_t rows, const float *m, const float *l, float *M, float *L, float *a, float *b);

/* accumulate: O[i][j] = fma(O[i][j], a[i], o[i][j] * b[i]) for rows x n: the merge of a segment that was stored by
 * itself. */
typedef void fv_accumulate_f32_fn(int64_t rows, int64_t n, const float *o, int64_t ldo, const float *a, const float *b,
                                  float *O, int64_t ldO);

/* finish: out and lse of rows rows of n channels from O, M, L. lse[i * ldlse]; lse may be NULL; out may be O. */
typedef void fv_finish_f32_fn(int64_t rows, int64_t n, const float *O, int64_t ldO, const float *M, const float *L,
                              float *out, int64_t ldout, float *lse, int64_t ldlse);

/* bits: clears in *bits the keys i of [begin, end) of a segment whose boolean mask[i * step] is 0; step is 0 or 1. Only
 * mask elements whose bit is set on entry need be readable as values, but all of [begin, end) are readable as memory.
 */
typedef void fv_mask_to_bits_u8_fn(int64_t begin, int64_t end, const uint8_t *mask, int64_t step, fv_keybits *bits);

/* add_mask: s[i] = c * s[i] + mask[i * step] for the keys i of [begin, end), rounded twice, and clears in *bits those
 * where mask is -inf; step 0 or 1, begin a multiple of FV_LANES, 1 <= c < 2. s at cleared keys is unspecified. mask:
 * additive mask, bias or relative bias.
 * row_max[j] = the maximum of the new s of keys j, j + FV_LANES, ... that *bits has left, NaN left out; -inf if none.
 * Returns 1 if it cleared a bit, else 0. */
typedef int fv_add_mask_f32_fn(int64_t begin, int64_t end, const float *mask, int64_t step, float c, float *s,
                               fv_keybits *bits, float *row_max);

/* softcap: s[i][j] = cap * tanh(factor * s[i][j]) for rows x n, factor, cap > 0; rounded three times: the product with
 * factor, tanh (body/v_tanh.h: at most 2^-24 and 2^-22 of it from exact), the product with cap. n is a multiple of
 * FV_LANES. A rising function, so it may be given maxima, too. */
typedef void fv_softcap_f32_fn(int64_t rows, int64_t n, float factor, float cap, float *s, int64_t lds);

/* weights: w[i] = weight of key i of [begin, end) of one row, from its scores c * s[i], its lse and its bits (never
 * NULL); begin is a multiple of FV_LANES, 1 <= c < 2. */
typedef void fv_weights_f32_fn(int64_t begin, int64_t end, const float *s, float c, float lse, const fv_keybits *bits,
                               float *w);

/* weight_sums: sums[i] += weight of key i, row after row, for the keys of [begin, end), multiples of FV_LANES, and rows
 * rows: of scores c * s[row * lds + i], lse[row] and bits[row * bits_step] (step 0: one for all; NULL: all keys), as
 * weights gives it, 1 <= c < 2. The payload of a NaN is left open. */
typedef void fv_weight_sums_f32_fn(int64_t rows, int64_t begin, int64_t end, const float *s, int64_t lds, float c,
                                   const float *lse, const fv_keybits *bits, int64_t bits_step, float *sums);

/* finite: 1 if all of rows x n values are finite, else 0. */
typedef int fv_finite_f32_fn(int64_t rows, int64_t n, const float *v, int64_t ldv);

/* Activations after the accumulators of a projection, numbered as in the public header. */
typedef enum fv_activation {
    FV_ACT_NONE,
    FV_ACT_RELU,
    FV_ACT_GELU,
    FV_ACT_GELU_TANH,
    FV_ACT_SILU,
    FV_ACT_TANH = 6,
    FV_ACT_SIGMOID,
    FV_ACT_SOFTPLUS = 10
} fv_activation;

typedef struct fv_bias_act_residual {
    const float *bias; /* [n], or NULL */
    fv_activation activation;
    const float *residual; /* [rows][ldresidual], or NULL; may be y, element by element */
    int64_t ldresidual;
    const float *up; /* [rows][ldup], or NULL: what the activation gates */
    int64_t ldup;
    const float *up_bias; /* [n], or NULL; only with up */
} fv_bias_act_residual;

/* bias_act_residual: y[i][j] = act(c[i][j] + bias[j]) * (up[i][j] + up_bias[j]) + residual[i][j] for rows x n. */
typedef void fv_bias_act_residual_f32_fn(int64_t rows, int64_t n, const float *c, int64_t ldc,
                                         const fv_bias_act_residual *args, float *y, int64_t ldy);

/* normalize: the norms of rows x n, n >= 1; y may be x, with ldy == ldx. */
typedef struct fv_normalize {
    const float *weight, *bias; /* [n], or NULL */
    float eps;                  /* >= 0 */
    int centre;                 /* nonzero: layer norm; 0: RMS norm */
} fv_normalize;

typedef void fv_normalize_f32_fn(int64_t rows, int64_t n, const float *x, int64_t ldx, const fv_normalize *args,
                                 float *y, int64_t ldy);

/* exp: y[i] = exp(x[i]): at most 1 ulp from exact where that is a normal number, from -87.33654 to 88.72283; exactly +0
 * below, inf above, exp(0) = 1, monotonic; NaN -> 0x7fc00000; for x <= 0 the exp of softmax. x == y is allowed. */
typedef void fv_exp_f32_fn(int64_t n, const float *x, float *y);

/* A product that is still to be computed. */
typedef struct fv_product {
    fv_rows a;
    fv_operand b;
    float *c;
    int64_t ldc;
    fv_epilogue epilogue;
} fv_product;

/* unpack: y[t*ldy + j] = element t of column j of an operand, as a product with floats takes it, for all its steps and
 * columns, a multiple of FV_LANES, on scalar any number. A NaN of bf16x2 keeps its bits. */
typedef void fv_unpack_fn(const fv_operand *b, float *y, int64_t ldy);

/* widen: y[i][j] = x[i][j], exactly, for rows x n elements of bfloat16 or float16; a NaN becomes quiet. */
typedef void fv_widen_bf16_fn(int64_t rows, int64_t n, const uint16_t *x, int64_t ldx, float *y, int64_t ldy);
typedef fv_widen_bf16_fn fv_widen_f16_fn;

/* narrow: y[i][j] = x[i][j] rounded to nearest, ties to even, whatever the caller's mode is, subnormals kept; a NaN
 * becomes quiet and keeps the top bits of its payload. */
typedef void fv_narrow_bf16_fn(int64_t rows, int64_t n, const float *x, int64_t ldx, uint16_t *y, int64_t ldy);
typedef fv_narrow_bf16_fn fv_narrow_f16_fn;

#include "int8.h"

#include "groups.h"

#include "int4.h"

#include "recurrences.h"

#include "kernel_list.h"

#endif

/* int8 in portable C: the exact meaning of the words; the other int8_*.h do the same for W lanes at once.
 *
 *   v_load_i8, v_load_u8   W int8, or bytes without sign, as floats
 *   v_load_e8m0            W powers of two (groups.h)
 *
 * Those also have these, for products of W keys with a row of queries (int8.h); the portable tier multiplies
 * integers:
 *
 *   vi8         four channels of W keys, ready to be multiplied        v_i8(words)  as memory has them, a word a key
 *   v_sums      W sums of products          v_no_sums()  zeros
 *   v_sums_add(sums, k, q)     the products of k with a word of the row are added
 *   v_sums_float(sums, total)  the sums as floats, rounded; total is the row's sum of Q
 *
 * and, for quantize (groups.h):
 *
 *   v_top(a)    bits of the greatest lane; none is negative, a NaN is greater than any number
 *   v_whole     W integers of 32 bits: v_nearest(a)  of floats, ties to even in any mode; v_whole_zero();
 *               v_whole_add(a, b); v_whole_sum(a)  of all lanes
 *   v_store_i16(to, a)  as int16: of each four the first and the third, then the other two
 *   v_store_i8(to, a)  their lowest bytes, in order
 *   v_whole_high(a), v_whole_low(a, high)  a = 128 * high + low, -64 <= low < 64
 */
#ifndef FV_INT8_SCALAR_H
#define FV_INT8_SCALAR_H

#include "simd/simd_scalar.h"

static inline vf v_load_i8(const int8_t *p) { return (float)*p; }
static inline vf v_load_u8(const uint8_t *p) { return (float)*p; }
static inline vf v_load_e8m0(const uint8_t *p) { return fv_e8m0_float(*p); }

#endif

/* dot of float16 by floats of another scale (dot.h). The exponent and fraction of a float16, shifted to their places in a float, make the
 * number times 2^-112, subnormal or not, in half the time of a conversion. Queries are multiplied by 2^112. So each product is the same
 * number, and sums have the bits of kernels.h, in any rounding mode.
 *
 * This fails if a key is infinite or NaN, if a query is 2^16 or more, and if the caller has denormals-are-zero set. The last two are
 * checked first. Keys are checked along the way: if one is special, the call is repeated by conversions. */
#include <immintrin.h>

enum {
    QUERY_FLOATS = 2048, /* queries, at most: they are on the stack; whole vectors */
    ZERO_OPERANDS = 0x40 /* MXCSR: denormals are zero */
};

/* The bits of keys that 1 added to the exponent changes. It changes the sign only if the exponent is all ones: infinity or NaN. */
typedef vf dot_seen;
typedef int dot_met;

DOT_INLINE dot_seen dot_sees_none(void) { return v_set1(0.0f); }
DOT_INLINE vf dot_see(vf words, dot_seen *seen) {
    *seen = v_see_f16(words, *seen);
    return words;
}
DOT_INLINE void dot_see_scores(vf scores, dot_seen *seen) {
    (void)scores;
    (void)seen;
}
DOT_INLINE bool dot_was_exact(const dot_seen *seen, dot_met met) {
    (void)met;
    return !v_sees_special_f16(*seen);
}

/* The queries times 2^112; false if there are too many, or one is too large, or this way is slow or wrong here. */
DOT_INLINE bool dot_queries_ready(const fv_dot_args *x, float *scaled, dot_met *met) {
    const int64_t count = x->channels * fv_dot_stride(x->rows);
    vf most = v_set1(0.0f);
    *met = 0;
    if (!x->subnormals || count > QUERY_FLOATS || (_mm_getcsr() & ZERO_OPERANDS) != 0)
        return false;
    for (int64_t i = 0; i < count; i += FV_W) {
        const vf q = count - i < FV_W ? v_load_n(x->q + i, count - i) : v_load(x->q + i);
        most = v_max_abs(most, q);
        v_store(scaled + i, v_mul(q, v_set1(0x1p112f)));
    }
    return v_to_bits(v_not_lt(most, v_set1(0x1p16f))) == 0;
}

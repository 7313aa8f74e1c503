/* Exponents of numbers that are multiplied as pairs. Part of kernels.h.
 *
 * Pairs are two bfloat16 in a word, the first in the high half, since VDPBF16PS adds the product of the high halves
 * first. So its chain over pairs is the chain of float32 over elements, bit for bit, if the rounding mode is nearest
 * and nothing subnormal or infinite can appear: fv_pairs_exact(). An odd number of elements ends with a pair of one
 * element and +0. */
#ifndef FV_EXPONENTS_H
#define FV_EXPONENTS_H

/* Exponent range of 16-bit elements: bits of the smallest magnitude that is not 0, and of the largest; NaN are the
 * largest of all. */
typedef struct fv_exponent_range {
    int least, most;
} fv_exponent_range;

/* Those of no element. */
static inline fv_exponent_range fv_exponents_none(void) { return (fv_exponent_range){0xffff, 0}; }

static inline void fv_exponents_add(fv_exponent_range *m, fv_exponent_range other) {
    m->least = other.least < m->least ? other.least : m->least;
    m->most = other.most > m->most ? other.most : m->most;
}

/* Those of numbers times 2^exponent; larger than all, and so never exact, if one of them or a product is no normal
 * number. */
static inline fv_exponent_range fv_exponents_scaled(fv_exponent_range m, int exponent) {
    enum { NORMAL = 0x80, INFINITE = 0x7f80 };
    const fv_exponent_range none = fv_exponents_none(), never = {0, 0xffff};
    const int more = exponent * NORMAL;
    if (m.most == none.most)
        return none;
    return m.least < NORMAL || m.most >= INFINITE || m.least + more < NORMAL || m.most + more >= INFINITE
               ? never
               : (fv_exponent_range){m.least + more, m.most + more};
}

/* Each product is a multiple of 2^(ea + eb - 14), the exponents being the least of both sides, and so is each sum: none
 * is subnormal if that is at least 2^-126. Both sides are normal numbers. */
static inline int fv_pairs_exact(fv_exponent_range a, fv_exponent_range b) {
    enum { NORMAL = 0x80, INFINITE = 0x7f80, BIAS = 127 };
    return a.least >= NORMAL && b.least >= NORMAL && a.most < INFINITE && b.most < INFINITE &&
           (a.least >> 7) + (b.least >> 7) - 2 * BIAS >= -112;
}

#endif

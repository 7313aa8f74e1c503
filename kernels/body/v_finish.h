/* The end of an output row, O / L: in the kernel finish, and in gemm where one product has all keys of its rows
 * (fv_merge.finish). */
#ifndef FV_V_FINISH_H
#define FV_V_FINISH_H

/* A row that sees no key has L = 0 and O = 0: it gives 0. */
static inline vf v_finish_factor(float sum) { return v_set1(sum == 0.0f ? 0.0f : 1.0f / sum); }

/* One bit pattern for NaN, none for -0: what the operands of an operation were does not show. */
static inline vf v_canonical(vf x) {
    return v_select(v_nan(x), v_set1(NAN), v_select(v_eq(x, v_set1(0.0f)), v_set1(0.0f), x));
}

#endif

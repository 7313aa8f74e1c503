/* The logistic function, for activations and SiLU. */
#ifndef FV_V_SIGMOID_H
#define FV_V_SIGMOID_H

#include "v_exp.h"

/* t / (1 + e^-u), with the exp of a number that is not positive. */
static inline vf v_sigmoid(vf t, vf u) {
    const vf zero = v_set1(0.0f), one = v_set1(1.0f);
    const vf e = v_exp(v_sub(zero, v_max(u, v_sub(zero, u))));
    return v_mul(t, v_div(v_select(v_not_lt(u, zero), one, e), v_add(one, e)));
}

#endif

/* v_softplus: log(1 + e^x), and x itself where x > 20 (torch.nn.functional.softplus). e = e^x is v_exp's; its log1p is
 * computed in double by the series of v_log.h, by +, -, * and / alone:
 *
 *     1 + e = 2^k (1 + f), k from the bits of 1 + e rounded to a float;   f = (e - (2^k - 1)) 2^-k, exact
 *
 * so that f is e itself for small e. At most 2 ulp, and +0 below -87.33654 (test_activation.c --exhaustive). */
#ifndef FV_V_SOFTPLUS_H
#define FV_V_SOFTPLUS_H

#include "v_exp.h"
#include "v_log.h"

#define V_SOFTPLUS_LINEAR 20.0f

static inline vf v_softplus(vf x) {
    const vm curved = v_le(x, v_set1(V_SOFTPLUS_LINEAR));
    float e[FV_W];
    v_store(e, v_exp(v_select(curved, x, v_set1(0.0f))));
    for (int i = 0; i < FV_W; i += LOG_LANES) {
        log_floats one;
        memcpy(&one, e + i, sizeof one);
        const log_doubles exact = __builtin_convertvector(one, log_doubles);
        one = one + 1.0f;
        const log_bits k = ((log_bits)one - 0x3f3504f3) >> 23; /* from the bits of sqrt(1/2) on */
        const log_floats up = (log_floats)((k + 127) << 23), down = (log_floats)((127 - k) << 23);
        const log_doubles f =
            (exact - (__builtin_convertvector(up, log_doubles) - 1.0)) * __builtin_convertvector(down, log_doubles);
        const log_floats y =
            __builtin_convertvector(log_series(__builtin_convertvector(k, log_doubles), f), log_floats);
        memcpy(e + i, &y, sizeof y);
    }
    return v_select(curved, v_load(e), x);
}

#endif

/* v_log: the natural logarithm of a row sum, for the lse. In double, by +, -, * and / alone, so that the bits
 * are the same on every tier, with or without FMA; in vectors of the compiler, as no other word needs doubles.
 *
 * x = 2^k m with m from sqrt(1/2) to sqrt(2); with f = m - 1 and s = f / (2 + f)
 *
 *     log(m) = log(1 + s) - log(1 - s) = f - f^2/2 + s (f^2/2 + R),   R = 2/3 s^2 + 2/5 s^4 + ... + 2/15 s^14
 *
 * (the argument reduction of Sun's fdlibm, e_log.c, with the terms of the series itself). f, f^2 and k times the high
 * part of log(2) are exact. Seven terms are the fewest with which all floats from 1 to 2^44 get the logarithm's
 * nearest double rounded to float32, as proved by test_log.c --exhaustive: at most 0.5000001 ulp. */
#ifndef FV_V_LOG_H
#define FV_V_LOG_H

#define LOG_2_HIGH 0x1.62e42fefap-1
#define LOG_2_LOW 0x1.cf79abc9e3b3ap-40

/* Vectors of the lanes whose doubles fill a register. */
enum { LOG_LANES = FV_W > 1 ? FV_W / 2 : 1 };
typedef float log_floats __attribute__((vector_size(4 * LOG_LANES)));
typedef int32_t log_bits __attribute__((vector_size(4 * LOG_LANES)));
typedef uint32_t log_words __attribute__((vector_size(4 * LOG_LANES)));
typedef double log_doubles __attribute__((vector_size(8 * LOG_LANES)));

/* log(2^n (1 + f)) */
static inline log_doubles log_series(log_doubles n, log_doubles f) {
    static const double c[] = {2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3};
    const log_doubles s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
    log_doubles r = z * c[0] + c[1];
    for (int t = 2; t < 7; t++)
        r = r * z + c[t];
    return n * LOG_2_HIGH - (half - (s * (half + z * r) + n * LOG_2_LOW) - f);
}

static inline vf v_log(vf a) {
    float x[FV_W];
    v_store(x, a);
    for (int i = 0; i < FV_W; i += LOG_LANES) {
        log_words bits; /* of -0, too, whose logarithm nobody asks for: without sign nothing overflows */
        memcpy(&bits, x + i, sizeof bits);
        const log_bits k = (log_bits)(bits - 0x3f3504f3u) >> 23; /* from the bits of sqrt(1/2) on */
        bits -= (log_words)k << 23;
        const log_doubles f = __builtin_convertvector((log_floats)bits, log_doubles) - 1.0;
        const log_floats y =
            __builtin_convertvector(log_series(__builtin_convertvector(k, log_doubles), f), log_floats);
        memcpy(x + i, &y, sizeof y);
    }
    return v_select(v_not_lt(a, v_set1(INFINITY)), a, v_load(x)); /* infinity and NaN stay */
}

#endif

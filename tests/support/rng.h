/* Random numbers for tests: the same seed and stream give the same data on every machine.
 *
 * Use: rng r = rng_stream(test_seed(), "multiply_f32_f32_6x64_avx512 case 17"); then rng_below(&r, 10), rng_normal(&r)
 * ... A stream per case means that leaving cases out (a filter, a replay) does not change the data of the others.
 *
 * How: splitmix64, one 64-bit word of state, whose outputs are far better than data for tests need.
 */
#ifndef FOVEA_TESTS_RNG_H
#define FOVEA_TESTS_RNG_H

#include "fnv.h"

#include <stdint.h>
#include <string.h>

typedef struct rng {
    uint64_t state;
} rng;

static inline uint64_t rng_u64(rng *r) {
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The stream of that name: FNV-1a of the name, stirred into the seed. */
static inline rng rng_stream(uint64_t seed, const char *name) {
    rng r = {seed};
    r.state = rng_u64(&r) ^ fnv_text(FNV_START, name);
    return r;
}

/* 0 .. count-1 (count >= 1); the bias, below count / 2^64, does not matter here. */
static inline int64_t rng_below(rng *r, int64_t count) { return (int64_t)(rng_u64(r) % (uint64_t)count); }

/* low .. high, both included. */
static inline int64_t rng_between(rng *r, int64_t low, int64_t high) { return low + rng_below(r, high - low + 1); }

/* [0, 1) in steps of 2^-24, exact in float. */
static inline float rng_unit(rng *r) { return (float)(rng_u64(r) >> 40) * 0x1p-24f; }

static inline float rng_uniform(rng *r, float low, float high) { return low + (high - low) * rng_unit(r); }

/* Mean 0, variance 1, near enough to normal: the sum of twelve uniforms. */
static inline float rng_normal(rng *r) {
    int64_t sum = 0;
    for (int i = 0; i < 6; i++) {
        uint64_t bits = rng_u64(r);
        sum += (int64_t)(bits & 0xffffff) + (int64_t)(bits >> 40);
    }
    return (float)(sum - 6 * 0xffffff) * 0x1p-24f;
}

/* Any bit pattern: subnormals, infinities and NaN of every payload among them. */
static inline float rng_pattern(rng *r) {
    uint32_t bits = (uint32_t)(rng_u64(r) >> 32);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline void rng_fill_normal(rng *r, float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        x[i] = rng_normal(r);
}

#endif

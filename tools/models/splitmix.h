/* Random numbers by splitmix64: one word of state, the same numbers on every machine. */
#ifndef MODELS_SPLITMIX_H
#define MODELS_SPLITMIX_H

#include <stdint.h>

static inline uint64_t splitmix64(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The state after that many numbers. */
static inline uint64_t splitmix64_after(uint64_t state, int64_t numbers) {
    return state + (uint64_t)numbers * 0x9e3779b97f4a7c15u;
}

#endif

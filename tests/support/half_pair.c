/* Numbers of two types (half_pair.h). */
#include "half_pair.h"

#include "attention_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const fovea_dtype half_pair_types[HALF_PAIR_TYPES] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};

enum { MOST_MEMORY = 256 };
static void *memory[MOST_MEMORY];
static int memory_count;

static void *take(int64_t floats) {
    if (memory_count == MOST_MEMORY)
        exit(1);
    return memory[memory_count++] = must_alloc(floats + 1, sizeof(float));
}

void half_pairs_free(void) {
    while (memory_count > 0)
        free(memory[--memory_count]);
}

half_pair half_pair_alloc(int64_t n, fovea_dtype dtype) { return (half_pair){dtype, take(n), take(n)}; }

void half_pair_round(const half_pair *x, int64_t n) {
    convert_elements(n, x->wide, FOVEA_DTYPE_F32, x->half, x->dtype);
    convert_elements(n, x->half, x->dtype, x->wide, FOVEA_DTYPE_F32);
}

fovea_tensor half_pair_tensor(const fovea_tensor *t, fovea_dtype dtype) {
    const int64_t n = tensor_elements(t);
    fovea_tensor made = *t;
    made.dtype = dtype;
    made.data = take(n);
    if (n > 0)
        convert_elements(n, t->data, FOVEA_DTYPE_F32, made.data, dtype);
    return made;
}

half_pair half_pair_make(int64_t n, fovea_dtype dtype, float size, rng *r) {
    const half_pair x = half_pair_alloc(n, dtype);
    for (int64_t i = 0; i < n; i++)
        x.wide[i] = size * rng_normal(r);
    half_pair_round(&x, n);
    return x;
}

void half_pair_store(const half_pair *x, int64_t at, double value) {
    if (x->dtype == FOVEA_DTYPE_F32) {
        x->wide[at] = (float)value;
        memcpy((float *)x->half + at, &x->wide[at], sizeof(float));
        return;
    }
    /* The nearer one of the two neighbours in 16 bits: both are found by rounding floats on either side. */
    uint16_t best = 0;
    double best_error = INFINITY;
    for (int side = -1; side <= 1; side++) {
        const float near = side == 0 ? (float)value : nextafterf((float)value, side * INFINITY);
        uint16_t half;
        float back;
        convert_elements(1, &near, FOVEA_DTYPE_F32, &half, x->dtype);
        convert_elements(1, &half, x->dtype, &back, FOVEA_DTYPE_F32);
        const double error = fabs((double)back - value);
        if (error < best_error || (error <= best_error && half % 2 == 0)) {
            best_error = error;
            best = half;
        }
    }
    ((uint16_t *)x->half)[at] = best;
    convert_elements(1, &best, x->dtype, &x->wide[at], FOVEA_DTYPE_F32);
}

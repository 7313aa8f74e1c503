/* The tanh of softcap against double, over the floats.
 *
 *     test-tanh                   a sample of all magnitudes, and all near places of interest; a few seconds
 *     test-tanh --exhaustive      each float; some minutes (make test-exhaustive)
 *
 * For the row of softcap of the tier under test, with a cap of 1:
 *   - at most 2^-24 and 2^-22 of the result from exact, not beyond 1
 *   - monotonic, also from one span of the sample to the next
 *   - the same bits as the scalar row, of -x those of x with the other sign
 *   - the same bits next to numbers of other intervals, which take the path with lookups
 *   - tanh(+-inf) = +-1, NaN of any payload gives NaN
 * It prints the greatest errors and where they are. Exact is the C library's double, whose own error does not matter.
 * */
#include "dispatch/dispatch.h"
#include "target.h"
#include "test.h"

#include "simd/simd_scalar.h"

#include "body/v_tanh.h"

#include <inttypes.h>
#include <stdio.h>

enum { BLOCK = 4096, CHUNK = 1 << 17, INFINITE = 0x7f800000, MAGNITUDES = 0x7fffffff };

static struct {
    const fv_kernel *row, *scalar;
    double most, most_of_it; /* largest errors, and of which floats */
    float most_at, most_of_it_at, last;
    int64_t checked;
} walk;

/* All blocks of a walk are wide: the magnitudes from first on, in order, those past the last NaN repeating it. */
static void compute(const fv_kernel *row, const float *x, float *y) {
    memcpy(y, x, BLOCK * sizeof *y);
    row->run.softcap_f32(1, BLOCK, 1.0f, 1.0f, y, BLOCK);
}

/* The same, each next to a number beyond the first interval. */
static void compute_mixed(const fv_kernel *row, const float *x, float *y) {
    static float both[2 * BLOCK];
    for (int64_t i = 0; i < BLOCK; i++) {
        both[2 * i] = x[i];
        both[2 * i + 1] = 2.0f * V_TANH_FIRST;
    }
    row->run.softcap_f32(1, 2 * BLOCK, 1.0f, 1.0f, both, 2 * BLOCK);
    for (int64_t i = 0; i < BLOCK; i++)
        y[i] = both[2 * i];
}

/* Is y, of the magnitude x, right? */
static bool right(float x, float y) {
    if (x == INFINITY)
        return y == 1.0f;
    if (float_is_nan(x))
        return float_is_nan(y);
    const double exact = x < 12.0f ? tanh((double)x) : 1.0, error = fabs((double)y - exact);
    const double of_it = x > 0.0f ? error / exact : 0.0;
    if (error > walk.most) {
        walk.most = error;
        walk.most_at = x;
    }
    if (of_it > walk.most_of_it && x >= 0x1p-126f) {
        walk.most_of_it = of_it;
        walk.most_of_it_at = x;
    }
    return error <= 0x1p-24 && (error <= 0x1p-22 * exact || error <= 0x1p-149) && y <= 1.0f;
}

/* BLOCK magnitudes from first on. */
static void walk_block(int64_t first) {
    static float x[BLOCK], minus_x[BLOCK], y[BLOCK], minus_y[BLOCK], scalar[BLOCK], mixed[BLOCK];
    int64_t wrong = 0, falling = 0, odd = 0;
    for (int64_t i = 0; i < BLOCK; i++) {
        const int64_t bits = first + i < MAGNITUDES ? first + i : MAGNITUDES;
        x[i] = bits_float((uint32_t)bits);
        minus_x[i] = bits_float((uint32_t)bits | 0x80000000u);
    }
    compute(walk.row, x, y);
    compute(walk.row, minus_x, minus_y);
    compute(walk.scalar, x, scalar);
    if (x[0] <= V_TANH_FIRST) {
        compute_mixed(walk.row, x, mixed);
        test_same(mixed, y, BLOCK, "%s next to others, from %a", walk.row->name, (double)x[0]);
        compute_mixed(walk.scalar, x, mixed);
        test_same(mixed, y, BLOCK, "%s next to others, from %a", walk.scalar->name, (double)x[0]);
    }
    for (int64_t i = 0; i < BLOCK; i++) {
        wrong += !right(x[i], y[i]);
        falling += y[i] < walk.last;
        odd += float_bits(minus_y[i]) != (float_bits(y[i]) ^ 0x80000000u) &&
               !(float_is_nan(x[i]) && float_is_nan(minus_y[i]));
        if (y[i] >= walk.last)
            walk.last = y[i];
        if (float_is_nan(y[i]) && float_is_nan(scalar[i]))
            y[i] = scalar[i];
    }
    walk.checked += BLOCK;
    test_check(wrong == 0, "%s: %" PRId64 " of the results from %a on are wrong", walk.row->name, wrong, (double)x[0]);
    test_check(falling == 0, "%s: not monotonic %" PRId64 " times from %a on", walk.row->name, falling, (double)x[0]);
    test_check(odd == 0, "%s: %" PRId64 " results from %a on have other bits for -x", walk.row->name, odd,
               (double)x[0]);
    test_same(y, scalar, BLOCK, "%s against %s, from %a", walk.row->name, walk.scalar->name, (double)x[0]);
}

/* Some blocks up to and around a float, where the walk then is. */
static void walk_near(float x, int64_t next) {
    const int64_t center = (int64_t)float_bits(x);
    for (int64_t first = center - 4 * BLOCK; first < center + 4 * BLOCK && center < next; first += BLOCK)
        if (first >= 0) {
            walk.last = 0.0f;
            walk_block(first);
        }
}

/* Where intervals meet, centers, powers of two, and where results begin to be 1. */
static void walk_places(void) {
    const uint32_t first = float_bits(V_TANH_FIRST);
    for (uint32_t i = 0; i < 8; i++) {
        walk_near(bits_float(first + (i << 22)), MAGNITUDES);
        walk_near(v_tanh_table[V_TANH_CENTER][i], MAGNITUDES);
    }
    for (int exponent = -149; exponent < 5; exponent++)
        if (exponent > -30 || test_takes(exponent + 149))
            walk_near(ldexpf(1.0f, exponent), MAGNITUDES);
    walk_near(V_TANH_MOST, MAGNITUDES);
    walk_near(INFINITY, MAGNITUDES);
    walk.last = 0.0f;
}

int main(int argc, char **argv) {
    test_option options[] = {{"--exhaustive", NULL, "every float, not a sample", NULL}, {NULL, NULL, NULL, NULL}};
    test_begin(argc, argv, "tanh", options);
    const bool all = test_option_value(options, "--exhaustive");
    rng r = rng_stream(test_seed(), "tanh sample");
    walk.row = fv_kernel_best(FV_OP_softcap, FV_TYPE_f32, test_target());
    walk.scalar = fv_kernel_scalar(FV_OP_softcap, FV_TYPE_f32);
    if (!all)
        walk_places();
    for (int64_t first = 0; first <= MAGNITUDES; first += all ? BLOCK : CHUNK)
        if (all || test_takes(first / CHUNK))
            walk_block(all ? first : first + rng_below(&r, CHUNK - BLOCK));
    printf("%s: %" PRId64 " magnitudes: at most %.4f * 2^-24 from exact, at %.9g, and %.4f * 2^-24 of it, at %.9g\n",
           walk.row->name, walk.checked, walk.most * 0x1p24, (double)walk.most_at, walk.most_of_it * 0x1p24,
           (double)walk.most_of_it_at);
    return test_end();
}

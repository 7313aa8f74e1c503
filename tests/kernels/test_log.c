/* The logarithm of the lse has the same bits on every tier, for all that a row sum can be.
 *
 *     test-log                   a sample of the floats in [1, 2^40); a second
 *     test-log --exhaustive      all 335,544,320 of them; a minute
 *
 * They are what the C library's double logarithm gives when it is rounded to float32: with glibc, whose log is within
 * 0.52 ulp of double, all 335,544,320. A row sum is at least 1, as the greatest score contributes exp(0), and at most
 * the number of keys. */
#include "dispatch/dispatch.h"
#include "target.h"
#include "test.h"

#include <math.h>

enum { BLOCK = 4096, FIRST = 0x3f800000, LAST = 0x53800000 }; /* the bits of 1 and of 2^40 */

typedef struct block {
    float sum[BLOCK], maximum[BLOCK], o[BLOCK], out[BLOCK];
} block;

static void logarithms(const fv_kernel *finish, block *b, float *lse) {
    finish->run.finish_f32(BLOCK, 1, b->o, 1, b->maximum, b->sum, b->out, 1, lse, 1);
}

static double ulps_off(float got, double exact) {
    int exponent;
    frexp(exact, &exponent);
    return fabs((double)got - exact) / ldexp(1.0, exponent - 24);
}

int main(int argc, char **argv) {
    test_option options[] = {{"--exhaustive", NULL, "every float, not a sample", NULL}, {NULL, NULL, NULL, NULL}};
    test_begin(argc, argv, "log", options);
    const int64_t step = test_option_value(options, "--exhaustive") ? 1 : 61;
    const fv_kernel *finish = fv_kernel_best(FV_OP_finish, FV_TYPE_f32, test_target());
    const fv_kernel *oracle = fv_kernel_scalar(FV_OP_finish, FV_TYPE_f32);
    static block b;
    static float got[BLOCK], want[BLOCK];
    for (int64_t first = FIRST; first < LAST; first += BLOCK * step) {
        for (int64_t i = 0; i < BLOCK; i++)
            b.sum[i] = bits_float((uint32_t)(first + i * step < LAST ? first + i * step : LAST));
        logarithms(finish, &b, got);
        logarithms(oracle, &b, want);
        test_same(got, want, BLOCK, "%s against %s, sums from %a", finish->name, oracle->name, (double)b.sum[0]);
        double worst = 0.0;
        for (int i = 0; i < BLOCK; i += step == 1 ? 64 : 1)
            worst = fmax(worst, b.sum[i] == 1.0f ? (double)fabsf(got[i]) : ulps_off(got[i], log((double)b.sum[i])));
        test_check(worst <= 0.50001, "%s: %.3f ulp from the C library's log, sums from %a", finish->name, worst,
                   (double)b.sum[0]);
    }
    return test_end();
}

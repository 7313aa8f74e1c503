/* Functions of whole arrays (fovea/arrays.h): the bits of the scalar kernel, in place too, no element past the last, and what
 * they must refuse. That exp is right: test_exp.c. */
#include "dispatch/dispatch.h"
#include "test.h"

#include <inttypes.h>

static void check_returns(const char *what, fovea_status got, fovea_status due) {
    test_check(got == due, "%s: %s instead of %s", what, fovea_status_name(got), fovea_status_name(due));
}

static void test_exp(void) {
    enum { N = 4099 };
    static float x[N + 8], y[N], want[N], in[N];
    rng r = rng_stream(test_seed(), "exp");
    for (int i = 0; i < N; i++)
        x[i] = bits_float(i % 3 ? (uint32_t)rng_u64(&r) : float_bits((float)rng_between(&r, -100, 100) * 0.97f));
    for (int64_t n = 0; n <= N; n += n < 70 ? 1 : 1343) {
        memset(y, 0x5a, sizeof y);
        memcpy(in, x, sizeof in);
        fv_kernel_scalar(FV_OP_exp, FV_TYPE_f32)->run.exp_f32(n, x, want);
        check_returns("exp", fovea_exp_f32(n, x, y), FOVEA_OK);
        check_returns("exp in place", fovea_exp_f32(n, in, in), FOVEA_OK);
        test_check(memcmp(y, want, (size_t)n * sizeof *y) == 0, "exp of %" PRId64 " floats: not the scalar row's bits",
                   n);
        test_check(memcmp(in, want, (size_t)n * sizeof *y) == 0, "exp of %" PRId64 " floats in place", n);
        test_check(n == N || float_bits(y[n]) == 0x5a5a5a5a, "exp of %" PRId64 " floats: writes past them", n);
    }
    float *nothing = NULL;
    check_returns("no floats", fovea_exp_f32(0, nothing, nothing), FOVEA_OK);
    check_returns("n of -1", fovea_exp_f32(-1, x, y), FOVEA_ERROR_SHAPE);
    check_returns("no x", fovea_exp_f32(1, nothing, y), FOVEA_ERROR_NULL);
    check_returns("no y", fovea_exp_f32(1, x, nothing), FOVEA_ERROR_NULL);
    check_returns("y in x", fovea_exp_f32(N, x, x + 1), FOVEA_ERROR_ALIAS);
    check_returns("x in y", fovea_exp_f32(N, x + 8, x), FOVEA_ERROR_ALIAS);
    check_returns("too many", fovea_exp_f32(INT64_MAX / 2, x, y), FOVEA_ERROR_OVERFLOW);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "arrays", NULL);
    test_exp();
    return test_end();
}

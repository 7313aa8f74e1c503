/* Functions of whole arrays (fovea/arrays.h): the bits of the scalar kernel, in place too, no element past the last,
 * and what they must refuse. That exp is right: test_exp.c. */
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

/* Wherever y lies in its page behind x: then exp goes through the array from its end. */
static void test_exp_places(void) {
    enum { N = 1021, PAGE = 4096 / sizeof(float) };
    static const int64_t behind[] = {1, 4, 16, PAGE / 4, PAGE / 2 - 1, PAGE / 2, PAGE / 2 + 1, PAGE - 1, PAGE};
    static float room[4 * PAGE], want[N];
    rng r = rng_stream(test_seed(), "places");
    for (int i = 0; i < N; i++)
        room[i] = (float)rng_between(&r, -90, 90);
    for (size_t k = 0; k < sizeof behind / sizeof behind[0]; k++)
        for (int64_t n = 1; n <= N; n += n < 64 ? 9 : 191) {
            float *y = room + PAGE + behind[k];
            memset(room + N, 0x5a, sizeof room - N * sizeof *room);
            fv_kernel_scalar(FV_OP_exp, FV_TYPE_f32)->run.exp_f32(n, room, want);
            check_returns("exp", fovea_exp_f32(n, room, y), FOVEA_OK);
            test_check(memcmp(y, want, (size_t)n * sizeof *y) == 0, "%" PRId64 " floats, y %" PRId64 " behind", n,
                       behind[k]);
            test_check(float_bits(y[-1]) == 0x5a5a5a5a && float_bits(y[n]) == 0x5a5a5a5a,
                       "%" PRId64 " floats, y %" PRId64 " behind: writes beyond them", n, behind[k]);
        }
}

/* Between all pairs of types, of all 16-bit patterns: by the scalar rows; from one 16-bit type to another by
 * float32. */
static void test_convert(void) {
    enum { N = 1 << 16 };
    static uint16_t from[N], got[N], want[N];
    static float wide[N], wide_want[N];
    static const struct {
        fovea_dtype dtype;
        fv_type type;
    } types[] = {{FOVEA_DTYPE_BF16, FV_TYPE_bf16}, {FOVEA_DTYPE_F16, FV_TYPE_f16}};
    for (int i = 0; i < N; i++)
        from[i] = (uint16_t)i;
    for (int i = 0; i < 2; i++) {
        fv_kernel_scalar(FV_OP_widen, types[i].type)->run.widen_bf16(1, N, from, N, wide_want, N);
        check_returns("widen", fovea_convert(N, from, types[i].dtype, wide, FOVEA_DTYPE_F32), FOVEA_OK);
        test_check(memcmp(wide, wide_want, sizeof wide) == 0, "type %d: widened to other bits", i);
        fv_kernel_scalar(FV_OP_narrow, types[i].type)->run.narrow_bf16(1, N, wide, N, want, N);
        check_returns("narrow", fovea_convert(N, wide, FOVEA_DTYPE_F32, got, types[i].dtype), FOVEA_OK);
        test_check(memcmp(got, want, sizeof got) == 0, "type %d: narrowed to other bits", i);
        for (int j = 0; j < N; j++) /* there and back; NaN are quiet after it */
            if (got[j] != from[j] && wide[j] == wide[j])
                test_check(false, "type %d: %#x comes back as %#x", i, from[j], got[j]);
        fv_kernel_scalar(FV_OP_narrow, types[1 - i].type)->run.narrow_bf16(1, N, wide, N, want, N);
        check_returns("across", fovea_convert(N, from, types[i].dtype, got, types[1 - i].dtype), FOVEA_OK);
        test_check(memcmp(got, want, sizeof got) == 0, "type %d to the other: other bits", i);
        check_returns("copy", fovea_convert(N, from, types[i].dtype, got, types[i].dtype), FOVEA_OK);
        test_check(memcmp(got, from, sizeof got) == 0, "type %d: copied to other bits", i);
    }
    const fovea_dtype bf16 = FOVEA_DTYPE_BF16, f32 = FOVEA_DTYPE_F32;
    check_returns("no elements", fovea_convert(0, NULL, bf16, NULL, f32), FOVEA_OK);
    check_returns("n of -1", fovea_convert(-1, from, bf16, wide, f32), FOVEA_ERROR_SHAPE);
    check_returns("no from", fovea_convert(1, NULL, bf16, wide, f32), FOVEA_ERROR_NULL);
    check_returns("no to", fovea_convert(1, from, bf16, NULL, f32), FOVEA_ERROR_NULL);
    check_returns("from booleans", fovea_convert(1, from, FOVEA_DTYPE_BOOL, wide, f32), FOVEA_ERROR_DTYPE);
    check_returns("to no type", fovea_convert(1, from, bf16, wide, (fovea_dtype)77), FOVEA_ERROR_DTYPE);
    check_returns("in place", fovea_convert(2, wide, bf16, wide, f32), FOVEA_ERROR_ALIAS);
    check_returns("in place, same type", fovea_convert(2, wide, f32, wide, f32), FOVEA_OK);
    check_returns("too many", fovea_convert(INT64_MAX / 2, from, bf16, wide, f32), FOVEA_ERROR_OVERFLOW);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "arrays", NULL);
    test_exp();
    test_exp_places();
    test_convert();
    return test_end();
}

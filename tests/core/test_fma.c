/* fma() and fmaf() that round once (core/fma.h): the library's own against the C library's, on random and on hard
 * operands and in each rounding mode; and a C library whose functions round twice, which no context is made with. */
#include "core/core.h"
#include "core/fma.h"
#include "test.h"

#include <fenv.h>
#include <math.h>

double __real_fma(double a, double b, double c);
float __real_fmaf(float a, float b, float c);
double __wrap_fma(double a, double b, double c);
float __wrap_fmaf(float a, float b, float c);

static enum { RIGHT, OWN, TWICE, TWICE_FLOAT } how;

double __wrap_fma(double a, double b, double c) {
    volatile double product = a * b;
    return how == TWICE ? product + c : how == OWN ? fv_fma(a, b, c) : __real_fma(a, b, c);
}

float __wrap_fmaf(float a, float b, float c) {
    volatile double sum = (double)a * b + c;
    return how == TWICE_FLOAT ? (float)sum : how == OWN ? fv_fmaf(a, b, c) : __real_fmaf(a, b, c);
}

static bool same(double a, double b) { return isnan(a) ? isnan(b) : memcmp(&a, &b, sizeof a) == 0; }

/* near: of near magnitudes and with few bits, so that sums are ties. */
static float operand(rng *r, bool near) {
    uint32_t bits = (uint32_t)rng_u64(r);
    if (near)
        bits =
            (bits & 0x80000003) | (100 + (uint32_t)rng_u64(r) % 50) << 23 | ((uint32_t)rng_u64(r) & 1 ? 0x7ffffc : 0);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void test_own(uint64_t seed) {
    static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    rng r = rng_stream(seed, "fma");
    for (int64_t i = 0; i < test_scaled(4000000); i++) {
        const int mode = modes[i / 2 % 4];
        const float a = operand(&r, i % 2), b = operand(&r, i % 2), c = operand(&r, i % 2);
        fesetround(mode);
        const float want = __real_fmaf(a, b, c), got = fv_fmaf(a, b, c);
        fesetround(FE_TONEAREST);
        if (!test_check(same(want, got), "fmaf(%a, %a, %a) is %a, not %a, in mode %d", a, b, c, got, want, mode))
            return;
        const double x = ldexp((double)(int64_t)rng_u64(&r), -62), y = ldexp((double)(int64_t)rng_u64(&r), -62);
        const double z = i % 2 ? -(x * y) * (1.0 + (double)(i % 3) * 0x1p-52) : x * ldexp(1.0, -50 - (int)(i % 60));
        const double exact = __real_fma(x, y, z), own = fv_fma(x, y, z);
        if (!test_check(same(exact, own), "fma(%a, %a, %a) is %a, not %a", x, y, z, own, exact))
            return;
    }
}

/* A context is made, or refused with a sentence. */
static void test_contexts(void) {
    for (how = RIGHT; how <= TWICE_FLOAT; how++) {
        fovea_context *ctx = NULL;
        const fovea_status status = fovea_context_create(NULL, &ctx);
        const bool right = how <= OWN;
        test_check(status == (right ? FOVEA_OK : FOVEA_ERROR_UNSUPPORTED), "function %d: %s", (int)how,
                   fovea_status_name(status));
        test_check((ctx != NULL) == right, "function %d: a context of %p", (int)how, (void *)ctx);
        test_check(right || strstr(fovea_error_detail(), "FOVEA_SOFTWARE_FMA"), "%s", fovea_error_detail());
        fovea_context_destroy(ctx);
    }
    how = RIGHT;
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "fma", NULL);
    test_own(test_seed());
    test_contexts();
    return test_end();
}

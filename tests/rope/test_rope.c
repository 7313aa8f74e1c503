/* Rotary embedding (fovea/rope.h): angles against formulas in long double at positions near and far, rotation against
 * its formula by bits; every pairing, scaling and element type; tokens alone and together, in place, on threads; what
 * must be refused. */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef long double real;

static const real pi = 3.14159265358979323846264338327950288L;

static fovea_rope_desc plain(int64_t dim) {
    fovea_rope_desc d;
    fovea_rope_desc_init(&d);
    d.rotary_dim = dim;
    return d;
}

/* f[i], and the factor of cos and sin, written from the papers. */
static real reference_frequency(const fovea_rope_desc *d, int64_t i, real *factor) {
    const real dim = d->rotary_dim, s = (real)d->factor;
    real f = powl((real)d->base, -2 * i / dim);
    *factor = d->attention_factor != 0 ? (real)d->attention_factor : 1;
    if (d->scaling == FOVEA_ROPE_LINEAR)
        f /= s;
    if (d->scaling == FOVEA_ROPE_NTK)
        f = powl((real)d->base * powl(s, dim / (dim - 2)), -2 * i / dim);
    if (d->scaling == FOVEA_ROPE_YARN) {
        real edge[2];
        for (int k = 0; k < 2; k++)
            edge[k] = dim * logl((real)d->original_positions / ((real)(k ? d->beta_slow : d->beta_fast) * 2 * pi)) /
                      (2 * logl((real)d->base));
        const real low = fmaxl(floorl(edge[0]), 0), high = fminl(ceill(edge[1]), dim - 1);
        const real t = fminl(fmaxl((i - low) / fmaxl(high - low, 0.001L), 0), 1);
        f = f / s * t + f * (1 - t);
        if (d->attention_factor == 0 && s > 1)
            *factor = 0.1L * logl(s) + 1;
    }
    if (d->scaling == FOVEA_ROPE_LLAMA3) {
        const real wave = 2 * pi / f, old = (real)d->original_positions, low = (real)d->low_frequency,
                   high = (real)d->high_frequency;
        const real t = (old / wave - low) / (high - low);
        f = wave > old / low ? f / s : wave < old / high ? f : (1 - t) * f / s + t * f;
    }
    return d->divisors ? f / (real)d->divisors[i] : f;
}

static uint64_t golden = FNV_START; /* of all angles */

/* Turns (1, 0) at a position, which gives cos and sin of each pair. */
static void check_angles(const fovea_context *ctx, const fovea_rope_desc *d, const char *what) {
    static const int64_t positions[] = {
        0, 1, 2, 255, 256, 1000, 65535, 65536, 131071, 5000000, FOVEA_ROPE_MAX_POSITION};
    const int64_t dim = d->rotary_dim, n = dim / 2, count = sizeof positions / sizeof positions[0];
    float *x = calloc((size_t)(count * dim), sizeof *x);
    fovea_rope *rope;
    if (!test_check(x && fovea_rope_create(d, &rope) == FOVEA_OK, "%s: %s", what, fovea_error_detail()))
        abort();
    const int64_t second = d->pairing == FOVEA_ROPE_HALVES ? n : 1, step = d->pairing == FOVEA_ROPE_HALVES ? 1 : 2;
    for (int64_t p = 0; p < count; p++)
        for (int64_t i = 0; i < n; i++)
            x[p * dim + i * step] = 1.0f;
    const fovea_tensor t = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, count, dim);
    test_check(fovea_rope_apply(ctx, rope, &t, positions, &t) == FOVEA_OK, "%s: %s", what, fovea_error_detail());
    real worst = 0;
    for (int64_t p = 0; p < count; p++)
        for (int64_t i = 0; i < n; i++) {
            real factor;
            const real angle = positions[p] * reference_frequency(d, i, &factor);
            /* A unit in the last place of a double of the frequency is this much at a far position. */
            const real room = (real)positions[p] * 0x1p-50L;
            const real c = fabsl(x[p * dim + i * step] - factor * cosl(angle)),
                       s = fabsl(x[p * dim + i * step + second] - factor * sinl(angle));
            worst = fmaxl(worst, fmaxl(c, s) - room * factor);
        }
    for (int64_t i = 0; i < count * dim; i++)
        golden = fnv_u32(golden, float_bits(x[i]));
    test_check(worst < 0x1.01p-25L * 2, "%s: cos or sin is %Lg off", what, worst);
    fovea_rope_destroy(rope);
    free(x);
}

static void test_angles(const fovea_context *ctx) {
    float divisors[32];
    for (int i = 0; i < 32; i++)
        divisors[i] = 1.0f + 0.25f * (float)i;
    fovea_rope_desc d = plain(64);
    check_angles(ctx, &d, "unscaled");
    d.pairing = FOVEA_ROPE_ADJACENT;
    check_angles(ctx, &d, "adjacent pairs");
    d.divisors = divisors;
    check_angles(ctx, &d, "divisors");
    d = plain(64);
    d.scaling = FOVEA_ROPE_LINEAR;
    d.factor = 4.0;
    check_angles(ctx, &d, "linear");
    d.scaling = FOVEA_ROPE_NTK;
    check_angles(ctx, &d, "NTK");
    d = plain(128);
    d.scaling = FOVEA_ROPE_LLAMA3;
    d.base = 500000.0;
    d.factor = 8.0;
    d.original_positions = 8192.0;
    check_angles(ctx, &d, "Llama 3");
    d.scaling = FOVEA_ROPE_YARN;
    d.base = 1000000.0;
    d.factor = 4.0;
    d.original_positions = 32768.0;
    check_angles(ctx, &d, "YaRN");
    d.attention_factor = 1.25;
    check_angles(ctx, &d, "YaRN with a factor");
    d = plain(1024);
    check_angles(ctx, &d, "1024 channels");
    d = plain(2);
    check_angles(ctx, &d, "2 channels");
    test_check(golden == UINT64_C(0x2a1c0e3aa88b43ea), "angles have the hash %016llx", (unsigned long long)golden);
}

enum { BATCH = 3, HEADS = 5, TOKENS = 37, DIM = 80, TURNED = 64, ELEMENTS = BATCH * HEADS * TOKENS * DIM };

static fovea_tensor tensor(void *data, fovea_dtype type, bool bthd) {
    return bthd ? fovea_tensor_bthd(data, type, BATCH, TOKENS, HEADS, DIM)
                : fovea_tensor_bhtd(data, type, BATCH, HEADS, TOKENS, DIM);
}

static float *element(const fovea_tensor *t, int64_t b, int64_t h, int64_t token) {
    return (float *)t->data + b * t->stride[0] + h * t->stride[1] + token * t->stride[2];
}

/* By bits: the formula with cos and sin as float32, which a token of ones gives. */
static void check_turned(const fovea_context *ctx, const fovea_rope *rope, fovea_rope_pairing pairing,
                         const int64_t *positions, const fovea_tensor *x, const fovea_tensor *y) {
    const int64_t n = TURNED / 2, second = pairing == FOVEA_ROPE_HALVES ? n : 1,
                  step = pairing == FOVEA_ROPE_HALVES ? 1 : 2;
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t t = 0; t < TOKENS; t++) {
            float unit[DIM] = {0};
            for (int64_t i = 0; i < n; i++)
                unit[i * step] = 1.0f;
            const fovea_tensor one = fovea_tensor_bhtd(unit, FOVEA_DTYPE_F32, 1, 1, 1, DIM);
            fovea_rope_apply(ctx, rope, &one, &positions[b * TOKENS + t], &one);
            for (int64_t h = 0; h < HEADS; h++) {
                float want[DIM];
                const float *from = element(x, b, h, t);
                memcpy(want, from, sizeof want);
                for (int64_t i = 0; i < n; i++) {
                    const float c = unit[i * step], s = unit[i * step + second];
                    const float x1 = from[i * step], x2 = from[i * step + second];
                    want[i * step] = x1 * c - x2 * s;
                    want[i * step + second] = x2 * c + x1 * s;
                }
                test_same(element(y, b, h, t), want, DIM, "sequence %d, head %d, token %d", (int)b, (int)h, (int)t);
            }
        }
}

static void test_turning(const fovea_context *ctx, const fovea_context *threads) {
    static float x[ELEMENTS], y[ELEMENTS], z[ELEMENTS];
    static uint16_t narrow[ELEMENTS], turned[ELEMENTS], want[ELEMENTS];
    int64_t positions[BATCH * TOKENS];
    rng r = rng_stream(test_seed(), "rope");
    for (int i = 0; i < ELEMENTS; i++)
        x[i] = (float)rng_between(&r, -4, 4);
    for (int i = 0; i < BATCH * TOKENS; i++)
        positions[i] = i % 7 == 0 ? rng_below(&r, FOVEA_ROPE_MAX_POSITION + 1) : i;
    for (int pairing = 0; pairing < 2; pairing++) {
        fovea_rope_desc d = plain(TURNED);
        fovea_rope *rope;
        d.pairing = (fovea_rope_pairing)pairing;
        test_check(fovea_rope_create(&d, &rope) == FOVEA_OK, "create: %s", fovea_error_detail());
        const fovea_tensor from = tensor(x, FOVEA_DTYPE_F32, false), to = tensor(y, FOVEA_DTYPE_F32, true);
        test_check(fovea_rope_apply(ctx, rope, &from, positions, &to) == FOVEA_OK, "apply: %s", fovea_error_detail());
        check_turned(ctx, rope, d.pairing, positions, &from, &to);
        memcpy(z, x, sizeof z);
        const fovea_tensor place = tensor(z, FOVEA_DTYPE_F32, false), again = tensor(y, FOVEA_DTYPE_F32, false);
        fovea_rope_apply(ctx, rope, &from, positions, &again);
        test_check(fovea_rope_apply(threads, rope, &place, positions, &place) == FOVEA_OK, "%s", fovea_error_detail());
        test_same(z, y, ELEMENTS, "in place, on threads");
        for (int type = FOVEA_DTYPE_BF16; type <= FOVEA_DTYPE_F16; type++) {
            fovea_convert(ELEMENTS, x, FOVEA_DTYPE_F32, narrow, (fovea_dtype)type);
            fovea_convert(ELEMENTS, narrow, (fovea_dtype)type, z, FOVEA_DTYPE_F32);
            const fovea_tensor wide = tensor(z, FOVEA_DTYPE_F32, false),
                               half = tensor(narrow, (fovea_dtype)type, false),
                               out = tensor(turned, (fovea_dtype)type, false);
            fovea_rope_apply(ctx, rope, &wide, positions, &again);
            fovea_convert(ELEMENTS, y, FOVEA_DTYPE_F32, want, (fovea_dtype)type);
            test_check(fovea_rope_apply(ctx, rope, &half, positions, &out) == FOVEA_OK, "%s", fovea_error_detail());
            test_check(memcmp(turned, want, sizeof want) == 0, "type %d: not float32 rounded once", type);
            fovea_rope_apply(ctx, rope, &wide, positions, &out);
            test_check(memcmp(turned, want, sizeof want) == 0, "float32 to type %d: not rounded once", type);
        }
        fovea_rope_destroy(rope);
    }
}

static void check_status(const char *what, fovea_status got, fovea_status due) {
    test_check(got == due, "%s: %s instead of %s", what, fovea_status_name(got), fovea_status_name(due));
}

static void test_refused(const fovea_context *ctx) {
    static const struct {
        const char *what;
        int64_t dim;
        int scaling;
        double base, factor, original, beta, low;
        fovea_status due;
    } cases[] = {
        {"odd", 63, 0, 1e4, 1, 0, 32, 1, FOVEA_ERROR_SHAPE},
        {"none", 0, 0, 1e4, 1, 0, 32, 1, FOVEA_ERROR_SHAPE},
        {"too many", 1026, 0, 1e4, 1, 0, 32, 1, FOVEA_ERROR_SHAPE},
        {"scaling", 64, 9, 1e4, 1, 0, 32, 1, FOVEA_ERROR_ARGUMENT},
        {"base 1", 64, 0, 1, 1, 0, 32, 1, FOVEA_ERROR_ARGUMENT},
        {"base NaN", 64, 0, NAN, 1, 0, 32, 1, FOVEA_ERROR_ARGUMENT},
        {"factor 0", 64, 1, 1e4, 0, 0, 32, 1, FOVEA_ERROR_ARGUMENT},
        {"factor inf", 64, 1, 1e4, INFINITY, 0, 32, 1, FOVEA_ERROR_ARGUMENT},
        {"NTK of 2", 2, 2, 1e4, 2, 0, 32, 1, FOVEA_ERROR_ARGUMENT},
        {"YaRN without length", 64, 3, 1e4, 2, 0, 32, 1, FOVEA_ERROR_ARGUMENT},
        {"YaRN beta", 64, 3, 1e4, 2, 4096, 0, 1, FOVEA_ERROR_ARGUMENT},
        {"Llama 3 frequencies", 64, 4, 1e4, 2, 4096, 32, 5, FOVEA_ERROR_ARGUMENT},
        {"angles of 10^7", 64, 1, 1e4, 1e-7, 0, 32, 1, FOVEA_ERROR_ARGUMENT},
        {"NTK's base is infinite", 4, 2, 1e300, 1e200, 0, 32, 1, FOVEA_ERROR_ARGUMENT},
    };
    fovea_rope *rope;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fovea_rope_desc d = plain(cases[i].dim);
        d.scaling = (fovea_rope_scaling)cases[i].scaling;
        d.base = cases[i].base;
        d.factor = cases[i].factor;
        d.original_positions = cases[i].original;
        d.beta_fast = cases[i].beta;
        d.low_frequency = cases[i].low;
        rope = (fovea_rope *)&d;
        check_status(cases[i].what, fovea_rope_create(&d, &rope), cases[i].due);
        test_check(!rope, "%s: a rope is left", cases[i].what);
    }
    fovea_rope_desc d = plain(8);
    float divisors[4] = {1.0f, 1.0f, -1.0f, 1.0f};
    d.divisors = divisors;
    check_status("divisor", fovea_rope_create(&d, &rope), FOVEA_ERROR_ARGUMENT);
    check_status("no desc", fovea_rope_create(NULL, &rope), FOVEA_ERROR_NULL);
    check_status("no rope", fovea_rope_create(&d, NULL), FOVEA_ERROR_NULL);
    d = plain(8);
    d.struct_size = 8;
    check_status("old", fovea_rope_create(&d, &rope), FOVEA_ERROR_VERSION);

    d = plain(8);
    check_status("create", fovea_rope_create(&d, &rope), FOVEA_OK);
    float x[64] = {0}, kept[64] = {0};
    int64_t positions[2] = {0, 1};
    fovea_tensor t = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 2, 2, 8), y = t;
    for (int i = 0; i < 64; i++)
        x[i] = kept[i] = (float)i;
    y.data = x + 8;
    check_status("overlap", fovea_rope_apply(ctx, rope, &t, positions, &y), FOVEA_ERROR_ALIAS);
    y = t;
    y.shape[1] = 1;
    check_status("shape", fovea_rope_apply(ctx, rope, &t, positions, &y), FOVEA_ERROR_SHAPE);
    y = t;
    y.stride[1] = 0;
    check_status("y on itself", fovea_rope_apply(ctx, rope, &t, positions, &y), FOVEA_ERROR_STRIDE);
    y = t;
    y.dtype = FOVEA_DTYPE_I64;
    check_status("type", fovea_rope_apply(ctx, rope, &t, positions, &y), FOVEA_ERROR_DTYPE);
    positions[1] = FOVEA_ROPE_MAX_POSITION + 1;
    check_status("far", fovea_rope_apply(ctx, rope, &t, positions, &t), FOVEA_ERROR_ARGUMENT);
    positions[1] = -1;
    check_status("negative", fovea_rope_apply(ctx, rope, &t, positions, &t), FOVEA_ERROR_ARGUMENT);
    check_status("no positions", fovea_rope_apply(ctx, rope, &t, NULL, &t), FOVEA_ERROR_NULL);
    check_status("no ctx", fovea_rope_apply(NULL, rope, &t, positions, &t), FOVEA_ERROR_NULL);
    fovea_tensor few = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 2, 2, 6);
    check_status("few channels", fovea_rope_apply(ctx, rope, &few, positions, &few), FOVEA_ERROR_SHAPE);
    fovea_tensor none = fovea_tensor_bhtd(NULL, FOVEA_DTYPE_F32, 1, 2, 0, 8);
    check_status("no tokens", fovea_rope_apply(ctx, rope, &none, NULL, &none), FOVEA_OK);
    test_same(x, kept, 64, "after errors");
    fovea_rope_destroy(rope);
    fovea_rope_destroy(NULL);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "rope", NULL);
    fovea_context *ctx = test_context_untuned(), *threads;
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads = 3;
    options.tuning_file = "";
    test_check(fovea_context_create(&options, &threads) == FOVEA_OK, "%s", fovea_error_detail());
    test_angles(ctx);
    test_turning(ctx, threads);
    test_refused(ctx);
    fovea_context_destroy(threads);
    fovea_context_destroy(ctx);
    return test_end();
}

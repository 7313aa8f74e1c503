/* The start-up check of instructions (self_check.h). */
#include "cpu/self_check.h"

#include "core/core.h"

#include <string.h>

const fv_probe fv_probes[] = {
#define FV_PROBE(instruction, tier, features)                                                                          \
    {#instruction, FV_ISA_##tier, features, fv_probe_##instruction, fv_emulate_##instruction},
#include "probes/probes.inc"
#undef FV_PROBE
    {0}};

const int fv_probe_count = (int)(sizeof fv_probes / sizeof fv_probes[0]) - 1;

/* Bits of elements: as bfloat16 0, 1, its neighbours, powers of two near the ends of the range and near a half of the
 * last digit of 1; the subnormal ones, infinity, NaN. Each is some float16 as well. */
static const uint16_t elements[] = {0x0000, 0x3f80, 0x3f81, 0x3f7f, 0x3380, 0x3300, 0x3381, 0x4000,
                                    0x1f80, 0x2000, 0x0080, 0x0081, 0x0100, 0x0001, 0x007f, 0x7f7f,
                                    0x7f00, 0x7f80, 0x7fc0, 0x5f80, 0x3c00, 0x03ff};

/* Bits of what is added to. */
static const uint32_t sums[] = {0x00000000, 0x3f800000, 0x3f800001, 0x3f7fffff, 0x33800000, 0x33000000, 0x00800000,
                                0x00800001, 0x00000001, 0x007fffff, 0x7f7fffff, 0x7f800000, 0x7fc00000, 0x41000000,
                                0x3f808000, 0x3f818000, 0x00808000, 0x7f7f8000, 0x0d800000};

enum { ELEMENTS = sizeof elements / sizeof elements[0], SUMS = sizeof sums / sizeof sums[0], HARD = 40 };

/* A fixed sequence (Knuth's MMIX generator). */
static uint32_t next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static uint32_t some_element(uint64_t *state) {
    const uint32_t n = next(state);
    return elements[n % ELEMENTS] | (n & 0x8000u);
}

int fv_probe_hard_case(int number, fv_probe_case *x) {
    uint64_t state = (uint64_t)number + 1;
    if (number >= HARD)
        return 0;
    x->pairs = number % 2 ? 1 + number % FV_PROBE_PAIRS : 1;
    for (int64_t i = 0; i < x->pairs; i++)
        x->a[i] = some_element(&state) | some_element(&state) << 16;
    for (int64_t i = 0; i < x->pairs * FV_PROBE_OUTPUTS; i++)
        x->b[i] = some_element(&state) | some_element(&state) << 16;
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++) {
        const uint32_t n = next(&state), bits = sums[n % SUMS] | (n & 0x8000u) << 16;
        memcpy(&x->c[j], &bits, sizeof bits);
    }
    return 1;
}

static int is_nan(uint32_t bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }

/* Results are floats, or two elements of 16 bits, whose NaN are defined. */
int fv_probe_agrees(const fv_probe *probe, const fv_probe_case *x) {
    uint32_t got[FV_PROBE_OUTPUTS], want[FV_PROBE_OUTPUTS];
    const int halves = strncmp(probe->instruction, "vcvt", 4) == 0;
    probe->run(x->pairs, x->a, x->b, x->c, got);
    probe->emulate(x->pairs, x->a, x->b, x->c, want);
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++) {
        const int same = halves ? got[j] == want[j] : got[j] == want[j] || (is_nan(got[j]) && is_nan(want[j]));
        if (!same)
            return 0;
    }
    return 1;
}

unsigned fv_needed_features(void) {
    return 0
#define FV_KERNEL(op, type, mr, nr, isa, features) | (features)
#include "built_kernels.inc"
#undef FV_KERNEL
        ;
}

unsigned fv_self_check(fv_target target) {
    const fv_float_mode mode = fv_float_plain();
    unsigned failed = 0;
    target.features &= fv_needed_features();
    for (int i = 0; i < fv_probe_count; i++) {
        fv_probe_case x;
        if (!fv_target_has(target, fv_probes[i].isa, fv_probes[i].features))
            continue;
        for (int n = 0; fv_probe_hard_case(n, &x); n++)
            if (!fv_probe_agrees(&fv_probes[i], &x))
                failed |= fv_probes[i].features;
    }
    fv_float_mode_set(&mode);
    return failed;
}

/* The emulators of probes (probes.h), from what emulate.h says of one output. */
#include "probes/emulate.h"

#include "probes/probes.h"

#ifdef FV_HAVE_AVX512
void fv_emulate_vdpbf16ps(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++) {
        float acc = c[j];
        for (int64_t t = 0; t < pairs; t++)
            acc = emulate_vdpbf16ps(acc, a[t], b[t * FV_PROBE_OUTPUTS + j]);
        y[j] = half_bits(acc);
    }
}

void fv_emulate_tdpbf16ps(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++)
        y[j] = half_bits(emulate_tdpbf16ps(c[j], pairs, a, b + j, FV_PROBE_OUTPUTS));
}

void fv_emulate_vcvtneps2bf16(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    (void)pairs, (void)a, (void)b;
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++)
        y[j] = emulate_vcvtneps2bf16(c[j]);
}

void fv_emulate_vcvtne2ps2bf16(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    (void)pairs, (void)a;
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++)
        y[j] = emulate_vcvtneps2bf16(c[j]) | emulate_vcvtneps2bf16(half_float(b[j])) << 16;
}
#endif

#ifdef FV_HAVE_ARM64
/* True chains of float32: exact upcasts, one rounding a step, subnormals kept. */
void fv_emulate_bfmlal(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++) {
        float acc = c[j];
        for (int64_t t = 0; t < pairs; t++) {
            const uint32_t other = b[t * FV_PROBE_OUTPUTS + j];
            acc = fmaf(emulate_low(a[t]), emulate_low(other), acc);
            acc = fmaf(emulate_high(a[t]), emulate_high(other), acc);
        }
        y[j] = half_bits(acc);
    }
}

void fv_emulate_fmlal(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y) {
    for (int j = 0; j < FV_PROBE_OUTPUTS; j++) {
        float acc = c[j];
        for (int64_t t = 0; t < pairs; t++)
            for (int shift = 0; shift <= 16; shift += 16)
                acc = fmaf(half_widen_f16((uint16_t)(a[t] >> shift)),
                           half_widen_f16((uint16_t)(b[t * FV_PROBE_OUTPUTS + j] >> shift)), acc);
        y[j] = half_bits(acc);
    }
}
#endif

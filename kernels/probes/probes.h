/* Probes: single instructions whose exact arithmetic kernels rely on, callable by themselves. test_instructions.c
 * holds each against its emulator, and the library checks a few hundred hard cases of those that its kernels need
 * before it uses them (src/dispatch/self_check.c): manuals have been wrong.
 *
 * A probe computes 16 outputs from pairs of 16-bit elements, the first of a pair in the low half of a word:
 *   a [pairs]       pairs that all outputs share         b [pairs][16]  a pair for each output
 *   c [16]          what is added to, or converted       y [16]         outputs; conversions: words of two 16-bit
 *                   results
 *   vdpbf16ps       y = c, then for each pair one instruction
 *   tdpbf16ps       one instruction, pairs <= 16
 *   bfmlal, fmlal   y = c, then for each pair the first elements, then the second
 *   vcvtneps2bf16   y = c rounded, in the low half
 *   vcvtne2ps2bf16  y = c rounded, in the low half, and b[0], taken for floats, in the high half
 * 1 <= pairs; the rounding mode is nearest, nothing is flushed by the caller's setting. */
#ifndef FV_PROBES_H
#define FV_PROBES_H

#include "kernels.h"

enum { FV_PROBE_OUTPUTS = 16, FV_PROBE_PAIRS = 16 };

typedef void fv_probe_fn(int64_t pairs, const uint32_t *a, const uint32_t *b, const float *c, uint32_t *y);

#define FV_PROBE(instruction, tier, features) fv_probe_fn fv_probe_##instruction, fv_emulate_##instruction;
#include "probes/probes.inc"
#undef FV_PROBE

#endif

/* The FMA peak: what a tier's units do with nothing but multiply-adds in registers, and so what a share of the peak is
 * a share of. For whoever tells one: fovea-bench, bench/peers, fovea-tune, fovea-minilm. No part of the library. */
#ifndef PEAK_PEAK_RUN_H
#define PEAK_PEAK_RUN_H

#include <stdint.h>

/* Runs that many rounds (64 or more) on the calling thread, a round being about ten multiply-adds of a vector; returns
 * how many flops they were, or 0 if this build has none for the tier. isa: a tier that the CPU has, as fovea_isa
 * numbers them. */
double peak_run(int isa, int64_t rounds);

/* The integer peak likewise: products of int8 where the tier with these features (FV_HAS_...) has an instruction for
 * them, of int16 elsewhere. Returns operations, a product and its sum being two; 0 if this build has none for the
 * tier. */
double peak_run_integers(int isa, unsigned features, int64_t rounds);

#endif

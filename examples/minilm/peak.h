/* The most floating-point operations a second that one thread can do with a tier's instructions, measured. */
#ifndef PEAK_H
#define PEAK_H

#include <fovea/fovea.h>

/* Multiplies and adds in registers for about that many seconds and returns the highest GFLOP/s seen (an fma counts as
 * two), or 0 if this build has none for this tier. The CPU must have the tier. */
double peak_gflops(fovea_isa isa, double seconds);

#endif

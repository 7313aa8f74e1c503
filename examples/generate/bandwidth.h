/* How fast this machine reads memory, in bytes per second, on a context's threads: the bound of decoding. */
#ifndef GENERATE_BANDWIDTH_H
#define GENERATE_BANDWIDTH_H

#include <fovea/fovea.h>

/* The best of some passes over 256 MiB; 0 without memory. */
double bandwidth_measure(const fovea_context *ctx, int threads);

#endif

/* The OpenMP runtime of the program's ggml. */
#ifndef FG_OPENMP_H
#define FG_OPENMP_H

#include <stdbool.h>

/* Does ggml's CPU backend compute with the same OpenMP runtime as this library? Then both have the same threads, and
 * those that spin for ggml take our work, rather than the CPUs of ours. */
bool fg_openmp_shared(void);

#endif

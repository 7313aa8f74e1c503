/* How fast memory is read: the bound of decoding, and what a share of it is a share of. For whoever tells one:
 * fovea-bench, bench/peers, fovea-tune, fovea-generate. No part of the library. */
#ifndef PEAK_READ_SPEED_H
#define PEAK_READ_SPEED_H

#include <stdint.h>

/* Reads memory once, on the calling thread, and returns a number that takes all of it to find. What is behind the last
 * whole PEAK_READ_BYTES is not read. Any alignment to 4 bytes. */
enum { PEAK_READ_BYTES = 256 };
uint64_t peak_read(const void *memory, int64_t bytes);

/* Bytes of operands of which no cache holds any when they are used again: twice the last-level cache as it reports
 * itself (a guest may have all of it), and at least 64 MiB. */
int64_t peak_cold_bytes(int64_t last_level_cache);

/* Runs task(arg, i) for each i in [0, count), each on a thread; fovea_parallel() in a function of one line. */
typedef void peak_parallel(const void *context, int64_t count, void (*task)(void *arg, int64_t index), void *arg);

/* Bytes per second that threads read together: the best of some passes over 256 MiB, in 2 MiB pages where the system
 * gives them. 0 without memory. */
double peak_read_speed(int threads, peak_parallel *parallel, const void *context);

#endif

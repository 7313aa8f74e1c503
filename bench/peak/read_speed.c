/* read_speed.h. Two streams, as of keys and values: 8% faster than one on AMD family 25 model 17; prefetches ahead, at
 * 1 to 16 KiB, gain nothing (docs/lab/decode.md). */
#define _DEFAULT_SOURCE /* madvise, clock_gettime */
#include "read_speed.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

enum { BYTES = 1 << 28, HUGE_PAGE = 1 << 21, PASSES = 5, LANES = 8 };

typedef uint64_t lanes __attribute__((vector_size(8 * LANES), aligned(4), may_alias));

uint64_t peak_read(const void *memory, int64_t bytes) {
    const int64_t each = bytes / PEAK_READ_BYTES * 2;
    const lanes *one = memory, *other = one + each;
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    for (int64_t i = 0; i < each; i += 2) {
        a += one[i];
        b += one[i + 1];
        c += other[i];
        d += other[i + 1];
    }
    a += b + c + d;
    return a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
}

int64_t peak_cold_bytes(int64_t last_level_cache) {
    const int64_t least = (int64_t)64 << 20;
    return 2 * last_level_cache > least ? 2 * last_level_cache : least;
}

/* One pass. */
typedef struct passage {
    const char *memory;
    int64_t bytes;  /* of a task */
    uint64_t *sums; /* [tasks]: reading must have a result */
} passage;

static void read_part(void *arg, int64_t task) {
    const passage *p = arg;
    p->sums[task] = peak_read(p->memory + task * p->bytes, p->bytes);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double peak_read_speed(int threads, peak_parallel *parallel, const void *context) {
    char *memory = aligned_alloc(HUGE_PAGE, BYTES);
    passage p = {memory, BYTES / threads / PEAK_READ_BYTES * PEAK_READ_BYTES, calloc((size_t)threads, sizeof *p.sums)};
    double best = 0.0;
    if (memory != NULL && p.sums != NULL) {
#ifdef MADV_HUGEPAGE
        (void)madvise(memory, BYTES, MADV_HUGEPAGE);
#endif
        memset(memory, 1, BYTES);
        for (int i = 0; i < PASSES; i++) {
            const double begin = now();
            parallel(context, threads, read_part, &p);
            const double speed = (double)(p.bytes * threads) / (now() - begin);
            best = speed > best ? speed : best;
        }
    }
    free(memory);
    free(p.sums);
    return best;
}

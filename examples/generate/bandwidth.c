/* bandwidth.h. */
#include "bandwidth.h"

#include "../stopwatch.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 1 << 28, PASSES = 5, LANES = 8 };

typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));

typedef struct passage {
    const lanes *data;
    int64_t count, tasks; /* vectors */
    uint64_t *sums;       /* [tasks]: reading must have a result */
} passage;

static void read_part(void *arg, int64_t task) {
    const passage *p = arg;
    const int64_t each = p->count / p->tasks / 4 * 4, first = task * each;
    lanes a = {0}, b = {0}, c = {0}, d = {0};
    for (int64_t i = first; i < first + each; i += 4) {
        a += p->data[i];
        b += p->data[i + 1];
        c += p->data[i + 2];
        d += p->data[i + 3];
    }
    a += b + c + d;
    p->sums[task] = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
}

double bandwidth_measure(const fovea_context *ctx, int threads) {
    passage p = {.count = BYTES / (int64_t)sizeof(lanes), .tasks = threads};
    void *memory = aligned_alloc(sizeof(lanes), BYTES);
    p.sums = calloc((size_t)threads, sizeof *p.sums);
    double best = 0.0;
    if (memory != NULL && p.sums != NULL) {
        memset(memory, 1, BYTES);
        p.data = memory;
        for (int i = 0; i < PASSES; i++) {
            const double begin = stopwatch(CLOCK_MONOTONIC);
            if (fovea_parallel(ctx, threads, read_part, &p) != FOVEA_OK)
                break;
            const double speed = (double)BYTES / (stopwatch(CLOCK_MONOTONIC) - begin);
            best = speed > best ? speed : best;
        }
    }
    free(memory);
    free(p.sums);
    return best;
}

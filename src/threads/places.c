/* The CPUs to which OpenMP binds threads (threads.h). */
#include "threads/threads.h"

#include <string.h>

#ifdef _OPENMP
#include "core/core.h"

#include <omp.h>
#include <stdlib.h>
#endif

bool fv_parallel_places(uint64_t set[FV_NODE_CPUS / 64]) {
    bool bound = false;
    memset(set, 0, FV_NODE_CPUS / 8);
#ifdef _OPENMP
    const int places = omp_get_proc_bind() == omp_proc_bind_false ? 0 : omp_get_num_places();
    for (int place = 0; place < places; place++) {
        const int count = omp_get_place_num_procs(place);
        int *cpus = malloc((size_t)fv_max(count, 1) * sizeof *cpus);
        if (!cpus)
            break;
        omp_get_place_proc_ids(place, cpus);
        for (int i = 0; i < count; i++)
            if (cpus[i] >= 0 && cpus[i] < FV_NODE_CPUS) {
                set[cpus[i] / 64] |= UINT64_C(1) << cpus[i] % 64;
                bound = true;
            }
        free(cpus);
    }
#endif
    return bound;
}

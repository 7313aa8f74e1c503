/* The CPUs to which OpenMP binds threads (threads.h). */
#include "threads/threads.h"

#ifdef _OPENMP
#include "core/core.h"

#include <omp.h>
#include <stdlib.h>
#endif

void fv_parallel_places(void (*add)(void *arg, int cpu), void *arg) {
#ifdef _OPENMP
    const int places = omp_get_proc_bind() == omp_proc_bind_false ? 0 : omp_get_num_places();
    for (int place = 0; place < places; place++) {
        const int count = omp_get_place_num_procs(place);
        int *cpus = malloc((size_t)fv_max(count, 1) * sizeof *cpus);
        if (!cpus)
            return;
        omp_get_place_proc_ids(place, cpus);
        for (int i = 0; i < count; i++)
            add(arg, cpus[i]);
        free(cpus);
    }
#else
    (void)add, (void)arg;
#endif
}

/* Problems that many threads solve (thread_problems.h). */
#define _GNU_SOURCE /* sched_getcpu, sched_setaffinity */
#include "thread_problems.h"

#include <sched.h>
#include <stdio.h>

problem problems[PROBLEMS];

void problems_make(void) {
    fovea_context *scalar = context_of(FOVEA_ISA_SCALAR, 1, NULL);
    for (int n = 0; n < PROBLEMS; n++) {
        char name[32];
        snprintf(name, sizeof name, "threads %d", n);
        rng r = rng_stream(test_seed(), name);
        problem *p = &problems[n];
        do
            p->c = case_random(&r, 300000);
        while (p->c.desc.kv_len < 100);
        case_random_scores(&p->c, &r);
        if (n == 0) /* rows that are split over segments */
            p->c = case_plain(1, 4, 2, 1, 2000, 16, 16);
        if (n == 1) /* many blocks of rows */
            p->c = case_plain(2, 6, 2, 120, 120, 16, 16);
        if (n == MASKED) {
            p->c = case_plain(2, 6, 2, 120, 300, 16, 16);
            p->c.desc.mask = FOVEA_MASK_BOOLEAN;
        }
        if (n == SPLIT_WEIGHTS) {
            p->c = case_plain(1, 4, 2, 1, 2000, 16, 16);
            p->c.weights = true;
        }
        p->in = inputs_make(&p->c, &r);
        p->want = outputs_make(&p->c, p->c.layout);
        case_run(scalar, NULL, &p->c, p->in, p->want);
    }
    fovea_context_destroy(scalar);
}

void problems_free(void) {
    for (int n = 0; n < PROBLEMS; n++) {
        inputs_free(problems[n].in);
        outputs_free(problems[n].want);
    }
}

void problem_solve(const problem *p, const fovea_context *ctx, const char *what) {
    outputs *got = outputs_make(&p->c, p->c.layout);
    if (case_run(ctx, NULL, &p->c, p->in, got))
        outputs_same(got, p->want, "%s, problem %d", what, (int)(p - problems));
    outputs_free(got);
}

#ifdef __linux__
int thread_cpu(void) { return sched_getcpu(); }

void thread_run_on(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}
#else
int thread_cpu(void) { return 0; }

void thread_run_on(int cpu) { (void)cpu; }
#endif

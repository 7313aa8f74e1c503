/* Calls in forked children. One of a process that has no threads yet may start some; one of a process with an OpenMP
 * team, even if the library never ran there, computes on its only thread, and so does its own child. All give the
 * scalar tier's bits. A child that hangs is ended by its alarm. The parent makes no call before the forks, so this is a
 * program of its own. */
#define _POSIX_C_SOURCE 200809L
#include "attention_case.h"

#include <omp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_WRONG = 1, CHILD_THREADS = 2 };

static attention_case problem;
static inputs *in;
static outputs *want;

/* -1: unknown. */
static int threads_now(void) {
    struct stat tasks;
    return stat("/proc/self/task", &tasks) == 0 ? (int)tasks.st_nlink - 2 : -1;
}

/* By a context of the child's, and by the one call. The exit status says what is wrong. */
static int compute(bool alone) {
    const fovea_attention_desc *d = &problem.desc;
    const int before = threads_now(); /* one, but for an emulator's own */
    fovea_context *ctx = context_of(FOVEA_ISA_BEST, 0, NULL);
    outputs *got = outputs_make(&problem, problem.layout);
    bool same = case_run(ctx, NULL, &problem, in, got) && outputs_same(got, want, "a plan in a child");
    outputs_clear(got);
    const fovea_status status =
        fovea_sdpa_f32(in->args.q.data, in->args.k.data, in->args.v.data, got->out.data, d->batch, d->q_heads,
                       d->kv_heads, d->q_len, d->kv_len, d->head_dim, d->value_dim, d->causal);
    same = status == FOVEA_OK &&
           test_same(got->out.data, want->out.data, d->batch * d->q_heads * d->q_len * d->value_dim,
                     "fovea_sdpa_f32 in a child") &&
           same;
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    fovea_context_info(ctx, &info);
    const int threads = threads_now();
    const bool expected = threads < 0 || (alone ? threads == before : info.threads == 1 || threads > before);
    return (same ? 0 : CHILD_WRONG) | (expected ? 0 : CHILD_THREADS);
}

static bool check_child(pid_t child, const char *what) {
    int status = -1;
    const pid_t ended = waitpid(child, &status, 0);
    return test_check(child > 0 && ended == child && status == 0, "%s: status 0x%x", what, (unsigned)status);
}

static void fork_to_compute(bool alone, const char *what) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        _exit(compute(alone));
    }
    check_child(child, what);
}

/* A child that only forks again. */
static void fork_twice(void) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(60);
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            alarm(60);
            _exit(compute(true));
        }
        _exit(!check_child(grandchild, "the child of a child"));
    }
    check_child(child, "a child that forks");
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "threads_fork", NULL);
    rng r = rng_stream(test_seed(), "fork");
    problem = case_plain(2, 6, 2, 120, 120, 16, 16);
    problem.lse = false;
    in = inputs_make(&problem, &r);
    want = outputs_make(&problem, problem.layout);
    fovea_context *scalar = context_of(FOVEA_ISA_SCALAR, 1, NULL);
    case_run(scalar, NULL, &problem, in, want);
    fovea_context_destroy(scalar);

    if (threads_now() == 1)
        fork_to_compute(false, "a child of one thread");
    else
        test_skip("a child of one thread: this process is not known to have only one");
    atomic_int ran = 0;
#pragma omp parallel num_threads(2)
    ran++;
    if (ran == 2)
        fork_to_compute(true, "a child of a process with an OpenMP team");
    else
        test_skip("OpenMP gives no team of two");
    fork_twice();
    inputs_free(in);
    outputs_free(want);
    return test_end();
}

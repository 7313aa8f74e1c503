/* Plans and groups of two threads at once (MPI_THREAD_MULTIPLE), each thread's over a communicator of its own: the bits
 * of one thread. Each thread makes its objects, executes them and frees them, while the other does. Run by mpirun with
 * any number of ranks; skipped where MPI does not provide the level. */
#include "case.h"
#include "fovea_mpi_group.h"
#include "groups.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 2, METHODS = 2, CALLS = 3, ROUNDS = 4, ROWS = 7, COLUMNS = 200, MARK = 0x5a };

/* The work of a thread. */
typedef struct work {
    MPI_Comm over;
    const fovea_context *ctx;
    problem problems[METHODS];
    float *out[METHODS], own[ROWS * COLUMNS], whole[ROWS * COLUMNS];
    fovea_status status;
    char detail[512];
} work;

static size_t out_bytes(const problem *p) {
    return (size_t)(p->desc.batch * p->desc.q_heads * p->desc.q_len * p->desc.value_dim) * sizeof(float);
}

static bool good(work *w, fovea_status status) {
    if (status == FOVEA_OK)
        return true;
    w->status = status;
    snprintf(w->detail, sizeof w->detail, "%s", fovea_mpi_error_detail());
    return false;
}

static void attend(work *w, int method) {
    problem *p = &w->problems[method];
    fovea_mpi_attention_plan *plan;
    p->over.attention = &p->desc;
    p->over.method = method ? FOVEA_MPI_METHOD_GATHER : FOVEA_MPI_METHOD_PASS;
    if (!good(w, fovea_mpi_attention_plan_create(w->over, w->ctx, &p->over, &plan)))
        return;
    fovea_attention_args a = problem_args(p);
    a.q = part_of(&p->q, plan, rank, fovea_mpi_attention_query_stripe, true);
    a.k = part_of(&p->k, plan, rank, fovea_mpi_attention_key_stripe, true);
    a.v = part_of(&p->v, plan, rank, fovea_mpi_attention_key_stripe, true);
    a.out = fovea_tensor_bhtd(w->out[method], FOVEA_DTYPE_F32, p->desc.batch, p->desc.q_heads,
                              fovea_mpi_attention_queries(plan, rank), p->desc.value_dim);
    for (int i = 0; i < CALLS && good(w, fovea_mpi_attention_execute(plan, &a, NULL, 0)); i++) {
    }
    free(a.q.data);
    free(a.k.data);
    free(a.v.data);
    fovea_mpi_attention_plan_destroy(plan);
}

static void gather(work *w) {
    fovea_mpi_group *group = NULL;
    if (good(w, fovea_mpi_group_create(w->over, &group)))
        for (int i = 0; i < CALLS && good(w, fovea_mpi_gather_columns(group, FOVEA_OK, ROWS, COLUMNS, sizeof *w->own,
                                                                      NULL, w->own, w->whole));
             i++) {
        }
    fovea_mpi_group_destroy(group);
}

static void *run(void *of) {
    work *w = of;
    w->status = FOVEA_OK;
    memset(w->whole, MARK, sizeof w->whole);
    for (int i = 0; i < METHODS; i++) {
        memset(w->out[i], MARK, out_bytes(&w->problems[i]));
        attend(w, i);
        gather(w);
    }
    return NULL;
}

static void fill(work *w, int number, const fovea_context *ctx, rng *r) {
    memset(w, 0, sizeof *w);
    w->ctx = ctx;
    MPI_Comm_dup(comm, &w->over); /* in the same order on all ranks */
    for (int i = 0; i < METHODS; i++) {
        problem *p = &w->problems[i];
        *p = problem_plain();
        p->lse = false;
        p->desc.q_len = p->desc.kv_len = 1000 + 300 * number;
        p->desc.causal = FOVEA_CAUSAL_TOP_LEFT;
        p->over.stripe_segments = 1;
        p->over.block_queries = 100;
        problem_fill(p, r);
        w->out[i] = malloc(out_bytes(p));
    }
    for (int i = 0; i < ROWS * COLUMNS; i++)
        w->own[i] = (float)rng_below(r, 201) * 0.01f - 1;
}

static void compare(const work *w, const work *alone, int number) {
    check(w->status == FOVEA_OK, "thread %d: %s", number, w->detail);
    for (int i = 0; i < METHODS; i++)
        check(memcmp(w->out[i], alone->out[i], out_bytes(&w->problems[i])) == 0, "thread %d: attention %d differs",
              number, i);
    check(memcmp(w->whole, alone->whole, sizeof w->whole) == 0, "thread %d: gathered columns differ", number);
}

static void test(const fovea_context *ctx) {
    static work all[THREADS], alone[THREADS];
    rng r = {(uint64_t)seed};
    for (int i = 0; i < THREADS; i++) {
        fill(&all[i], i, ctx, &r);
        run(&all[i]);
        check(all[i].status == FOVEA_OK, "alone: %s", all[i].detail);
        alone[i] = all[i];
        for (int k = 0; k < METHODS; k++)
            all[i].out[k] = malloc(out_bytes(&all[i].problems[k]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&threads[i], NULL, run, &all[i]) != 0)
                MPI_Abort(MPI_COMM_WORLD, 1);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        for (int i = 0; i < THREADS; i++)
            compare(&all[i], &alone[i], i);
    }
    for (int i = 0; i < THREADS; i++) {
        for (int k = 0; k < METHODS; k++) {
            free(all[i].out[k]);
            free(alone[i].out[k]);
            problem_free(&all[i].problems[k]);
        }
        MPI_Comm_free(&all[i].over);
    }
}

int main(int argc, char **argv) {
    enum { SKIPPED = 77 };
    if (group_begin(&argc, &argv, MPI_THREAD_MULTIPLE) < MPI_THREAD_MULTIPLE) {
        printf("SKIPPED: this MPI does not provide MPI_THREAD_MULTIPLE\n");
        MPI_Finalize();
        return SKIPPED;
    }
    fovea_context *ctx = group_context(FOVEA_ISA_BEST, 2);
    while (group_next())
        test(ctx);
    fovea_context_destroy(ctx);
    return group_report("threads");
}

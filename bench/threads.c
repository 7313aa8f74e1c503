/* bench-threads: what the number of threads costs where they are not alone.
 *
 *   bench-threads processes N   N processes, 12 heads of 128 x 64 in each, for 1.5 seconds: calls per second, of all.
 *                               Under OMP_NUM_THREADS=1, OMP_WAIT_POLICY=passive ...
 *   bench-threads others N      a team of N threads, as many CPUs as there may be: microseconds per call of attentions
 *                               with 1, 2, 4 and 8 heads in turn (32 queries, 64 keys), alone, and with a parallel
 *                               region of the program after each call; the best of 5 rounds
 *
 * Uses what is inside the library: the number of threads is set whatever the CPUs. */
#define _POSIX_C_SOURCE 200809L
#include "context/context.h"
#include "fovea/fovea.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

enum { CHANNELS = 64 };

typedef struct call {
    fovea_attention_plan *plan;
    fovea_attention_args args;
    void *workspace;
    size_t size;
} call;

static void require(bool ok) {
    if (ok)
        return;
    fprintf(stderr, "bench-threads: %s\n", fovea_error_detail());
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static fovea_tensor make_tensor(int64_t heads, int64_t tokens) {
    const int64_t floats = heads * tokens * CHANNELS;
    float *data = malloc((size_t)floats * sizeof *data);
    require(data != NULL);
    for (int64_t i = 0; i < floats; i++)
        data[i] = (float)(i * 37 % 101) / 101.0F;
    return fovea_tensor_bhtd(data, FOVEA_DTYPE_F32, 1, heads, tokens, CHANNELS);
}

static call make_call(const fovea_context *ctx, int64_t heads, int64_t q_len, int64_t kv_len) {
    call c;
    fovea_attention_desc desc;
    fovea_attention_desc_init(&desc);
    desc.q_heads = desc.kv_heads = heads;
    desc.q_len = q_len;
    desc.kv_len = kv_len;
    desc.head_dim = desc.value_dim = CHANNELS;
    require(fovea_attention_plan_create(ctx, &desc, &c.plan) == FOVEA_OK);
    fovea_attention_args_init(&c.args);
    c.args.q = make_tensor(heads, q_len);
    c.args.k = make_tensor(heads, kv_len);
    c.args.v = make_tensor(heads, kv_len);
    c.args.out = make_tensor(heads, q_len);
    c.size = fovea_attention_plan_workspace_size(c.plan);
    c.workspace = malloc(c.size);
    require(c.workspace != NULL);
    return c;
}

static void execute(const call *c) {
    require(fovea_attention_execute(c->plan, &c->args, c->workspace, c->size) == FOVEA_OK);
}

static void bench_processes(int count) {
    enum { TENTHS = 15 };
    const double end = now() + TENTHS / 10.0;
    int channel[2];
    long calls, sum = 0;
    require(pipe(channel) == 0);
    for (int i = 0; i < count; i++) {
        if (fork() != 0)
            continue;
        fovea_context *ctx;
        require(fovea_context_create(NULL, &ctx) == FOVEA_OK);
        const call c = make_call(ctx, 12, 128, 128);
        for (calls = 0; now() < end; calls++)
            execute(&c);
        _exit(write(channel[1], &calls, sizeof calls) != sizeof calls);
    }
    for (int i = 0; i < count; i++) {
        require(read(channel[0], &calls, sizeof calls) == sizeof calls);
        sum += calls;
        wait(NULL);
    }
    printf("%.0f calls/s\n", (double)sum * 10.0 / TENTHS);
}

static void bench_others(int team) {
    enum { CALLS = 4, ROUNDS = 5, TIMES = 200 };
    fovea_context *ctx;
    require(fovea_context_create(NULL, &ctx) == FOVEA_OK);
    ctx->threads.count = team;
#ifdef _OPENMP
    omp_set_num_threads(team);
#endif
    call calls[CALLS];
    for (int i = 0; i < CALLS; i++)
        calls[i] = make_call(ctx, 1 << i, 32, 64);
    for (int others = 0; others < 2; others++) {
        double best = INFINITY, sum = 0.0;
        for (int round = 0; round < ROUNDS; round++) {
            const double start = now();
            for (int i = 0; i < TIMES * CALLS; i++) {
                execute(&calls[i % CALLS]);
                if (!others)
                    continue;
                const float *out = calls[i % CALLS].args.out.data;
#ifdef _OPENMP
#pragma omp parallel for reduction(+ : sum)
#endif
                for (int k = 0; k < 32 * CHANNELS; k++)
                    sum += (double)out[k];
            }
            best = fmin(best, (now() - start) / (TIMES * CALLS));
        }
        printf("%s %.1f us/call%s", others ? ", with another region" : "alone", 1e6 * best, isnan(sum) ? "!" : "");
    }
    printf("\n");
}

int main(int argc, char **argv) {
    const int count = argc == 3 ? atoi(argv[2]) : 0;
    if (count > 0 && count <= 64 && strcmp(argv[1], "processes") == 0)
        bench_processes(count);
    else if (count > 0 && count <= 64 && strcmp(argv[1], "others") == 0)
        bench_others(count);
    else {
        fprintf(stderr, "usage: bench-threads processes|others N, N from 1 to 64\n");
        return 2;
    }
    return 0;
}

/* Ranks against threads: the same attention by one process of as many threads as there are ranks, and by the ranks, of
 * one thread each, in turns.
 *     mpirun -n 2 fovea-mpi-bench prompt 4096 8 8 128 bf16     tokens, query heads, key heads, channels, type
 *     mpirun -n 2 fovea-mpi-bench decode 65536 32 8 128 bf16
 * Ranks keep the CPUs that mpirun binds them to; the threads have all CPUs. Where ranks are bound, set OMP_NUM_THREADS
 * to their number: otherwise threads are as many as the first rank's CPUs. --costs default takes the cost model's
 * defaults in place of speeds that are measured first. --method pass|gather, --stripe SEGMENTS, --block QUERIES and
 * --heads KEY_HEADS of a block after these choose what the model would.
 * Prints medians in milliseconds, their ratio, and what the cost model predicts of ranks. */
#include "fovea_mpi.h"

#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TURNS = 15 };

static int rank, ranks;

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static fovea_context *context(int threads) {
    fovea_context *ctx;
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads = threads;
    options.threads_backend = FOVEA_THREADS_POOL;
    if (fovea_context_create(&options, &ctx) != FOVEA_OK) {
        fprintf(stderr, "%s\n", fovea_error_detail());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    return ctx;
}

static fovea_tensor tensor(fovea_dtype dtype, int64_t heads, int64_t tokens, int64_t channels) {
    const int64_t n = heads * tokens * channels;
    float *numbers = malloc((size_t)n * sizeof *numbers + 64);
    if (!numbers)
        MPI_Abort(MPI_COMM_WORLD, 1);
    uint32_t state = 1;
    for (int64_t i = 0; i < n; i++)
        numbers[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
    if (dtype == FOVEA_DTYPE_F32)
        return fovea_tensor_bhtd(numbers, dtype, 1, heads, tokens, channels);
    uint16_t *halves = malloc((size_t)n * sizeof *halves + 64);
    if (!halves)
        MPI_Abort(MPI_COMM_WORLD, 1);
    fovea_convert(n, numbers, FOVEA_DTYPE_F32, halves, dtype);
    free(numbers);
    return fovea_tensor_bhtd(halves, dtype, 1, heads, tokens, channels);
}

static fovea_attention_args arguments(const fovea_attention_desc *d, int64_t queries, int64_t keys) {
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = tensor(d->dtype, d->q_heads, queries, d->head_dim);
    args.k = tensor(d->dtype, d->kv_heads, keys, d->head_dim);
    args.v = tensor(d->dtype, d->kv_heads, keys, d->value_dim);
    args.out = tensor(d->dtype, d->q_heads, queries, d->value_dim);
    return args;
}

/* Without spinning, so that rank 0 has the CPUs. */
static void meet(void) {
    MPI_Request request;
    int done = 0;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done)
        nanosleep(&(struct timespec){0, 200000}, NULL);
}

static void must(fovea_status status, const char *detail) {
    if (status == FOVEA_OK)
        return;
    fprintf(stderr, "%s\n", detail);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* -------------------------------------------------------------------------------------------------------- speeds -- */

/* The least of some calls on one thread. */
static double seconds_of(const fovea_context *one, const fovea_attention_desc *d) {
    fovea_attention_plan *plan;
    must(fovea_attention_plan_create(one, d, &plan), fovea_error_detail());
    const fovea_attention_args args = arguments(d, d->q_len, d->kv_len);
    const size_t size = fovea_attention_plan_workspace_size(plan);
    void *workspace = malloc(size + 1);
    double least = 1e30;
    for (int i = 0; i < 7; i++) {
        const double begin = MPI_Wtime();
        must(fovea_attention_execute(plan, &args, workspace, size), fovea_error_detail());
        const double took = MPI_Wtime() - begin;
        least = took < least ? took : least;
    }
    void *all[] = {args.q.data, args.k.data, args.v.data, args.out.data, workspace};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    fovea_attention_plan_destroy(plan);
    return least;
}

/* Between ranks 0 and 1, one way. */
static double message_seconds(void *memory, int bytes) {
    double least = 1e30;
    for (int i = 0; i < 30; i++) {
        const double begin = MPI_Wtime();
        for (int way = 0; way < 2 && rank < 2; way++)
            if (rank == way)
                MPI_Send(memory, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD);
            else
                MPI_Recv(memory, bytes, MPI_BYTE, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        const double took = (MPI_Wtime() - begin) / 2;
        least = took < least ? took : least;
    }
    return least;
}

/* Speeds of this machine for the cost model: a short prompt gives flops, decoding also key_bytes. All ranks measure at
 * once, as they will compute. */
static fovea_mpi_costs measure(const fovea_context *one, const fovea_attention_desc *of) {
    enum { PROMPT = 1024, KEYS = 16384, MESSAGE = 1 << 20 };
    fovea_mpi_costs costs;
    fovea_mpi_costs_init(&costs);
    fovea_attention_desc d = *of;
    const double row = 4.0 * (double)(d.q_heads * d.head_dim);
    d.q_len = d.kv_len = PROMPT;
    d.causal = FOVEA_CAUSAL_TOP_LEFT;
    costs.flops = row * PROMPT * (PROMPT + 1) / 2 / seconds_of(one, &d);
    d.q_len = 1;
    d.kv_len = KEYS;
    d.causal = FOVEA_CAUSAL_NONE;
    const double took = seconds_of(one, &d), reads = took - row * KEYS / costs.flops;
    const double bytes = 2.0 * KEYS * (double)(d.kv_heads * d.head_dim) * (d.dtype == FOVEA_DTYPE_F32 ? 4 : 2);
    costs.key_bytes = bytes / (reads > took / 10 ? reads : took / 10);
    if (ranks > 1) {
        void *memory = calloc(1, MESSAGE);
        costs.latency = message_seconds(memory, 64);
        costs.bandwidth = costs.copy = MESSAGE / (message_seconds(memory, MESSAGE) - costs.latency);
        free(memory);
    }
    if (rank == 0)
        printf("measured: --flops %.3g --key-bytes %.3g --latency %.2g --gbits %.3g --copy %.3g\n", costs.flops,
               costs.key_bytes, costs.latency, costs.bandwidth * 8e-9, costs.copy);
    return costs;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 7 || argc % 2 == 0) {
        fprintf(
            stderr,
            "usage: fovea-mpi-bench prompt|decode TOKENS Q_HEADS KV_HEADS CHANNELS f32|bf16|f16 [OPTION VALUE]...\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    const int decode = strcmp(argv[1], "decode") == 0;
    fovea_attention_desc d;
    fovea_attention_desc_init(&d);
    d.kv_len = atoll(argv[2]);
    d.q_len = decode ? 1 : d.kv_len;
    d.q_heads = atoll(argv[3]);
    d.kv_heads = atoll(argv[4]);
    d.head_dim = d.value_dim = atoll(argv[5]);
    d.dtype = strcmp(argv[6], "f32") == 0   ? FOVEA_DTYPE_F32
              : strcmp(argv[6], "f16") == 0 ? FOVEA_DTYPE_F16
                                            : FOVEA_DTYPE_BF16;
    d.causal = decode ? FOVEA_CAUSAL_NONE : FOVEA_CAUSAL_TOP_LEFT;

    cpu_set_t bound, every;
    sched_getaffinity(0, sizeof bound, &bound);
    memset(&every, 0xff, sizeof every);
    sched_setaffinity(0, sizeof every, &every);
    fovea_context *all = context(ranks), *one = context(1);
    fovea_context_facts has;
    fovea_context_facts_init(&has);
    must(fovea_context_info(all, &has), fovea_error_detail());
    if (has.threads < ranks) {
        if (rank == 0)
            fprintf(stderr,
                    "There are %d threads to compare %d ranks with: set OMP_NUM_THREADS=%d, or give mpirun "
                    "--bind-to none.\n",
                    has.threads, ranks, ranks);
        MPI_Finalize();
        return 1;
    }
    fovea_attention_plan *alone;
    must(fovea_attention_plan_create(all, &d, &alone), fovea_error_detail());
    fovea_mpi_attention_desc over;
    fovea_mpi_attention_desc_init(&over);
    over.attention = &d;
    over.queries = decode ? FOVEA_MPI_QUERIES_REPLICATED : FOVEA_MPI_QUERIES_DEALT;
    fovea_mpi_costs costs;
    fovea_mpi_costs_init(&costs);
    bool measured = true;
    for (int i = 7; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--costs") == 0)
            measured = strcmp(argv[i + 1], "default") != 0;
        else if (strcmp(argv[i], "--method") == 0)
            over.method = strcmp(argv[i + 1], "pass") == 0 ? FOVEA_MPI_METHOD_PASS : FOVEA_MPI_METHOD_GATHER;
        else if (strcmp(argv[i], "--stripe") == 0)
            over.stripe_segments = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--block") == 0)
            over.block_queries = atoll(argv[i + 1]);
        else if (strcmp(argv[i], "--heads") == 0)
            over.block_kv_heads = atoll(argv[i + 1]);
    }
    sched_setaffinity(0, sizeof bound, &bound);
    if (measured)
        costs = measure(one, &d);
    over.costs = &costs;
    fovea_mpi_attention_plan *plan;
    must(fovea_mpi_attention_plan_create(MPI_COMM_WORLD, one, &over, &plan), fovea_mpi_error_detail());
    fovea_attention_args whole = {0};
    if (rank == 0)
        whole = arguments(&d, d.q_len, d.kv_len);
    const fovea_attention_args mine =
        arguments(&d, fovea_mpi_attention_queries(plan, rank), fovea_mpi_attention_keys(plan, rank));
    const size_t size = fovea_mpi_attention_plan_workspace_size(plan);
    const size_t whole_size = fovea_attention_plan_workspace_size(alone);
    void *workspace = malloc(size), *whole_workspace = malloc(whole_size + 1);

    double threads[TURNS], over_ranks[TURNS];
    for (int turn = -2; turn < TURNS; turn++) {
        sched_setaffinity(0, sizeof every, &every);
        meet();
        double begin = MPI_Wtime();
        if (rank == 0)
            must(fovea_attention_execute(alone, &whole, whole_workspace, whole_size), fovea_error_detail());
        const double took = MPI_Wtime() - begin;
        sched_setaffinity(0, sizeof bound, &bound);
        meet();
        MPI_Barrier(MPI_COMM_WORLD);
        begin = MPI_Wtime();
        must(fovea_mpi_attention_execute(plan, &mine, workspace, size), fovea_mpi_error_detail());
        MPI_Barrier(MPI_COMM_WORLD);
        if (turn >= 0)
            threads[turn] = took, over_ranks[turn] = MPI_Wtime() - begin;
    }
    qsort(threads, TURNS, sizeof *threads, by_value);
    qsort(over_ranks, TURNS, sizeof *over_ranks, by_value);
    if (rank == 0) {
        char text[512];
        fovea_mpi_attention_plan_describe(plan, text, sizeof text);
        printf("%s%s %s: %d threads %.2f ms, %d ranks %.2f ms, ratio %.3f, predicted %.2f ms\n", text, argv[1], argv[6],
               ranks, 1e3 * threads[TURNS / 2], ranks, 1e3 * over_ranks[TURNS / 2],
               threads[TURNS / 2] / over_ranks[TURNS / 2], 1e3 * fovea_mpi_attention_plan_seconds(plan));
    }
    fovea_mpi_attention_plan_destroy(plan);
    MPI_Finalize();
    return 0;
}

/* The backend in a program of ggml's: results against float64, with equal bits for any number of threads; what the
 * scheduler gives it; graphs without work, aborts, several backends at once.
 * FOVEA_GGML says which of the tests run: results are those of "all". */
#include "placed.h"
#include "problem.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define F32 GGML_TYPE_F32
#define F16 GGML_TYPE_F16
#define BF16 GGML_TYPE_BF16
#define Q8 GGML_TYPE_Q8_0
#define Q4 GGML_TYPE_Q4_0

/* name, head and value dim, heads, kv heads, rows, keys, sequences, types, mask, its heads and sequences, max_bias,
 * softcap, sinks, views */
static const problem problems[] = {
    {"decode", 64, 64, 9, 3, 1, 300, 1, F16, F16, MASK_ALL, 1, 1, 0, 0, 0, 1},
    {"decode, padded", 128, 128, 8, 2, 1, 512, 1, F16, F16, MASK_PADDED, 1, 1, 0, 0, 0, 1},
    {"few rows", 128, 128, 8, 2, 7, 700, 1, F16, F16, MASK_CAUSAL, 1, 1, 0, 0, 0, 1},
    {"few rows, softcap", 128, 128, 8, 2, 7, 700, 1, F16, F16, MASK_CAUSAL, 1, 1, 0, 20, 0, 1},
    {"few rows, sinks", 128, 128, 8, 2, 7, 700, 1, F16, F16, MASK_CAUSAL, 1, 1, 0, 0, 1, 1},
    {"few rows, numbers", 128, 128, 8, 2, 7, 700, 1, F16, F16, MASK_NUMBERS, 1, 1, 0, 0, 0, 1},
    {"few rows, no mask", 128, 128, 8, 2, 7, 700, 1, F16, F16, MASK_ABSENT, 1, 1, 0, 0, 0, 1},
    {"few rows, bf16 keys", 128, 128, 8, 2, 7, 700, 1, BF16, F16, MASK_CAUSAL, 1, 1, 0, 0, 0, 1},
    {"prompt", 64, 64, 9, 3, 130, 513, 1, F16, F16, MASK_CAUSAL, 1, 1, 0, 0, 0, 1},
    {"63 rows, many keys", 64, 64, 4, 2, 63, 2000, 1, F16, F16, MASK_CAUSAL, 1, 1, 0, 0, 0, 1},
    {"no mask", 72, 72, 4, 4, 33, 100, 1, F16, F16, MASK_ABSENT, 0, 0, 0, 0, 0, 0},
    {"holes", 64, 64, 4, 2, 17, 555, 1, F16, F16, MASK_HOLES, 1, 1, 0, 0, 0, 1},
    {"numbers", 64, 64, 4, 2, 17, 555, 1, F16, F16, MASK_NUMBERS, 1, 1, 0, 0, 0, 1},
    {"masks of heads and sequences", 40, 40, 6, 3, 9, 77, 4, F16, F16, MASK_NUMBERS, 2, 2, 0, 0, 0, 0},
    {"ranges of sequences", 40, 40, 6, 3, 9, 77, 4, F16, F16, MASK_CAUSAL, 1, 4, 0, 0, 0, 3},
    {"a row without keys", 64, 64, 4, 2, 5, 300, 1, F16, F16, MASK_EMPTY_ROW, 1, 1, 0, 0, 0, 1},
    {"a row with a sink alone", 64, 64, 4, 2, 5, 300, 1, F16, F16, MASK_EMPTY_ROW, 1, 1, 0, 0, 1, 1},
    {"ALiBi", 64, 64, 12, 12, 20, 300, 1, F16, F16, MASK_CAUSAL, 1, 1, 8, 0, 0, 1},
    {"ALiBi, softcap, sinks, sequences", 64, 96, 6, 2, 20, 300, 2, F16, F32, MASK_CAUSAL, 1, 1, 8, 30, 1, 3},
    {"softcap", 256, 256, 4, 2, 6, 600, 1, F16, F16, MASK_CAUSAL, 1, 1, 0, 50, 0, 1},
    {"sinks", 64, 64, 8, 1, 40, 300, 1, F16, F16, MASK_CAUSAL, 1, 1, 0, 0, 1, 1},
    {"values within keys", 192, 128, 8, 1, 3, 400, 1, F16, F16, MASK_CAUSAL, 1, 1, 0, 0, 0, 2},
    {"bf16", 128, 128, 8, 2, 12, 300, 1, BF16, BF16, MASK_CAUSAL, 1, 1, 0, 0, 0, 1},
    {"f32", 65, 67, 8, 2, 12, 300, 1, F32, F32, MASK_CAUSAL, 1, 1, 0, 0, 0, 1},
    {"q8_0, decode", 128, 128, 8, 2, 1, 1100, 1, Q8, Q8, MASK_PADDED, 1, 1, 0, 0, 0, 1},
    {"q8_0, prompt", 64, 64, 8, 2, 96, 520, 1, Q8, Q8, MASK_CAUSAL, 1, 1, 0, 0, 0, 1},
    {"q4_0", 64, 64, 6, 2, 9, 1500, 2, Q4, Q4, MASK_CAUSAL, 1, 1, 0, 0, 0, 3},
    {"q8_0 and f16, holes", 64, 96, 6, 2, 9, 1500, 1, Q8, F16, MASK_HOLES, 1, 1, 0, 0, 1, 1},
    {"f32 and q4_0, ALiBi", 64, 96, 6, 2, 9, 1500, 2, F32, Q4, MASK_NUMBERS, 1, 2, 8, 20, 1, 1},
    {"q8_0, one key head, a row without keys", 64, 64, 8, 1, 12, 3000, 1, Q8, Q8, MASK_EMPTY_ROW, 1, 1, 0, 0, 1, 1},
    {"one key", 32, 32, 1, 1, 1, 1, 1, F16, F16, MASK_ALL, 1, 1, 0, 0, 0, 0},
};
enum { PROBLEMS = sizeof problems / sizeof problems[0] };

static ggml_backend_reg_t reg;

static void *address(const char *name) { return ggml_backend_reg_get_proc_address(reg, name); }

static int64_t calls(ggml_backend_t backend) {
    int64_t (*counted)(ggml_backend_t, const char *);
    void *const function = address("fovea_ggml_calls");
    memcpy(&counted, &function, sizeof counted);
    return counted(backend, "FLASH_ATTN_EXT");
}

static void set_abort(ggml_backend_t backend, ggml_abort_callback callback, void *data) {
    ggml_backend_set_abort_callback_t set;
    void *const function = address("ggml_backend_set_abort_callback");
    memcpy(&set, &function, sizeof set);
    set(backend, callback, data);
}

static void spoil(struct ggml_tensor *t) { memset(t->data, 0xff, ggml_nbytes(t)); /* NaN */ }

static void test_results(void) {
    static const int threads[] = {1, 2, 4, 8};
    ggml_backend_t backend[4];
    double worst = 0;
    for (int t = 0; t < 4; t++)
        backend[t] = make_fovea(reg, threads[t]);
    for (int i = 0; i < PROBLEMS; i++) {
        const problem *p = &problems[i];
        problem_tensors s = problem_make(p);
        const int64_t n = ggml_nelements(s.out);
        const size_t bytes = (size_t)n * sizeof(float);
        double *reference = malloc((size_t)n * sizeof *reference);
        float *first = malloc(bytes);
        problem_reference(p, &s, reference);
        for (int t = 0; t < 4; t++) {
            spoil(s.out);
            check(ggml_backend_supports_op(backend[t], s.out), "not served", p->name);
            check(ggml_backend_graph_compute(backend[t], s.graph) == GGML_STATUS_SUCCESS, "error", p->name);
            if (t == 0)
                memcpy(first, s.out->data, bytes);
            check(!memcmp(first, s.out->data, bytes), "bits differ with threads", p->name);
        }
        const double error = problem_error(first, reference, n);
        worst = fmax(worst, error);
        check(error < 1e-6, "error against float64 of 1e-6 or more", p->name);
        free(first);
        free(reference);
        problem_free(&s);
    }
    printf("relative rms error against float64: at most %.1e in %d problems\n", worst, PROBLEMS);
    check(worst > 1e-9, "results are too good to be true", "all");
    for (int t = 0; t < 4; t++) {
        check(calls(backend[t]) == PROBLEMS, "calls are not counted", "all");
        ggml_backend_free(backend[t]);
    }
}

/* A key and a value whose scales are NaN change nothing where they are masked, and give NaN where they are seen. */
static void test_spoiled_keys(void) {
    ggml_backend_t backend = make_fovea(reg, 2);
    const problem p = {.name = "spoiled keys",
                       .head_dim = 64,
                       .value_dim = 64,
                       .heads = 2,
                       .kv_heads = 2,
                       .rows = 3,
                       .keys = 80,
                       .batch = 1,
                       .k_type = GGML_TYPE_Q8_0,
                       .v_type = GGML_TYPE_Q4_0,
                       .mask = MASK_PADDED};
    problem_tensors s = problem_make(&p);
    const size_t bytes = ggml_nbytes(s.out);
    float *first = malloc(bytes);
    check(ggml_backend_graph_compute(backend, s.graph) == GGML_STATUS_SUCCESS, "error", p.name);
    memcpy(first, s.out->data, bytes);
    for (int seen = 0; seen < 2; seen++) {
        const size_t key = seen ? 1 : (size_t)p.keys - 1;
        memset((char *)s.k->data + key * s.k->nb[1], 0xff, ggml_row_size(p.k_type, p.head_dim));
        memset((char *)s.v->data + key * s.v->nb[1], 0xff, ggml_row_size(p.v_type, p.value_dim));
        check(ggml_backend_graph_compute(backend, s.graph) == GGML_STATUS_SUCCESS, "error", p.name);
        const float *out = s.out->data;
        check(seen ? isnan(out[0]) && !isnan(out[p.value_dim]) : !memcmp(out, first, bytes),
              seen ? "a seen key is lost, or another head has its NaN" : "a masked key changes results", p.name);
    }
    free(first);
    problem_free(&s);
    ggml_backend_free(backend);
}

/* Operations that are refused: supports_op() says so, and nothing is computed. */
static void test_refused(void) {
    ggml_backend_t backend = make_fovea(reg, 1);
    problem p = problems[0];
    p.k_type = p.v_type = GGML_TYPE_Q5_0;
    problem_tensors s = problem_make(&p);
    check(!ggml_backend_supports_op(backend, s.out), "q5_0 is said to be served", "refused");
    check(ggml_backend_graph_compute(backend, s.graph) == GGML_STATUS_FAILED, "q5_0 is computed", "refused");
    problem_free(&s);
    s = problem_make(&problems[0]);
    struct ggml_tensor *square = ggml_sqr(s.ctx, s.q);
    check(!ggml_backend_supports_op(backend, square), "SQR is said to be served", "refused");
    check(ggml_backend_supports_op(backend, s.q), "views are not", "refused");
    problem_free(&s);
    ggml_backend_free(backend);
}

static void test_empty_graphs(void) {
    ggml_backend_t backend = make_fovea(reg, 2);
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){
        .mem_size = 8 * ggml_tensor_overhead() + 2 * ggml_graph_overhead(), .no_alloc = true});
    struct ggml_cgraph *none = ggml_new_graph(ctx), *views = ggml_new_graph(ctx);
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, F32, 4, 6);
    ggml_build_forward_expand(views, ggml_reshape_2d(ctx, ggml_permute(ctx, x, 0, 1, 2, 3), 6, 4));
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    check(buffer && ggml_backend_buffer_is_host(buffer), "memory is not the CPU's", "empty graphs");
    check(ggml_backend_graph_compute(backend, none) == GGML_STATUS_SUCCESS, "error", "no nodes");
    check(ggml_backend_graph_compute(backend, views) == GGML_STATUS_SUCCESS, "error", "views");
    check(calls(backend) == 0, "something was counted", "empty graphs");
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    ggml_backend_free(backend);
}

static bool abort_at(void *data) { return (*(int *)data)-- == 0; }

/* Three attentions in a row: those before the abort are computed. */
static void test_abort(void) {
    ggml_backend_t backend = make_fovea(reg, 2);
    problem_tensors s = problem_make(&problems[2]);
    struct ggml_context *ctx = context_of(8);
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    for (int i = 0; i < 3; i++)
        ggml_build_forward_expand(graph, ggml_flash_attn_ext(ctx, s.q, s.k, s.v, s.mask, 1, 0, 0));
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(ctx, backend);
    int left = 2;
    set_abort(backend, abort_at, &left);
    check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_ABORTED, "not aborted", "abort");
    check(calls(backend) == 2, "not aborted where it was asked for", "abort");
    set_abort(backend, NULL, NULL);
    check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS, "no success afterwards", "abort");
    check(calls(backend) == 5, "not all is computed afterwards", "abort");
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    problem_free(&s);
    ggml_backend_free(backend);
}

/* Several backends at once, each with threads of its own, going through shapes in an order of its own. */
static void *caller(void *arg) {
    const int id = *(const int *)arg;
    ggml_backend_t backend = make_fovea(reg, 1 + id % 3);
    for (int i = 0; i < 24; i++) {
        const problem *p = &problems[(i * 5 + id * 7) % PROBLEMS];
        problem_tensors s = problem_make(p);
        const size_t bytes = ggml_nbytes(s.out);
        float *first = malloc(bytes);
        bool good = ggml_backend_graph_compute(backend, s.graph) == GGML_STATUS_SUCCESS;
        memcpy(first, s.out->data, bytes);
        spoil(s.out);
        good = good && ggml_backend_graph_compute(backend, s.graph) == GGML_STATUS_SUCCESS;
        if (!good || memcmp(first, s.out->data, bytes))
            printf("FAILED: %s: while others compute\n", p->name), __atomic_add_fetch(&failed, 1, __ATOMIC_RELAXED);
        free(first);
        problem_free(&s);
    }
    ggml_backend_free(backend);
    return NULL;
}

static void test_callers(void) {
    enum { CALLERS = 4 };
    pthread_t threads[CALLERS];
    int ids[CALLERS];
    for (int i = 0; i < CALLERS; i++) {
        ids[i] = i;
        pthread_create(&threads[i], NULL, caller, &ids[i]);
    }
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], NULL);
}

/* More shapes than plans are kept, and numbers of threads that change. */
static void test_many_shapes(void) {
    ggml_backend_t backend = make_fovea(reg, 1);
    ggml_backend_set_n_threads_t set;
    void *const function = address("ggml_backend_set_n_threads");
    memcpy(&set, &function, sizeof set);
    for (int i = 0; i < 150; i++) {
        problem p = {"shapes", 16, 16, 4, 2, 1 + i % 3, 20 + i, 1, F16, F16, MASK_CAUSAL, 1, 1, 0, 0, 0, 0};
        set(backend, 1 + i / 2 % 13);
        problem_tensors s = problem_make(&p);
        double *reference = malloc((size_t)ggml_nelements(s.out) * sizeof *reference);
        problem_reference(&p, &s, reference);
        check(ggml_backend_graph_compute(backend, s.graph) == GGML_STATUS_SUCCESS, "error", p.name);
        check(problem_error(s.out->data, reference, ggml_nelements(s.out)) < 1e-6, "wrong", p.name);
        free(reference);
        problem_free(&s);
    }
    ggml_backend_free(backend);
}

/* Too little work stays with the CPU backend, unless FOVEA_GGML names the operation. */
static void test_pays(void) {
    ggml_backend_t backend = make_fovea(reg, 1);
    problem p = problems[0];
    problem_tensors s = problem_make(&p);
    check(ggml_backend_supports_op(backend, s.out), "a token of a small model is not taken", "pays");
    problem_free(&s);
    p.keys = 16;
    s = problem_make(&p);
    check(!ggml_backend_supports_op(backend, s.out), "hardly any work is taken", "pays");
    problem_free(&s);
    ggml_backend_free(backend);
}

/* The scheduler gives attention to us and the rest of a graph to the CPU backend; inputs are not copied. */
static void test_scheduler(bool taken) {
    const problem *p = &problems[2];
    problem_tensors s = problem_make(p);
    ggml_backend_t cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_t backends[2] = {cpu, cpu};
    int n = 1;
    if (ggml_backend_reg_dev_count(reg)) {
        backends[0] = make_fovea(reg, 2);
        n = 2;
    }
    struct ggml_context *ctx = context_of(16);
    struct ggml_tensor *square = ggml_sqr(ctx, s.q),
                       *out = ggml_flash_attn_ext(ctx, square, s.k, s.v, s.mask, 0.1f, 0, 0);
    struct ggml_tensor *sum = ggml_sum(ctx, ggml_sqr(ctx, out));
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_set_output(sum);
    ggml_build_forward_expand(graph, sum);
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, n, GGML_DEFAULT_GRAPH_SIZE, false, true);
    check(ggml_backend_sched_graph_compute(sched, graph) == GGML_STATUS_SUCCESS, "error", "scheduler");
    check(isfinite(*(const float *)sum->data) && *(const float *)sum->data > 0, "result", "scheduler");
    if (n == 2) {
        check((ggml_backend_sched_get_tensor_backend(sched, out) == backends[0]) == taken, "attention's place",
              "scheduler");
        check(ggml_backend_sched_get_tensor_backend(sched, square) == cpu, "SQR's place", "scheduler");
        check(calls(backends[0]) == taken, "calls", "scheduler");
        check(!taken || ggml_backend_sched_get_n_splits(sched) == 3, "splits", "scheduler");
    }
    check(n == 2 || !taken, "no device", "scheduler");
    ggml_backend_sched_free(sched);
    if (n == 2)
        ggml_backend_free(backends[0]);
    ggml_backend_free(cpu);
    ggml_free(ctx);
    problem_free(&s);
}

int main(void) {
    const char *takes = getenv("FOVEA_GGML");
    const bool all = takes && !strcmp(takes, "all"), usual = (!takes || !*takes) && !takes_nothing();
    ggml_backend_load_all();
    reg = load_fovea();
    printf("ggml %s\n", ggml_version());
    test_scheduler(usual || all || (takes && !strncmp(takes, "FLASH_ATTN_EXT", 14)));
    if (usual)
        test_pays();
    if (all) {
        test_results();
        test_spoiled_keys();
        test_refused();
        test_empty_graphs();
        test_abort();
        test_callers();
        test_many_shapes();
    }
    printf("%s\n", failed ? "failed" : "passed");
    return failed != 0;
}

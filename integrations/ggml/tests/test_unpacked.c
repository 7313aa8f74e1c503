/* Weights that cannot be packed, since an allocation of the backend fails, each in turn, or since a scale in the file
 * is NaN: they keep their bytes, and products have the bits of ggml's CPU backend. */
#define _GNU_SOURCE
#include "placed.h"
#include "problem.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------- failing allocations -- */

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
static const bool failing = false; /* sanitizers have their own functions */
#else
static const bool failing = true;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
#endif

static _Atomic bool armed;
static _Atomic long until; /* allocations of the backend that succeed before one fails */

#if !(defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__)
static bool fails(const void *caller) {
    Dl_info info;
    return armed && dladdr(caller, &info) && strstr(info.dli_fname, "ggml-fovea") && strstr(info.dli_fname, ".so") &&
           atomic_fetch_sub(&until, 1) == 0;
}

void *malloc(size_t size) { return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}
void *aligned_alloc(size_t alignment, size_t size) {
    return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, size);
}
#endif

/* ------------------------------------------------------------------------------------------------------ products -- */

enum { IN = 512, OUT = 40, ROWS = 3, RESULTS = ROWS * OUT };

typedef struct kind {
    const char *name;
    enum ggml_type type;
    size_t scale; /* where a block's float16 scale is */
} kind;

static const kind kinds[] = {
    {"f32", GGML_TYPE_F32, 0},   {"f16", GGML_TYPE_F16, 0},     {"bf16", GGML_TYPE_BF16, 0},
    {"q8_0", GGML_TYPE_Q8_0, 0}, {"q4_0", GGML_TYPE_Q4_0, 0},   {"q4_1", GGML_TYPE_Q4_1, 0},
    {"q5_0", GGML_TYPE_Q5_0, 0}, {"q5_1", GGML_TYPE_Q5_1, 2},   {"q4_K", GGML_TYPE_Q4_K, 0},
    {"q5_K", GGML_TYPE_Q5_K, 2}, {"q6_K", GGML_TYPE_Q6_K, 208},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static ggml_backend_t fovea, cpu;
static ggml_backend_buffer_type_t packed_type;

/* How weights are given. */
typedef enum way { AT_ONCE, IN_PIECES, NOT_AS_WEIGHTS, WAYS } way;

/* The product of weights in this type of buffer. fail: this allocation of the backend while weights are stored and
 * while the first product is computed, or -1. Returns whether that allocation was reached. */
static bool multiply(const kind *k, const char *bytes, ggml_backend_buffer_type_t type, ggml_backend_t backend, way how,
                     long fail, float *result) {
    struct ggml_context *placed = context_of(1), *ctx = context_of(4);
    struct ggml_tensor *w = ggml_new_tensor_2d(placed, k->type, IN, OUT);
    ggml_set_name(w, k->name);
    struct ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, IN, ROWS), *y = ggml_mul_mat(ctx, w, x);
    ggml_backend_buffer_t weights = place(placed, type);
    if (how == NOT_AS_WEIGHTS)
        ggml_backend_buffer_set_usage(weights, GGML_BACKEND_BUFFER_USAGE_ANY);
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, y);
    fill(x, 5);
    const size_t size = ggml_nbytes(w), half = how == IN_PIECES ? size / 2 : 0;
    until = fail;
    armed = fail >= 0;
    if (half)
        ggml_backend_tensor_set(w, bytes, 0, half);
    ggml_backend_tensor_set(w, bytes + half, half, size - half);
    const bool stored = until < 0;
    if (how != NOT_AS_WEIGHTS)
        armed = false;
    enum ggml_status status = ggml_backend_graph_compute(backend, graph);
    const bool reached = fail >= 0 && until < 0;
    armed = false;
    /* The backend's own memory, which is no weight's: an error, and then as if nothing had been. */
    if (reached && !stored && status == GGML_STATUS_ALLOC_FAILED)
        status = ggml_backend_graph_compute(backend, graph);
    check(status == GGML_STATUS_SUCCESS, "error", k->name);
    memcpy(result, y->data, RESULTS * sizeof *result);
    char *same = malloc(size);
    ggml_backend_tensor_get(w, same, 0, size);
    check(!memcmp(same, bytes, size), "other bytes come back", k->name);
    check(ggml_backend_graph_compute(backend, graph) == GGML_STATUS_SUCCESS &&
              !memcmp(result, y->data, RESULTS * sizeof *result),
          "another result the second time", k->name);
    free(same);
    ggml_backend_buffer_free(buffer);
    ggml_backend_buffer_free(weights);
    ggml_free(ctx);
    ggml_free(placed);
    return reached;
}

static bool same(const float *a, const float *b) { return !memcmp(a, b, RESULTS * sizeof *a); }

/* Each allocation fails in turn: the result is that of packed weights, or ggml's. */
static void test_no_memory(const kind *k) {
    char *bytes = weights_of(k->type, IN, OUT, 3);
    float usual[RESULTS], theirs[RESULTS], result[RESULTS];
    multiply(k, bytes, packed_type, fovea, AT_ONCE, -1, usual);
    multiply(k, bytes, ggml_backend_cpu_buffer_type(), cpu, AT_ONCE, -1, theirs);
    check(!same(usual, theirs), "packed weights have ggml's bits: the test tells nothing", k->name);
    for (way how = AT_ONCE; how < WAYS; how++) {
        enum { MOST = 1000 };
        int as_theirs = 0;
        long fail = 0;
        while (fail < MOST && multiply(k, bytes, packed_type, fovea, how, fail, result)) {
            check(same(result, usual) || same(result, theirs), "neither our result nor ggml's without memory", k->name);
            as_theirs += same(result, theirs);
            fail++;
        }
        check(fail > 0 && fail < MOST && as_theirs > 0, "no weight was left unpacked", k->name);
        check(same(result, usual), "not packed when there is memory again", k->name);
    }
    free(bytes);
}

/* A scale of row 7 is NaN; with FOVEA_GGML=all also in the CPU's memory, where products are packed in each call. */
static void test_nan(const kind *k) {
    char *bytes = weights_of(k->type, IN, OUT, 4);
    const uint16_t nan = 0x7e00;
    memcpy(bytes + 7 * ggml_row_size(k->type, IN) + ggml_type_size(k->type) + k->scale, &nan, sizeof nan);
    float theirs[RESULTS], result[RESULTS];
    multiply(k, bytes, ggml_backend_cpu_buffer_type(), cpu, AT_ONCE, -1, theirs);
    check(isnan(theirs[7]) && isfinite(theirs[8]), "no NaN: the test tells nothing", k->name);
    for (way how = AT_ONCE; how < WAYS; how++) {
        multiply(k, bytes, packed_type, fovea, how, -1, result);
        for (int i = 0; i < RESULTS; i++) /* bits of a NaN may differ */
            check(isnan(result[i]) ? isnan(theirs[i]) : !memcmp(result + i, theirs + i, sizeof *result),
                  "not ggml's result with a scale that is NaN", k->name);
    }
    multiply(k, bytes, ggml_backend_cpu_buffer_type(), fovea, AT_ONCE, -1, result);
    check(isnan(result[7]) && isfinite(result[8]), "not placed", k->name);
    free(bytes);
}

int main(void) {
    ggml_backend_load_all();
    ggml_backend_reg_t reg = load_fovea();
    packed_type = ggml_backend_dev_buffer_type(ggml_backend_reg_dev_get(reg, 1));
    fovea = make_fovea(reg, 1); /* threads of ggml spin */
    cpu = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    ggml_backend_cpu_set_n_threads(cpu, 1);
    for (const kind *k = kinds; k < kinds + KINDS; k++) {
        if (failing)
            test_no_memory(k);
        if (ggml_is_quantized(k->type))
            test_nan(k);
    }
    if (!failing)
        printf("SKIPPED: allocations that fail, which are the sanitizer's\n");
    ggml_backend_free(fovea);
    ggml_backend_free(cpu);
    printf("%s\n", failed ? "failed" : "passed");
    return failed != 0;
}

#include "placed.h"
#include "problem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int failed;

void check(bool good, const char *what, const char *name) {
    if (!good) {
        failed++;
        printf("FAILED: %s: %s\n", name, what);
    }
}

fovea_isa tier(void) {
    fovea_context *context;
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    if (fovea_context_create(NULL, &context) == FOVEA_OK) {
        fovea_context_info(context, &info);
        fovea_context_destroy(context);
    }
    return info.isa;
}

bool takes_nothing(void) {
    const char *takes = getenv("FOVEA_GGML");
    return tier() == FOVEA_ISA_SCALAR && !(takes && *takes);
}

bool takes_all(void) {
    const char *takes = getenv("FOVEA_GGML");
    return takes && !strcmp(takes, "all");
}

ggml_backend_reg_t begin(void) {
    if (takes_nothing()) {
        printf("SKIPPED: the backend takes nothing on a CPU without kernels\n");
        exit(77);
    }
    ggml_backend_load_all();
    return load_fovea();
}

int end(void) {
    printf("%s\n", failed ? "failed" : "passed");
    return failed != 0;
}

struct ggml_context *context_of(int tensors) {
    return ggml_init((struct ggml_init_params){
        .mem_size = (size_t)tensors * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true});
}

void *weights_of(enum ggml_type type, int64_t in, int64_t rows, uint64_t seed) {
    float *numbers = malloc((size_t)(in * rows) * sizeof *numbers);
    void *bytes = malloc(ggml_row_size(type, in) * (size_t)rows);
    for (int64_t i = 0; i < in * rows; i++)
        numbers[i] = random_float(&seed);
    if (type == GGML_TYPE_F32)
        memcpy(bytes, numbers, (size_t)(in * rows) * sizeof *numbers);
    else
        ggml_quantize_chunk(type, numbers, bytes, 0, rows, in, NULL);
    free(numbers);
    return bytes;
}

void fill(struct ggml_tensor *t, uint64_t seed) {
    for (int64_t i = 0; i < ggml_nelements(t); i++)
        ((float *)t->data)[i] = random_float(&seed);
}

ggml_backend_buffer_t place(struct ggml_context *ctx, ggml_backend_buffer_type_t type) {
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, type);
    ggml_backend_buffer_set_usage(buffer, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    return buffer;
}

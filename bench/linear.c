/* fovea-bench: linear maps through the public API, with the workspace of the caller: m rows of k channels to n, weights
 * in PyTorch's order, with a bias of float32. Before it is timed, sampled rows are computed again, each alone on the
 * scalar tier, and must have the same bits.
 *
 * Flops are 2 * m * n * k; bytes are those of x, weights and y, each counted once.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { SAMPLED_ROWS = 4 };

typedef struct linear {
    bench base;
    int64_t m, n, k, activation;
    fovea_dtype dtype, weight_dtype; /* of x and y, of weights */
    fovea_arithmetic arithmetic;
    fovea_isa isa;
    int threads;
    bool checked;
    /* From begin to end. */
    fovea_context *context;
    fovea_linear *map;
    fovea_tensor x, y;
    float *bias, *scales; /* the latter of integers */
    void *weights, *workspace;
} linear;

static void linear_end(bench *base) {
    linear *self = (linear *)base;
    fovea_linear_destroy(self->map);
    fovea_context_destroy(self->context);
    free(self->x.data);
    free(self->y.data);
    free(self->weights);
    free(self->bias);
    free(self->scales);
    free(self->workspace);
    self->map = NULL;
    self->context = NULL;
    self->x.data = self->y.data = self->weights = self->workspace = NULL;
    self->bias = self->scales = NULL;
}

static const char *pack(const linear *self, fovea_isa isa, int threads, fovea_context **context, fovea_linear **map) {
    fovea_linear_desc desc;
    fovea_quantisation quantisation;
    fovea_linear_desc_init(&desc);
    fovea_quantisation_init(&quantisation);
    quantisation.scales = self->scales;
    desc.dtype = self->dtype;
    desc.arithmetic = self->arithmetic;
    desc.in_features = self->k;
    desc.part.weight = fovea_matrix_out_in(self->weights, self->weight_dtype, self->n, self->k);
    desc.part.weight.quantisation = self->scales ? &quantisation : NULL;
    desc.part.bias = self->bias;
    desc.part.bias_dtype = FOVEA_DTYPE_F32;
    desc.activation = (fovea_activation)self->activation;
    const char *error = bench_context(isa, threads, context);
    return error == NULL && fovea_linear_pack(*context, &desc, map) != FOVEA_OK ? fovea_error_detail() : error;
}

static fovea_status execute(const fovea_linear *map, const fovea_tensor *x, const fovea_tensor *y, void *workspace) {
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = *x;
    args.y = y;
    return fovea_linear_execute(map, &args, workspace, workspace ? fovea_linear_workspace_size(map) : 0);
}

static const char *check(const linear *self) {
    fovea_context *context = NULL;
    fovea_linear *map = NULL;
    const char *error = NULL;
    const int64_t size = fv_dtype_size(self->dtype);
    void *row = bench_alloc(self->n * size);
    if (row == NULL)
        return "no memory";
    if (pack(self, FOVEA_ISA_SCALAR, 1, &context, &map) != FOVEA_OK)
        error = fovea_error_detail();
    for (int64_t i = 0; i < SAMPLED_ROWS && error == NULL; i++) {
        const int64_t at = (self->m - 1) * i / (SAMPLED_ROWS - 1);
        fovea_tensor x = self->x, y = fovea_tensor_bhtd(row, self->dtype, 1, 1, 1, self->n);
        x.data = (char *)x.data + at * self->k * size;
        x.shape[2] = 1;
        if (execute(map, &x, &y, NULL) != FOVEA_OK)
            error = fovea_error_detail();
        else if (memcmp(row, (char *)self->y.data + at * self->n * size, (size_t)(self->n * size)) != 0)
            error = "WRONG: a row is not what scalar gives";
    }
    fovea_linear_destroy(map);
    fovea_context_destroy(context);
    free(row);
    return error;
}

static void linear_run(bench *base) {
    linear *self = (linear *)base;
    execute(self->map, &self->x, &self->y, self->workspace);
}

/* Weights of a type; of integers any bits, and scales beside them. False: no memory. */
static bool make_weights(linear *self) {
    const int64_t count = self->n * self->k;
    if (!fv_dtype_scaled(self->weight_dtype))
        return (self->weights = bench_numbers(count, self->weight_dtype, -1, 1, 2)) != NULL;
    const int64_t bytes = fv_dtype_bytes(self->weight_dtype, count);
    uint8_t *integers = self->weights = bench_alloc(bytes);
    self->scales = bench_numbers(self->n, FOVEA_DTYPE_F32, 0, 1.0f / 127, 4);
    uint64_t state = 2;
    for (int64_t i = 0; integers && i < bytes; i++)
        integers[i] = (uint8_t)(bench_random(&state) >> 56);
    return self->weights && self->scales;
}

static const char *linear_begin(bench *base, shim_cost *cost) {
    linear *self = (linear *)base;
    const int64_t size = fv_dtype_size(self->dtype);
    self->x =
        fovea_tensor_bhtd(bench_numbers(self->m * self->k, self->dtype, -1, 1, 1), self->dtype, 1, 1, self->m, self->k);
    self->y = fovea_tensor_bhtd(bench_alloc(self->m * self->n * size), self->dtype, 1, 1, self->m, self->n);
    self->bias = bench_numbers(self->n, FOVEA_DTYPE_F32, -1, 1, 3);
    if (!make_weights(self) || !self->x.data || !self->y.data || !self->bias)
        return "no memory";
    const char *error = pack(self, self->isa, self->threads, &self->context, &self->map);
    if (error != NULL)
        return error;
    self->workspace = bench_alloc((int64_t)fovea_linear_workspace_size(self->map));
    if (!self->workspace)
        return "no memory";
    if (execute(self->map, &self->x, &self->y, self->workspace) != FOVEA_OK)
        return fovea_error_detail();
    error = self->checked ? NULL : check(self);
    self->checked = true;
    cost->flops = 2.0 * (double)self->m * (double)self->n * (double)self->k;
    cost->bytes = (double)size * (double)(self->m * self->k + self->m * self->n) +
                  (double)fv_dtype_bytes(self->weight_dtype, self->n * self->k);
    cost->peak = self->threads * bench_peak((fv_isa)self->isa);
    return error;
}

static bench *linear_make(const char *words, char error[BENCH_ERROR_SIZE]) {
    static const char *const activations[] = {"none", "relu", "gelu", "gelu_tanh", "silu", NULL};
    const int64_t most = INT64_C(1) << 20;
    int64_t dtype = 0, weight_dtype = -1, arithmetic = 0, m = 512, n = 768, k = 768, activation = 0, isa = 0,
            threads = 1;
    const cli_key keys[] = {{"dtype", fv_dtype_words, 0, 0, &dtype},
                            {"weight_dtype", fv_kv_dtype_words, 0, 0, &weight_dtype},
                            {"arithmetic", fv_arithmetic_words, 0, 0, &arithmetic},
                            {"m", NULL, 1, most, &m},
                            {"n", NULL, 1, most, &n},
                            {"k", NULL, 1, most, &k},
                            {"activation", activations, 0, 0, &activation},
                            {"isa", bench_isa_words, 0, 0, &isa},
                            {"threads", NULL, 1, 4096, &threads},
                            {NULL, NULL, 0, 0, NULL}};
    if (cli_read_words(words, keys, error) < 0)
        return NULL;
    const fv_isa tier = bench_isa_resolve(isa, error);
    linear *self = tier ? calloc(1, sizeof *self) : NULL;
    if (self == NULL)
        return NULL;
    arithmetic = bench_arithmetic((fovea_arithmetic)arithmetic, tier, fv_dtype_of_word[dtype], 1);
    *self = (linear){.base = {.begin = linear_begin, .run = linear_run, .end = linear_end},
                     .m = m,
                     .n = n,
                     .k = k,
                     .activation = activation,
                     .dtype = fv_dtype_of_word[dtype],
                     .weight_dtype = fv_dtype_of_word[weight_dtype < 0 ? dtype : weight_dtype],
                     .arithmetic = (fovea_arithmetic)arithmetic,
                     .isa = (fovea_isa)tier,
                     .threads = (int)threads};
    int used = snprintf(self->base.name, BENCH_NAME_SIZE, "linear/%s/m%" PRId64 "_n%" PRId64 "_k%" PRId64,
                        fv_dtype_words[dtype], m, n, k);
    if (self->weight_dtype != self->dtype)
        used += snprintf(self->base.name + used, BENCH_NAME_SIZE - (size_t)used, "/weight_dtype:%s",
                         fv_dtype_word(self->weight_dtype));
    if (activation != 0)
        used +=
            snprintf(self->base.name + used, BENCH_NAME_SIZE - (size_t)used, "/activation:%s", activations[activation]);
    if (arithmetic != 0)
        used += snprintf(self->base.name + used, BENCH_NAME_SIZE - (size_t)used, "/arithmetic:%s",
                         fv_arithmetic_words[arithmetic]);
    snprintf(self->base.name + used, BENCH_NAME_SIZE - (size_t)used, "/isa:%s/threads:%d", fv_isa_word(tier),
             self->threads);
    return &self->base;
}

const bench_kind bench_linear = {"linear", linear_make,
                                 "dtype=f32|bf16|f16 weight_dtype=(dtype)|f32|bf16|f16|i8\n"
                                 "      arithmetic=exact|bf16|bf16_tile|fastest\n"
                                 "      m=512 n=768 k=768 activation=none|relu|gelu|gelu_tanh|silu\n"
                                 "      isa=best|TIER threads=1"};

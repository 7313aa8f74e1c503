/* fovea-bench: linear maps through the public API, with the workspace of the caller: m rows of k channels to n, weights
 * in PyTorch's order, with a bias of float32. Before it is timed, sampled rows are computed again, each alone on the
 * scalar tier, and must have the same bits.
 *
 * Flops are 2 * m * n * k, compared with the peak of integer products where q16 or q8 multiplies them; bytes are those
 * of x, packed weights and y, each counted once. from=memory executes maps in turn whose weights are four times the
 * last-level cache: bytes are those of weights, a share of the speed at which memory is read.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "linear_weights.h"

enum { SAMPLED_ROWS = 4, MOST_MAPS = 4096 };

typedef struct linear {
    bench base;
    int64_t m, n, k, activation, group;
    fovea_dtype dtype, weight_dtype; /* of x and y, of weights */
    fovea_arithmetic arithmetic;
    bool from_memory;
    /* From begin to end; with from_memory until another begins, as its many maps take long to pack. */
    fovea_linear **maps;
    int64_t map_count, next;
    fovea_tensor x, y;
    float *bias;
    void *workspace;
} linear;

static linear *kept;

static void release(linear *self) {
    for (int64_t i = 0; i < self->map_count; i++)
        fovea_linear_destroy(self->maps[i]);
    free(self->maps);
    fovea_context_destroy(self->base.context);
    free(self->x.data);
    free(self->y.data);
    free(self->bias);
    free(self->workspace);
    self->maps = NULL;
    self->map_count = 0;
    self->base.context = NULL;
    self->x.data = self->y.data = self->workspace = NULL;
    self->bias = NULL;
}

static void linear_end(bench *base) {
    linear *self = (linear *)base;
    if (self != kept)
        release(self);
}

static const char *pack(const linear *self, const linear_weights *weights, const fovea_context *context,
                        fovea_linear **map) {
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.dtype = self->dtype;
    desc.arithmetic = self->arithmetic;
    desc.in_features = self->k;
    desc.part.weight = weights->matrix;
    desc.part.bias = self->bias;
    desc.part.bias_dtype = FOVEA_DTYPE_F32;
    desc.activation = (fovea_activation)self->activation;
    return fovea_linear_create(context, &desc, map) != FOVEA_OK ? fovea_error_detail() : NULL;
}

static fovea_status execute(const fovea_context *context, const fovea_linear *map, const fovea_tensor *x,
                            const fovea_tensor *y, void *workspace) {
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = *x;
    args.y = y;
    return fovea_linear_apply(context, map, &args, workspace,
                              workspace ? fovea_linear_apply_workspace_size(context, map) : 0);
}

static const char *check(const linear *self, const linear_weights *weights) {
    fovea_context *context = NULL;
    fovea_linear *map = NULL;
    const char *error = bench_context(FOVEA_ISA_SCALAR, 1, &context);
    const int64_t size = fv_dtype_size(self->dtype);
    void *row = bench_alloc(self->n * size);
    if (row == NULL)
        error = "no memory";
    if (error == NULL)
        error = pack(self, weights, context, &map);
    for (int64_t i = 0; i < SAMPLED_ROWS && error == NULL; i++) {
        const int64_t at = (self->m - 1) * i / (SAMPLED_ROWS - 1);
        fovea_tensor x = self->x, y = fovea_tensor_bhtd(row, self->dtype, 1, 1, 1, self->n);
        x.data = (char *)x.data + at * self->k * size;
        x.shape[2] = 1;
        if (execute(context, map, &x, &y, NULL) != FOVEA_OK)
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
    execute(self->base.context, self->maps[self->next], &self->x, &self->y, self->workspace);
    self->next = self->next + 1 < self->map_count ? self->next + 1 : 0;
}

/* One map; from memory, enough maps that four last-level caches do not hold their weights. */
static const char *make_maps(linear *self, const linear_weights *weights) {
    fv_cpu cpu;
    fv_cpu_detect(&cpu);
    const int64_t wanted = self->from_memory ? 4 * (cpu.l3_reported > 0 ? cpu.l3_reported : cpu.l3) : 1;
    self->maps = calloc(MOST_MAPS, sizeof *self->maps);
    if (!self->maps)
        return "no memory";
    for (int64_t bytes = 0; bytes < wanted && self->map_count < MOST_MAPS; self->map_count++) {
        const char *error = pack(self, weights, self->base.context, &self->maps[self->map_count]);
        if (error != NULL)
            return error;
        bytes += (int64_t)fovea_linear_weight_bytes(self->maps[self->map_count]);
    }
    return NULL;
}

static const char *make(linear *self) {
    const int64_t size = fv_dtype_size(self->dtype);
    linear_weights weights = {0};
    self->x =
        fovea_tensor_bhtd(bench_numbers(self->m * self->k, self->dtype, -1, 1, 1), self->dtype, 1, 1, self->m, self->k);
    self->y = fovea_tensor_bhtd(bench_alloc(self->m * self->n * size), self->dtype, 1, 1, self->m, self->n);
    self->bias = bench_numbers(self->n, FOVEA_DTYPE_F32, -1, 1, 3);
    const char *error = NULL;
    if (!linear_weights_make(&weights, self->weight_dtype, self->k, self->n, self->group) || !self->x.data ||
        !self->y.data || !self->bias)
        error = "no memory";
    if (error == NULL)
        error = bench_context(self->base.isa, self->base.threads, &self->base.context);
    if (error == NULL)
        error = make_maps(self, &weights);
    if (error == NULL &&
        !(self->workspace = bench_alloc((int64_t)fovea_linear_apply_workspace_size(self->base.context, self->maps[0]))))
        error = "no memory";
    if (error == NULL && execute(self->base.context, self->maps[0], &self->x, &self->y, self->workspace) != FOVEA_OK)
        error = fovea_error_detail();
    if (error == NULL && !self->base.checked)
        error = check(self, &weights);
    self->base.checked = true;
    linear_weights_free(&weights);
    return error;
}

static bool integers(const linear *self) {
    return self->arithmetic == FOVEA_ARITHMETIC_Q16 || self->arithmetic == FOVEA_ARITHMETIC_Q8 ||
           (self->arithmetic == FOVEA_ARITHMETIC_DEFAULT && fv_dtype_quantized(self->weight_dtype));
}

static const char *linear_begin(bench *base, shim_cost *cost) {
    linear *self = (linear *)base;
    if (kept != self || self->map_count == 0) {
        if (kept)
            release(kept);
        kept = self->from_memory ? self : NULL;
        const char *error = make(self);
        if (error != NULL)
            return error;
    }
    const double weight_bytes = (double)fovea_linear_weight_bytes(self->maps[0]);
    const fv_target target = fv_target_capped(bench_target(NULL), (fv_isa)self->base.isa);
    cost->flops = 2.0 * (double)self->m * (double)self->n * (double)self->k;
    cost->bytes = weight_bytes;
    if (self->from_memory)
        cost->read = bench_read_speed(self->base.context, self->base.threads);
    else
        cost->bytes += (double)fv_dtype_size(self->dtype) * (double)(self->m * self->k + self->m * self->n);
    cost->peak = self->base.threads * (integers(self) ? bench_peak_integers(target) : bench_peak(target.isa));
    return NULL;
}

static bench *linear_make(const char *words, char error[BENCH_ERROR_SIZE]) {
    static const char *const from_words[] = {"cache", "memory", NULL};
    const int64_t most = INT64_C(1) << 20;
    int64_t dtype = 0, weight_dtype = -1, arithmetic = FOVEA_ARITHMETIC_DEFAULT, m = 512, n = 768, k = 768,
            activation = 0, group = -1, from = 0;
    const cli_key keys[] = {{"dtype", fv_dtype_words, 0, 0, &dtype},
                            {"weight_dtype", fv_weight_dtype_words, 0, 0, &weight_dtype},
                            {"group", NULL, 0, most, &group},
                            {"from", from_words, 0, 0, &from},
                            {"arithmetic", fv_arithmetic_words, 0, 0, &arithmetic},
                            {"m", NULL, 1, most, &m},
                            {"n", NULL, 1, most, &n},
                            {"k", NULL, 1, most, &k},
                            {"activation", fv_activation_words, 0, 0, &activation}};
    const bench functions = {.begin = linear_begin, .run = linear_run, .end = linear_end};
    linear *self =
        bench_new(sizeof *self, &functions, words, keys, sizeof keys / sizeof keys[0], BENCH_TAKES_THREADS, error);
    if (self == NULL)
        return NULL;
    arithmetic = bench_arithmetic((fovea_arithmetic)arithmetic, (fv_isa)self->base.isa, fv_dtype_of_word[dtype], 1);
    const fovea_dtype weights = fv_dtype_of_word[weight_dtype < 0 ? dtype : weight_dtype];
    *self = (linear){.base = self->base,
                     .m = m,
                     .n = n,
                     .k = k,
                     .activation = activation,
                     .dtype = fv_dtype_of_word[dtype],
                     .weight_dtype = weights,
                     .group = group < 0 ? linear_weights_group(weights) : group,
                     .from_memory = from != 0,
                     .arithmetic = (fovea_arithmetic)arithmetic};
    bench_name(&self->base, "linear/%s/m%" PRId64 "_n%" PRId64 "_k%" PRId64, fv_dtype_words[dtype], m, n, k);
    if (self->weight_dtype != self->dtype)
        bench_name(&self->base, "/weight_dtype:%s", fv_dtype_word(self->weight_dtype));
    if (fv_dtype_scaled(self->weight_dtype) && self->group > 0)
        bench_name(&self->base, "/group:%" PRId64, self->group);
    if (self->from_memory)
        bench_name(&self->base, "/from:memory");
    if (activation != 0)
        bench_name(&self->base, "/activation:%s", fv_activation_words[activation]);
    if (arithmetic != FOVEA_ARITHMETIC_DEFAULT)
        bench_name(&self->base, "/arithmetic:%s", fv_arithmetic_words[arithmetic]);
    bench_name_end(&self->base);
    return &self->base;
}

const bench_kind bench_linear = {"linear", linear_make,
                                 "dtype=f32|bf16|f16 weight_dtype=(dtype)|f32|i8|q4_k|... (a wrong word lists all)\n"
                                 "      group=CHANNELS of i8, u4 and u8 that share a scale (0: all; of u4 and u8 32)\n"
                                 "      arithmetic=default|exact|bf16|bf16_tile|fastest|q16|q8 from=cache|memory\n"
                                 "      m=512 n=768 k=768 activation=none|gelu|... that does not gate\n"
                                 "      isa=best|TIER threads=1"};

/* fovea-bench: mixtures of experts through the public API, with the workspace of the caller: SiLU-gated experts of `in`
 * channels, `intermediate` between the maps, and k of them, drawn at random, for each token. Before it is timed,
 * sampled rows are computed again, each alone on the scalar tier, and must have the same bits.
 *
 * Flops are those of the products, compared with the peak of integer products where q16 multiplies them; bytes are
 * those of the weights of experts that have rows, a share of the speed at which memory is read. Each call has other
 * experts than the one before: of few tokens they come from memory, if all weights are several times the last-level
 * cache.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "linear_weights.h"

enum { SAMPLED_ROWS = 4, DRAWS = 16 };

typedef struct experts {
    bench base;
    int64_t tokens, count, in, intermediate, k;
    fovea_dtype dtype, weight_dtype;
    fovea_arithmetic arithmetic;
    /* From begin until another case begins, as experts take long to pack. */
    fovea_experts *packed;
    int64_t next;
    double used;     /* experts of a call, on average */
    int64_t *chosen; /* [DRAWS][tokens][k] */
    float *weights;  /* [tokens][k] */
    fovea_tensor x, y;
    void *workspace;
} experts;

static experts *kept;

static void release(experts *self) {
    fovea_experts_destroy(self->packed);
    fovea_context_destroy(self->base.context);
    free(self->chosen);
    free(self->weights);
    free(self->x.data);
    free(self->y.data);
    free(self->workspace);
    self->packed = NULL;
    self->base.context = NULL;
    self->chosen = NULL;
    self->weights = NULL;
    self->x.data = self->y.data = self->workspace = NULL;
}

static void experts_end(bench *base) { (void)base; }

/* All experts have the same numbers, in memory of their own. */
static const char *pack(const experts *self, int64_t count, const fovea_context *context, fovea_experts **packed) {
    linear_weights wide = {0}, narrow = {0};
    const int64_t group = linear_weights_group(self->weight_dtype);
    fovea_matrix *matrix = calloc((size_t)(2 * count), sizeof *matrix);
    const char *error = NULL;
    if (!matrix || !linear_weights_make(&wide, self->weight_dtype, self->in, self->intermediate, group) ||
        !linear_weights_make(&narrow, self->weight_dtype, self->intermediate, self->in, group))
        error = "no memory";
    for (int64_t e = 0; error == NULL && e < count; e++) {
        matrix[e] = wide.matrix;
        matrix[count + e] = narrow.matrix;
    }
    fovea_experts_desc desc;
    fovea_experts_weights weights;
    fovea_experts_desc_init(&desc);
    fovea_experts_weights_init(&weights);
    desc.experts = count;
    desc.in_features = self->in;
    desc.intermediate = self->intermediate;
    desc.dtype = self->dtype;
    desc.arithmetic = self->arithmetic;
    weights.gate = weights.up = matrix;
    weights.down = matrix + count;
    if (error == NULL && fovea_experts_create(context, &desc, &weights, packed) != FOVEA_OK)
        error = fovea_error_detail();
    linear_weights_free(&wide);
    linear_weights_free(&narrow);
    free(matrix);
    return error;
}

static fovea_status execute(const fovea_context *context, const experts *self, int64_t draw, void *workspace) {
    fovea_experts_args args;
    fovea_experts_args_init(&args);
    args.x = self->x;
    args.y = self->y;
    args.k = self->k;
    args.chosen = self->chosen + draw * self->tokens * self->k;
    args.weights = self->weights;
    const size_t size = fovea_experts_apply_workspace_size(context, self->packed, self->tokens, self->k);
    return fovea_experts_apply(context, self->packed, &args, workspace, workspace ? size : 0);
}

/* Experts and their weights are all the same, so it does not matter which a row has. */
static const char *check(experts *self) {
    fovea_context *context = NULL;
    experts alone = {.in = self->in,
                     .intermediate = self->intermediate,
                     .k = self->k,
                     .tokens = 1,
                     .dtype = self->dtype,
                     .weight_dtype = self->weight_dtype,
                     .arithmetic = self->arithmetic,
                     .weights = self->weights};
    const char *error = bench_context(FOVEA_ISA_SCALAR, 1, &context);
    const int64_t size = fv_dtype_size(self->dtype) * self->in;
    void *row = bench_alloc(size);
    alone.chosen = calloc((size_t)self->k, sizeof *alone.chosen);
    if (row == NULL || alone.chosen == NULL)
        error = "no memory";
    for (int64_t i = 0; i < self->k && error == NULL; i++)
        alone.chosen[i] = i;
    if (error == NULL)
        error = pack(self, self->k, context, &alone.packed);
    for (int64_t i = 0; i < SAMPLED_ROWS && error == NULL; i++) {
        const int64_t at = (self->tokens - 1) * i / (SAMPLED_ROWS - 1);
        alone.x = fovea_tensor_bhtd((char *)self->x.data + at * size, self->dtype, 1, 1, 1, self->in);
        alone.y = fovea_tensor_bhtd(row, self->dtype, 1, 1, 1, self->in);
        if (execute(context, &alone, 0, NULL) != FOVEA_OK)
            error = fovea_error_detail();
        else if (memcmp(row, (char *)self->y.data + at * size, (size_t)size) != 0)
            error = "WRONG: a row is not what scalar gives";
    }
    fovea_experts_destroy(alone.packed);
    fovea_context_destroy(context);
    free(row);
    free(alone.chosen);
    return error;
}

static void experts_run(bench *base) {
    experts *self = (experts *)base;
    execute(self->base.context, self, self->next, self->workspace);
    self->next = (self->next + 1) % DRAWS;
}

/* k different experts for each token. */
static void draw(experts *self) {
    uint64_t state = 5;
    int64_t used = 0;
    bool *taken = calloc((size_t)self->count, 1), *token = calloc((size_t)self->count, 1);
    for (int64_t i = 0; taken && token && i < DRAWS * self->tokens * self->k; i++) {
        if (i % (self->tokens * self->k) == 0)
            memset(taken, 0, (size_t)self->count);
        if (i % self->k == 0)
            memset(token, 0, (size_t)self->count);
        int64_t e;
        do
            e = (int64_t)(bench_random(&state) >> 33) % self->count;
        while (token[e]);
        token[e] = true;
        used += !taken[e];
        taken[e] = true;
        self->chosen[i] = e;
    }
    free(taken);
    free(token);
    self->used = (double)used / DRAWS;
}

static const char *make(experts *self) {
    const int64_t rows = self->tokens, bytes = rows * self->in * fv_dtype_size(self->dtype);
    self->x =
        fovea_tensor_bhtd(bench_numbers(rows * self->in, self->dtype, -1, 1, 1), self->dtype, 1, 1, rows, self->in);
    self->y = fovea_tensor_bhtd(bench_alloc(bytes), self->dtype, 1, 1, rows, self->in);
    self->chosen = calloc((size_t)(DRAWS * rows * self->k), sizeof *self->chosen);
    self->weights = calloc((size_t)(rows * self->k), sizeof *self->weights);
    if (!self->x.data || !self->y.data || !self->chosen || !self->weights)
        return "no memory";
    for (int64_t i = 0; i < rows * self->k; i++)
        self->weights[i] = 1.0f / (float)self->k;
    draw(self);
    const char *error = bench_context(self->base.isa, self->base.threads, &self->base.context);
    if (error == NULL)
        error = pack(self, self->count, self->base.context, &self->packed);
    if (error != NULL)
        return error;
    self->workspace =
        bench_alloc((int64_t)fovea_experts_apply_workspace_size(self->base.context, self->packed, rows, self->k));
    if (!self->workspace)
        return "no memory";
    if (execute(self->base.context, self, 0, self->workspace) != FOVEA_OK)
        return fovea_error_detail();
    error = self->base.checked ? NULL : check(self);
    self->base.checked = true;
    return error;
}

static const char *experts_begin(bench *base, shim_cost *cost) {
    experts *self = (experts *)base;
    if (kept != self || !self->packed) {
        if (kept)
            release(kept);
        kept = self;
        const char *error = make(self);
        if (error != NULL)
            return error;
    }
    const fv_target target = fv_target_capped(bench_target(NULL), (fv_isa)self->base.isa);
    const bool integers = self->arithmetic != FOVEA_ARITHMETIC_EXACT && fv_dtype_quantized(self->weight_dtype);
    cost->flops = 6.0 * (double)(self->tokens * self->k * self->in * self->intermediate);
    cost->bytes = self->used / (double)self->count * (double)fovea_experts_weight_bytes(self->packed);
    cost->read = bench_read_speed(self->base.context, self->base.threads);
    cost->peak = self->base.threads * (integers ? bench_peak_integers(target) : bench_peak(target.isa));
    return NULL;
}

static bench *experts_make(const char *words, char error[BENCH_ERROR_SIZE]) {
    const int64_t most = INT64_C(1) << 16;
    int64_t dtype = 0, weight_dtype = -1, arithmetic = FOVEA_ARITHMETIC_DEFAULT, tokens = 1, count = 64, in = 2048,
            intermediate = 768, k = 8;
    const cli_key keys[] = {{"dtype", fv_dtype_words, 0, 0, &dtype},
                            {"weight_dtype", fv_weight_dtype_words, 0, 0, &weight_dtype},
                            {"arithmetic", fv_arithmetic_words, 0, 0, &arithmetic},
                            {"tokens", NULL, 1, most, &tokens},
                            {"experts", NULL, 1, 2048, &count},
                            {"in", NULL, 1, most, &in},
                            {"intermediate", NULL, 1, most, &intermediate},
                            {"k", NULL, 1, 2048, &k}};
    const bench functions = {.begin = experts_begin, .run = experts_run, .end = experts_end};
    experts *self =
        bench_new(sizeof *self, &functions, words, keys, sizeof keys / sizeof keys[0], BENCH_TAKES_THREADS, error);
    if (self == NULL)
        return NULL;
    *self = (experts){.base = self->base,
                      .tokens = tokens,
                      .count = count,
                      .in = in,
                      .intermediate = intermediate,
                      .k = k < count ? k : count,
                      .dtype = fv_dtype_of_word[dtype],
                      .weight_dtype = fv_dtype_of_word[weight_dtype < 0 ? dtype : weight_dtype],
                      .arithmetic = (fovea_arithmetic)arithmetic};
    bench_name(&self->base,
               "experts/%s/tokens%" PRId64 "_experts%" PRId64 "_k%" PRId64 "_in%" PRId64 "_between%" PRId64,
               fv_dtype_words[dtype], tokens, count, self->k, in, intermediate);
    if (self->weight_dtype != self->dtype)
        bench_name(&self->base, "/weight_dtype:%s", fv_dtype_word(self->weight_dtype));
    if (arithmetic != FOVEA_ARITHMETIC_DEFAULT)
        bench_name(&self->base, "/arithmetic:%s", fv_arithmetic_words[arithmetic]);
    bench_name_end(&self->base);
    return &self->base;
}

const bench_kind bench_experts = {"experts", experts_make,
                                  "dtype=f32|bf16|f16 weight_dtype=(dtype)|f32|i8|q4_k|... arithmetic=default|...\n"
                                  "      tokens=1 experts=64 k=8 in=2048 intermediate=768 isa=best|TIER threads=1"};

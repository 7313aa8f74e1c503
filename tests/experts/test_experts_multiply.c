/* fovea_experts_multiply: each row has the bits of fovea_linear_apply() with its expert's map and that row alone, for
 * random maps of all types of weights, on every tier, with any number of threads, and one row or many for the experts
 * of a token. Calls that it refuses. */
#include "experts_case.h"
#include "guard.h"

#include <stdlib.h>

enum { CASES = 60 };

static fovea_dtype y_type(const experts_case *c) { return c->desc.y_dtype ? c->desc.y_dtype : c->desc.dtype; }

/* The second maps of experts: they are of one part whatever the activation. */
static void pack(const fovea_context *ctx, const experts_case *c, int64_t out, fovea_linear *maps[EXPERTS_MOST]) {
    for (int64_t e = 0; e < c->desc.experts; e++) {
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        desc.in_features = c->desc.intermediate;
        desc.dtype = c->desc.dtype;
        desc.y_dtype = c->desc.y_dtype;
        desc.arithmetic = c->desc.arithmetic;
        desc.activation = fovea_activation_info(c->desc.activation)->gate;
        desc.part.weight = c->matrix[E_DOWN][e];
        desc.part.bias_dtype = c->weights.bias_dtype;
        if (c->weights.down_bias)
            desc.part.bias = (const char *)c->weights.down_bias + e * out * fv_dtype_size(desc.part.bias_dtype);
        test_check(fovea_linear_create(ctx, &desc, &maps[e]) == FOVEA_OK, "%s: %s", c->title, fovea_error_detail());
    }
}

static void destroy(fovea_linear *maps[EXPERTS_MOST]) {
    for (int64_t e = 0; e < EXPERTS_MOST; e++)
        fovea_linear_destroy(maps[e]);
}

typedef struct problem {
    int64_t in, out, batch, k, of_x; /* of_x: rows of x, k or 1 */
    int64_t *chosen;
    char *x, *want;
} problem;

static fovea_tensor x_of(const experts_case *c, const problem *p, void *data, int64_t gap) {
    fovea_tensor x = fovea_tensor_bhtd(data, c->desc.dtype, p->batch, 1, p->of_x, p->in);
    x.stride[2] = p->in + gap;
    x.stride[0] = p->of_x * x.stride[2] + gap;
    return x;
}

static problem problem_random(const fovea_context *scalar, const experts_case *c, rng *r) {
    problem p = {.in = c->desc.intermediate,
                 .out = c->desc.out_features ? c->desc.out_features : c->desc.in_features,
                 .batch = rng_between(r, 1, 20),
                 .k = rng_between(r, 1, 6)};
    p.of_x = rng_below(r, 2) ? p.k : 1;
    const int64_t n = p.batch * p.of_x * p.in, size = p.out * fv_dtype_size(y_type(c)),
                  of_x = fv_dtype_size(c->desc.dtype), least = c->desc.experts > 1 ? rng_below(r, 2) : 0;
    float *numbers = must_alloc(n, sizeof *numbers);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = rng_uniform(r, -1, 1);
    p.x = must_alloc(n, of_x);
    convert_elements(n, numbers, FOVEA_DTYPE_F32, p.x, c->desc.dtype);
    free(numbers);
    p.chosen = must_alloc(p.batch * p.k, sizeof *p.chosen);
    p.want = must_alloc(p.batch * p.k, size);
    for (int64_t i = 0; i < p.batch * p.k; i++)
        p.chosen[i] = rng_between(r, least, c->desc.experts - 1);
    fovea_linear *maps[EXPERTS_MOST] = {NULL};
    pack(scalar, c, p.out, maps);
    for (int64_t i = 0; i < p.batch * p.k; i++) {
        fovea_linear_args args;
        fovea_linear_args_init(&args);
        const int64_t row = p.of_x == 1 ? i / p.k : i;
        const fovea_tensor y = fovea_tensor_bhtd(p.want + i * size, y_type(c), 1, 1, 1, p.out);
        args.x = fovea_tensor_bhtd(p.x + row * p.in * of_x, c->desc.dtype, 1, 1, 1, p.in);
        args.y = &y;
        test_check(fovea_linear_apply(scalar, maps[p.chosen[i]], &args, NULL, 0) == FOVEA_OK, "%s",
                   fovea_error_detail());
    }
    destroy(maps);
    return p;
}

/* x and y have gaps between their rows; maps without rows are absent. */
static void check_batch(const fovea_context *ctx, const experts_case *c, const problem *p, rng *r) {
    const int64_t gap = rng_below(r, 3), of_x = fv_dtype_size(c->desc.dtype), of_y = fv_dtype_size(y_type(c)),
                  size = p->out * of_y, step = p->out + gap;
    fovea_linear *maps[EXPERTS_MOST] = {NULL}, *present[EXPERTS_MOST] = {NULL};
    pack(ctx, c, p->out, maps);
    for (int64_t i = 0; i < p->batch * p->k; i++)
        present[p->chosen[i]] = maps[p->chosen[i]];
    fovea_tensor x = x_of(c, p, NULL, gap);
    char *data = x.data = must_alloc(p->batch * x.stride[0], of_x);
    for (int64_t row = 0; row < p->batch * p->of_x; row++)
        memcpy(data + (row / p->of_x * x.stride[0] + row % p->of_x * x.stride[2]) * of_x, p->x + row * p->in * of_x,
               (size_t)(p->in * of_x));
    guard *y = guard_alloc("y", (size_t)(((p->batch * p->k - 1) * step + p->out) * of_y), GUARD_END);
    guard *room = guard_alloc(
        "workspace", fovea_experts_multiply_workspace_size(ctx, maps[p->chosen[0]], c->desc.experts, p->batch * p->k),
        GUARD_END);
    fovea_tensor to = fovea_tensor_bhtd(y->data, y_type(c), p->batch, 1, p->k, p->out);
    to.stride[2] = step;
    to.stride[0] = p->k * step;
    test_check(fovea_experts_multiply(ctx, (const fovea_linear *const *)present, c->desc.experts, p->k, p->chosen, &x,
                                      &to, room->data, room->size) == FOVEA_OK,
               "%s: %s", c->title, fovea_error_detail());
    bool same = true;
    int64_t where;
    for (int64_t i = 0; i < p->batch * p->k; i++)
        same = same && memcmp((char *)y->data + i * step * of_y, p->want + i * size, (size_t)size) == 0;
    test_check(same, "%s: rows of a batch on %s have other bits than those of their maps alone", c->title,
               fovea_isa_name(test_isa()));
    test_check(guard_intact(y, &where) && guard_intact(room, &where), "%s: written past an end", c->title);
    guard_free(y);
    guard_free(room);
    free(data);
    destroy(maps);
}

static void test_case(const case_contexts *contexts, rng *r) {
    experts_case *c = experts_case_random(contexts->scalar, r);
    problem p = problem_random(contexts->scalar, c, r);
    const fovea_context *const all[] = {contexts->scalar, contexts->one, contexts->own, contexts->three};
    for (int i = 0; i < 4; i++)
        check_batch(all[i], c, &p, r);
    free(p.chosen);
    free(p.x);
    free(p.want);
    experts_case_free(c);
}

/* ------------------------------------------------------------------------------------------------------- errors -- */

enum { EXPERTS = 3, IN = 6, OUT = 5, BATCH = 4, K = 2, ROWS = BATCH * K };

static float numbers[2 * IN * OUT], out[ROWS * OUT];

static fovea_linear *plain_map(const fovea_context *ctx, fovea_dtype dtype, fovea_arithmetic arithmetic,
                               fovea_activation activation) {
    fovea_linear_part parts[2] = {{.weight = fovea_matrix_out_in(numbers, dtype, OUT, IN)}};
    parts[1] = parts[0];
    fovea_linear_desc desc;
    fovea_linear *map;
    fovea_linear_desc_init(&desc);
    desc.in_features = IN;
    desc.dtype = dtype;
    desc.y_dtype = FOVEA_DTYPE_F32;
    desc.arithmetic = arithmetic;
    desc.activation = activation;
    desc.part_count = activation == FOVEA_ACTIVATION_SILU_GATED ? 2 : 1;
    desc.parts = parts;
    test_check(fovea_linear_create(ctx, &desc, &map) == FOVEA_OK, "%s", fovea_error_detail());
    return map;
}

#define REFUSED(status, words, change)                                                                                 \
    do {                                                                                                               \
        const fovea_linear *maps[EXPERTS] = {good, good, good};                                                        \
        int64_t experts = EXPERTS, k = K, chosen[ROWS] = {0, 2, 1, 1, 2, 0, 0, 1}, *choice = chosen;                   \
        fovea_tensor x = fovea_tensor_bhtd(numbers, FOVEA_DTYPE_F32, BATCH, 1, 1, IN),                                 \
                     y = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, BATCH, 1, K, OUT);                                    \
        void *room = NULL;                                                                                             \
        size_t size = 0;                                                                                               \
        change;                                                                                                        \
        check_status(#change, fovea_experts_multiply(ctx, maps, experts, k, choice, &x, &y, room, size), status,       \
                     words);                                                                                           \
        for (int i = 0; i < ROWS * OUT; i++)                                                                           \
            test_check(out[i] == -1.0f, "%s: a refused call has written", #change);                                    \
    } while (0)

static void test_refused(const fovea_context *ctx) {
    fovea_linear *good = plain_map(ctx, FOVEA_DTYPE_F32, FOVEA_ARITHMETIC_DEFAULT, FOVEA_ACTIVATION_NONE),
                 *gated = plain_map(ctx, FOVEA_DTYPE_F32, FOVEA_ARITHMETIC_DEFAULT, FOVEA_ACTIVATION_SILU_GATED),
                 *half = plain_map(ctx, FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_DEFAULT, FOVEA_ACTIVATION_NONE),
                 *tiles = plain_map(ctx, FOVEA_DTYPE_BF16, FOVEA_ARITHMETIC_BF16_TILE, FOVEA_ACTIVATION_NONE);
    char small[8];
    for (int i = 0; i < ROWS * OUT; i++)
        out[i] = -1.0f;
    REFUSED(FOVEA_ERROR_SHAPE, "experts is 0", experts = 0);
    REFUSED(FOVEA_ERROR_SHAPE, "experts is 2049", experts = 2049);
    REFUSED(FOVEA_ERROR_SHAPE, "k 0", k = 0);
    REFUSED(FOVEA_ERROR_SHAPE, "y must have k, 3", k = 3);
    REFUSED(FOVEA_ERROR_SHAPE, "x as many or 1", (x.shape[0] = 1, x.shape[2] = 4));
    REFUSED(FOVEA_ERROR_SHAPE, "y: head", y.shape[1] = 2);
    REFUSED(FOVEA_ERROR_SHAPE, "maps[0] is 6 x 5, but x has 5", x.shape[3] = 5);
    REFUSED(FOVEA_ERROR_SHAPE, "y 4", y.shape[3] = 4);
    REFUSED(FOVEA_ERROR_DTYPE, "maps[1] is of other types", maps[1] = half);
    REFUSED(FOVEA_ERROR_DTYPE, "maps[0] is of other types", x.dtype = FOVEA_DTYPE_I64);
    REFUSED(FOVEA_ERROR_STRIDE, "y: two elements", y.stride[2] = 1);
    REFUSED(FOVEA_ERROR_ARGUMENT, "chosen[3] is 3; it must be from 0 to 2", chosen[3] = EXPERTS);
    REFUSED(FOVEA_ERROR_ARGUMENT, "chosen[7] is -1", chosen[7] = -1);
    REFUSED(FOVEA_ERROR_NULL, "maps[2], which is chosen, is NULL", maps[2] = NULL);
    REFUSED(FOVEA_ERROR_NULL, "chosen is NULL", choice = NULL);
    REFUSED(FOVEA_ERROR_NULL, "x is NULL", x.data = NULL);
    REFUSED(FOVEA_ERROR_UNSUPPORTED, "maps[2] has several parts", maps[2] = gated);
    REFUSED(FOVEA_ERROR_UNSUPPORTED, "maps[1] has FOVEA_ARITHMETIC_BF16_TILE", maps[1] = tiles);
    REFUSED(FOVEA_ERROR_ALIAS, "overlaps", x.data = out);
    REFUSED(FOVEA_ERROR_WORKSPACE, "has 8 bytes", (room = small, size = sizeof small));
    REFUSED(FOVEA_OK, "", (x.shape[0] = y.shape[0] = 0, choice = NULL));
    check_status("ctx", fovea_experts_multiply(NULL, NULL, 1, 1, NULL, NULL, NULL, NULL, 0), FOVEA_ERROR_NULL,
                 "ctx is NULL");
    check_status("maps", fovea_experts_multiply(ctx, NULL, 1, 1, NULL, NULL, NULL, NULL, 0), FOVEA_ERROR_NULL,
                 "maps is NULL");
    test_check(fovea_experts_multiply_workspace_size(ctx, NULL, 1, 1) == 0 &&
                   fovea_experts_multiply_workspace_size(ctx, good, 0, 1) == 0,
               "sizes of nothing");
    fovea_linear *all[] = {good, gated, half, tiles};
    for (int i = 0; i < 4; i++)
        fovea_linear_destroy(all[i]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "experts_multiply", NULL);
    case_contexts contexts = contexts_make();
    rng r = rng_stream(test_seed(), "one map of experts");
    for (int64_t i = test_scaled(CASES); i > 0; i--)
        test_case(&contexts, &r);
    test_refused(contexts.one);
    contexts_free(&contexts);
    return test_end();
}

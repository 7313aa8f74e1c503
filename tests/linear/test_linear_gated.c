/* Gated maps (FOVEA_ACTIVATION_SILU_GATED, _GELU_GATED, _GELU_TANH_GATED): the bits of two maps whose results are
 * multiplied, on every tier, with every number of threads, from weights of every type; one bias, both or none; a
 * residual, in place too; and what is refused. */
#include "attention_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 120, TYPES = 3 };

static const fovea_dtype types[TYPES] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};

static const struct {
    fovea_activation gated, alone;
} gates[] = {{FOVEA_ACTIVATION_SILU_GATED, FOVEA_ACTIVATION_SILU},
             {FOVEA_ACTIVATION_GELU_GATED, FOVEA_ACTIVATION_GELU},
             {FOVEA_ACTIVATION_GELU_TANH_GATED, FOVEA_ACTIVATION_GELU_TANH}};

typedef struct problem {
    int64_t rows, in, out, heads;
    fovea_dtype x, weight, y;
    bool bias[2], residual;
    int gate;                                 /* of gates */
    float *data[2], *biases[2], *input, *add; /* gate, up */
    char text[192];
} problem;

static float *normal(int64_t n, float size, rng *r) {
    float *x = must_alloc(n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = size * rng_normal(r);
    return x;
}

/* Numbers of a type, and the same as floats. */
static void *typed(int64_t n, float *floats, fovea_dtype dtype) {
    void *to = must_alloc(n, sizeof(float));
    convert_elements(n, floats, FOVEA_DTYPE_F32, to, dtype);
    convert_elements(n, to, dtype, floats, FOVEA_DTYPE_F32);
    return to;
}

static problem problem_random(rng *r) {
    problem p = {.rows = rng_below(r, 4) == 0 ? rng_between(r, 40, 200) : rng_between(r, 1, 12),
                 .in = rng_below(r, 6) == 0 ? rng_between(r, 300, 1500) : rng_between(r, 1, 60),
                 .heads = rng_between(r, 1, 3)};
    p.out = p.heads * rng_between(r, 1, 60);
    p.x = types[rng_below(r, TYPES)];
    p.weight = types[rng_below(r, TYPES)];
    p.y = types[rng_below(r, TYPES)];
    p.residual = rng_below(r, 2);
    p.gate = (int)rng_below(r, 3);
    p.input = normal(p.rows * p.in, 1.0f, r);
    p.add = normal(p.rows * p.out, 1.0f, r);
    for (int i = 0; i < 2; i++) {
        p.bias[i] = rng_below(r, 2);
        p.data[i] = normal(p.in * p.out, 0.3f, r);
        p.biases[i] = normal(p.out, 1.0f, r);
    }
    snprintf(p.text, sizeof p.text, "%" PRId64 " rows, %" PRId64 " to %" PRId64 " x %" PRId64 ", types %d %d %d%s%s%s",
             p.rows, p.in, p.heads, p.out / p.heads, (int)p.x, (int)p.weight, (int)p.y, p.bias[0] ? ", bias" : "",
             p.bias[1] ? ", bias of up" : "", p.residual ? ", residual" : "");
    return p;
}

static void problem_free(const problem *p) {
    for (int i = 0; i < 2; i++) {
        free(p->data[i]);
        free(p->biases[i]);
    }
    free(p->input);
    free(p->add);
}

static void run(const fovea_context *ctx, const fovea_linear_desc *desc, const fovea_linear_args *args,
                const char *text) {
    fovea_linear *linear;
    if (!test_check(fovea_linear_create(ctx, desc, &linear) == FOVEA_OK, "%s: %s", text, fovea_error_detail()))
        return;
    test_check(fovea_linear_apply(ctx, linear, args, NULL, 0) == FOVEA_OK, "%s: %s", text, fovea_error_detail());
    fovea_linear_destroy(linear);
}

/* One of the two maps alone, in float32, on the scalar tier. */
static float *half_of(const fovea_context *ctx, const problem *p, int i) {
    float *y = must_alloc(p->rows * p->out, sizeof *y);
    const fovea_tensor to = fovea_tensor_bthd(y, FOVEA_DTYPE_F32, 1, p->rows, 1, p->out);
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.in_features = p->in;
    desc.activation = i == 0 ? gates[p->gate].alone : FOVEA_ACTIVATION_NONE;
    desc.part.weight = fovea_matrix_out_in(p->data[i], FOVEA_DTYPE_F32, p->out, p->in);
    desc.part.bias = p->bias[i] ? p->biases[i] : NULL;
    args.x = fovea_tensor_bthd(p->input, FOVEA_DTYPE_F32, 1, p->rows, 1, p->in);
    args.y = &to;
    run(ctx, &desc, &args, p->text);
    return y;
}

static void *gated(const fovea_context *ctx, const problem *p, void *x, void *const weight[2], void *add,
                   bool in_place) {
    const int64_t n = p->rows * p->out, size = fv_dtype_size(p->y), slack = 64;
    char *y = must_alloc(n * size + slack, 1);
    memset(y, 0x5a, (size_t)(n * size + slack));
    if (in_place)
        memcpy(y, add, (size_t)(n * size));
    const fovea_tensor to = fovea_tensor_bhtd(y, p->y, 1, p->heads, p->rows, p->out / p->heads);
    const fovea_tensor from = fovea_tensor_bhtd(in_place ? y : add, p->y, 1, p->heads, p->rows, p->out / p->heads);
    fovea_linear_part parts[2] = {0};
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.dtype = p->x;
    desc.y_dtype = p->y;
    desc.in_features = p->in;
    desc.activation = gates[p->gate].gated;
    desc.part_count = 2;
    desc.parts = parts;
    for (int i = 0; i < 2; i++) {
        parts[i].weight = fovea_matrix_out_in(weight[i], p->weight, p->out, p->in);
        parts[i].bias = p->bias[i] ? p->biases[i] : NULL;
        parts[i].bias_dtype = FOVEA_DTYPE_F32;
    }
    args.x = fovea_tensor_bthd(x, p->x, 1, p->rows, 1, p->in);
    args.y = &to;
    args.residual = p->residual ? &from : NULL;
    run(ctx, &desc, &args, p->text);
    for (int64_t i = 0; i < slack; i++)
        if (y[n * size + i] != 0x5a) {
            test_check(false, "%s: written past y", p->text);
            break;
        }
    return y;
}

static void test_case(const case_contexts *contexts, rng *r) {
    problem p = problem_random(r);
    const int64_t n = p.rows * p.out, channels = p.out / p.heads;
    void *x = typed(p.rows * p.in, p.input, p.x), *add = typed(n, p.add, p.y);
    void *weight[2] = {typed(p.in * p.out, p.data[0], p.weight), typed(p.in * p.out, p.data[1], p.weight)};
    float *gate = half_of(contexts->scalar, &p, 0), *up = half_of(contexts->scalar, &p, 1);
    float *floats = must_alloc(n, sizeof *floats);
    for (int64_t h = 0; h < p.heads; h++)
        for (int64_t i = 0; i < p.rows; i++)
            for (int64_t c = 0; c < channels; c++) {
                const int64_t from = i * p.out + h * channels + c, to = (h * p.rows + i) * channels + c;
                floats[to] = gate[from] * up[from];
                if (p.residual)
                    floats[to] += p.add[to];
            }
    void *want = must_alloc(n, sizeof(float));
    convert_elements(n, floats, FOVEA_DTYPE_F32, want, p.y);
    const fovea_context *const all[] = {contexts->scalar, contexts->one, contexts->own, contexts->three};
    for (int i = 0; i < 4; i++) {
        void *y = gated(all[i], &p, x, weight, add, p.residual && i % 2);
        test_check(memcmp(y, want, (size_t)(n * fv_dtype_size(p.y))) == 0, "%s: context %d gives other bits", p.text,
                   i);
        free(y);
    }
    free(want);
    free(floats);
    free(gate);
    free(up);
    free(weight[0]);
    free(weight[1]);
    free(x);
    free(add);
    problem_free(&p);
}

static void test_refused(const fovea_context *ctx) {
    static const float w[64] = {0};
    fovea_linear_part parts[3] = {{.weight = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, 4, 8)},
                                  {.weight = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, 4, 8)},
                                  {.weight = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, 4, 8)}};
    fovea_linear_desc desc;
    fovea_linear *linear;
    fovea_linear_desc_init(&desc);
    desc.in_features = 8;
    desc.activation = FOVEA_ACTIVATION_SILU_GATED;
    desc.parts = parts;
    for (int64_t count = 1; count <= 3; count += 2) {
        desc.part_count = count;
        check_status("a number of parts", fovea_linear_create(ctx, &desc, &linear), FOVEA_ERROR_SHAPE, "2 parts");
    }
    desc.part_count = 2;
    for (int64_t up = 3; up <= 5; up += 2) {
        parts[1].weight.out = up;
        check_status("parts of two sizes", fovea_linear_create(ctx, &desc, &linear), FOVEA_ERROR_SHAPE,
                     up == 3 ? "the gate has 4 output channels and up 3" : "the gate has 4 output channels and up 5");
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "linear_gated", NULL);
    case_contexts contexts = contexts_make();
    rng r = rng_stream(test_seed(), "gated");
    for (int64_t i = test_scaled(CASES); i > 0; i--)
        test_case(&contexts, &r);
    test_refused(contexts.one);
    contexts_free(&contexts);
    return test_end();
}

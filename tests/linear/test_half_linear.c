/* Linear maps of bfloat16 and float16, alone and mixed: the bits of float32 on the same numbers, y rounded once at the
 * end. Float32 is computed by the scalar tier. */
#include "attention_case.h"
#include "half_pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 200, PARTS = 3 };

static case_contexts contexts;

/* A problem: sizes, layouts, types. */
typedef struct problem {
    int64_t batch, tokens, groups, in, parts, out[PARTS], heads[PARTS];
    bool residual, in_place, bias, scale, lens, bthd;
    fovea_activation activation;
    fovea_dtype x, weight[PARTS], y, add;
    char text[256];
} problem;

typedef struct data {
    half_pair x, weight[PARTS], bias[PARTS], residual[PARTS];
    int64_t lens[4];
} data;

static problem problem_random(rng *r) {
    problem p = {.batch = rng_between(r, 1, 3), .parts = rng_between(r, 1, PARTS)};
    p.tokens = rng_below(r, 4) == 0 ? rng_between(r, 100, 300) : rng_between(r, 1, 20);
    p.groups = rng_between(r, 1, 3);
    p.in = p.groups * rng_between(r, 1, rng_below(r, 8) == 0 ? 700 : 60);
    p.residual = rng_below(r, 2);
    p.in_place = rng_below(r, 2);
    p.bias = rng_below(r, 2);
    p.scale = rng_below(r, 4) == 0;
    p.lens = rng_below(r, 4) == 0;
    p.bthd = rng_below(r, 2);
    p.activation = (fovea_activation)rng_below(r, 4);
    p.x = half_pair_types[rng_below(r, HALF_PAIR_TYPES)];
    p.y = half_pair_types[rng_below(r, HALF_PAIR_TYPES)];
    p.add = p.in_place ? p.y : half_pair_types[rng_below(r, HALF_PAIR_TYPES)];
    p.weight[0] = half_pair_types[rng_below(r, HALF_PAIR_TYPES)];
    for (int64_t i = 0; i < p.parts; i++) {
        p.heads[i] = rng_between(r, 1, 3);
        p.out[i] = p.heads[i] * rng_between(r, 1, 50);
        p.weight[i] = rng_below(r, 4) ? p.weight[0] : half_pair_types[rng_below(r, HALF_PAIR_TYPES)];
    }
    if (p.parts == 2 && rng_below(r, 2)) { /* one y: the other part's place keeps what it held */
        p.activation = FOVEA_ACTIVATION_SILU_GATED;
        p.out[1] = p.out[0];
        p.heads[1] = p.heads[0];
    }
    snprintf(p.text, sizeof p.text,
             "%" PRId64 " x %" PRId64 " rows, %" PRId64 " x %" PRId64 " channels, %" PRId64
             " parts, types %d %d %d %d, %s%s%s%s",
             p.batch, p.tokens, p.groups, p.in / p.groups, p.parts, (int)p.x, (int)p.weight[0], (int)p.y, (int)p.add,
             p.residual ? "residual " : "", p.bias ? "bias " : "", p.scale ? "scale " : "", p.lens ? "lens" : "");
    return p;
}

static fovea_tensor tensor(const problem *p, int64_t heads, int64_t channels, void *at, fovea_dtype dtype) {
    return p->bthd ? fovea_tensor_bthd(at, dtype, p->batch, p->tokens, heads, channels)
                   : fovea_tensor_bhtd(at, dtype, p->batch, heads, p->tokens, channels);
}

static int64_t y_size(const problem *p, int64_t part) { return p->batch * p->tokens * p->out[part]; }

/* Computes all parts into y, of the given types, or all in float32. */
static bool run(const fovea_context *ctx, const problem *p, const data *d, bool half, void *y[PARTS]) {
    fovea_linear_part parts[PARTS] = {0};
    fovea_tensor out[PARTS], residual[PARTS];
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear *linear;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.dtype = half ? p->x : FOVEA_DTYPE_F32;
    desc.y_dtype = half ? p->y : 0;
    desc.residual_dtype = half ? p->add : 0;
    desc.activation = p->activation;
    desc.in_features = p->in;
    desc.part_count = p->parts;
    desc.parts = parts;
    for (int64_t i = 0; i < p->parts; i++) {
        const half_pair *w = &d->weight[i], *b = &d->bias[i], *r = &d->residual[i];
        const fovea_dtype add = half ? p->add : FOVEA_DTYPE_F32;
        parts[i].weight = (i % 2 ? fovea_matrix_in_out
                                 : fovea_matrix_out_in)(half ? w->half : w->wide, half ? w->dtype : FOVEA_DTYPE_F32,
                                                        i % 2 ? p->in : p->out[i], i % 2 ? p->out[i] : p->in);
        parts[i].bias = !p->bias ? NULL : half ? b->half : b->wide;
        parts[i].bias_dtype = half ? b->dtype : FOVEA_DTYPE_F32;
        parts[i].has_scale = p->scale;
        parts[i].scale = 0.3;
        out[i] = tensor(p, p->heads[i], p->out[i] / p->heads[i], y[i], half ? p->y : FOVEA_DTYPE_F32);
        residual[i] = tensor(p, p->heads[i], p->out[i] / p->heads[i], half ? r->half : r->wide, add);
        if (p->in_place && p->residual) {
            memcpy(y[i], residual[i].data, (size_t)(y_size(p, i) * fv_dtype_size(add)));
            residual[i] = out[i];
        }
    }
    args.x = tensor(p, p->groups, p->in / p->groups, half ? d->x.half : d->x.wide, desc.dtype);
    args.y = out;
    args.residual = p->residual ? residual : NULL;
    args.lens = p->lens ? d->lens : NULL;
    if (!test_check(fovea_linear_create(ctx, &desc, &linear) == FOVEA_OK, "%s: pack: %s", p->text,
                    fovea_error_detail()))
        return false;
    const fovea_status status = fovea_linear_apply(ctx, linear, &args, NULL, 0);
    fovea_linear_destroy(linear);
    return test_check(status == FOVEA_OK, "%s: execute: %s", p->text, fovea_error_detail());
}

static void compare(const fovea_context *ctx, const char *where, const problem *p, const data *d, void *want[PARTS]) {
    void *got[PARTS];
    for (int64_t i = 0; i < p->parts; i++) {
        got[i] = must_alloc(y_size(p, i), sizeof(float));
        memset(got[i], 0, (size_t)y_size(p, i) * sizeof(float));
    }
    if (run(ctx, p, d, true, got))
        for (int64_t i = 0; i < p->parts; i++) {
            void *rounded = must_alloc(y_size(p, i), sizeof(float));
            convert_elements(y_size(p, i), want[i], FOVEA_DTYPE_F32, rounded, p->y);
            test_check(memcmp(got[i], rounded, (size_t)(y_size(p, i) * fv_dtype_size(p->y))) == 0,
                       "%s, %s: part %" PRId64 " differs from float32's", p->text, where, i);
            free(rounded);
        }
    for (int64_t i = 0; i < p->parts; i++)
        free(got[i]);
}

static void test_random(void) {
    for (int64_t n = 0, count = test_scaled(CASES); n < count; n++) {
        char name[40];
        snprintf(name, sizeof name, "half linear %" PRId64, n);
        rng r = rng_stream(test_seed(), name);
        const problem p = problem_random(&r);
        data d = {.x = half_pair_make(p.batch * p.tokens * p.in, p.x, 1.0f, &r)};
        void *want[PARTS];
        for (int b = 0; b < 3; b++)
            d.lens[b] = rng_between(&r, 0, p.tokens);
        for (int64_t i = 0; i < p.parts; i++) {
            d.weight[i] = half_pair_make(p.in * p.out[i], p.weight[i], 0.2f, &r);
            d.bias[i] = half_pair_make(p.out[i], half_pair_types[rng_below(&r, HALF_PAIR_TYPES)], 1.0f, &r);
            d.residual[i] = half_pair_make(y_size(&p, i), p.add, 1.0f, &r);
            want[i] = must_alloc(y_size(&p, i), sizeof(float));
            memset(want[i], 0, (size_t)y_size(&p, i) * sizeof(float));
        }
        if (run(contexts.scalar, &p, &d, false, want)) {
            compare(contexts.scalar, "scalar", &p, &d, want);
            compare(contexts.one, "one thread", &p, &d, want);
            compare(contexts.three, "three threads", &p, &d, want);
        }
        for (int64_t i = 0; i < p.parts; i++)
            free(want[i]);
        half_pairs_free();
    }
}

static void test_errors(void) {
    float room[8] = {0};
    fovea_linear_desc d;
    fovea_linear *linear;
    fovea_linear_desc_init(&d);
    d.in_features = 2;
    d.part.weight = fovea_matrix_in_out(room, FOVEA_DTYPE_BOOL, 2, 2);
    check_status("weights of booleans", fovea_linear_create(contexts.one, &d, &linear), FOVEA_ERROR_DTYPE,
                 "weight of part 0");
    d.part.weight.dtype = FOVEA_DTYPE_BF16;
    d.y_dtype = FOVEA_DTYPE_I64;
    check_status("y of integers", fovea_linear_create(contexts.one, &d, &linear), FOVEA_ERROR_DTYPE, "y_dtype");
    d.y_dtype = FOVEA_DTYPE_F16;
    d.residual_dtype = FOVEA_DTYPE_BITS;
    check_status("residual of bits", fovea_linear_create(contexts.one, &d, &linear), FOVEA_ERROR_DTYPE,
                 "residual_dtype");
    d.residual_dtype = 0;
    if (!test_check(fovea_linear_create(contexts.one, &d, &linear) == FOVEA_OK, "%s", fovea_error_detail()))
        return;
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    const fovea_tensor y = fovea_tensor_bhtd(room + 4, FOVEA_DTYPE_F32, 1, 1, 1, 2);
    args.x = fovea_tensor_bhtd(room, FOVEA_DTYPE_F32, 1, 1, 1, 2);
    args.y = &y;
    check_status("y of floats", fovea_linear_apply(contexts.one, linear, &args, NULL, 0), FOVEA_ERROR_DTYPE,
                 "y[0]|F16");
    fovea_linear_destroy(linear);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "half_linear", NULL);
    contexts = contexts_make();
    test_random();
    test_errors();
    contexts_free(&contexts);
    return test_end();
}

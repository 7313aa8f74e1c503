/* Parts of linear maps: weights that come back as they were packed, on every tier; some parts computed and not the
 * others, with the bits of a call for all; and the activation of a call. */
#include "attention_case.h"
#include "half_pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 60, PARTS = 3, SLACK = 16 };

typedef struct problem {
    int64_t batch, tokens, in, parts, out[PARTS], columns; /* columns: of all parts */
    bool gated, scaled, one_type, residual, lens;
    fovea_dtype x_type, packed;
    half_pair x, add, weight[PARTS], bias[PARTS];
    fovea_linear_part given[PARTS];
    fovea_linear_desc desc;
    int64_t lengths[2];
    char text[192];
} problem;

static fovea_dtype any_type(rng *r) { return half_pair_types[rng_below(r, HALF_PAIR_TYPES)]; }

static void give_part(problem *p, int64_t i, rng *r) {
    p->weight[i] = half_pair_make(p->in * p->out[i], i == 0 || p->one_type ? p->packed : any_type(r), 0.3f, r);
    p->bias[i] = half_pair_make(p->out[i], any_type(r), 1.0f, r);
    p->given[i] = (fovea_linear_part){.bias = rng_below(r, 3) ? p->bias[i].half : NULL, .bias_dtype = p->bias[i].dtype};
    p->given[i].weight = rng_below(r, 2) ? fovea_matrix_in_out(p->weight[i].half, p->weight[i].dtype, p->in, p->out[i])
                                         : fovea_matrix_out_in(p->weight[i].half, p->weight[i].dtype, p->out[i], p->in);
    p->given[i].has_scale = p->scaled && i != 1;
    p->given[i].scale = 0.3;
}

static void problem_make(problem *p, rng *r) {
    *p = (problem){.batch = rng_between(r, 1, 2), .in = rng_between(r, 1, rng_below(r, 6) ? 70 : 300)};
    p->tokens = rng_below(r, 5) ? rng_between(r, 1, 12) : rng_between(r, 40, 70);
    p->parts = rng_between(r, 1, PARTS);
    p->gated = p->parts == 2 && rng_below(r, 2);
    p->scaled = rng_below(r, 4) == 0;
    p->one_type = rng_below(r, 4);
    p->residual = rng_below(r, 2);
    p->lens = rng_below(r, 3) == 0;
    p->x_type = any_type(r);
    p->packed = any_type(r);
    for (int64_t i = 0; i < p->parts; i++) {
        p->out[i] = p->gated && i ? p->out[0] : rng_between(r, 1, rng_below(r, 3) ? 70 : 150);
        p->columns += p->gated && i ? 0 : p->out[i];
        give_part(p, i, r);
    }
    for (int64_t i = 0; i < p->parts; i++) /* what is packed */
        if (p->scaled || p->weight[i].dtype != p->weight[0].dtype)
            p->packed = FOVEA_DTYPE_F32;
    p->x = half_pair_make(p->batch * p->tokens * p->in, p->x_type, 1.0f, r);
    p->add = half_pair_make(p->batch * p->tokens * p->columns, p->x_type, 1.0f, r);
    for (int i = 0; i < 2; i++)
        p->lengths[i] = rng_between(r, 0, p->tokens);
    fovea_linear_desc_init(&p->desc);
    p->desc.dtype = p->x_type;
    p->desc.in_features = p->in;
    p->desc.part_count = p->parts;
    p->desc.parts = p->given;
    p->desc.activation = p->gated ? FOVEA_ACTIVATION_SILU_GATED : (fovea_activation)rng_below(r, 5);
    int n =
        snprintf(p->text, sizeof p->text, "%" PRId64 " x %" PRId64 " rows, %" PRId64 " to", p->batch, p->tokens, p->in);
    for (int64_t i = 0; i < p->parts; i++)
        n += snprintf(p->text + n, sizeof p->text - (size_t)n, " %" PRId64 " (type %d)", p->out[i],
                      (int)p->weight[i].dtype);
    snprintf(p->text + n, sizeof p->text - (size_t)n, ", x of type %d, activation %d%s%s%s", (int)p->x_type,
             (int)p->desc.activation, p->scaled ? ", scale" : "", p->residual ? ", residual" : "",
             p->lens ? ", lens" : "");
}

static fovea_linear *packed(const fovea_context *ctx, const fovea_linear_desc *desc, const char *text) {
    fovea_linear *linear;
    test_check(fovea_linear_create(ctx, desc, &linear) == FOVEA_OK, "%s: pack: %s", text, fovea_error_detail());
    return linear;
}

/* ---------------------------------------------------------------------------------------------------- execution -- */

/* All of y, one part behind the other: NaN where a call writes nothing. Parts not in wanted are absent, whatever
 * else their tensors say. */
static void *run(const fovea_context *ctx, const problem *p, const fovea_linear *linear, unsigned wanted,
                 const fovea_activation *activation, int64_t *products) {
    const int64_t n = p->batch * p->tokens * p->columns, size = fv_dtype_size(p->x_type);
    char *y = must_alloc(n, sizeof(float));
    fovea_tensor out[PARTS], residual[PARTS];
    fovea_linear_args args;
    fovea_linear_stats stats;
    fovea_linear_args_init(&args);
    fovea_linear_stats_init(&stats);
    memset(y, 0xff, (size_t)(n * size));
    memset(out, 0x7f, sizeof out);
    memset(residual, 0x7f, sizeof residual);
    const int64_t parts = p->gated ? 1 : p->parts, rows = p->batch * p->tokens;
    for (int64_t i = 0, first = 0; i < parts; first += rows * p->out[i++]) {
        out[i].data = NULL;
        if (!(wanted >> i & 1))
            continue;
        out[i] = fovea_tensor_bthd(y + first * size, p->x_type, p->batch, p->tokens, 1, p->out[i]);
        residual[i] = out[i];
        residual[i].data = (char *)p->add.half + first * size;
    }
    args.x = fovea_tensor_bthd(p->x.half, p->x_type, p->batch, p->tokens, 1, p->in);
    args.y = out;
    args.residual = p->residual ? residual : NULL;
    args.lens = p->lens ? p->lengths : NULL;
    args.stats = &stats;
    args.has_activation = activation != NULL;
    args.activation = activation ? *activation : 0;
    test_check(fovea_linear_apply(ctx, linear, &args, NULL, 0) == FOVEA_OK, "%s: execute: %s", p->text,
               fovea_error_detail());
    if (products)
        *products = stats.products;
    return y;
}

/* y of those parts is that of the call for all, y of the others was not written. */
static void check_subset(const problem *p, const char *got, const char *whole, unsigned wanted, const char *where) {
    const int64_t row = p->batch * p->tokens * fv_dtype_size(p->x_type);
    int64_t other = 0, written = 0;
    for (int64_t i = 0, at = 0; i < (p->gated ? 1 : p->parts); i++)
        for (const int64_t end = at + row * p->out[i]; at < end; at++)
            if (wanted >> i & 1)
                other += got[at] != whole[at];
            else
                written += got[at] != (char)0xff;
    test_check(other == 0 && written == 0,
               "%s, %s, parts 0x%x: %" PRId64 " bytes differ, %" PRId64 " of other parts are written", p->text, where,
               wanted, other, written);
}

static void test_subsets(const fovea_context *ctx, const problem *p, const fovea_linear *linear, const char *whole,
                         const char *where) {
    const unsigned all = p->gated ? 1 : (1u << p->parts) - 1;
    for (unsigned wanted = 1; wanted <= all; wanted++) {
        char *got = run(ctx, p, linear, wanted, NULL, NULL);
        check_subset(p, got, whole, wanted, where);
        free(got);
    }
}

/* Another map's activation is asked for in the call. */
static void test_activation(const problem *p, const fovea_context *ctx, const fovea_linear *linear, const char *whole) {
    const size_t bytes = (size_t)(p->batch * p->tokens * p->columns * fv_dtype_size(p->x_type));
    fovea_linear_desc desc = p->desc;
    desc.activation = p->gated ? desc.activation : (fovea_activation)((p->desc.activation + 1) % 5);
    fovea_linear *other = packed(ctx, &desc, p->text);
    char *theirs = run(ctx, p, other, 7, NULL, NULL), *asked = run(ctx, p, linear, 7, &desc.activation, NULL);
    char *back = run(ctx, p, other, 7, &p->desc.activation, NULL);
    test_check(memcmp(theirs, asked, bytes) == 0, "%s: the activation of a call has other bits", p->text);
    test_check(memcmp(whole, back, bytes) == 0, "%s: the activation of a call has other bits, back", p->text);
    free(theirs);
    free(asked);
    free(back);
    fovea_linear_destroy(other);
}

/* ---------------------------------------------------------------------------------------------------- unpacking -- */

/* The source of part i: [out, in] of the packed type. */
static void *expected(const problem *p, int64_t i) {
    const fovea_linear_part *part = &p->given[i];
    const int64_t size = fv_dtype_size(p->packed);
    char *all = must_alloc(p->in * p->out[i], (size_t)size);
    for (int64_t o = 0; o < p->out[i]; o++)
        for (int64_t k = 0; k < p->in; k++) {
            const int64_t from = k * part->weight.in_stride + o * part->weight.out_stride;
            const float scaled = (part->has_scale ? 0.3f : 1.0f) * p->weight[i].wide[from];
            const void *at =
                p->packed == FOVEA_DTYPE_F32 ? (const char *)&scaled : (const char *)p->weight[i].half + from * size;
            memcpy(all + (o * p->in + k) * size, at, (size_t)size);
        }
    return all;
}

/* Part i of a map, and memory behind that no one writes. A map of what comes back has the same results. */
static void test_unpacked(const problem *p, const fovea_context *ctx, const fovea_linear *linear, const char *whole,
                          const char *where) {
    fovea_linear_part again[PARTS] = {0};
    fovea_linear_desc desc = p->desc;
    desc.parts = again;
    char *weight[PARTS];
    float *bias[PARTS];
    for (int64_t i = 0; i < p->parts; i++) {
        const int64_t n = p->in * p->out[i], size = fv_dtype_size(p->packed);
        char *want = expected(p, i);
        fovea_dtype dtype = 0, again_dtype = 0;
        weight[i] = must_alloc(n * size + SLACK, 1);
        bias[i] = must_alloc(p->out[i] + 1, sizeof(float));
        memset(weight[i], 0x5a, (size_t)(n * size + SLACK));
        bias[i][p->out[i]] = 7;
        test_check(fovea_linear_unpack(linear, i, weight[i], bias[i], &dtype) == FOVEA_OK, "%s", fovea_error_detail());
        test_check(fovea_linear_unpack(linear, i, NULL, NULL, &again_dtype) == FOVEA_OK, "%s", fovea_error_detail());
        test_check(dtype == p->packed && again_dtype == dtype, "%s, %s: part %" PRId64 " is of type %d", p->text, where,
                   i, (int)dtype);
        test_check(memcmp(weight[i], want, (size_t)(n * size)) == 0, "%s, %s: part %" PRId64 " comes back changed",
                   p->text, where, i);
        int64_t beyond = bias[i][p->out[i]] != 7, biases = 0;
        for (int64_t j = 0; j < SLACK; j++)
            beyond += weight[i][n * size + j] != 0x5a;
        for (int64_t j = 0; j < p->out[i]; j++) {
            const float scale = p->given[i].has_scale ? 0.3f : 1.0f;
            const float had = p->given[i].bias ? scale * p->bias[i].wide[j] : -0.0f;
            biases += float_bits(bias[i][j]) != float_bits(had);
        }
        test_check(beyond == 0 && biases == 0,
                   "%s, %s: part %" PRId64 ", %" PRId64 " biases differ, %" PRId64 " beyond", p->text, where, i, biases,
                   beyond);
        again[i] = (fovea_linear_part){.weight = fovea_matrix_out_in(weight[i], dtype, p->out[i], p->in),
                                       .bias = bias[i],
                                       .bias_dtype = FOVEA_DTYPE_F32};
        free(want);
    }
    fovea_linear *second = packed(ctx, &desc, p->text);
    char *y = run(ctx, p, second, 7, NULL, NULL);
    test_check(memcmp(y, whole, (size_t)(p->batch * p->tokens * p->columns * fv_dtype_size(p->x_type))) == 0,
               "%s, %s: packed again, a map has other results", p->text, where);
    free(y);
    fovea_linear_destroy(second);
    for (int64_t i = 0; i < p->parts; i++) {
        free(weight[i]);
        free(bias[i]);
    }
}

static void test_case(const case_contexts *x, rng *r) {
    static const char *const names[] = {"scalar", "one thread", "default threads", "a pool of 3", "a pool of 3 as 40"};
    const fovea_context *contexts[] = {x->scalar, x->one, x->own, x->three, x->many};
    problem p;
    problem_make(&p, r);
    fovea_linear *scalar = packed(x->scalar, &p.desc, p.text);
    char *whole = run(x->scalar, &p, scalar, 7, NULL, NULL);
    fovea_linear_destroy(scalar);
    for (int i = 0; i < 5; i++) {
        fovea_linear *linear = packed(contexts[i], &p.desc, p.text);
        if (i > 0) /* the scalar tier gave the whole */
            test_subsets(contexts[i], &p, linear, whole, names[i]);
        if (i < 2)
            test_unpacked(&p, contexts[i], linear, whole, names[i]);
        if (i == 1)
            test_activation(&p, contexts[i], linear, whole);
        fovea_linear_destroy(linear);
    }
    free(whole);
    half_pairs_free();
}

/* Panels that serve only parts that are not wanted are not multiplied. */
static void test_work(const fovea_context *ctx) {
    rng r = rng_stream(test_seed(), "work");
    problem p = {.batch = 1,
                 .tokens = 5,
                 .in = 8,
                 .parts = PARTS,
                 .out = {640, 640, 640},
                 .columns = 3 * 640,
                 .one_type = true,
                 .x_type = FOVEA_DTYPE_F32,
                 .packed = FOVEA_DTYPE_F32,
                 .text = "three wide parts"};
    for (int64_t i = 0; i < PARTS; i++)
        give_part(&p, i, &r);
    p.x = half_pair_make(p.tokens * p.in, p.x_type, 1.0f, &r);
    fovea_linear_desc_init(&p.desc);
    p.desc.in_features = p.in;
    p.desc.part_count = PARTS;
    p.desc.parts = p.given;
    fovea_linear *linear = packed(ctx, &p.desc, p.text);
    int64_t all, one, two;
    free(run(ctx, &p, linear, 7, NULL, &all));
    free(run(ctx, &p, linear, 2, NULL, &one));
    free(run(ctx, &p, linear, 6, NULL, &two));
    test_check(3 * one <= all + 2 * p.tokens && 3 * two <= 2 * all + p.tokens && one < two,
               "all parts take %" PRId64 " products, one %" PRId64 ", two %" PRId64, all, one, two);
    fovea_linear_destroy(linear);
    half_pairs_free();
}

/* Weights of any bits, signalling NaN among them, and float32 biases come back as they were. A scale, even of 1, makes
 * float32 of them. */
static void test_bits(const fovea_context *ctx) {
    enum { IN = 37, OUT = 70 };
    rng r = rng_stream(test_seed(), "bits");
    for (int i = 0; i < 4 * HALF_PAIR_TYPES; i++) {
        const fovea_dtype given = half_pair_types[i / 4], packs = i / 2 % 2 ? FOVEA_DTYPE_F32 : given;
        const int64_t size = fv_dtype_size(given);
        char weight[4 * IN * OUT], back[4 * IN * OUT];
        float bias[OUT], bias_back[OUT];
        for (int64_t n = 0; n < size * IN * OUT; n++)
            weight[n] = (char)rng_below(&r, 256);
        for (int64_t n = 0; n < OUT; n++)
            bias[n] = bits_float(0x7f800001U + (uint32_t)rng_below(&r, 99));
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        desc.in_features = IN;
        desc.part.weight =
            i % 2 ? fovea_matrix_out_in(weight, given, OUT, IN) : fovea_matrix_in_out(weight, given, IN, OUT);
        desc.part.bias = bias;
        desc.part.bias_dtype = FOVEA_DTYPE_F32;
        desc.part.has_scale = i / 2 % 2;
        desc.part.scale = 1;
        fovea_dtype dtype = 0;
        int64_t wrong = 0;
        fovea_linear *linear = packed(ctx, &desc, "any bits");
        test_check(fovea_linear_unpack(linear, 0, back, bias_back, &dtype) == FOVEA_OK, "%s", fovea_error_detail());
        for (int64_t n = 0; dtype == given && given == packs && n < IN * OUT; n++)
            wrong += memcmp(back + n * size, weight + (i % 2 ? n : n % IN * OUT + n / IN) * size, (size_t)size) != 0;
        test_check(wrong == 0 && dtype == packs, "weights of type %d: %" PRId64 " of %d differ, type %d", (int)given,
                   wrong, IN * OUT, (int)dtype);
        test_check(memcmp(bias, bias_back, sizeof bias) == 0, "biases beside type %d, packed as %d, differ", (int)given,
                   (int)packs);
        fovea_linear_destroy(linear);
    }
}

static void test_refused(const fovea_context *ctx) {
    float w[32] = {0}, x[4] = {0}, y[8] = {0};
    fovea_dtype dtype;
    fovea_linear_part parts[2] = {{.weight = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, 4, 4)},
                                  {.weight = fovea_matrix_out_in(w, FOVEA_DTYPE_F32, 4, 4)}};
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.in_features = 4;
    desc.part_count = 2;
    desc.parts = parts;
    fovea_linear *linear = packed(ctx, &desc, "refused");
    desc.activation = FOVEA_ACTIVATION_SILU_GATED;
    fovea_linear *gated = packed(ctx, &desc, "refused");
    fovea_tensor out[2] = {{0}, {0}};
    args.x = fovea_tensor_bthd(x, FOVEA_DTYPE_F32, 1, 1, 1, 4);
    args.y = out;
    check_status("no part", fovea_linear_apply(ctx, linear, &args, NULL, 0), FOVEA_ERROR_NULL, "y[0] is NULL");
    check_status("no y", fovea_linear_apply(ctx, gated, &args, NULL, 0), FOVEA_ERROR_NULL, "y[0] is NULL");
    args.x.shape[2] = 0;
    check_status("no part of no rows", fovea_linear_apply(ctx, linear, &args, NULL, 0), FOVEA_OK, NULL);
    args.x.shape[2] = 1;
    out[0] = fovea_tensor_bthd(y, FOVEA_DTYPE_F32, 1, 1, 1, 4);
    args.has_activation = 1;
    args.activation = (fovea_activation)1000;
    check_status("which activation", fovea_linear_apply(ctx, linear, &args, NULL, 0), FOVEA_ERROR_ARGUMENT,
                 "activation is 10");
    args.activation = FOVEA_ACTIVATION_SILU_GATED;
    check_status("to gated", fovea_linear_apply(ctx, linear, &args, NULL, 0), FOVEA_ERROR_ARGUMENT, "SILU_GATED");
    args.activation = FOVEA_ACTIVATION_SILU;
    check_status("from gated", fovea_linear_apply(ctx, gated, &args, NULL, 0), FOVEA_ERROR_ARGUMENT, "SILU_GATED");
    args.struct_size -= 8;
    check_status("an older version", fovea_linear_apply(ctx, gated, &args, NULL, 0), FOVEA_ERROR_VERSION, "before 0.4");
    check_status("no map", fovea_linear_unpack(NULL, 0, w, NULL, &dtype), FOVEA_ERROR_NULL, "linear is NULL");
    for (int64_t part = -1; part <= 2; part += 3) {
        check_status("which part", fovea_linear_unpack(linear, part, w, NULL, &dtype), FOVEA_ERROR_SHAPE, "of 2");
        check_status("which part", fovea_linear_unpack(gated, part, w, NULL, &dtype), FOVEA_ERROR_SHAPE, "of 2");
    }
    fovea_linear_destroy(linear);
    fovea_linear_destroy(gated);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "linear_parts", NULL);
    const case_contexts x = contexts_make();
    rng r = rng_stream(test_seed(), "parts");
    for (int64_t i = test_scaled(CASES); i > 0; i--)
        test_case(&x, &r);
    test_work(x.one);
    test_bits(x.one);
    test_bits(x.scalar);
    test_work(x.three);
    test_refused(x.one);
    contexts_free(&x);
    return test_end();
}

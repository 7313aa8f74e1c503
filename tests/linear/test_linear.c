/* Projections. The scalar tier against the arithmetic of kernels.h and float64; every other tier, thread
 * count, batch position, chunk and way of giving the same operands against it by bits; arguments that are refused. */
#include "attention_case.h"
#include "linear_case.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Copies of a problem's outputs. */
typedef struct copies {
    float *y[LINEAR_PARTS];
} copies;

static copies copy_outputs(const linear_problem *p) {
    copies c = {{NULL}};
    for (int i = 0; i < p->c.parts; i++) {
        c.y[i] = must_alloc(tensor_floats(&p->y[i]), sizeof(float));
        memcpy(c.y[i], p->y[i].data, (size_t)tensor_floats(&p->y[i]) * sizeof(float));
    }
    return c;
}

static void free_copies(copies *c) {
    for (int i = 0; i < LINEAR_PARTS; i++)
        free(c->y[i]);
}

/* The scalar tier on one thread against the formulas, all others against it. */
static void check_case(const case_contexts *x, const linear_case *c, rng *r, int64_t samples) {
    linear_problem *p = linear_problem_make(c, r);
    if (linear_problem_run(p, x->scalar)) {
        linear_problem_literal(p, r, samples);
        copies want = copy_outputs(p);
        const float *const expected[LINEAR_PARTS] = {want.y[0], want.y[1], want.y[2]};
        const fovea_context *others[] = {x->one, x->own, x->three, x->many};
        static const char *const names[] = {"one thread", "default threads", "a pool of 3", "a pool of 3 as 40"};
        for (int i = 0; i < 4; i++)
            if (linear_problem_run(p, others[i]))
                linear_problem_same(p, expected, "%s", names[i]);
        free_copies(&want);
    }
    linear_problem_free(p);
}

static void test_random(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "random");
    for (int64_t i = test_scaled(150); i > 0; i--) {
        const linear_case c = linear_case_random(&r);
        check_case(x, &c, &r, 60);
    }
}

/* Long chains are blocked, many rows and columns dealt to items; one to nine rows are the thin path. */
static void test_sizes(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "sizes");
    for (int64_t rows = 1; rows <= 9; rows++) {
        const linear_case c = linear_case_plain(1, rows, 200, 150 + rows);
        check_case(x, &c, &r, 40);
    }
    linear_case large[] = {linear_case_plain(1, 23, 6000, 70), linear_case_plain(2, 700, 40, 33),
                           linear_case_plain(1, 5, 30, 3000), linear_case_plain(700, 1, 20, 20)};
    large[0].groups = 2; /* groups longer than a block; more rows than a tile, which would have none */
    large[0].channels = 3000;
    large[0].x_rows = ROWS_BHTD;
    large[3].y_rows = ROWS_BHTD;
    large[3].heads[0] = 4;
    large[3].head_channels[0] = 5;
    for (int i = 0; i < 4; i++)
        check_case(x, &large[i], &r, 60);
}

/* A problem's x and y, from one token of one sequence on. */
static void narrow(linear_problem *p, int64_t b, int64_t token, int64_t count) {
    fovea_tensor *all[] = {&p->args.x, &p->y[0], &p->y[1], &p->y[2]};
    for (int i = 0; i <= p->c.parts; i++) {
        all[i]->data = (float *)all[i]->data + b * all[i]->stride[0];
        all[i]->shape[0] = 1;
        *all[i] = tensor_tokens(*all[i], token, count);
    }
}

/* A row has the same bits whether it is computed with all others, in a chunk or alone. */
static void test_position(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "position");
    linear_case c = linear_case_plain(3, 23, 130, 90);
    c.bias[0] = true;
    c.activation = FOVEA_ACTIVATION_GELU;
    linear_problem *p = linear_problem_make(&c, &r);
    if (linear_problem_run(p, x->one)) {
        copies want = copy_outputs(p);
        linear_problem_clear(p);
        fovea_linear *linear;
        test_check(fovea_linear_create(x->one, &p->desc, &linear) == FOVEA_OK, "pack: %s", fovea_error_detail());
        const fovea_tensor whole_x = p->args.x, whole_y = p->y[0];
        for (int64_t b = 0; b < c.batch; b++)
            for (int64_t token = 0, count; token < c.tokens; token += count) {
                count = b == 0 ? 1 : rng_between(&r, 1, c.tokens - token);
                narrow(p, b, token, count);
                test_check(fovea_linear_apply(x->one, linear, &p->args, NULL, 0) == FOVEA_OK, "%s",
                           fovea_error_detail());
                p->args.x = whole_x;
                p->y[0] = whole_y;
            }
        const float *const expected[LINEAR_PARTS] = {want.y[0]};
        linear_problem_same(p, expected, "in chunks");
        fovea_linear_destroy(linear);
        free_copies(&want);
    }
    linear_problem_free(p);
}

/* Three matrices in one product against three products. */
static void test_parts(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "parts");
    linear_case c = linear_case_plain(2, 19, 70, 50);
    c.parts = LINEAR_PARTS;
    for (int i = 0; i < LINEAR_PARTS; i++) {
        c.heads[i] = i + 1;
        c.head_channels[i] = 25 + 7 * i;
        c.bias[i] = i != 1;
        c.has_scale[i] = i == 0;
        c.scale[i] = 0.125;
    }
    linear_problem *p = linear_problem_make(&c, &r);
    if (linear_problem_run(p, x->one)) {
        copies want = copy_outputs(p);
        linear_problem_clear(p);
        for (int i = 0; i < LINEAR_PARTS; i++) {
            fovea_linear_desc desc = p->desc;
            fovea_linear_args args = p->args;
            fovea_linear *linear;
            desc.part_count = 1;
            desc.part = p->parts[i];
            desc.parts = NULL;
            args.y = &p->y[i];
            test_check(fovea_linear_create(x->one, &desc, &linear) == FOVEA_OK, "pack: %s", fovea_error_detail());
            test_check(fovea_linear_apply(x->one, linear, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
            fovea_linear_destroy(linear);
        }
        const float *const expected[LINEAR_PARTS] = {want.y[0], want.y[1], want.y[2]};
        linear_problem_same(p, expected, "three products");
        free_copies(&want);
    }
    linear_problem_free(p);
}

/* NaN of any payload in x and infinities in weights give the one NaN, on every tier. */
static void test_special(const case_contexts *x) {
    rng r = rng_stream(test_seed(), "special");
    linear_case c = linear_case_plain(1, 12, 40, 60);
    for (int activation = 0; activation <= FOVEA_ACTIVATION_SILU; activation++) {
        c.activation = (fovea_activation)activation;
        linear_problem *p = linear_problem_make(&c, &r);
        float *data = p->args.x.data, *weights = p->weight_memory[0]->data;
        data[3] = poison();
        data[45] = INFINITY;
        data[90] = -INFINITY;
        weights[7] = INFINITY;
        weights[1000] = bits_float(0x7f800001);
        if (linear_problem_run(p, x->scalar)) {
            copies want = copy_outputs(p);
            int64_t others = 0, nans = 0;
            for (int64_t i = 0; i < tensor_floats(&p->y[0]); i++) {
                nans += float_is_nan(want.y[0][i]);
                others += float_is_nan(want.y[0][i]) && float_bits(want.y[0][i]) != CANONICAL_NAN;
            }
            test_check(nans > 60 && others == 0, "%" PRId64 " NaN, %" PRId64 " of them not 0x7fc00000", nans, others);
            const float *const expected[LINEAR_PARTS] = {want.y[0]};
            if (linear_problem_run(p, x->one))
                linear_problem_same(p, expected, "special values");
            free_copies(&want);
        }
        linear_problem_free(p);
    }
}

/* ------------------------------------------------------------------------------------------------------ refusals -- */

static fovea_status pack(const fovea_context *ctx, const fovea_linear_desc *desc) {
    fovea_linear *linear = (fovea_linear *)(uintptr_t)1;
    const fovea_status status = fovea_linear_create(ctx, desc, &linear);
    test_check((status == FOVEA_OK) == (linear != NULL), "%s, linear %p", fovea_status_name(status), (void *)linear);
    fovea_linear_destroy(linear);
    return status;
}

static void test_refused_desc(const fovea_context *ctx) {
    static const float data[64];
    fovea_linear_desc good;
    fovea_linear_desc_init(&good);
    good.in_features = 4;
    good.part.weight = fovea_matrix_in_out(data, FOVEA_DTYPE_F32, 4, 8);
    check_status("good", pack(ctx, &good), FOVEA_OK, NULL);
    check_status("no result", fovea_linear_create(ctx, &good, NULL), FOVEA_ERROR_NULL, "linear");
    check_status("no ctx", pack(NULL, &good), FOVEA_ERROR_NULL, "ctx");
    check_status("no desc", pack(ctx, NULL), FOVEA_ERROR_NULL, "desc");
    fovea_linear_desc bad = good;
    bad.struct_size++;
    check_status("version", pack(ctx, &bad), FOVEA_ERROR_VERSION, "fovea_linear_desc");
    bad = good;
    bad.dtype = FOVEA_DTYPE_BOOL;
    check_status("dtype", pack(ctx, &bad), FOVEA_ERROR_DTYPE,
                 "dtype is FOVEA_DTYPE_BOOL; linear maps take FOVEA_DTYPE_F32");
    bad = good;
    bad.activation = (fovea_activation)1000;
    check_status("activation", pack(ctx, &bad), FOVEA_ERROR_ARGUMENT, "activation is 1000, not a fovea_activation");
    bad = good;
    bad.part_count = 0;
    check_status("no part", pack(ctx, &bad), FOVEA_ERROR_SHAPE, "part_count is 0");
    bad.part_count = 2;
    check_status("no parts", pack(ctx, &bad), FOVEA_ERROR_NULL, "parts");
    bad = good;
    bad.part.weight.data = NULL;
    check_status("no weight", pack(ctx, &bad), FOVEA_ERROR_NULL, "weight");
    bad = good;
    bad.in_features = 5;
    check_status("other in", pack(ctx, &bad), FOVEA_ERROR_SHAPE, "4 channels|5");
    bad = good;
    bad.part.weight.out = 0;
    check_status("no out", pack(ctx, &bad), FOVEA_ERROR_SHAPE, "out of part 0 is 0");
    bad.part.weight.out = INT64_MAX;
    check_status("huge out", pack(ctx, &bad), FOVEA_ERROR_OVERFLOW, "too large");
    bad.part.weight.out = (int64_t)1 << 47;
    bad.part.weight.out_stride = 0;
    bad.in_features = bad.part.weight.in = (int64_t)1 << 47;
    bad.part.weight.in_stride = 0;
    check_status("huge product", pack(ctx, &bad), FOVEA_ERROR_OVERFLOW, "too large");
    bad = good;
    bad.part.weight.in_stride = -8;
    check_status("stride", pack(ctx, &bad), FOVEA_ERROR_STRIDE, "negative");
    bad.part.weight.in_stride = INT64_MAX / 2;
    check_status("far stride", pack(ctx, &bad), FOVEA_ERROR_OVERFLOW, "strides");
    bad = good;
    bad.part.has_scale = 1;
    bad.part.scale = 1e60;
    check_status("scale", pack(ctx, &bad), FOVEA_ERROR_ARGUMENT, "scale");
}

/* Each refused execution leaves the outputs as they were. */
static void refuse(const fovea_context *ctx, const fovea_linear *linear, linear_problem *p,
                   const fovea_linear_args *args, void *workspace, size_t size, const char *what, fovea_status want,
                   const char *words) {
    check_status(what, fovea_linear_apply(ctx, linear, args, workspace, size), want, words);
    copies blank = copy_outputs(p);
    for (int i = 0; i < p->c.parts; i++)
        poison_fill(blank.y[i], tensor_floats(&p->y[i]));
    const float *const expected[LINEAR_PARTS] = {blank.y[0], blank.y[1], blank.y[2]};
    linear_problem_same(p, expected, "after %s", what);
    free_copies(&blank);
}

static void test_refused_args(const fovea_context *ctx) {
    rng r = rng_stream(test_seed(), "refused");
    linear_case c = linear_case_plain(2, 5, 12, 20);
    c.parts = 2;
    c.heads[1] = 2;
    c.head_channels[1] = 6;
    linear_problem *p = linear_problem_make(&c, &r);
    linear_problem_clear(p);
    fovea_linear *linear;
    test_check(fovea_linear_create(ctx, &p->desc, &linear) == FOVEA_OK, "pack: %s", fovea_error_detail());
    const fovea_linear_args good = p->args;
    fovea_linear_args bad = good;
    bad.struct_size++;
    refuse(ctx, linear, p, &bad, NULL, 0, "version", FOVEA_ERROR_VERSION, "fovea_linear_args");
    bad = good;
    bad.y = NULL;
    refuse(ctx, linear, p, &bad, NULL, 0, "no y", FOVEA_ERROR_NULL, "y is NULL");
    bad = good;
    bad.x.data = NULL;
    refuse(ctx, linear, p, &bad, NULL, 0, "no x", FOVEA_ERROR_NULL, "x is NULL");
    bad = good;
    bad.x.shape[3] = 11;
    refuse(ctx, linear, p, &bad, NULL, 0, "x channels", FOVEA_ERROR_SHAPE, "11 channels|12");
    bad = good;
    bad.x.shape[0] = -1;
    refuse(ctx, linear, p, &bad, NULL, 0, "a batch of -1", FOVEA_ERROR_SHAPE, "-1|at least 0");
    bad = good;
    bad.x.shape[1] = 0;
    refuse(ctx, linear, p, &bad, NULL, 0, "no groups", FOVEA_ERROR_SHAPE, "0|at least 1");
    bad = good;
    bad.x.shape[0] = bad.x.shape[2] = INT64_C(1) << 40;
    refuse(ctx, linear, p, &bad, NULL, 0, "far too many rows", FOVEA_ERROR_OVERFLOW, "rows: too large");
    bad = good;
    bad.x.stride[3] = 2;
    refuse(ctx, linear, p, &bad, NULL, 0, "x stride", FOVEA_ERROR_STRIDE, "channel stride");
    bad = good;
    bad.x.dtype = FOVEA_DTYPE_BOOL;
    refuse(ctx, linear, p, &bad, NULL, 0, "x dtype", FOVEA_ERROR_DTYPE,
           "x: dtype is FOVEA_DTYPE_BOOL; it must be FOVEA_DTYPE_F32");
    const int64_t lens[] = {3, 6};
    bad = good;
    bad.lens = lens;
    refuse(ctx, linear, p, &bad, NULL, 0, "lens", FOVEA_ERROR_SHAPE, "lens[1] is 6|5");
    guard *two = guard_alloc("lens", sizeof lens, GUARD_END);
    memcpy(two->data, (const int64_t[]){3, 5}, sizeof lens);
    bad = good;
    bad.lens = two->data;
    bad.x.shape[0] = 3;
    refuse(ctx, linear, p, &bad, NULL, 0, "x of another batch", FOVEA_ERROR_SHAPE, "y[0]: batch axis");
    guard_free(two);
    fovea_tensor y[2] = {p->y[0], p->y[1]};
    bad = good;
    bad.y = y;
    y[1].shape[1] = 5;
    refuse(ctx, linear, p, &bad, NULL, 0, "heads", FOVEA_ERROR_SHAPE, "y[1] has 5 heads|12");
    y[1].shape[1] = 0;
    refuse(ctx, linear, p, &bad, NULL, 0, "no heads", FOVEA_ERROR_SHAPE, "y[1] has 0 heads|12");
    y[1] = p->y[1];
    y[1].shape[2] = 4;
    refuse(ctx, linear, p, &bad, NULL, 0, "y tokens", FOVEA_ERROR_SHAPE, "y[1]: token axis");
    y[1] = p->y[1];
    y[1].data = p->y[0].data;
    refuse(ctx, linear, p, &bad, NULL, 0, "two outputs", FOVEA_ERROR_ALIAS, "y[0] overlaps y[1]");
    y[1].data = p->args.x.data;
    refuse(ctx, linear, p, &bad, NULL, 0, "y over x", FOVEA_ERROR_ALIAS, "y[1] overlaps x");
    y[1] = p->y[1];
    y[1].stride[2] = 1;
    refuse(ctx, linear, p, &bad, NULL, 0, "y over itself", FOVEA_ERROR_STRIDE, "y[1]: |share memory");
    fovea_tensor residual[2] = {p->y[0], p->residual[1]};
    bad = good;
    bad.residual = residual;
    residual[1].data = (float *)p->y[1].data + 1;
    refuse(ctx, linear, p, &bad, NULL, 0, "residual beside y", FOVEA_ERROR_ALIAS, "y[1] overlaps residual[1]");
    residual[1].data = NULL;
    refuse(ctx, linear, p, &bad, NULL, 0, "no residual", FOVEA_ERROR_NULL, "residual[1] is NULL");
    const size_t size = fovea_linear_apply_workspace_size(ctx, linear);
    int64_t *room = must_alloc((int64_t)size + tensor_floats(&p->y[1]), sizeof *room);
    room[0] = room[1] = 5;
    bad = good;
    bad.lens = room;
    bad.y = y;
    y[1] = p->y[1];
    y[1].data = room;
    refuse(ctx, linear, p, &bad, NULL, 0, "lens in y", FOVEA_ERROR_ALIAS, "y[1] overlaps lens");
    bad.y = p->y;
    refuse(ctx, linear, p, &bad, room, size, "lens in the workspace", FOVEA_ERROR_ALIAS, "lens overlaps the workspace");
    test_check(room[0] == 5 && room[1] == 5, "lens were written");
    bad = good;
    bad.stats = (fovea_linear_stats *)(void *)room;
    fovea_linear_stats_init(bad.stats);
    bad.x.data = room;
    refuse(ctx, linear, p, &bad, NULL, 0, "stats over x", FOVEA_ERROR_ALIAS, "x overlaps stats");
    bad.x = good.x;
    bad.y = y;
    refuse(ctx, linear, p, &bad, NULL, 0, "stats over y", FOVEA_ERROR_ALIAS, "y[1] overlaps stats");
    bad.y = p->y;
    refuse(ctx, linear, p, &bad, room, size, "stats in the workspace", FOVEA_ERROR_ALIAS,
           "stats overlaps the workspace");
    free(room);
    char small[16];
    refuse(ctx, linear, p, &good, small, sizeof small, "workspace", FOVEA_ERROR_WORKSPACE, "16 bytes");
    refuse(ctx, linear, p, &good, p->args.x.data, size, "workspace over x", FOVEA_ERROR_ALIAS, "workspace");
    char text[512], cut[8];
    const size_t whole = fovea_linear_describe(linear, text, sizeof text);
    test_check(whole == strlen(text) && strstr(text, "multiply_f32_f32_"), "describe: %s", text);
    test_check(fovea_linear_describe(linear, cut, sizeof cut) == whole && strlen(cut) == 7, "a cut description");
    test_check(fovea_linear_describe(linear, NULL, 8) == whole, "a description without text");
    test_check(fovea_linear_describe(NULL, text, sizeof text) > 0, "no linear map");
    test_check(fovea_linear_describe(NULL, NULL, 1) == strlen(text), "no linear map, no text");
    fovea_linear_destroy(NULL);
    fovea_linear_desc_init(NULL);
    fovea_linear_args_init(NULL);
    fovea_linear_destroy(linear);
    linear_problem_free(p);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "linear", NULL);
    const case_contexts x = contexts_make();
    test_random(&x);
    test_sizes(&x);
    test_position(&x);
    test_parts(&x);
    test_special(&x);
    test_refused_desc(x.one);
    test_refused_args(x.one);
    contexts_free(&x);
    return test_end();
}

/* Laws of attention in general hold to the bit where float32 allows it, and needs no oracle: v scaled by a
 * power of two; q scaled against the scale; a key that takes all the weight gives its value; heads, queries and
 * sequences permuted; head_dim padded with zeros. And within rounding: weights sum to 1, a constant value comes back,
 * no output lies outside of the values. (More of what holds within rounding: test_properties_rounded.c.) Zeros and NaN
 * have the signs and bits that docs/promise.md says. */
#include "reference.h"
#include "solution.h"
#include "thread_pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static fovea_context *ctx;

/* One check: equal rows, and not all of them 0. */
static void compare(const char *what, const solution *x, const solution *y) {
    test_check(check_equal(what, x, y) > 0, "%s: all rows are 0 or infinite", what);
}

static void scale_all(const fovea_tensor *t, float factor) {
    for (int64_t i = 0; i < t->shape[0] * t->stride[0]; i++)
        ((float *)t->data)[i] *= factor;
}

/* Scales v by 2^power, and with q by 2^power against scale: out is 2^power times as large, resp. the same. */
static void test_powers(const solution *x) {
    solution y = {.c = x->c};
    for (int power = -20; power <= 20; power += 8) {
        y.in = same_values(&y.c, x);
        y.out = outputs_make(&y.c, y.c.layout);
        scale_all(&y.in->args.v, ldexpf(1, power));
        case_run(ctx, NULL, &y.c, y.in, y.out);
        scale_all(&y.out->out, ldexpf(1, -power));
        compare("v times a power of two", x, &y);
        forget(&y);

        y.c.desc.has_scale = 1;
        y.c.desc.scale = ldexp((double)(float)(1 / sqrt((double)x->c.desc.head_dim)), -power);
        y.in = same_values(&y.c, x);
        y.out = outputs_make(&y.c, y.c.layout);
        scale_all(&y.in->args.q, ldexpf(1, power));
        case_run(ctx, NULL, &y.c, y.in, y.out);
        compare("q times a power of two, scale divided by it", x, &y);
        y.c.desc.has_scale = 0;
        forget(&y);
    }
}

/* Channels of zeros after those of q and k. */
static void test_padded(const solution *x) {
    const fovea_attention_desc *d = &x->c.desc;
    for (int64_t more = 1; more < 20; more += 6) {
        attention_case c = x->c;
        rng r = rng_stream(test_seed(), "padded");
        c.desc.head_dim += more;
        c.desc.has_scale = 1;
        c.desc.scale = 1 / sqrt((double)d->head_dim);
        solution y = {c, inputs_make(&c, &r), outputs_make(&c, c.layout)};
        const fovea_tensor *from[] = {&x->in->args.q, &x->in->args.k, &x->in->args.v};
        const fovea_tensor *to[] = {&y.in->args.q, &y.in->args.k, &y.in->args.v};
        for (int n = 0; n < 3; n++)
            for (int64_t row = 0; row < to[n]->shape[0] * to[n]->shape[1] * to[n]->shape[2]; row++) {
                float *channels = (float *)to[n]->data + row * to[n]->shape[3];
                memset(channels, 0, (size_t)to[n]->shape[3] * sizeof(float));
                memcpy(channels, (float *)from[n]->data + row * from[n]->shape[3],
                       (size_t)from[n]->shape[3] * sizeof(float));
            }
        case_run(ctx, NULL, &y.c, y.in, y.out);
        compare("head_dim padded with zeros", x, &y);
        forget(&y);
    }
}

/* Values of one head, one query or one sequence moved to the next one's place give results that moved with them. */
static void test_permuted(const solution *x) {
    const fovea_attention_desc *d = &x->c.desc;
    for (int axis = 0; axis < 3; axis++) {
        solution y = {x->c, same_values(&x->c, x), outputs_make(&x->c, x->c.layout)};
        outputs *want = outputs_make(&x->c, x->c.layout);
        const fovea_tensor *from[] = {&x->in->args.q, &x->in->args.k, &x->in->args.v,
                                      &x->out->out,   &x->out->lse,   &x->out->weights};
        const fovea_tensor *to[] = {&y.in->args.q, &y.in->args.k, &y.in->args.v,
                                    &want->out,    &want->lse,    &want->weights};
        for (int n = 0; n < 6; n++) {
            if (axis == 2 && (n == 1 || n == 2)) /* keys have their order */
                continue;
            for (int64_t b = 0; b < d->batch; b++)
                for (int64_t h = 0; h < to[n]->shape[1]; h++)
                    for (int64_t t = 0; t < to[n]->shape[2]; t++) {
                        int64_t at[3] = {b, h, t};
                        at[axis] = (at[axis] + 1) % to[n]->shape[axis];
                        memcpy(tensor_row(to[n], at[0], at[1], at[2]), tensor_row(from[n], b, h, t),
                               (size_t)to[n]->shape[3] * sizeof(float));
                    }
        }
        case_run(ctx, NULL, &y.c, y.in, y.out);
        outputs_same(y.out, want, "permuted along axis %d", axis);
        outputs_free(want);
        forget(&y);
    }
}

/* One key has a score 110 above all others, whose weights are then 0: out is its value, lse its score. */
static void test_one_hot(void) {
    static const int64_t keys[] = {0, 1, 17, 255, 256, 300, 511, 512, 599};
    for (int n = 0; n < 9; n++)
        for (int64_t q_len = 1; q_len <= 20; q_len += 19) {
            attention_case c = case_plain(1, 2, 1, q_len, 600, 4, 19);
            c.desc.has_scale = 1;
            c.desc.scale = 1;
            c.weights = true;
            rng r = rng_stream(test_seed(), "one hot");
            inputs *in = inputs_make(&c, &r);
            for (int64_t i = 0; i < 600 * 4; i++)
                ((float *)in->args.k.data)[i] = i == keys[n] * 4 ? 110 : 0;
            for (int64_t i = 0; i < 2 * q_len * 4; i++)
                ((float *)in->args.q.data)[i] = 1;
            solution x = solve(ctx, c, in);
            int64_t wrong = 0;
            for (int64_t row = 0; row < 2 * q_len; row++) {
                const float *weights = (const float *)x.out->weights.data + row * 600;
                wrong += first_difference((const float *)x.out->out.data + row * 19,
                                          tensor_row(&in->args.v, 0, 0, keys[n]), 19) >= 0 ||
                         ((const float *)x.out->lse.data)[row] != 110;
                for (int64_t j = 0; j < 600; j++)
                    wrong += float_bits(weights[j]) != float_bits(j == keys[n] ? 1 : 0);
            }
            test_check(wrong == 0, "all weight on key %" PRId64 ", q_len %" PRId64 ": %" PRId64 " values wrong",
                       keys[n], q_len, wrong);
            forget(&x);
        }
}

/* Weights sum to 1, a constant value comes back, and no output lies outside of the values, all within rounding. */
static void test_convex(const solution *x) {
    const fovea_attention_desc *d = &x->c.desc;
    double bound =
        0x1p-23 * (256 + 40); /* relative error of the sums of 256 keys and of what follows, see reference.c */
    solution y = {x->c, same_values(&x->c, x), outputs_make(&x->c, x->c.layout)};
    for (int64_t i = 0; i < d->batch * y.in->args.v.stride[0]; i++)
        ((float *)y.in->args.v.data)[i] = 3.14159F;
    case_run(ctx, NULL, &y.c, y.in, y.out);
    int64_t wrong = 0, outside = 0, sums = 0;
    for (int64_t row = 0; row < d->batch * d->q_heads * d->q_len; row++) {
        double sum = 0;
        for (int64_t j = 0; j < d->kv_len; j++)
            sum += (double)((const float *)x->out->weights.data)[row * d->kv_len + j];
        sums += fabs(sum - 1) > bound;
        for (int64_t c = 0; c < d->value_dim; c++) {
            wrong += fabs((double)((const float *)y.out->out.data)[row * d->value_dim + c] / 3.14159 - 1) > bound;
            const float *v = tensor_row(&x->in->args.v, row / d->q_heads / d->q_len, row / d->q_len % d->q_heads, 0);
            double low = INFINITY, high = -INFINITY;
            for (int64_t j = 0; j < d->kv_len; j++) {
                low = fmin(low, (double)v[j * d->value_dim + c]);
                high = fmax(high, (double)v[j * d->value_dim + c]);
            }
            double o = (double)((const float *)x->out->out.data)[row * d->value_dim + c],
                   slack = bound * fmax(-low, high);
            outside += !(o >= low - slack && o <= high + slack);
        }
    }
    test_check(wrong == 0, "%" PRId64 " outputs of a constant value differ from it", wrong);
    test_check(sums == 0, "the weights of %" PRId64 " rows do not sum to 1", sums);
    test_check(outside == 0, "%" PRId64 " outputs lie outside of the values", outside);
    forget(&y);
}

static void test_properties(void) {
    static const int64_t shapes[][2] = {{1, 530}, {33, 64}, {20, 530}};
    for (int n = 0; n < 3; n++) {
        attention_case c = case_plain(2, 2, 2, shapes[n][0], shapes[n][1], 24, 9);
        c.weights = true;
        rng r = rng_stream(test_seed(), "properties");
        solution x = solve(ctx, c, inputs_make(&c, &r));
        test_powers(&x);
        test_padded(&x);
        test_permuted(&x);
        test_convex(&x);
        forget(&x);
    }
}

/* Attention of one key whose value is v, into an output of a type. */
static uint32_t attend_one(float v, fovea_dtype type) {
    float one = 1.0f;
    uint32_t out = 0;
    uint16_t half;
    attention_case c = case_plain(1, 1, 1, 1, 1, 1, 1);
    c.desc.out_dtype = type;
    fovea_attention_plan *plan;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = args.k = fovea_tensor_bhtd(&one, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    args.v = fovea_tensor_bhtd(&v, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    args.out = fovea_tensor_bhtd(type == FOVEA_DTYPE_F32 ? (void *)&out : &half, type, 1, 1, 1, 1);
    check_status("a plan", fovea_attention_plan_create(ctx, &c.desc, &plan), FOVEA_OK, NULL);
    check_status("one key", fovea_attention_execute(plan, &args, NULL, 0), FOVEA_OK, NULL);
    fovea_attention_plan_destroy(plan);
    return type == FOVEA_DTYPE_F32 ? out : half;
}

/* act(x w) as float32. */
static uint32_t map_one(float x, float w, fovea_activation activation) {
    float y = 0.0f;
    fovea_linear_desc desc;
    fovea_linear *linear;
    fovea_linear_args args;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.in_features = 1;
    desc.activation = activation;
    desc.part.weight = fovea_matrix_in_out(&w, FOVEA_DTYPE_F32, 1, 1);
    const fovea_tensor to = fovea_tensor_bhtd(&y, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    args.x = fovea_tensor_bhtd(&x, FOVEA_DTYPE_F32, 1, 1, 1, 1);
    args.y = &to;
    check_status("a map", fovea_linear_create(ctx, &desc, &linear), FOVEA_OK, NULL);
    check_status("a number", fovea_linear_execute(linear, &args, NULL, 0), FOVEA_OK, NULL);
    fovea_linear_destroy(linear);
    return float_bits(y);
}

static void test_zeros(void) {
    const struct {
        const char *what;
        uint32_t got, want;
    } all[] = {
        {"out of -0", attend_one(-0.0f, FOVEA_DTYPE_F32), 0},
        {"the least out", attend_one(-0x1p-149f, FOVEA_DTYPE_F32), 0x80000001},
        {"out of -0 as bfloat16", attend_one(-0.0f, FOVEA_DTYPE_BF16), 0},
        {"the least out as bfloat16", attend_one(-0x1p-149f, FOVEA_DTYPE_BF16), 0x8000},
        {"-1e-9 as float16", attend_one(-1e-9f, FOVEA_DTYPE_F16), 0x8000},
        {"NaN", attend_one(poison(), FOVEA_DTYPE_F32), 0x7fc00000},
        {"NaN as bfloat16", attend_one(poison(), FOVEA_DTYPE_BF16), 0x7fc0},
        {"NaN as float16", attend_one(poison(), FOVEA_DTYPE_F16), 0x7e00},
        {"a map of -0", map_one(-0.0f, 1.0f, FOVEA_ACTIVATION_NONE), 0},
        {"a product that underflows", map_one(-0x1p-149f, 0x1p-10f, FOVEA_ACTIVATION_NONE), 0x80000000},
        {"silu(-200)", map_one(-200.0f, 1.0f, FOVEA_ACTIVATION_SILU), 0x80000000},
        {"silu(-inf)", map_one(-INFINITY, 1.0f, FOVEA_ACTIVATION_SILU), 0x7fc00000},
        {"gelu(-inf)", map_one(-INFINITY, 1.0f, FOVEA_ACTIVATION_GELU), 0x7fc00000},
        {"relu(-inf)", map_one(-INFINITY, 1.0f, FOVEA_ACTIVATION_RELU), 0},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        test_check(all[i].got == all[i].want, "%s is 0x%" PRIx32 " instead of 0x%" PRIx32, all[i].what, all[i].got,
                   all[i].want);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "properties_exact", NULL);
    thread_pool *p = thread_pool_create(2);
    ctx = context_of(FOVEA_ISA_BEST, 2, p);
    test_one_hot();
    test_properties();
    test_zeros();
    fovea_context_destroy(ctx);
    thread_pool_destroy(p);
    return test_end();
}

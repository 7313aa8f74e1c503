/* Cases, memory and the literal arithmetic of linear maps (linear_case.h). */
#include "linear_case.h"

#include "dispatch/dispatch.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

linear_case linear_case_plain(int64_t batch, int64_t tokens, int64_t in, int64_t out) {
    return (linear_case){.batch = batch,
                         .tokens = tokens,
                         .groups = 1,
                         .channels = in,
                         .parts = 1,
                         .heads = {1},
                         .head_channels = {out}};
}

linear_case linear_case_random(rng *r) {
    static const int64_t sizes[] = {1, 2, 3, 5, 8, 13, 16, 17, 24, 31, 33, 48, 64, 65, 100, 129};
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    linear_case c = {.batch = rng_between(r, 1, 3)};
    c.tokens = rng_between(r, 1, 40);
    c.groups = rng_between(r, 1, 3);
    c.channels = sizes[rng_below(r, SIZES)];
    c.parts = rng_between(r, 1, LINEAR_PARTS);
    for (int i = 0; i < c.parts; i++) {
        c.heads[i] = rng_between(r, 1, 3);
        c.head_channels[i] = sizes[rng_below(r, SIZES)];
        c.bias[i] = rng_below(r, 2);
        c.has_scale[i] = !rng_below(r, 2);
        c.scale[i] = 0.3;
    }
    c.weight = (linear_weight)rng_below(r, WEIGHT_KINDS);
    c.x_rows = (linear_rows)rng_below(r, ROWS_KINDS);
    c.y_rows = (linear_rows)rng_below(r, ROWS_KINDS);
    c.activation = (fovea_activation)rng_below(r, 4);
    c.residual = (linear_residual)rng_below(r, RESIDUAL_KINDS);
    c.lens = rng_below(r, 3) == 0;
    return c;
}

const char *linear_case_text(const linear_case *c, char *text, size_t size) {
    static const char *const weights[] = {"[in, out]", "[out, in]", "[in, out] with gaps", "both strided"};
    static const char *const rows[] = {"bhtd", "bthd", "bthd with gaps"};
    int n = snprintf(text, size, "batch %" PRId64 " tokens %" PRId64 " groups %" PRId64 " x %" PRId64 " to", c->batch,
                     c->tokens, c->groups, c->channels);
    for (int i = 0; i < c->parts; i++)
        n += snprintf(text + n, size - (size_t)n, " %" PRId64 " x %" PRId64 "%s scale %g", c->heads[i],
                      c->head_channels[i], c->bias[i] ? " + bias" : "", c->has_scale[i] ? c->scale[i] : 1.0);
    snprintf(text + n, size - (size_t)n, ", weights %s, x %s, y %s, activation %d, residual %d%s", weights[c->weight],
             rows[c->x_rows], rows[c->y_rows], (int)c->activation, (int)c->residual, c->lens ? ", lens" : "");
    return text;
}

int64_t tensor_floats(const fovea_tensor *t) {
    int64_t last = 1;
    for (int i = 0; i < 4; i++)
        last += (t->shape[i] - 1) * t->stride[i];
    return last;
}

static fovea_tensor lay(linear_rows rows, int64_t batch, int64_t heads, int64_t tokens, int64_t channels) {
    if (rows == ROWS_BHTD)
        return fovea_tensor_bhtd(NULL, FOVEA_DTYPE_F32, batch, heads, tokens, channels);
    fovea_tensor t = fovea_tensor_bthd(NULL, FOVEA_DTYPE_F32, batch, tokens, heads, channels);
    if (rows == ROWS_GAPS) {
        t.stride[1] = channels + 3;
        t.stride[2] = heads * t.stride[1] + 2;
        t.stride[0] = tokens * t.stride[2] + 5;
    }
    return t;
}

static guard *memory(const char *name, int64_t floats) {
    guard *g = guard_alloc(name, (size_t)floats * sizeof(float), GUARD_END);
    poison_fill(g->data, floats);
    return g;
}

static int64_t length(const linear_problem *p, int64_t b) { return p->lens ? p->lens[b] : p->c.tokens; }

static float *element(const fovea_tensor *t, int64_t b, int64_t h, int64_t i, int64_t channel) {
    return (float *)t->data + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + channel;
}

static void fill_rows(const linear_problem *p, const fovea_tensor *t, rng *r) {
    for (int64_t b = 0; b < t->shape[0]; b++)
        for (int64_t h = 0; h < t->shape[1]; h++)
            for (int64_t i = 0; i < length(p, b); i++)
                rng_fill_normal(r, element(t, b, h, i, 0), t->shape[3]);
}

static void make_part(linear_problem *p, int part, rng *r) {
    const linear_case *c = &p->c;
    const int64_t in = c->groups * c->channels, out = c->heads[part] * c->head_channels[part];
    fovea_matrix w = c->weight == WEIGHT_OUT_IN ? fovea_matrix_out_in(NULL, FOVEA_DTYPE_F32, out, in)
                                                : fovea_matrix_in_out(NULL, FOVEA_DTYPE_F32, in, out);
    if (c->weight == WEIGHT_GAPS)
        w.in_stride = out + 7;
    if (c->weight == WEIGHT_BOTH_STRIDED) {
        w.in_stride = 3;
        w.out_stride = 3 * in + 4;
    }
    const int64_t floats = (in - 1) * w.in_stride + (out - 1) * w.out_stride + 1;
    p->weight_memory[part] = memory("weight", floats);
    float *data = p->weight_memory[part]->data;
    for (int64_t i = 0; i < in; i++)
        for (int64_t o = 0; o < out; o++)
            data[i * w.in_stride + o * w.out_stride] = rng_normal(r);
    w.data = data;
    p->bias_memory[part] = memory("bias", out);
    rng_fill_normal(r, p->bias_memory[part]->data, out);
    p->parts[part] = (fovea_linear_part){.weight = w,
                                         .bias = c->bias[part] ? p->bias_memory[part]->data : NULL,
                                         .has_scale = c->has_scale[part],
                                         .scale = c->scale[part]};
    p->y[part] = p->residual[part] = lay(c->y_rows, c->batch, c->heads[part], c->tokens, c->head_channels[part]);
    const int64_t y_floats = tensor_floats(&p->y[part]);
    p->y_memory[part] = memory("y", y_floats);
    p->y[part].data = p->y_memory[part]->data;
    p->residual_memory[part] = malloc((size_t)y_floats * sizeof(float));
    if (!p->residual_memory[part])
        exit(1);
    poison_fill(p->residual_memory[part], y_floats);
    p->residual[part].data = p->residual_memory[part];
    fill_rows(p, &p->residual[part], r);
    if (c->residual == RESIDUAL_IN_PLACE)
        p->residual[part].data = p->y[part].data;
}

linear_problem *linear_problem_make(const linear_case *c, rng *r) {
    linear_problem *p = calloc(1, sizeof *p);
    int64_t *lens = calloc((size_t)c->batch, sizeof *lens);
    if (!p || !lens)
        exit(1);
    p->c = *c;
    for (int64_t b = 0; b < c->batch; b++)
        lens[b] = rng_below(r, c->tokens + 1);
    if (c->lens)
        p->lens = lens;
    else
        free(lens);
    fovea_linear_desc_init(&p->desc);
    p->desc.in_features = c->groups * c->channels;
    p->desc.part_count = c->parts;
    p->desc.parts = p->parts;
    p->desc.activation = c->activation;
    fovea_linear_args_init(&p->args);
    p->args.x = lay(c->x_rows, c->batch, c->groups, c->tokens, c->channels);
    p->x_memory = memory("x", tensor_floats(&p->args.x));
    p->args.x.data = p->x_memory->data;
    fill_rows(p, &p->args.x, r);
    for (int i = 0; i < c->parts; i++)
        make_part(p, i, r);
    p->args.y = p->y;
    p->args.residual = c->residual == RESIDUAL_NONE ? NULL : p->residual;
    p->args.lens = p->lens;
    return p;
}

void linear_problem_free(linear_problem *p) {
    guard_free(p->x_memory);
    for (int i = 0; i < p->c.parts; i++) {
        guard_free(p->weight_memory[i]);
        guard_free(p->bias_memory[i]);
        guard_free(p->y_memory[i]);
        free(p->residual_memory[i]);
    }
    free(p->lens);
    free(p);
}

void linear_problem_clear(linear_problem *p) {
    for (int i = 0; i < p->c.parts; i++) {
        if (p->c.residual == RESIDUAL_IN_PLACE)
            memcpy(p->y[i].data, p->residual_memory[i], p->y_memory[i]->size);
        else
            poison_fill(p->y[i].data, tensor_floats(&p->y[i]));
    }
}

bool linear_problem_run(linear_problem *p, const fovea_context *ctx) {
    fovea_linear *linear;
    char text[256];
    linear_problem_clear(p);
    if (!test_check(fovea_linear_create(ctx, &p->desc, &linear) == FOVEA_OK, "pack %s: %s",
                    linear_case_text(&p->c, text, sizeof text), fovea_error_detail()))
        return false;
    const size_t size = fovea_linear_apply_workspace_size(ctx, linear);
    guard *workspace = guard_alloc("workspace", size, GUARD_END);
    const bool ok = test_check(fovea_linear_apply(ctx, linear, &p->args, workspace->data, size) == FOVEA_OK, "%s: %s",
                               linear_case_text(&p->c, text, sizeof text), fovea_error_detail());
    guard_free(workspace);
    fovea_linear_destroy(linear);
    return ok;
}

bool linear_problem_same(const linear_problem *got, const float *const want[LINEAR_PARTS], const char *format, ...) {
    char what[256], text[256];
    va_list values;
    va_start(values, format);
    vsnprintf(what, sizeof what, format, values);
    va_end(values);
    bool same = true;
    for (int i = 0; i < got->c.parts; i++)
        same = test_same(got->y[i].data, want[i], tensor_floats(&got->y[i]), "%s: part %d of %s", what, i,
                         linear_case_text(&got->c, text, sizeof text)) &&
               same;
    return same;
}

/* One element: bits by kernels.h, and float64 within the error that these roundings can have. */
static bool literal_element(const linear_problem *p, int part, int64_t b, int64_t h, int64_t i, int64_t channel) {
    const linear_case *c = &p->c;
    const fovea_linear_part *q = &p->parts[part];
    const int64_t o = h * c->head_channels[part] + channel, in = c->groups * c->channels;
    const float scale = q->has_scale ? (float)q->scale : 1.0f;
    float acc = 0.0f;
    double sum = 0.0, magnitude = 0.0;
    for (int64_t k = 0; k < in; k++) {
        const float x = *element(&p->args.x, b, k / c->channels, i, k % c->channels);
        const float w = scale * ((const float *)q->weight.data)[k * q->weight.in_stride + o * q->weight.out_stride];
        acc = fmaf(x, w, acc);
        sum += (double)x * w;
        magnitude += fabs((double)x * w);
    }
    float bias = 0.0f, residual = 0.0f;
    fv_bias_act_residual args = {.activation = (fv_activation)c->activation};
    if (q->bias) {
        bias = scale * ((const float *)q->bias)[o];
        args.bias = &bias;
        sum += bias;
        magnitude += fabs((double)bias);
    }
    if (c->residual != RESIDUAL_NONE) {
        fovea_tensor kept = p->residual[part];
        kept.data = p->residual_memory[part];
        residual = *element(&kept, b, h, i, channel);
        args.residual = &residual;
    }
    float want;
    fv_kernel_scalar(FV_OP_bias_act_residual, FV_TYPE_f32)->run.bias_act_residual_f32(1, 1, &acc, 1, &args, &want, 1);
    double exact = sum;
    if (c->activation == FOVEA_ACTIVATION_RELU)
        exact = sum > 0 ? sum : 0;
    else if (c->activation == FOVEA_ACTIVATION_GELU)
        exact = sum * 0.5 * (1 + erf(sum * sqrt(0.5)));
    else if (c->activation == FOVEA_ACTIVATION_GELU_TANH)
        exact = sum * 0.5 * (1 + tanh(sqrt(2 / acos(-1.0)) * (sum + 0.044715 * sum * sum * sum)));
    exact += residual;
    /* The slope of every activation is below 1.2; its own error is below 4 eps times its argument. */
    const double bound =
        1.2 * (double)(in + 1) * float_eps() * magnitude + 4 * float_eps() * fabs(sum) + float_eps() * fabs(exact);
    const float got = *element(&p->y[part], b, h, i, channel);
    char text[256];
    return test_check(float_bits(got) == float_bits(want),
                      "part %d, %" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 " is %.9g, kernels.h gives %.9g: %s",
                      part, b, h, i, channel, (double)got, (double)want, linear_case_text(c, text, sizeof text)) &&
           test_check(fabs((double)got - exact) <= bound, "%.9g is off float64's %.17g by more than %.3g: %s",
                      (double)got, exact, bound, linear_case_text(c, text, sizeof text));
}

/* Rows past a length hold what they held. */
static void check_untouched(const linear_problem *p) {
    char text[256];
    for (int part = 0; part < p->c.parts; part++) {
        const fovea_tensor *y = &p->y[part];
        fovea_tensor kept = p->residual[part];
        kept.data = p->residual_memory[part];
        int64_t changed = 0;
        for (int64_t b = 0; b < y->shape[0]; b++)
            for (int64_t h = 0; h < y->shape[1]; h++)
                for (int64_t i = length(p, b); i < y->shape[2]; i++)
                    for (int64_t j = 0; j < y->shape[3]; j++) {
                        const bool in_place = p->c.residual == RESIDUAL_IN_PLACE;
                        const float before = in_place ? *element(&kept, b, h, i, j) : poison();
                        changed += float_bits(*element(y, b, h, i, j)) != float_bits(before);
                    }
        test_check(changed == 0, "%" PRId64 " elements past lengths written: %s", changed,
                   linear_case_text(&p->c, text, sizeof text));
    }
}

void linear_problem_literal(const linear_problem *p, rng *r, int64_t samples) {
    const linear_case *c = &p->c;
    check_untouched(p);
    for (int64_t s = 0; s < samples; s++) {
        const int part = (int)rng_below(r, c->parts);
        const int64_t b = rng_below(r, c->batch), h = rng_below(r, c->heads[part]);
        const int64_t channel = rng_below(r, c->head_channels[part]);
        if (length(p, b) > 0 && !literal_element(p, part, b, h, rng_below(r, length(p, b)), channel))
            return;
    }
}

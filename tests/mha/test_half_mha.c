/* Layers of bfloat16 and float16, alone and mixed, in every form: the bits of their steps called one by one, and of the
 * steps in float32 by the scalar tier, each rounded once to its type. */
#include "attention_case.h"
#include "half_layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CASES = 200 };

static case_contexts contexts;

static const void *bias_of(const half_dense *d) { return d->biased ? d->bias.half : NULL; }

/* ----------------------------------------------------------------------------------------------------- the steps -- */

/* In the given types, or in float32 and rounded here: either gives both. */
static half_pair finish_step(bool half, const half_pair *y, int64_t n) {
    if (half)
        convert_elements(n, y->half, y->dtype, y->wide, FOVEA_DTYPE_F32);
    else
        half_pair_round(y, n);
    return *y;
}

static fovea_dtype type_of(bool half, const half_pair *x) { return half ? x->dtype : FOVEA_DTYPE_F32; }
static void *data_of(bool half, const half_pair *x) { return half ? x->half : x->wide; }

static half_pair step_linear(const fovea_context *ctx, bool half, const half_dense *d, const half_pair *x, int64_t rows,
                             fovea_dtype y_dtype) {
    const half_pair y = half_pair_alloc(rows * d->out, y_dtype);
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear *linear;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.dtype = type_of(half, x);
    desc.y_dtype = type_of(half, &y);
    desc.in_features = d->in;
    desc.part.weight = fovea_matrix_in_out(data_of(half, &d->w), type_of(half, &d->w), d->in, d->out);
    desc.part.bias = d->biased ? data_of(half, &d->bias) : NULL;
    desc.part.bias_dtype = type_of(half, &d->bias);
    const fovea_tensor to = fovea_tensor_bhtd(data_of(half, &y), desc.y_dtype, 1, 1, rows, d->out);
    args.x = fovea_tensor_bhtd(data_of(half, x), desc.dtype, 1, 1, rows, d->in);
    args.y = &to;
    if (test_check(fovea_linear_create(ctx, &desc, &linear) == FOVEA_OK, "a step: %s", fovea_error_detail())) {
        test_check(fovea_linear_apply(ctx, linear, &args, NULL, 0) == FOVEA_OK, "a step: %s", fovea_error_detail());
        fovea_linear_destroy(linear);
    }
    return finish_step(half, &y, rows * d->out);
}

static fovea_tensor heads_tensor(const half_layer *p, bool half, const half_pair *x, int role, int64_t heads,
                                 int64_t channels) {
    return fovea_tensor_bthd(data_of(half, x), type_of(half, x), p->a.batch, half_layer_tokens(p, role), heads,
                             channels);
}

static void set_lengths(const half_layer *p, fovea_attention_args *args) {
    args->q_lens = p->q_lens ? p->lens[0] : NULL;
    args->kv_lens = p->kv_lens ? p->lens[1] : NULL;
}

static half_pair run_steps(const fovea_context *ctx, const half_layer *p, bool half) {
    const int64_t rows = p->a.batch * p->a.q_len;
    fovea_attention_desc desc = p->a;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    fovea_tensor *operand[] = {&args.q, &args.k, &args.v};
    int64_t channels[HALF_ROLES];
    for (int i = 0; i < HALF_ROLES; i++) {
        const half_pair *x = &p->x[half_layer_input(p, i)];
        const bool shared = !p->step[i].in && p->d.form != FOVEA_MHA_PROJECTED;
        channels[i] = p->step[i].in ? p->step[i].out / (p->d.form == FOVEA_MHA_MERGED && i < 2 ? p->a.q_heads
                                                                                               : half_layer_heads(p, i))
                      : shared      ? p->features[i]
                                    : half_layer_channels(p, i);
        half_pair y = *x;
        if (p->step[i].in)
            y = step_linear(ctx, half, &p->step[i], x, p->a.batch * half_layer_tokens(p, i), p->x_type[i]);
        *operand[i] = heads_tensor(p, half, &y, i, shared ? 1 : half_layer_heads(p, i), channels[i]);
        if (shared) {
            operand[i]->shape[1] = half_layer_heads(p, i);
            operand[i]->stride[1] = 0;
        }
    }
    const half_pair heads =
        half_pair_alloc(rows * desc.q_heads * channels[2], p->step[3].in ? desc.dtype : desc.out_dtype);
    desc.has_scale = 1;
    desc.scale = 1.0 / sqrt((double)desc.head_dim);
    desc.head_dim = channels[0];
    desc.value_dim = channels[2];
    desc.out_dtype = type_of(half, &heads);
    if (!half)
        desc.dtype = desc.k_dtype = desc.v_dtype = FOVEA_DTYPE_F32;
    args.out = heads_tensor(p, half, &heads, 0, desc.q_heads, desc.value_dim);
    set_lengths(p, &args);
    test_check(attention_once(ctx, &desc, &args) == FOVEA_OK, "%s: %s", p->text, fovea_error_detail());
    const half_pair y = finish_step(half, &heads, rows * desc.q_heads * desc.value_dim);
    return p->step[3].in ? step_linear(ctx, half, &p->step[3], &y, rows, p->a.out_dtype) : y;
}

/* ----------------------------------------------------------------------------------------------------- the layer -- */

static fovea_matrix matrix(const half_dense *d) {
    return d->in ? fovea_matrix_in_out(d->w.half, d->w.dtype, d->in, d->out) : (fovea_matrix){0};
}

static fovea_tensor packed_tensor(const half_layer *p, fovea_tensor t) {
    if (p->packed && t.data) {
        t.shape[2] *= t.shape[0];
        t.shape[0] = 1;
    }
    return t;
}

static fovea_mha_weights layer_weights(const half_layer *p, fovea_matrix merged[HALF_MOST_HEADS]) {
    const bool fused = p->d.form == FOVEA_MHA_FUSED, each = !fused && p->d.form != FOVEA_MHA_PROJECTED;
    fovea_mha_weights w;
    fovea_mha_weights_init(&w);
    w.bias_dtype = p->bias_type;
    w.order = p->order;
    fovea_matrix *all[] = {&w.q, &w.k, &w.v, &w.o}, *outer[] = {&w.outer_q, &w.outer_k, &w.outer_v};
    const void **bias[] = {&w.q_bias, &w.k_bias, &w.v_bias, &w.o_bias};
    const void **outer_bias[] = {&w.outer_q_bias, &w.outer_k_bias, &w.outer_v_bias};
    for (int i = 0; i < HALF_MATRICES; i++)
        if (i == 3 ? p->d.out_features > 0 : each && (i == 0 || p->d.form != FOVEA_MHA_TIED)) {
            *all[i] = matrix(&p->m[i]);
            *bias[i] = bias_of(&p->m[i]);
        }
    for (int i = 0; i < HALF_ROLES; i++)
        if (p->outer[i].in) {
            *outer[i] = matrix(&p->outer[i]);
            *outer_bias[i] = bias_of(&p->outer[i]);
        }
    if (fused) {
        w.fused =
            fovea_matrix_in_out(p->fused.half, p->fused.dtype, p->features[0], p->m[0].out + p->m[1].out + p->m[2].out);
        w.fused_bias = p->m[0].biased ? p->fused_bias.half : NULL;
    }
    for (int64_t h = 0; p->d.form == FOVEA_MHA_MERGED && p->given && h < p->a.q_heads; h++) {
        merged[h] = fovea_matrix_in_out(p->merged[h].half, p->merged[h].dtype, p->features[0], p->features[1]);
        w.merged = merged;
    }
    return w;
}

static void check_layer(const fovea_context *ctx, const char *where, const half_layer *p, const half_pair *want) {
    const bool raw = p->d.form == FOVEA_MHA_PROJECTED, rows = p->d.out_features > 0;
    fovea_attention_desc attention = p->a;
    fovea_mha_desc desc = p->d;
    fovea_matrix merged[HALF_MOST_HEADS];
    const fovea_mha_weights w = layer_weights(p, merged);
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    desc.attention = &attention;
    desc.q_features = p->features[0];
    desc.k_features = p->features[1];
    desc.v_features = p->features[2];
    attention.packed = p->packed;
    fovea_tensor *operand[] = {&args.q, &args.k, &args.v};
    for (int i = 0; i < HALF_ROLES; i++)
        if (half_layer_input(p, i) == i)
            *operand[i] = packed_tensor(
                p, raw ? heads_tensor(p, true, &p->x[i], i, half_layer_heads(p, i), half_layer_channels(p, i))
                       : heads_tensor(p, true, &p->x[i], i, 1, p->features[i]));
    const int64_t heads = rows ? 1 : p->a.q_heads, channels = rows ? p->d.out_features : p->a.value_dim;
    const int64_t n = p->a.batch * p->a.q_len * heads * channels;
    const half_pair out = half_pair_alloc(n, p->a.out_dtype);
    args.out = packed_tensor(p, heads_tensor(p, true, &out, 0, heads, channels));
    set_lengths(p, &args);
    args.q_cu_seqlens = p->packed ? p->ends[0] : NULL;
    args.kv_cu_seqlens = p->packed ? p->ends[1] : NULL;
    test_check(mha_once(ctx, &desc, &w, &args) == FOVEA_OK, "%s: %s", p->text, fovea_error_detail());
    test_check(memcmp(out.half, want->half, (size_t)(n * fv_dtype_size(out.dtype))) == 0,
               "%s, %s: differs from its steps", p->text, where);
}

static void test_random(void) {
    for (int64_t n = 0, count = test_scaled(CASES); n < count; n++) {
        char name[40];
        snprintf(name, sizeof name, "half layer %" PRId64, n);
        rng r = rng_stream(test_seed(), name);
        half_layer p;
        half_layer_make(&p, &r);
        const half_pair want = run_steps(contexts.scalar, &p, false);
        const half_pair steps = run_steps(contexts.one, &p, true);
        const int64_t elements = p.a.batch * p.a.q_len * (p.step[3].in ? p.step[3].out : p.a.q_heads * p.a.value_dim);
        test_check(memcmp(steps.half, want.half, (size_t)(elements * fv_dtype_size(want.dtype))) == 0,
                   "%s: its steps differ from those of float32", p.text);
        check_layer(contexts.scalar, "scalar", &p, &want);
        check_layer(contexts.one, "one thread", &p, &want);
        check_layer(contexts.three, "three threads", &p, &want);
        half_pairs_free();
    }
}

/* Products of weights just beyond the middle between two numbers of 16 bits, by less than float32 can tell: up. */
static void test_rounded_once(fovea_dtype dtype, int bits) {
    for (int sign = -1; sign <= 1; sign += 2) {
        const float outer[] = {(float)sign, sign * 0x1p-4f, sign * 0x1p-10f},
                    inner[] = {1.0f, ldexpf(1.0f, 3 - bits), 0x1p-14f};
        uint16_t given[2][3], one, want, got = 0;
        fovea_attention_desc a;
        fovea_mha_desc d;
        fovea_mha_weights w;
        fovea_mha *mha;
        fovea_attention_args args;
        fovea_attention_desc_init(&a);
        fovea_mha_desc_init(&d);
        fovea_mha_weights_init(&w);
        fovea_attention_args_init(&args);
        convert_elements(3, outer, FOVEA_DTYPE_F32, given[0], dtype);
        convert_elements(3, inner, FOVEA_DTYPE_F32, given[1], dtype);
        convert_elements(1, (const float[]){1.0f}, FOVEA_DTYPE_F32, &one, dtype);
        convert_elements(1, (const float[]){sign * (1.0f + ldexpf(1.0f, -bits))}, FOVEA_DTYPE_F32, &want, dtype);
        d.attention = &a;
        d.form = FOVEA_MHA_FOLDED;
        a.dtype = dtype;
        d.q_features = a.q_heads = a.kv_heads = a.q_len = a.kv_len = a.head_dim = a.value_dim = 1;
        w.outer_q = w.outer_k = w.outer_v = fovea_matrix_in_out(given[0], dtype, 1, 3);
        w.q = w.k = w.v = fovea_matrix_in_out(given[1], dtype, 3, 1);
        args.q = fovea_tensor_bhtd(&one, dtype, 1, 1, 1, 1);
        args.out = fovea_tensor_bhtd(&got, dtype, 1, 1, 1, 1);
        if (!test_check(fovea_mha_create(contexts.one, &d, &w, &mha) == FOVEA_OK, "%s", fovea_error_detail()))
            return;
        const fovea_status status = fovea_mha_execute(mha, &args, NULL, 0);
        test_check(status == FOVEA_OK && got == want, "type %d: a product is %04x, not %04x", (int)dtype, got, want);
        fovea_mha_destroy(mha);
    }
}

/* One input has one type; only numbers are weights. */
static void test_errors(void) {
    float room[64] = {0};
    fovea_attention_desc a;
    fovea_mha_desc d;
    fovea_mha_weights w;
    fovea_mha *mha;
    fovea_attention_desc_init(&a);
    fovea_mha_desc_init(&d);
    fovea_mha_weights_init(&w);
    d.attention = &a;
    d.q_features = a.head_dim = a.value_dim = 4;
    a.q_heads = a.kv_heads = a.q_len = a.kv_len = 1;
    a.dtype = FOVEA_DTYPE_BF16;
    w.q = w.k = w.v = fovea_matrix_in_out(room, FOVEA_DTYPE_BF16, 4, 4);
    a.k_dtype = FOVEA_DTYPE_F32;
    check_status("keys of another type", fovea_mha_create(contexts.one, &d, &w, &mha), FOVEA_ERROR_DTYPE,
                 "k_dtype is FOVEA_DTYPE_F32|dtype is FOVEA_DTYPE_BF16|FOVEA_MHA_SELF");
    a.k_dtype = 0;
    w.k.dtype = FOVEA_DTYPE_BOOL;
    check_status("weights of booleans", fovea_mha_create(contexts.one, &d, &w, &mha), FOVEA_ERROR_DTYPE,
                 "dtype of k|BOOL");
    w.k.dtype = FOVEA_DTYPE_F16;
    w.bias_dtype = FOVEA_DTYPE_I64;
    check_status("biases of integers", fovea_mha_create(contexts.one, &d, &w, &mha), FOVEA_ERROR_DTYPE, "bias_dtype");
    w.bias_dtype = FOVEA_DTYPE_F16;
    if (!test_check(fovea_mha_create(contexts.one, &d, &w, &mha) == FOVEA_OK, "%s", fovea_error_detail()))
        return;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(room, FOVEA_DTYPE_F32, 1, 1, 1, 4);
    args.out = fovea_tensor_bhtd(room + 32, FOVEA_DTYPE_BF16, 1, 1, 1, 4);
    check_status("floats for bfloat16", fovea_mha_execute(mha, &args, NULL, 0), FOVEA_ERROR_DTYPE, "q|BF16");
    args.q.dtype = FOVEA_DTYPE_BF16;
    args.out.dtype = FOVEA_DTYPE_F16;
    check_status("another type of out", fovea_mha_execute(mha, &args, NULL, 0), FOVEA_ERROR_DTYPE, "out|BF16");
    fovea_mha_destroy(mha);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "half_mha", NULL);
    contexts = contexts_make();
    test_random();
    test_rounded_once(FOVEA_DTYPE_BF16, 7);
    test_rounded_once(FOVEA_DTYPE_F16, 10);
    test_errors();
    contexts_free(&contexts);
    return test_end();
}

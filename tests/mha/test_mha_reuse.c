/* Layers in use: other shapes of the same weights, one layer on many threads, and inputs whose rows past the
 * lengths are not there. What a form computes: test_mha.c. */
#include "attention_case.h"
#include "guard.h"
#include "mha_layer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The same weights for other shapes: the rows of the first sequence alone. */
static void check_reshape(const case_contexts *x, const layer *l, const float *same) {
    fovea_mha *mha, *other;
    if (!test_check(fovea_mha_create(x->one, &l->desc, &l->w, &mha) == FOVEA_OK, "%s", fovea_error_detail()))
        return;
    const fovea_attention_desc *a = &l->attention;
    test_check(fovea_mha_reshape(mha, 1, a->q_len, a->kv_len, &other) == FOVEA_OK, "%s", fovea_error_detail());
    fovea_mha_destroy(mha); /* the packed weights live on */
    float *out = must_alloc(layer_floats(l), sizeof *out);
    fovea_attention_args args = layer_args(l, out);
    args.q.shape[0] = args.k.shape[0] = args.v.shape[0] = args.out.shape[0] = 1;
    test_check(fovea_mha_execute(other, &args, NULL, 0) == FOVEA_OK, "%s", fovea_error_detail());
    test_same(out, same, a->q_len * l->out, "one sequence of %" PRId64, a->batch);
    test_check(fovea_mha_reshape(other, -1, 1, 1, &mha) == FOVEA_ERROR_SHAPE && !mha, "a batch of -1");
    test_check(fovea_mha_reshape(other, 0, 1, 1, &mha) == FOVEA_OK && mha, "a batch of 0: %s", fovea_error_detail());
    fovea_mha_destroy(mha);
    test_check(fovea_mha_reshape(NULL, 1, 1, 1, &mha) == FOVEA_ERROR_NULL && !mha, "no layer");
    fovea_mha_destroy(other);
    free(out);
}

/* One layer executed by several threads at once, on two inputs, so that none may see what another computes. */
enum { AT_ONCE = 6 };

typedef struct shared {
    const layer *l[2];
    const float *want[2];
    const fovea_mha *mha;
    float *out[AT_ONCE];
    int bad[AT_ONCE];
} shared;

static void execute_shared(void *arg, int64_t index) {
    shared *s = arg;
    const layer *l = s->l[index % 2];
    const fovea_attention_args args = layer_args(l, s->out[index]);
    for (int64_t i = test_scaled(5); i > 0; i--)
        s->bad[index] += fovea_mha_execute(s->mha, &args, NULL, 0) != FOVEA_OK ||
                         memcmp(s->out[index], s->want[index % 2], (size_t)layer_floats(l) * sizeof(float)) != 0;
}

static void check_shared(const case_contexts *x, const layer *l, const float *same) {
    fovea_mha *mha;
    if (!test_check(fovea_mha_create(x->three, &l->desc, &l->w, &mha) == FOVEA_OK, "%s", fovea_error_detail()))
        return;
    layer other = *l;
    for (int i = 0; i < 3; i++) {
        const int64_t n = l->attention.batch * layer_tokens(l, i) * l->features[i];
        other.x[i] = must_alloc(n, sizeof(float));
        for (int64_t k = 0; k < n; k++)
            other.x[i][k] = -l->x[i][n - 1 - k];
    }
    float *want = layer_run(x->one, &other, &l->desc, &l->w, "another input");
    shared s = {.l = {l, &other}, .want = {same, want}, .mha = mha};
    for (int i = 0; i < AT_ONCE; i++)
        s.out[i] = must_alloc(layer_floats(l), sizeof(float));
    test_check(fovea_parallel(x->many, AT_ONCE, execute_shared, &s) == FOVEA_OK, "%s", fovea_error_detail());
    for (int i = 0; i < AT_ONCE; i++) {
        test_check(s.bad[i] == 0, "%d executions beside others are wrong", s.bad[i]);
        free(s.out[i]);
    }
    for (int i = 0; i < 3; i++)
        free(other.x[i]);
    free(want);
    fovea_mha_destroy(mha);
}

/* Rows of an input past the lengths are not read: they hold NaN, and those of the last sequence are not even there. */
static void check_padding(const case_contexts *x, layer *l, const float *same) {
    const fovea_attention_desc *a = &l->attention;
    if (!l->kv_lens || l->desc.inputs == FOVEA_MHA_SELF)
        return;
    const int64_t last = l->kv_lens[a->batch - 1];
    guard *memory[3] = {NULL};
    float *whole[3] = {l->x[0], l->x[1], l->x[2]};
    for (int i = 1; i < 3; i++) {
        for (int64_t b = 0; b < a->batch; b++)
            poison_fill(l->x[i] + (b * a->kv_len + l->kv_lens[b]) * l->features[i],
                        (a->kv_len - l->kv_lens[b]) * l->features[i]);
        const size_t size = (size_t)(((a->batch - 1) * a->kv_len + last) * l->features[i]) * sizeof(float);
        memory[i] = guard_alloc("input", size, GUARD_END);
        memcpy(memory[i]->data, l->x[i], size);
        l->x[i] = memory[i]->data;
    }
    float *out = layer_run(x->one, l, &l->desc, &l->w, "rows past lengths");
    test_same(out, same, layer_floats(l), "rows past lengths");
    free(out);
    for (int i = 1; i < 3; i++) {
        guard_free(memory[i]);
        l->x[i] = whole[i];
    }
}

/* A layer keeps the weights that it was given. */
static void check_kept(const case_contexts *x, const layer *l) {
    const fovea_matrix *given[] = {&l->w.q, &l->w.k, &l->w.v, &l->w.o};
    const void *biases[] = {l->w.q_bias, l->w.k_bias, l->w.v_bias, l->w.o_bias};
    fovea_mha *mha;
    if (!test_check(fovea_mha_create(x->one, &l->desc, &l->w, &mha) == FOVEA_OK, "%s", fovea_error_detail()))
        return;
    const fovea_linear *linear;
    int64_t part, in, out;
    for (int i = 0; i < 4; i++) {
        const fovea_matrix *m = given[i];
        test_check(fovea_mha_linear(mha, i, &linear, &part, &in, &out) == FOVEA_OK, "%s", fovea_error_detail());
        if (!test_check(linear && in == m->in && out == m->out, "weight %d is %" PRId64 " x %" PRId64, i, in, out))
            continue;
        float *w = must_alloc(in * out, sizeof *w), *bias = must_alloc(out, sizeof *bias);
        test_check(fovea_linear_unpack(linear, part, w, bias, NULL) == FOVEA_OK, "%s", fovea_error_detail());
        int64_t wrong = 0;
        for (int64_t o = 0; o < out; o++) {
            for (int64_t k = 0; k < in; k++)
                wrong += w[o * in + k] != ((const float *)m->data)[k * m->in_stride + o * m->out_stride];
            wrong += bias[o] != (biases[i] ? ((const float *)biases[i])[o] : 0.0f);
        }
        test_check(wrong == 0, "weight %d: %" PRId64 " numbers are others than those given", i, wrong);
        free(w);
        free(bias);
    }
    check_status("which weight", fovea_mha_linear(mha, 4, &linear, &part, &in, &out), FOVEA_ERROR_ARGUMENT,
                 "from 0 to 3");
    check_status("no layer", fovea_mha_linear(NULL, 0, &linear, &part, &in, &out), FOVEA_ERROR_NULL, "mha is NULL");
    fovea_mha_destroy(mha);
}

static void test_use(const case_contexts *x, const layer_sizes *s) {
    rng r = rng_stream(test_seed(), "use");
    layer *l = layer_make(s, &r);
    float *same = layer_run(x->scalar, l, &l->desc, &l->w, "factored");
    check_reshape(x, l, same);
    check_shared(x, l, same);
    check_padding(x, l, same);
    check_kept(x, l);
    free(same);
    layer_free(l);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "mha_reuse", NULL);
    const case_contexts x = contexts_make();
    for (int i = 0; i < LAYER_SIZES; i++)
        test_use(&x, &layer_sizes_tested[i]);
    contexts_free(&x);
    return test_end();
}

/* head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) in three ways: by a layer that is given X and the matrices, by a layer
 * that is given the projected Q_i, K_i and V_i, and head by head. All three give the same bits. */
#include "paper.h"

#include <string.h>

enum { TOKENS = 5, HEADS = 4, DIM = 8, WIDTH = HEADS * DIM, ONE_HEAD = TOKENS * DIM };

static float x[TOKENS * WIDTH], w_q[WIDTH * WIDTH], w_k[WIDTH * WIDTH], w_v[WIDTH * WIDTH], w_o[WIDTH * WIDTH];

static void multiply(const fovea_context *context, const fovea_linear_part *parts, int count, fovea_tensor from,
                     const fovea_tensor *to) {
    fovea_linear *map;
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.in_features = WIDTH;
    desc.part_count = count;
    desc.parts = parts;
    args.x = from;
    args.y = to;
    must(fovea_linear_create(context, &desc, &map));
    must(fovea_linear_apply(context, map, &args, NULL, 0));
    fovea_linear_destroy(map);
}

/* Q_i, K_i and V_i of all heads: X times [W^Q W^K W^V], written head by head. */
static void project(const fovea_context *context, float *q, float *k, float *v) {
    const fovea_linear_part parts[] = {{.weight = matrix(w_q, WIDTH, WIDTH)},
                                       {.weight = matrix(w_k, WIDTH, WIDTH)},
                                       {.weight = matrix(w_v, WIDTH, WIDTH)}};
    const fovea_tensor to[] = {heads(q, HEADS, TOKENS, DIM), heads(k, HEADS, TOKENS, DIM),
                               heads(v, HEADS, TOKENS, DIM)};
    multiply(context, parts, 3, rows(x, TOKENS, WIDTH), to);
}

/* A layer that is given X, W^Q, W^K, W^V and W^O. */
static void from_inputs(const fovea_context *context, float *out) {
    layer l;
    layer_init(&l, HEADS, TOKENS, TOKENS, DIM, DIM);
    l.desc.form = FOVEA_MHA_FACTORED;
    l.desc.inputs = FOVEA_MHA_SELF;
    l.desc.q_features = l.desc.out_features = WIDTH;
    l.w.q = matrix(w_q, WIDTH, WIDTH);
    l.w.k = matrix(w_k, WIDTH, WIDTH);
    l.w.v = matrix(w_v, WIDTH, WIDTH);
    l.w.o = matrix(w_o, WIDTH, WIDTH);
    l.args.q = rows(x, TOKENS, WIDTH);
    l.args.out = rows(out, TOKENS, WIDTH);
    must(layer_run(context, &l));
}

/* A layer that is given Q_i, K_i, V_i and W^O. */
static void from_projected(const fovea_context *context, float *q, float *k, float *v, float *out) {
    layer l;
    layer_init(&l, HEADS, TOKENS, TOKENS, DIM, DIM);
    l.desc.form = FOVEA_MHA_PROJECTED;
    l.desc.inputs = FOVEA_MHA_SEPARATE;
    l.desc.out_features = WIDTH;
    l.w.o = matrix(w_o, WIDTH, WIDTH);
    l.args.q = heads(q, HEADS, TOKENS, DIM);
    l.args.k = heads(k, HEADS, TOKENS, DIM);
    l.args.v = heads(v, HEADS, TOKENS, DIM);
    l.args.out = rows(out, TOKENS, WIDTH);
    must(layer_run(context, &l));
}

/* head_i = Attention(Q_i, K_i, V_i), one call a head, then Concat(head_1 .. head_h) W^O. */
static void head_by_head(const fovea_context *context, const float *q, const float *k, const float *v, float *out) {
    float head[HEADS * ONE_HEAD];
    for (int i = 0; i < HEADS; i++) {
        const int at = i * ONE_HEAD;
        must(fovea_sdpa_f32(q + at, k + at, v + at, head + at, 1, 1, 1, TOKENS, TOKENS, DIM, DIM, FOVEA_CAUSAL_NONE));
    }
    const fovea_linear_part part = {.weight = matrix(w_o, WIDTH, WIDTH)};
    const fovea_tensor to = rows(out, TOKENS, WIDTH);
    multiply(context, &part, 1, heads(head, HEADS, TOKENS, DIM), &to);
}

int main(void) {
    static float q[HEADS * ONE_HEAD], k[HEADS * ONE_HEAD], v[HEADS * ONE_HEAD], out[3][TOKENS * WIDTH];
    static const char *const names[] = {"X and all matrices", "Q_i, K_i, V_i and W^O", "head by head, then W^O"};
    fovea_context *context;
    fill(x, TOKENS * WIDTH, 1.0f, 1);
    fill(w_q, WIDTH * WIDTH, 0.25f, 2);
    fill(w_k, WIDTH * WIDTH, 0.25f, 3);
    fill(w_v, WIDTH * WIDTH, 0.25f, 4);
    fill(w_o, WIDTH * WIDTH, 0.25f, 5);
    must(fovea_context_create(NULL, &context));
    from_inputs(context, out[0]);
    project(context, q, k, v);
    from_projected(context, q, k, v, out[1]);
    head_by_head(context, q, k, v, out[2]);
    fovea_context_destroy(context);
    for (int i = 0; i < 3; i++)
        printf("%-23s  last number %.9g\n", names[i], (double)out[i][TOKENS * WIDTH - 1]);
    const int same = memcmp(out[0], out[1], sizeof out[0]) == 0 && memcmp(out[0], out[2], sizeof out[0]) == 0;
    printf("all %d numbers of the three: %s\n", TOKENS * WIDTH, same ? "the same bits" : "not the same bits");
    return same ? 0 : 1;
}

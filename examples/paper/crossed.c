/* Which sizes must agree: layers of three inputs, each with a number of tokens and a width of its own. The library runs
 * those that the paper defines and says what is wrong with the others. */
#include "paper.h"

enum { HEADS = 2, WIDTH = 16, MOST_TOKENS = 8, MOST_WIDTH = 32 };
enum { Q, K, V, ROLES };

typedef struct sizes {
    const char *what;
    int tokens[ROLES]; /* T_q, T_k, T_v */
    int widths[ROLES]; /* channels of the inputs */
    int dims[ROLES];   /* channels of a head: d_k of queries and of keys, d_v */
} sizes;

static const sizes cases[] = {
    {"self-attention", {5, 5, 5}, {16, 16, 16}, {8, 8, 8}},
    {"fewer queries than keys", {3, 5, 5}, {16, 16, 16}, {8, 8, 8}},
    {"more queries than keys", {7, 5, 5}, {16, 16, 16}, {8, 8, 8}},
    {"inputs of three widths", {3, 5, 5}, {16, 12, 20}, {8, 8, 8}},
    {"d_v of its own", {3, 5, 5}, {16, 12, 12}, {8, 8, 6}},
    {"T_k and T_v differ", {3, 5, 4}, {16, 12, 12}, {8, 8, 8}},
    {"d_k of Q and K differ", {3, 5, 5}, {16, 12, 12}, {8, 6, 8}},
};

/* A layer of the sizes of s: W^Q, W^K and W^V take each input to the heads, W^O takes the heads to WIDTH channels. */
static fovea_status cross(const fovea_context *context, const sizes *s, float *out) {
    static float inputs[ROLES][MOST_TOKENS * MOST_WIDTH], w[ROLES][MOST_WIDTH * MOST_WIDTH], w_o[MOST_WIDTH * WIDTH];
    fill(inputs[0], ROLES * MOST_TOKENS * MOST_WIDTH, 1.0f, 1);
    fill(w[0], ROLES * MOST_WIDTH * MOST_WIDTH, 0.25f, 2);
    fill(w_o, MOST_WIDTH * WIDTH, 0.25f, 3);
    layer l;
    layer_init(&l, HEADS, s->tokens[Q], s->tokens[K], s->dims[Q], s->dims[V]);
    l.desc.form = FOVEA_MHA_FACTORED;
    l.desc.inputs = FOVEA_MHA_SEPARATE;
    l.desc.q_features = s->widths[Q];
    l.desc.k_features = s->widths[K];
    l.desc.v_features = s->widths[V];
    l.desc.out_features = WIDTH;
    l.w.q = matrix(w[Q], s->widths[Q], HEADS * s->dims[Q]);
    l.w.k = matrix(w[K], s->widths[K], HEADS * s->dims[K]);
    l.w.v = matrix(w[V], s->widths[V], HEADS * s->dims[V]);
    l.w.o = matrix(w_o, HEADS * s->dims[V], WIDTH);
    l.args.q = rows(inputs[Q], s->tokens[Q], s->widths[Q]);
    l.args.k = rows(inputs[K], s->tokens[K], s->widths[K]);
    l.args.v = rows(inputs[V], s->tokens[V], s->widths[V]);
    l.args.out = rows(out, s->tokens[Q], WIDTH);
    return layer_run(context, &l);
}

int main(void) {
    float out[MOST_TOKENS * WIDTH];
    fovea_context *context;
    must(fovea_context_create(NULL, &context));
    printf("%-24s tokens    input widths    head widths\n%-24s Q K V      Q  K  V        Q K V\n", "", "");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const sizes *s = &cases[i];
        const fovea_status status = cross(context, s, out);
        printf("%-24s %d %d %d     %2d %2d %2d        %d %d %d    ", s->what, s->tokens[Q], s->tokens[K], s->tokens[V],
               s->widths[Q], s->widths[K], s->widths[V], s->dims[Q], s->dims[K], s->dims[V]);
        if (status == FOVEA_OK)
            printf("result %d x %d\n", s->tokens[Q], WIDTH);
        else
            printf("refused: %s\n", fovea_error_detail());
    }
    fovea_context_destroy(context);
    return 0;
}

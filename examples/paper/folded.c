/* An outer matrix W^Q, then a W_i^Q for each head, likewise for K and V: as two steps, folded into one matrix by the
 * library, and folded by hand. The W_i of all heads stand side by side in one matrix, inner. */
#include "paper.h"

#include <string.h>

enum { TOKENS = 5, HEADS = 4, DIM = 8, WIDTH = HEADS * DIM, NUMBERS = WIDTH * WIDTH };
enum { Q, K, V, ROLES };

static float x[TOKENS * WIDTH], outer[ROLES][NUMBERS], inner[ROLES][NUMBERS];

static void describe(layer *l, fovea_mha_form form, float (*w)[NUMBERS], float *out) {
    layer_init(l, HEADS, TOKENS, TOKENS, DIM, DIM);
    l->desc.form = form;
    l->desc.q_features = WIDTH;
    l->w.q = matrix(w[Q], WIDTH, WIDTH);
    l->w.k = matrix(w[K], WIDTH, WIDTH);
    l->w.v = matrix(w[V], WIDTH, WIDTH);
    l->args.q = rows(x, TOKENS, WIDTH);
    l->args.out = heads(out, HEADS, TOKENS, DIM);
}

/* X W^Q, X W^K and X W^V first; what comes out is the input of a layer with the W_i. */
static int in_two_steps(const fovea_context *context, float *out) {
    static float y[ROLES][TOKENS * WIDTH];
    fovea_linear *map;
    fovea_linear_desc desc;
    fovea_linear_args args;
    fovea_linear_part parts[ROLES] = {0};
    fovea_tensor to[ROLES];
    for (int i = 0; i < ROLES; i++) {
        parts[i].weight = matrix(outer[i], WIDTH, WIDTH);
        to[i] = rows(y[i], TOKENS, WIDTH);
    }
    fovea_linear_desc_init(&desc);
    fovea_linear_args_init(&args);
    desc.in_features = WIDTH;
    desc.part_count = ROLES;
    desc.parts = parts;
    args.x = rows(x, TOKENS, WIDTH);
    args.y = to;
    must(fovea_linear_create(context, &desc, &map));
    must(fovea_linear_apply(context, map, &args, NULL, 0));
    fovea_linear_destroy(map);

    layer l;
    describe(&l, FOVEA_MHA_FACTORED, inner, out);
    l.desc.inputs = FOVEA_MHA_SEPARATE;
    l.args.q = to[Q];
    l.args.k = to[K];
    l.args.v = to[V];
    must(layer_run(context, &l));
    return ROLES * NUMBERS + layer_numbers(&l);
}

/* The library makes W^Q [W_1^Q .. W_h^Q], likewise for K and V, when the layer is made. */
static int by_the_library(const fovea_context *context, float *out) {
    layer l;
    describe(&l, FOVEA_MHA_FOLDED, inner, out);
    l.w.outer_q = matrix(outer[Q], WIDTH, WIDTH);
    l.w.outer_k = matrix(outer[K], WIDTH, WIDTH);
    l.w.outer_v = matrix(outer[V], WIDTH, WIDTH);
    must(layer_run(context, &l));
    return layer_numbers(&l);
}

/* The same by hand: what is left is an ordinary layer. */
static int by_hand(const fovea_context *context, float *out) {
    static float product[ROLES][NUMBERS];
    for (int r = 0; r < ROLES; r++)
        for (int i = 0; i < NUMBERS; i++) {
            double sum = 0;
            for (int c = 0; c < WIDTH; c++)
                sum += (double)outer[r][i / WIDTH * WIDTH + c] * inner[r][c * WIDTH + i % WIDTH];
            product[r][i] = (float)sum;
        }
    layer l;
    describe(&l, FOVEA_MHA_FACTORED, product, out);
    must(layer_run(context, &l));
    return layer_numbers(&l);
}

int main(void) {
    static float out[3][TOKENS * WIDTH];
    static const char *const names[] = {"in two steps", "folded by the library", "folded by hand"};
    int numbers[3];
    fovea_context *context;
    fill(x, TOKENS * WIDTH, 1.0f, 1);
    fill(outer[0], ROLES * NUMBERS, 0.25f, 2);
    fill(inner[0], ROLES * NUMBERS, 0.25f, 3);
    must(fovea_context_create(NULL, &context));
    numbers[0] = in_two_steps(context, out[0]);
    numbers[1] = by_the_library(context, out[1]);
    numbers[2] = by_hand(context, out[2]);
    fovea_context_destroy(context);
    for (int i = 0; i < 3; i++)
        printf("%-22s matrices of %d numbers, the last result is %.9g\n", names[i], numbers[i],
               (double)out[i][TOKENS * WIDTH - 1]);
    printf("by the library and by hand: %s\n",
           memcmp(out[1], out[2], sizeof out[1]) == 0 ? "the same bits" : "not the same bits");
    return 0;
}

/* One W for queries, keys and values, compared with a layer that is given the same matrix three times. */
#include "paper.h"

#include <string.h>

enum { TOKENS = 5, HEADS = 4, DIM = 8, WIDTH = HEADS * DIM };

static float x[TOKENS * WIDTH], w[WIDTH * WIDTH];

static void describe(layer *l, fovea_mha_form form, float *out) {
    layer_init(l, HEADS, TOKENS, TOKENS, DIM, DIM);
    l->desc.form = form;
    l->desc.q_features = WIDTH;
    l->w.q = matrix(w, WIDTH, WIDTH);
    l->args.q = rows(x, TOKENS, WIDTH);
    l->args.out = heads(out, HEADS, TOKENS, DIM);
}

int main(void) {
    static float out[2][TOKENS * WIDTH];
    fovea_context *context;
    layer three, one;
    fill(x, TOKENS * WIDTH, 1.0f, 1);
    fill(w, WIDTH * WIDTH, 0.25f, 2);
    must(fovea_context_create(NULL, &context));

    describe(&three, FOVEA_MHA_FACTORED, out[0]);
    three.w.k = three.w.v = three.w.q;
    must(layer_run(context, &three));
    describe(&one, FOVEA_MHA_TIED, out[1]);
    must(layer_run(context, &one));

    const int same = memcmp(out[0], out[1], sizeof out[0]) == 0;
    printf("three equal matrices: %d numbers\none W: %d numbers\nresults: %s\n", layer_numbers(&three),
           layer_numbers(&one), same ? "the same bits" : "not the same bits");
    one.attention.value_dim = DIM / 2;
    if (layer_run(context, &one) != FOVEA_OK)
        printf("d_v %d, d_k %d: %s\n", DIM / 2, DIM, fovea_error_detail());
    fovea_context_destroy(context);
    return same ? 0 : 1;
}

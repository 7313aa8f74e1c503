/* One W for queries, keys and values: who attends to whom, for three texts of vectors y = x W. docs/why-not-one-w.md
 * says what they show. */
#include "paper.h"

enum { MOST_TOKENS = 4, MOST_CHANNELS = 3 };

typedef struct text {
    const char *what;
    int tokens, channels;
    float y[MOST_TOKENS * MOST_CHANNELS];
} text;

static const text texts[] = {
    {"attention that is not mutual", 3, 2, {6, 0, 1.5f, 0, 0, 1}},
    {"a head that looks at the token before", 4, 3, {30, 0, 0, 15, 14, 0, 0, 7, 6, 0, 0, 3}},
    {"vectors of equal length", 3, 2, {5, 0, 4, 3, 0, 5}},
};

/* The attention weights of one head. W is the identity, so that x is y. */
static void attend(const fovea_context *context, const text *t, float *weights) {
    float x[MOST_TOKENS * MOST_CHANNELS], w[MOST_CHANNELS * MOST_CHANNELS] = {0}, out[MOST_TOKENS * MOST_CHANNELS];
    for (int i = 0; i < t->tokens * t->channels; i++)
        x[i] = t->y[i];
    for (int c = 0; c < t->channels; c++)
        w[c * t->channels + c] = 1;
    layer l;
    layer_init(&l, 1, t->tokens, t->tokens, t->channels, t->channels);
    l.desc.form = FOVEA_MHA_TIED; /* softmax(x W (x W)^T / sqrt(d_k)) x W */
    l.desc.q_features = t->channels;
    l.w.q = matrix(w, t->channels, t->channels);
    l.args.q = rows(x, t->tokens, t->channels);
    l.args.out = rows(out, t->tokens, t->channels);
    l.args.weights = rows(weights, t->tokens, t->tokens);
    must(layer_run(context, &l));
}

static void print(const text *t, const float *weights) {
    printf("%s:", t->what);
    for (int i = 0; i < t->tokens; i++)
        for (int c = 0; c < t->channels; c++)
            printf("%s%g%s", c == 0 ? " (" : ", ", (double)t->y[i * t->channels + c], c == t->channels - 1 ? ")" : "");
    printf("\n       ");
    for (int j = 0; j < t->tokens; j++)
        printf("   to %d", j + 1);
    for (int i = 0; i < t->tokens; i++) {
        printf("\ntoken %d", i + 1);
        for (int j = 0; j < t->tokens; j++)
            printf("  %.3f", (double)weights[i * t->tokens + j]);
    }
    printf("\n");
}

int main(void) {
    fovea_context *context;
    must(fovea_context_create(NULL, &context));
    for (size_t n = 0; n < sizeof texts / sizeof texts[0]; n++) {
        const text *t = &texts[n];
        float weights[MOST_TOKENS * MOST_TOKENS];
        if (n > 0)
            printf("\n");
        attend(context, t, weights);
        print(t, weights);
    }
    fovea_context_destroy(context);
    return 0;
}

/* Decoding: a layer whose keys and values grow with each token. A prompt goes in at once, then token after token; each
 * step projects its tokens, writes their keys and values behind those of earlier steps, and attends over all of them.
 * Eight query heads share two key heads.
 *
 * The cache has room for the longest text. Layers are made for that length, once, and kv_lens says how much is filled:
 * no plan is made and nothing is allocated while tokens come. A token's result has the same bits as if the whole text
 * had gone through the layer at once, which main() compares. */
#include <fovea/fovea.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 5, TOKENS = 12, MOST_TOKENS = 64, HEADS = 8, KV_HEADS = 2, DIM = 16, WIDTH = HEADS * DIM };

/* As a checkpoint has them: [out, in]. */
typedef struct checkpoint {
    float q[WIDTH * WIDTH], k[KV_HEADS * DIM * WIDTH], v[KV_HEADS * DIM * WIDTH], o[WIDTH * WIDTH];
} checkpoint;

typedef struct decoder {
    fovea_context *context;
    fovea_linear *project;           /* a token's query, key and value heads, in one product */
    fovea_mha *prompt, *token, *all; /* attention over the cache, and a shared W^O, by numbers of tokens */
    float *queries;                  /* [HEADS][tokens of a step][DIM] */
    fovea_tensor keys, values;       /* [1, KV_HEADS, MOST_TOKENS, DIM], of which the first filled tokens are there */
    int64_t filled;
    void *workspace;
    size_t workspace_size; /* as the hungriest of the steps needs */
} decoder;

static fovea_status make_projections(decoder *d, const checkpoint *c) {
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    const fovea_linear_part parts[] = {
        {.weight = fovea_matrix_out_in(c->q, FOVEA_DTYPE_F32, HEADS * DIM, WIDTH)},
        {.weight = fovea_matrix_out_in(c->k, FOVEA_DTYPE_F32, KV_HEADS * DIM, WIDTH)},
        {.weight = fovea_matrix_out_in(c->v, FOVEA_DTYPE_F32, KV_HEADS * DIM, WIDTH)},
    };
    desc.in_features = WIDTH;
    desc.part_count = 3;
    desc.parts = parts;
    return fovea_linear_create(d->context, &desc, &d->project);
}

/* Attention over heads that are there already, and W^O. */
static fovea_status make_layers(decoder *d, const checkpoint *c) {
    fovea_mha_desc desc;
    fovea_attention_desc attention;
    fovea_mha_weights weights;
    fovea_mha_desc_init(&desc);
    fovea_attention_desc_init(&attention);
    fovea_mha_weights_init(&weights);
    desc.form = FOVEA_MHA_PROJECTED;
    desc.inputs = FOVEA_MHA_SEPARATE;
    desc.out_features = WIDTH;
    desc.attention = &attention;
    attention.q_heads = HEADS;
    attention.kv_heads = KV_HEADS;
    attention.q_len = PROMPT;
    attention.kv_len = MOST_TOKENS;
    attention.head_dim = attention.value_dim = DIM;
    attention.causal = FOVEA_CAUSAL_BOTTOM_RIGHT; /* the last query sees the last key that kv_lens leaves */
    weights.o = fovea_matrix_out_in(c->o, FOVEA_DTYPE_F32, WIDTH, WIDTH);
    fovea_status status = fovea_mha_create(d->context, &desc, &weights, &d->prompt);
    if (status == FOVEA_OK)
        status = fovea_mha_reshape(d->prompt, 1, 1, MOST_TOKENS, &d->token);
    if (status == FOVEA_OK)
        status = fovea_mha_reshape(d->prompt, 1, TOKENS, MOST_TOKENS, &d->all);
    return status;
}

static fovea_status make_workspace(decoder *d) {
    const size_t sizes[] = {fovea_linear_apply_workspace_size(d->context, d->project),
                            fovea_mha_workspace_size(d->prompt), fovea_mha_workspace_size(d->token),
                            fovea_mha_workspace_size(d->all)};
    for (int i = 0; i < 4; i++)
        d->workspace_size = sizes[i] > d->workspace_size ? sizes[i] : d->workspace_size;
    d->workspace = malloc(d->workspace_size + 1);
    return d->workspace ? FOVEA_OK : FOVEA_ERROR_OUT_OF_MEMORY;
}

/* One step: count tokens, as rows of x, which the layer was made for; y likewise. */
static fovea_status step(decoder *d, const fovea_mha *layer, float *x, int64_t count, float *y) {
    const fovea_tensor heads[] = {
        fovea_tensor_bhtd(d->queries, FOVEA_DTYPE_F32, 1, HEADS, count, DIM),
        fovea_tensor_tokens(d->keys, d->filled, count),
        fovea_tensor_tokens(d->values, d->filled, count),
    };
    fovea_linear_args project;
    fovea_linear_args_init(&project);
    project.x = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, 1, 1, count, WIDTH);
    project.y = heads;
    fovea_status status = fovea_linear_apply(d->context, d->project, &project, d->workspace, d->workspace_size);
    if (status != FOVEA_OK)
        return status;
    d->filled += count;

    fovea_attention_args attend;
    fovea_attention_args_init(&attend);
    attend.q = heads[0];
    attend.k = d->keys; /* whole: what lies past kv_lens is not read */
    attend.v = d->values;
    attend.kv_lens = &d->filled;
    attend.out = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, 1, 1, count, WIDTH);
    return fovea_mha_execute(layer, &attend, d->workspace, d->workspace_size);
}

/* Stands for a checkpoint and for embeddings: numbers in [-1/8, 1/8), the same on every machine. */
static void fill(float *x, int count, uint32_t seed) {
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-26f - 0.125f;
    }
}

int main(void) {
    static checkpoint c;
    static float x[TOKENS * WIDTH], y[TOKENS * WIDTH], whole[TOKENS * WIDTH];
    static float queries[HEADS * TOKENS * DIM], keys[KV_HEADS * MOST_TOKENS * DIM],
        values[KV_HEADS * MOST_TOKENS * DIM];
    decoder d = {.queries = queries,
                 .keys = fovea_tensor_bhtd(keys, FOVEA_DTYPE_F32, 1, KV_HEADS, MOST_TOKENS, DIM),
                 .values = fovea_tensor_bhtd(values, FOVEA_DTYPE_F32, 1, KV_HEADS, MOST_TOKENS, DIM)};
    fill(c.q, WIDTH * WIDTH, 1);
    fill(c.k, KV_HEADS * DIM * WIDTH, 2);
    fill(c.v, KV_HEADS * DIM * WIDTH, 3);
    fill(c.o, WIDTH * WIDTH, 4);
    fill(x, TOKENS * WIDTH, 5);

    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads_backend = FOVEA_THREADS_POOL; /* idle threads sleep: other programs may want the CPUs */
    fovea_status status = fovea_context_create(&options, &d.context);
    if (status == FOVEA_OK)
        status = make_projections(&d, &c);
    if (status == FOVEA_OK)
        status = make_layers(&d, &c);
    if (status == FOVEA_OK)
        status = make_workspace(&d);
    if (status == FOVEA_OK)
        status = step(&d, d.prompt, x, PROMPT, y);
    for (int t = PROMPT; t < TOKENS && status == FOVEA_OK; t++)
        status = step(&d, d.token, x + t * WIDTH, 1, y + t * WIDTH);
    d.filled = 0; /* the same text at once */
    if (status == FOVEA_OK)
        status = step(&d, d.all, x, TOKENS, whole);
    if (status != FOVEA_OK)
        fprintf(stderr, "%s (%s)\n", fovea_error_detail(), fovea_status_name(status));
    const int same = memcmp(y, whole, sizeof y) == 0;
    if (status == FOVEA_OK)
        printf("token %d becomes %.9g ... %.9g\nthe same bits as all %d at once: %s\n", TOKENS, y[(TOKENS - 1) * WIDTH],
               y[TOKENS * WIDTH - 1], TOKENS, same ? "yes" : "no");
    free(d.workspace);
    fovea_mha_destroy(d.all);
    fovea_mha_destroy(d.token);
    fovea_mha_destroy(d.prompt);
    fovea_linear_destroy(d.project);
    fovea_context_destroy(d.context);
    return status == FOVEA_OK && same ? 0 : 1;
}

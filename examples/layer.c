/* A layer of self-attention as a PyTorch program stores it: in_proj_weight, in_proj_bias, out_proj.weight and
 * out_proj.bias of nn.MultiheadAttention, as they are. Two prompts of different length, padded to the longer one, go
 * through it causally. */
#include <fovea/fovea.h>

#include <stdio.h>

enum { BATCH = 2, TOKENS = 6, HEADS = 4, WIDTH = 32 };

typedef struct torch_weights {
    float in_proj_weight[3 * WIDTH * WIDTH], in_proj_bias[3 * WIDTH]; /* of queries, then keys, then values */
    float out_proj_weight[WIDTH * WIDTH], out_proj_bias[WIDTH];
} torch_weights;

/* Once for a model: the weights are packed, and no longer needed afterwards. */
static fovea_status make_layer(const fovea_context *context, const torch_weights *torch, fovea_mha **layer) {
    fovea_mha_desc desc;
    fovea_attention_desc attention;
    fovea_mha_weights weights;
    fovea_mha_desc_init(&desc);
    fovea_attention_desc_init(&attention);
    fovea_mha_weights_init(&weights);
    desc.form = FOVEA_MHA_FUSED;
    desc.inputs = FOVEA_MHA_SELF;
    desc.q_features = desc.out_features = WIDTH;
    desc.biases = 1;
    desc.attention = &attention;
    attention.batch = BATCH;
    attention.q_heads = attention.kv_heads = HEADS;
    attention.q_len = attention.kv_len = TOKENS; /* the longest */
    attention.head_dim = attention.value_dim = WIDTH / HEADS;
    attention.causal = FOVEA_CAUSAL_TOP_LEFT;
    weights.fused = fovea_matrix_out_in(torch->in_proj_weight, FOVEA_DTYPE_F32, 3 * WIDTH, WIDTH);
    weights.fused_bias = torch->in_proj_bias;
    weights.o = fovea_matrix_out_in(torch->out_proj_weight, FOVEA_DTYPE_F32, WIDTH, WIDTH);
    weights.o_bias = torch->out_proj_bias;
    return fovea_mha_create(context, &desc, &weights, layer);
}

/* x and y are [batch][token][channel]; of sequence b there are lens[b] tokens, the rest of x may hold anything. */
static fovea_status run_layer(const fovea_mha *layer, float *x, const int64_t *lens, float *y) {
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(x, FOVEA_DTYPE_F32, BATCH, 1, TOKENS, WIDTH); /* of keys and values, too */
    args.q_lens = args.kv_lens = lens;
    args.out = fovea_tensor_bhtd(y, FOVEA_DTYPE_F32, BATCH, 1, TOKENS, WIDTH);
    return fovea_mha_execute(layer, &args, NULL, 0);
}

/* Stands for a checkpoint and for embeddings: numbers in [-1, 1), the same on every machine. */
static void fill(float *x, int count, uint32_t seed) {
    for (int i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f;
    }
}

int main(void) {
    static torch_weights torch;
    static float x[BATCH * TOKENS * WIDTH], y[BATCH * TOKENS * WIDTH];
    const int64_t lens[BATCH] = {TOKENS, 4};
    fovea_context *context = NULL;
    fovea_mha *layer = NULL;
    fill(torch.in_proj_weight, 3 * WIDTH * WIDTH, 1);
    fill(torch.in_proj_bias, 3 * WIDTH, 2);
    fill(torch.out_proj_weight, WIDTH * WIDTH, 3);
    fill(torch.out_proj_bias, WIDTH, 4);
    fill(x, BATCH * TOKENS * WIDTH, 5);

    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads_backend = FOVEA_THREADS_POOL; /* idle threads sleep: other programs may want the CPUs */
    fovea_status status = fovea_context_create(&options, &context);
    if (status == FOVEA_OK)
        status = make_layer(context, &torch, &layer);
    if (status == FOVEA_OK)
        status = run_layer(layer, x, lens, y);
    if (status != FOVEA_OK)
        fprintf(stderr, "%s (%s)\n", fovea_error_detail(), fovea_status_name(status));
    for (int b = 0; b < BATCH && status == FOVEA_OK; b++) {
        const float *last = y + (b * TOKENS + lens[b] - 1) * WIDTH;
        printf("prompt %d: token %d of %d becomes %.9g ... %.9g\n", b, (int)lens[b], TOKENS, last[0], last[WIDTH - 1]);
    }
    fovea_mha_destroy(layer);
    fovea_context_destroy(context);
    return status == FOVEA_OK ? 0 : 1;
}

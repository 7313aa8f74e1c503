/* Recurrences in the sizes of Qwen3-Next (the delta rule, convolution), Granite 4 (Mamba 2) and Falcon-Mamba (Mamba 1).
 * A graph has several layers, each with operands of its own: states of few tokens come from the last cache or memory,
 * as a model's do. Results share one place, as an allocator of graphs gives it to them. */
#include "bench.h"

#include <stdio.h>
#include <string.h>

typedef struct ggml_tensor tensor;

static tensor *input(struct ggml_context *ctx, int64_t n0, int64_t n1, int64_t n2) {
    return ggml_new_tensor_3d(ctx, GGML_TYPE_F32, n0, n1, n2);
}

static tensor *delta(struct ggml_context *ctx, int64_t tokens) {
    enum { CHANNELS = 128, HEADS = 32, KEY_HEADS = 16 };
    return ggml_gated_delta_net(ctx, input(ctx, CHANNELS, KEY_HEADS, tokens), input(ctx, CHANNELS, KEY_HEADS, tokens),
                                input(ctx, CHANNELS, HEADS, tokens), input(ctx, 1, HEADS, tokens),
                                input(ctx, 1, HEADS, tokens), input(ctx, CHANNELS, CHANNELS, HEADS), 1);
}

static tensor *scan(struct ggml_context *ctx, int64_t tokens, int64_t rows, int64_t channels, int64_t heads,
                    int64_t rates) {
    return ggml_ssm_scan(ctx, input(ctx, rows, channels, heads), input(ctx, channels, heads, tokens),
                         input(ctx, heads, tokens, 1), input(ctx, rates, heads, 1), input(ctx, rows, 1, tokens),
                         input(ctx, rows, 1, tokens), ggml_new_tensor_1d(ctx, GGML_TYPE_I32, 1), 1);
}

static tensor *mamba2(struct ggml_context *ctx, int64_t tokens) { return scan(ctx, tokens, 128, 64, 128, 1); }

static tensor *mamba1(struct ggml_context *ctx, int64_t tokens) { return scan(ctx, tokens, 16, 1, 8192, 16); }

static tensor *convolve(struct ggml_context *ctx, int64_t tokens) {
    enum { TAPS = 4, CHANNELS = 8192 };
    return ggml_ssm_conv(ctx, input(ctx, TAPS - 1 + tokens, CHANNELS, 1), input(ctx, TAPS, CHANNELS, 1));
}

enum { MOST_SOURCES = 6 };

/* Operands are even in [low, high): states neither grow nor vanish. */
static const struct recurrence {
    const char *name;
    tensor *(*build)(struct ggml_context *ctx, int64_t tokens);
    float range[MOST_SOURCES][2];
} recurrences[] = {
    {"delta rule, 32 heads of 128 x 128", delta, {{-0.1f, 0.1f}, {-0.1f, 0.1f}, {-1, 1}, {-1, 0}, {0, 1}, {-1, 1}}},
    {"Mamba 2, 128 heads of 128 x 64", mamba2, {{-1, 1}, {-1, 1}, {-1, 1}, {-2, 0}, {-1, 1}, {-1, 1}}},
    {"Mamba 1, 8192 channels of 16", mamba1, {{-1, 1}, {-1, 1}, {-1, 1}, {-2, 0}, {-1, 1}, {-1, 1}}},
    {"convolution, 8192 channels, 4 taps", convolve, {{-1, 1}, {-1, 1}}},
};

static void fill(tensor *t, const float range[2]) {
    uint64_t seed = 1;
    for (int64_t i = 0; i < ggml_nelements(t); i++)
        ((float *)t->data)[i] = range[0] + (range[1] - range[0]) * (random_float(&seed) + 1) / 2;
}

static bench_result measure(const bench *b, const struct recurrence *r, int64_t tokens) {
    const int layers = b->layers ? b->layers : tokens < 64 ? 8 : 1;
    struct ggml_context *ctx = ggml_init((struct ggml_init_params){
        .mem_size = 16 * (size_t)layers * ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true});
    struct ggml_cgraph *graph = ggml_new_graph(ctx);
    for (int i = 0; i < layers; i++)
        ggml_build_forward_expand(graph, r->build(ctx, tokens));
    ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    ggml_backend_buffer_clear(buffer, 0);
    for (int i = 1; i < ggml_graph_n_nodes(graph); i++)
        ggml_graph_node(graph, i)->data = ggml_graph_node(graph, 0)->data;
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++)
        for (int j = 0; j < MOST_SOURCES && ggml_graph_node(graph, i)->src[j]; j++)
            fill(ggml_graph_node(graph, i)->src[j], r->range[j]);
    const bench_result result = bench_measure(b, &(bench_side){.backend = b->cpu, .graphs = &graph},
                                              &(bench_side){.backend = b->fovea, .graphs = &graph}, 1);
    ggml_backend_buffer_free(buffer);
    ggml_free(ctx);
    return result;
}

void bench_recurrences(const bench *b) {
    static const int64_t tokens[] = {1, 4, 64, 512};
    for (size_t r = 0; r < sizeof recurrences / sizeof recurrences[0]; r++)
        for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
            if ((b->only && strncmp(recurrences[r].name, b->only, strlen(b->only)) != 0) || (b->tokens && i > 0))
                continue;
            const int64_t n = b->tokens ? b->tokens : tokens[i];
            printf("%s, tokens %3lld: ", recurrences[r].name, (long long)n);
            const bench_result result = measure(b, &recurrences[r], n);
            bench_print(&result);
        }
}

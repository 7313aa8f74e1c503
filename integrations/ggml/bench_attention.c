/* Attention, with a causal mask and keys and values in a cache whose tokens are outermost. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

bench_result bench_attend(const bench *b, const problem *p) {
    problem_tensors s = problem_make(p);
    const bench_result result = bench_measure(b, &(bench_side){.backend = b->cpu, .graphs = &s.graph},
                                              &(bench_side){.backend = b->fovea, .graphs = &s.graph}, 1);
    problem_free(&s);
    return result;
}

/* A graph of attentions, each of them between two operations, allocated by a scheduler of these backends. */
static ggml_backend_sched_t schedule(const problem_tensors *s, ggml_backend_t *backends, int count,
                                     struct ggml_context *ctx, struct ggml_cgraph **graph) {
    enum { ATTENTIONS = 8 };
    *graph = ggml_new_graph(ctx);
    for (int i = 0; i < ATTENTIONS; i++) {
        struct ggml_tensor *out = ggml_flash_attn_ext(ctx, s->q, s->k, s->v, s->mask, 0.125f, 0, 0);
        ggml_build_forward_expand(*graph, ggml_scale(ctx, out, 2));
    }
    ggml_backend_sched_t sched = ggml_backend_sched_new(backends, NULL, count, GGML_DEFAULT_GRAPH_SIZE, false, true);
    if (!ggml_backend_sched_alloc_graph(sched, *graph)) {
        fprintf(stderr, "no memory for a graph\n");
        exit(1);
    }
    return sched;
}

bench_result bench_attend_between(const bench *b, const problem *p) {
    problem_tensors s = problem_make(p);
    ggml_backend_t backends[] = {b->fovea, b->cpu};
    struct ggml_context *ctx[2];
    struct ggml_cgraph *graph[2];
    bench_side sides[2]; /* without ours, and with it */
    for (int i = 0; i < 2; i++) {
        ctx[i] = ggml_init((struct ggml_init_params){.mem_size = 32 * ggml_tensor_overhead() + ggml_graph_overhead(),
                                                     .no_alloc = true});
        sides[i] = (bench_side){.backend = b->cpu, .graphs = &graph[i]};
        sides[i].sched = schedule(&s, backends + 1 - i, i + 1, ctx[i], &graph[i]);
    }
    const bench_result result = bench_measure(b, &sides[0], &sides[1], 1);
    for (int i = 0; i < 2; i++) {
        ggml_backend_sched_free(sides[i].sched);
        ggml_free(ctx[i]);
    }
    problem_free(&s);
    return result;
}

void bench_attention(const bench *b) {
    static const struct {
        int64_t head_dim, heads, kv_heads;
    } models[] = {{128, 32, 8}, {64, 9, 3}, {256, 8, 4}, {64, 12, 12}};
    static const int64_t rows[] = {1, 2, 4, 8, 16, 32, 63, 64, 128, 512}, keys[] = {32, 256, 512, 2048, 8192};
    const enum ggml_type type = b->type == GGML_TYPE_COUNT ? GGML_TYPE_F16 : b->type;
    for (size_t m = 0; m < (b->quick ? 2 : sizeof models / sizeof models[0]); m++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
            for (size_t j = 0; j < sizeof keys / sizeof keys[0]; j++) {
                if (rows[i] > keys[j] || rows[i] * keys[j] > (b->quick ? 128 << 12 : 512 << 13))
                    continue;
                const problem p = {.head_dim = models[m].head_dim,
                                   .value_dim = models[m].head_dim,
                                   .heads = models[m].heads,
                                   .kv_heads = models[m].kv_heads,
                                   .rows = rows[i],
                                   .keys = keys[j],
                                   .batch = 1,
                                   .k_type = type,
                                   .v_type = type,
                                   .mask = MASK_CAUSAL,
                                   .views = 1};
                printf("%-5s D %3lld heads %2lld/%2lld rows %3lld keys %4lld: ", ggml_type_name(type),
                       (long long)p.head_dim, (long long)p.heads, (long long)p.kv_heads, (long long)p.rows,
                       (long long)p.keys);
                const bench_result result = bench_attend(b, &p);
                bench_print(&result);
            }
}

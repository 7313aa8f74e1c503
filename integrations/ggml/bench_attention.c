/* Attention, with a causal mask and keys and values in a cache whose tokens are outermost. */
#include "bench.h"

#include <stdio.h>

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
                solved s = problem_make(&p);
                printf("%-5s D %3lld heads %2lld/%2lld rows %3lld keys %4lld: ", ggml_type_name(type),
                       (long long)p.head_dim, (long long)p.heads, (long long)p.kv_heads, (long long)p.rows,
                       (long long)p.keys);
                bench_time(b, &s.graph, &s.graph, 1);
                problem_free(&s);
            }
}

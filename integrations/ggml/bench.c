/* Times operations in ggml, computed by its CPU backend and by this one, in turns:
 *     ggml-fovea-bench attention|products|experts|recurrences [--threads N] [--rounds N] [--type q8_0] [--quick]
 *         recurrences: [--only NAME] [--tokens N] [--layers N]
 * A line a shape: median microseconds of each, and twice the median of the ratios of neighbouring turns: of the first
 * half of the rounds, and of the second. To time it with another build of ggml, set LD_LIBRARY_PATH. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum ggml_type type_named(const char *name) {
    for (int type = 0; type < GGML_TYPE_COUNT; type++)
        if (ggml_type_name(type) && !strcmp(ggml_type_name(type), name))
            return type;
    fprintf(stderr, "no type %s\n", name);
    exit(2);
}

int main(int argc, char **argv) {
    int threads = 1;
    bench b = {.rounds = BENCH_MOST_ROUNDS, .weight_bytes = 3e8, .graph_operations = 1.5e9, .type = GGML_TYPE_COUNT};
    static const struct {
        const char *name;
        void (*run)(const bench *b);
    } parts[] = {{"attention", bench_attention},
                 {"products", bench_products},
                 {"experts", bench_products},
                 {"recurrences", bench_recurrences}};
    enum { PARTS = sizeof parts / sizeof parts[0] };
    int part = 0;
    while (part < PARTS && (argc < 2 || strcmp(argv[1], parts[part].name)))
        part++;
    bool known = part < PARTS;
    for (int i = 2; known && i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--quick")) {
            b.quick = true;
            continue;
        }
        if (!strcmp(argv[i], "--threads"))
            known = (threads = atoi(value)) > 0;
        else if (!strcmp(argv[i], "--rounds"))
            known = (b.rounds = atoi(value)) >= BENCH_LEAST_ROUNDS && b.rounds <= BENCH_MOST_ROUNDS;
        else if (!strcmp(argv[i], "--type"))
            b.type = type_named(value);
        else if (!strcmp(argv[i], "--only"))
            b.only = value;
        else if (!strcmp(argv[i], "--tokens"))
            known = (b.tokens = atoi(value)) > 0;
        else if (!strcmp(argv[i], "--layers"))
            known = (b.layers = atoi(value)) > 0;
        else
            known = false;
        i++;
    }
    if (!known) {
        fprintf(stderr,
                "usage: %s attention|products|experts|recurrences [--threads N] [--rounds %d...%d] [--type q8_0] "
                "[--quick] [--only NAME] [--tokens N] [--layers N]\n",
                argv[0], BENCH_LEAST_ROUNDS, BENCH_MOST_ROUNDS);
        return 2;
    }
    b.experts = !strcmp(argv[1], "experts");
    bench_begin(&b, threads);
    printf("ggml %s, %d thread%s\n", ggml_version(), threads, threads == 1 ? "" : "s");
    parts[part].run(&b);
    bench_end(&b);
    return 0;
}

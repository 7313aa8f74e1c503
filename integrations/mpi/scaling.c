/* What ranks gain, by the cost model of libfovea_mpi, from measured speeds of a host and of a network. Runs without MPI.
 * One layer's attention: a causal prompt of so many tokens, or with --decode one query with so many keys.
 *     fovea-scaling --tokens 131072 --flops 3.8e12 --key-bytes 1.5e11 --copy 1e10 --gbits 25 --latency 2e-5
 * --flops, --key-bytes and --copy are those of a rank with all its threads; fovea-mpi-bench prints those of
 * one thread here, and of messages between two ranks. docs/scaling.md explains the columns. */
#include "plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS, CHANNELS, FLOPS, KEY_BYTES, CALL, LATENCY, GBITS, COPY, FLIGHT, OPTIONS };

static struct {
    const char *name;
    double value;
} options[OPTIONS] = {
    [TOKENS] = {"--tokens", 131072}, [CHANNELS] = {"--channels", 128},
    [FLOPS] = {"--flops", 3.8e12},   [KEY_BYTES] = {"--key-bytes", 1.5e11},
    [CALL] = {"--call", 2e-5},       [LATENCY] = {"--latency", 2e-5},
    [GBITS] = {"--gbits", 25},       [COPY] = {"--copy", 1e10},
    [FLIGHT] = {"--in-flight", 0},
};
static const struct {
    const char *name;
    fovea_dtype dtype;
} types[] = {{"f32", FOVEA_DTYPE_F32}, {"bf16", FOVEA_DTYPE_BF16}, {"f16", FOVEA_DTYPE_F16}};

/* False: it is no option, or its value is none. */
static bool read_option(const char *name, const char *value, fovea_attention_desc *d, const char **ranks) {
    int used = 0;
    long long heads[2];
    for (int i = 0; i < OPTIONS; i++) {
        if (strcmp(name, options[i].name) != 0)
            continue;
        const bool number = sscanf(value, "%lf%n", &options[i].value, &used) == 1 && !value[used];
        return number && options[i].value > 0 && options[i].value < (i == TOKENS || i == CHANNELS ? 1e9 : 1e30);
    }
    for (size_t i = 0; strcmp(name, "--type") == 0 && i < sizeof types / sizeof types[0]; i++)
        if (strcmp(value, types[i].name) == 0)
            return d->dtype = types[i].dtype, true;
    if (strcmp(name, "--ranks") == 0)
        return *ranks = value, true;
    if (strcmp(name, "--heads") != 0 || sscanf(value, "%lld,%lld%n", &heads[0], &heads[1], &used) != 2 || value[used])
        return false;
    d->q_heads = heads[0];
    d->kv_heads = heads[1];
    return heads[1] > 0 && heads[0] > 0 && heads[0] < 1 << 20 && heads[0] % heads[1] == 0;
}

static void usage(void) {
    fprintf(stderr, "usage: fovea-scaling [--decode] [--tokens N] [--heads QUERY,KEY] [--channels N] "
                    "[--type f32|bf16|f16]\n"
                    "                     [--flops F] [--key-bytes B] [--call S] [--copy B] [--latency S] [--gbits G]\n"
                    "                     [--in-flight N] [--ranks N,N,...]\n");
    exit(2);
}

int main(int argc, char **argv) {
    const char *ranks = "1,2,4,8,16,32,64,128,256,512";
    fv_mpi_problem p = {.queries = FOVEA_MPI_QUERIES_DEALT};
    fovea_attention_desc *d = &p.desc;
    fovea_attention_desc_init(d);
    d->q_heads = 32, d->kv_heads = 8, d->dtype = FOVEA_DTYPE_BF16;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--decode") == 0)
            p.queries = FOVEA_MPI_QUERIES_REPLICATED;
        else if (i + 1 == argc || !read_option(argv[i], argv[i + 1], d, &ranks))
            usage();
        else
            i++;
    }
    const bool decode = p.queries == FOVEA_MPI_QUERIES_REPLICATED;
    d->kv_len = (int64_t)options[TOKENS].value;
    d->q_len = decode ? 1 : d->kv_len;
    d->causal = decode ? FOVEA_CAUSAL_NONE : FOVEA_CAUSAL_TOP_LEFT;
    d->head_dim = d->value_dim = (int64_t)options[CHANNELS].value;
    d->k_dtype = d->v_dtype = d->out_dtype = d->dtype;
    p.costs = (fovea_mpi_costs){sizeof p.costs,      options[FLOPS].value,   options[KEY_BYTES].value,
                                options[CALL].value, options[LATENCY].value, options[GBITS].value / 8 * 1e9,
                                options[COPY].value};
    const fv_mpi_choice given = {.in_flight = (int64_t)options[FLIGHT].value};
    double one = 0, last = 0;
    printf(" ranks    seconds  times one  efficiency  gain  method  stripe  block\n");
    for (const char *at = ranks; *at;) {
        char *end;
        const long n = strtol(at, &end, 10);
        if (end == at || n < 1 || n > 1 << 16 || (*end && *end != ','))
            usage();
        at = *end ? end + 1 : end;
        p.ranks = (int)n;
        fv_mpi_choice choice;
        double seconds;
        if (one == 0) {
            const int64_t all = p.ranks;
            p.ranks = 1;
            if (!fv_mpi_choose(&p, &given, &choice, &one))
                return fprintf(stderr, "fovea-scaling: out of memory\n"), 1;
            p.ranks = (int)all;
            last = one;
        }
        if (!fv_mpi_choose(&p, &given, &choice, &seconds))
            return fprintf(stderr, "fovea-scaling: out of memory\n"), 1;
        printf("%6ld %10.6f %10.2f %11.2f %5.2f  %-6s %7lld %6lld x %lld\n", n, seconds, one / seconds,
               one / seconds / (double)n, last / seconds, choice.method == FOVEA_MPI_METHOD_PASS ? "pass" : "gather",
               (long long)choice.stripe_segments, (long long)choice.block_queries, (long long)choice.block_kv_heads);
        fflush(stdout);
        last = seconds;
    }
    return 0;
}

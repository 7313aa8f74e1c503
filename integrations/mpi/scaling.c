/* The speedup of ranks, by the cost model of libfovea_mpi, from measured speeds of a host and of a network. Runs
 * without MPI. One layer's attention: a causal prompt of --tokens, or with --decode one query with that many keys.
 *     fovea-scaling --tokens 131072 --flops 3.8e12 --key-bytes 1.5e11 --copy 1e10 --gbits 25 --latency 2e-5
 * --flops, --key-bytes and --copy are those of a rank with all its threads; fovea-mpi-bench prints those of
 * one thread here, and of messages between two ranks. docs/scaling.md explains the columns. */
#include "cli.h"
#include "heuristics.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    const char *ranks;
    int64_t tokens, channels, in_flight, heads[2];
    double flops, key_bytes, call, copy, latency, gbits;
    int type; /* of types */
    bool decode;
} settings;

static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};

static bool read_speed(void *at, const char *text, const cli_option *option) {
    return cli_read_real(at, text, option) && *(double *)at > 0;
}

static bool read_heads(void *at, const char *text, const cli_option *option) {
    int64_t *heads = at;
    long long q, kv;
    int used = 0;
    if (sscanf(text, "%lld,%lld%n", &q, &kv, &used) != 2 || text[used])
        return false;
    heads[0] = q;
    heads[1] = kv;
    return kv > 0 && q > 0 && q <= option->most && q % kv == 0;
}

/* The number at *at, which is moved behind its comma; 0: there is none. */
static int next_ranks(const char **at) {
    char *end;
    const long n = strtol(*at, &end, 10);
    if (end == *at || n < 1 || n > 1 << 16 || (*end && *end != ','))
        return 0;
    *at = *end ? end + 1 : end;
    return (int)n;
}

static bool read_ranks(void *at, const char *text, const cli_option *option) {
    if (!cli_read_text(at, text, option))
        return false;
    while (*text)
        if (!next_ranks(&text))
            return false;
    return true;
}

#define AT(field) offsetof(settings, field), 1

/* -1, or what the program ends with. */
static int read_settings(int argc, char **argv, settings *s) {
    enum { SECONDS = 1000, NUMBER = 1000000000 };
    const int64_t speed = (int64_t)1 << 62;
    const cli_option table[] = {
        {"--decode", NULL, NULL, NULL, 0, 0, AT(decode), "one query, not a prompt"},
        {"--tokens", "N", "131072", cli_read_number, 1, NUMBER, AT(tokens), "keys of the sequence (default: 131072)"},
        {"--heads", "HEADS", "@text 32,8", read_heads, 1, 1 << 20, AT(heads), "of queries and of keys (default: 32,8)"},
        {"--channels", "N", "128", cli_read_number, 1, NUMBER, AT(channels), "of a head (default: 128)"},
        {"--type", "TYPE", "f32 bf16 f16", cli_read_choice, 0, 0, AT(type), "of all tensors (default: bf16)"},
        {"--flops", "F", "3.8e12", read_speed, 0, speed, AT(flops), "of a rank, a second (default: 3.8e12)"},
        {"--key-bytes", "B", "1.5e11", read_speed, 0, speed, AT(key_bytes),
         "that a rank reads a second (default: 1.5e11)"},
        {"--call", "S", "2e-5", read_speed, 0, SECONDS, AT(call), "seconds of a call besides (default: 2e-5)"},
        {"--copy", "B", "1e10", read_speed, 0, speed, AT(copy), "that a rank copies a second (default: 1e10)"},
        {"--latency", "S", "2e-5", read_speed, 0, SECONDS, AT(latency), "seconds of a message (default: 2e-5)"},
        {"--gbits", "G", "25", read_speed, 0, speed, AT(gbits), "10^9 bits of a message a second (default: 25)"},
        {"--in-flight", "N", "18", cli_read_number, 1, 1 << 20, AT(in_flight),
         "blocks under way (default: 2 for each rank, and 2)"},
        {"--ranks", "RANKS", "@text 1,8,32", read_ranks, 0, 0, AT(ranks),
         "a line for each (default: 1,2,4,8,16,32,64,128,256,512)"},
    };
    static const cli_command command = {
        "", 1, 0, 0, "", "--tokens 131072 --gbits 200", "predict what ranks gain, by the cost model of libfovea_mpi"};
    static const cli_kind kinds[] = {{"HEADS", "heads of queries, a comma, and heads of keys that divide them"},
                                     {"RANKS", "numbers from 1 to 65536, parted by commas"},
                                     {"F", "a speed above 0"},
                                     {"B", "a speed above 0"},
                                     {"G", "a speed above 0"},
                                     {"S", "seconds above 0"}};
    const cli program = {.program = "fovea-scaling",
                         .version = fovea_version(),
                         .exit_statuses = "0 success; 1 failure; 2 wrong usage",
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = sizeof table / sizeof table[0],
                         .kinds = kinds,
                         .kind_count = sizeof kinds / sizeof kinds[0]};
    const cli_command *only;
    int words;
    *s = (settings){.ranks = "1,2,4,8,16,32,64,128,256,512",
                    .tokens = 131072,
                    .channels = 128,
                    .heads = {32, 8},
                    .flops = 3.8e12,
                    .key_bytes = 1.5e11,
                    .call = 2e-5,
                    .copy = 1e10,
                    .latency = 2e-5,
                    .gbits = 25,
                    .type = 1};
    return cli_read(&program, argc, argv, s, &only, NULL, &words);
}

int main(int argc, char **argv) {
    settings s;
    const int status = read_settings(argc, argv, &s);
    if (status >= 0)
        return status;
    fv_mpi_problem p = {.queries = s.decode ? FOVEA_MPI_QUERIES_REPLICATED : FOVEA_MPI_QUERIES_DEALT};
    fovea_attention_desc *d = &p.desc;
    fovea_attention_desc_init(d);
    d->q_heads = s.heads[0];
    d->kv_heads = s.heads[1];
    d->dtype = types[s.type];
    d->kv_len = s.tokens;
    d->q_len = s.decode ? 1 : d->kv_len;
    d->causal = s.decode ? FOVEA_CAUSAL_NONE : FOVEA_CAUSAL_TOP_LEFT;
    d->head_dim = d->value_dim = s.channels;
    d->k_dtype = d->v_dtype = d->out_dtype = d->dtype;
    p.costs = (fovea_mpi_costs){sizeof p.costs, s.flops, s.key_bytes, s.call, s.latency, s.gbits / 8 * 1e9, s.copy};
    const fv_mpi_choice given = {.in_flight = s.in_flight};
    double one = 0, last = 0;
    printf(" ranks    seconds  times one  efficiency  gain  method  stripe  block\n");
    for (const char *at = s.ranks; *at;) {
        const int n = next_ranks(&at);
        p.ranks = n;
        fv_mpi_choice choice;
        double seconds;
        if (one == 0) {
            p.ranks = 1;
            if (!fv_mpi_choose(&p, &given, &choice, &one))
                return fprintf(stderr, "fovea-scaling: out of memory\n"), 1;
            p.ranks = n;
            last = one;
        }
        if (!fv_mpi_choose(&p, &given, &choice, &seconds))
            return fprintf(stderr, "fovea-scaling: out of memory\n"), 1;
        printf("%6d %10.6f %10.2f %11.2f %5.2f  %-6s %7lld %6lld x %lld\n", n, seconds, one / seconds,
               one / seconds / (double)n, last / seconds, choice.method == FOVEA_MPI_METHOD_PASS ? "pass" : "gather",
               (long long)choice.stripe_segments, (long long)choice.block_queries, (long long)choice.block_kv_heads);
        fflush(stdout);
        last = seconds;
    }
    return 0;
}

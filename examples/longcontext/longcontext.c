/* A sequence whose keys take more memory than each rank may use.
 *
 *     mpirun -n 4 fovea-longcontext [--tokens N] [--megabytes N]
 *
 * Each rank limits its own memory (setrlimit), and tries that there is no room for the keys and values of all tokens.
 * Then it makes those of its stripes, and all ranks attend together: the last 64 tokens of a prompt to everything
 * before them. Rank 0 compares with what it computes alone, for which it makes keys again, piece by piece, through a
 * state. */
#include "cli.h"
#include "fovea_mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { HEADS = 8, DIM = 64, QUERIES = 64, PIECE = 1024, ROW = HEADS * DIM, NUMBERS = QUERIES * ROW };

static int rank;

static void give_up(const char *what, const char *why) {
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, why);
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
}

/* Row of a token: numbers in [-2, 2) that follow from its position and what it is for. */
static void make_row(float *row, int64_t token, uint32_t use) {
    uint32_t seed = (uint32_t)token * 3 + use;
    for (int i = 0; i < ROW; i++) {
        seed = seed * 1664525u + 1013904223u;
        row[i] = (float)(seed >> 8) * 0x1p-22f - 2.0f;
    }
}

static float *room(int64_t tokens) {
    float *rows = malloc((size_t)(tokens + 1) * ROW * sizeof *rows);
    if (!rows)
        give_up("no room for tokens", "out of memory");
    return rows;
}

static fovea_attention_desc describe(int64_t keys) {
    fovea_attention_desc desc;
    fovea_attention_desc_init(&desc);
    desc.q_heads = desc.kv_heads = HEADS;
    desc.q_len = QUERIES;
    desc.kv_len = keys;
    desc.head_dim = desc.value_dim = DIM;
    desc.causal = FOVEA_CAUSAL_OFFSET;
    return desc;
}

/* The last tokens' queries, where they are, and where their rows go. */
static fovea_attention_args arguments(float *q, float *out, const int64_t *offset) {
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bthd(q, FOVEA_DTYPE_F32, 1, QUERIES, HEADS, DIM);
    args.out = fovea_tensor_bthd(out, FOVEA_DTYPE_F32, 1, QUERIES, HEADS, DIM);
    args.q_offsets = offset;
    return args;
}

static void together(const fovea_context *ctx, int64_t tokens, float *q, float *out) {
    const int64_t offset = tokens - QUERIES;
    const fovea_attention_desc whole = describe(tokens);
    fovea_mpi_attention_desc desc;
    fovea_mpi_attention_plan *plan;
    fovea_mpi_attention_desc_init(&desc);
    desc.attention = &whole;
    desc.queries = FOVEA_MPI_QUERIES_REPLICATED;
    if (fovea_mpi_attention_plan_create(MPI_COMM_WORLD, ctx, &desc, &plan) != FOVEA_OK)
        give_up("plan", fovea_mpi_error_detail());
    const int64_t own = fovea_mpi_attention_keys(plan, rank);
    float *k = room(own), *v = room(own);
    int64_t at = 0, first, count;
    for (int64_t i = 0; (count = fovea_mpi_attention_key_stripe(plan, rank, i, &first)) > 0; i++)
        for (int64_t t = first; t < first + count; t++, at++) {
            make_row(k + at * ROW, t, 1);
            make_row(v + at * ROW, t, 2);
        }
    fovea_attention_args args = arguments(q, out, &offset);
    args.k = fovea_tensor_bthd(k, FOVEA_DTYPE_F32, 1, own, HEADS, DIM);
    args.v = fovea_tensor_bthd(v, FOVEA_DTYPE_F32, 1, own, HEADS, DIM);
    if (fovea_mpi_attention_execute(plan, &args, NULL, 0) != FOVEA_OK)
        give_up("execute", fovea_mpi_error_detail());
    fovea_mpi_attention_plan_destroy(plan);
    free(k);
    free(v);
}

/* One rank, piece by piece. */
static void alone(const fovea_context *ctx, int64_t tokens, float *q, float *out) {
    const int64_t offset = tokens - QUERIES;
    const fovea_attention_desc desc = describe(PIECE);
    fovea_attention_plan *plan;
    fovea_attention_state *state;
    if (fovea_attention_plan_create(ctx, &desc, &plan) != FOVEA_OK)
        give_up("plan", fovea_error_detail());
    const size_t size = fovea_attention_plan_state_size(plan);
    void *memory = malloc(size);
    float *k = room(PIECE), *v = room(PIECE);
    if (fovea_attention_state_init(plan, memory, size, &state) != FOVEA_OK)
        give_up("state", fovea_error_detail());
    fovea_attention_args args = arguments(q, out, &offset);
    args.k = fovea_tensor_bthd(k, FOVEA_DTYPE_F32, 1, PIECE, HEADS, DIM);
    args.v = fovea_tensor_bthd(v, FOVEA_DTYPE_F32, 1, PIECE, HEADS, DIM);
    args.state = state;
    for (int64_t first = 0, count; first < tokens; first += count) {
        count = tokens - first < PIECE ? tokens - first : PIECE;
        for (int64_t t = 0; t < count; t++) {
            make_row(k + t * ROW, first + t, 1);
            make_row(v + t * ROW, first + t, 2);
        }
        args.first_key = first;
        args.kv_lens = &count;
        if (fovea_attention_execute(plan, &args, NULL, 0) != FOVEA_OK)
            give_up("execute", fovea_error_detail());
    }
    fovea_attention_plan_destroy(plan);
    free(memory);
    free(k);
    free(v);
}

typedef struct sizes {
    int64_t tokens, megabytes;
} sizes;

/* -1, or what to end with. */
static int read_words(int argc, char **argv, sizes *s) {
    static const cli_option table[] = {{"--tokens", "N", "65536", cli_read_number, QUERIES, 1 << 30,
                                        offsetof(sizes, tokens), 1, "of the prompt (default: 65536)"},
                                       {"--megabytes", "N", "192", cli_read_number, 1, 1 << 20,
                                        offsetof(sizes, megabytes), 1, "that a rank may use (default: 192)"}};
    static const cli_command command = {
        "", 1, 0, 0, "", "--tokens 65536", "attend to a prompt whose keys fit none of the ranks of mpirun"};
    const cli program = {.program = "fovea-longcontext",
                         .version = fovea_version(),
                         .exit_statuses = "0 success; 1 failure; 2 wrong usage",
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = 2};
    const cli_command *only;
    int words;
    *s = (sizes){65536, 192};
    return cli_read(&program, argc, argv, s, &only, NULL, &words);
}

int main(int argc, char **argv) {
    static float q[NUMBERS], out[NUMBERS], one[NUMBERS];
    int ranks, same = 1;
    sizes given;
    const int status = read_words(argc, argv, &given);
    if (status >= 0)
        return status;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int64_t tokens = given.tokens, megabytes = given.megabytes;
    const size_t whole = (size_t)tokens * ROW * 2 * sizeof(float);
    const struct rlimit limit = {(rlim_t)megabytes << 20, (rlim_t)megabytes << 20};
    if (setrlimit(RLIMIT_DATA, &limit) != 0)
        give_up("--megabytes", "not possible");
    void *all = malloc(whole);
    if (all) {
        free(all);
        give_up("this proves nothing", "the keys and values of all tokens fit this rank");
    }
    fovea_context_options options;
    fovea_context *ctx;
    fovea_context_options_init(&options);
    options.threads_backend = FOVEA_THREADS_POOL;
    if (fovea_context_create(&options, &ctx) != FOVEA_OK)
        give_up("context", fovea_error_detail());
    for (int64_t t = 0; t < QUERIES; t++)
        make_row(q + t * ROW, tokens - QUERIES + t, 0);
    together(ctx, tokens, q, out);
    if (rank == 0) {
        alone(ctx, tokens, q, one);
        same = memcmp(out, one, sizeof one) == 0;
        printf("%lld tokens of %zu MB over %d ranks of at most %lld MB: %.9g ... %.9g\n", (long long)tokens,
               whole >> 20, ranks, (long long)megabytes, out[0], out[NUMBERS - 1]);
        printf("the same bits as on one rank, piece by piece: %s\n", same ? "yes" : "no");
    }
    fovea_context_destroy(ctx);
    MPI_Bcast(&same, 1, MPI_INT, 0, MPI_COMM_WORLD);
    MPI_Finalize();
    return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

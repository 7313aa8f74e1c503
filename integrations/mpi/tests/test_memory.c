/* Caches, plans and groups over ranks, when one rank has no memory left: each allocation of each call fails in turn, on
 * the first and on the last rank. All ranks get the error, and lengths and pages are those of before. Executions of
 * plans allocate nothing. Run by mpirun. */
#include "failing.h"
#include "fovea_mpi_cache.h"
#include "fovea_mpi_group.h"

#include <stdlib.h>

enum { TOKENS = 2300, DIM = 4, COLUMNS = 12, ROWS = 5 };

static int rank, ranks;
static fovea_context *ctx;
static fovea_rope *rope;
static fovea_mpi_cache *cache;
static int64_t sequence;
static float *rows, *out;
static fovea_mpi_attention_plan *plan;
static fovea_mpi_group *group;

static fovea_status create(void) {
    fovea_kv_cache_desc d;
    fovea_kv_cache_desc_init(&d);
    d.layers = 2;
    d.kv_heads = 1;
    d.head_dim = d.value_dim = DIM;
    d.max_pages = 100;
    d.windows = (int64_t[2]){-1, 1000};
    d.rope = rope;
    return fovea_mpi_cache_create(MPI_COMM_WORLD, ctx, &d, 1, &cache);
}

static fovea_status add(void) { return fovea_mpi_cache_add(cache, &sequence); }

static fovea_status append_to(int64_t layer) {
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.layer = layer;
    a.count = 1;
    a.sequences = &sequence;
    a.k = a.v = fovea_tensor_bhtd(rows, FOVEA_DTYPE_F32, 1, 1, TOKENS, DIM);
    return fovea_mpi_cache_append(cache, &a);
}

static fovea_status append_first(void) { return append_to(0); }
static fovea_status append_second(void) { return append_to(1); }
static fovea_status fork_it(void) {
    int64_t fork;
    return fovea_mpi_cache_fork(cache, sequence, &fork);
}
static fovea_status evict(void) { return fovea_mpi_cache_evict(cache, sequence, 100, TOKENS - 100); }
static fovea_status truncate_it(void) { return fovea_mpi_cache_truncate(cache, sequence, TOKENS - 1); }
static fovea_status remove_it(void) { return fovea_mpi_cache_remove(cache, sequence); }

static fovea_status plan_by(fovea_mpi_method method) {
    fovea_attention_desc d;
    fovea_attention_desc_init(&d);
    d.q_heads = d.kv_heads = d.q_len = 1;
    d.kv_len = TOKENS;
    d.head_dim = d.value_dim = DIM;
    d.page_keys = FOVEA_KV_PAGE_KEYS;
    fovea_mpi_attention_desc over;
    fovea_mpi_attention_desc_init(&over);
    over.attention = &d;
    over.queries = FOVEA_MPI_QUERIES_REPLICATED;
    over.stripe_segments = 1;
    over.method = method;
    fovea_mpi_attention_plan_destroy(plan);
    return fovea_mpi_attention_plan_create(MPI_COMM_WORLD, ctx, &over, &plan);
}
static fovea_status plan_pass(void) { return plan_by(FOVEA_MPI_METHOD_PASS); }
static fovea_status plan_gather(void) { return plan_by(FOVEA_MPI_METHOD_GATHER); }

static fovea_status attend(void) {
    fovea_attention_args a;
    fovea_attention_args_init(&a);
    a.q = fovea_tensor_bhtd(rows, FOVEA_DTYPE_F32, 1, 1, 1, DIM);
    a.out = fovea_tensor_bhtd(out, FOVEA_DTYPE_F32, 1, 1, 1, DIM);
    a.cache_sequences = &sequence;
    return fovea_mpi_cache_attention(plan, cache, &a, NULL, 0);
}

static fovea_status group_it(void) { return fovea_mpi_group_create(MPI_COMM_WORLD, &group); }

static fovea_status gather(void) {
    static float own[ROWS * COLUMNS];
    return fovea_mpi_gather_columns(group, FOVEA_OK, ROWS, COLUMNS, sizeof *own, NULL, own, rows);
}

/* The facts that no failing call may change. */
typedef struct facts {
    int64_t length[2], pages, shared, sequences;
} facts;

static facts facts_now(void) {
    facts f = {{-1, -1}, 0, 0, 0};
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    for (int64_t layer = 0; layer < 2 && cache; layer++)
        fovea_mpi_cache_length(cache, layer, sequence, &f.length[layer]);
    if (cache && fovea_mpi_cache_stats(cache, &stats) == FOVEA_OK)
        f.pages = stats.used_pages, f.shared = stats.shared_pages, f.sequences = stats.sequences;
    return f;
}

/* Each allocation of a call fails, then none does. Returns how many there were. */
static int64_t try(const char *what, fovea_status call(void), int guilty) {
    const int64_t own = sequence;
    for (int64_t n = 1;; n++) {
        const facts before = facts_now();
        arm(rank == guilty ? n : 0, false);
        const fovea_status status = call();
        fail_at = 0;
        int met = failed;
        MPI_Bcast(&met, 1, MPI_INT, guilty, MPI_COMM_WORLD);
        test_check(status == (met ? FOVEA_ERROR_OUT_OF_MEMORY : FOVEA_OK),
                   "%s, allocation %" PRId64 " of rank %d: %s (%s)", what, n, guilty, fovea_status_name(status),
                   fovea_mpi_error_detail());
        if (!met)
            return n - 1;
        sequence = own;
        const facts after = facts_now();
        test_check(memcmp(&before, &after, sizeof after) == 0,
                   "%s, allocation %" PRId64 " of rank %d: the cache has changed", what, n, guilty);
    }
}

static void test_calls(int guilty) {
    static const struct {
        const char *name;
        fovea_status (*call)(void);
        int64_t least; /* allocations; 0: exactly */
    } calls_of[] = {{"create", create, 3},
                    {"add", add, 1},
                    {"append", append_first, 2},
                    {"append", append_second, 2},
                    {"plan of PASS", plan_pass, 6},
                    {"attention of PASS", attend, 0},
                    {"plan of GATHER", plan_gather, 6},
                    {"attention of GATHER", attend, 0},
                    {"fork", fork_it, 2},
                    {"evict", evict, 2},
                    {"truncate", truncate_it, 0},
                    {"remove", remove_it, 0},
                    {"group", group_it, 4},
                    {"gather", gather, 1},
                    {"gather again", gather, 0}};
    cache = NULL;
    plan = NULL;
    for (size_t i = 0; i < sizeof calls_of / sizeof calls_of[0]; i++) {
        const int64_t count = try(calls_of[i].name, calls_of[i].call, guilty), least = calls_of[i].least;
        test_check(least ? count >= least : count == 0, "%s: %" PRId64 " allocations", calls_of[i].name, count);
    }
    fovea_mpi_group_destroy(group);
    fovea_mpi_attention_plan_destroy(plan);
    fovea_mpi_cache_destroy(cache);
}

int main(int argc, char **argv) {
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    test_begin(argc, argv, "mpi-memory", NULL);
    fovea_context_options options;
    fovea_context_options_init(&options);
    options.threads = 1;
    fovea_rope_desc turn;
    fovea_rope_desc_init(&turn);
    turn.rotary_dim = DIM;
    rows = calloc(TOKENS * DIM, sizeof *rows);
    out = calloc(DIM, sizeof *out);
    if (!rows || !out || fovea_context_create(&options, &ctx) != FOVEA_OK ||
        fovea_rope_create(&turn, &rope) != FOVEA_OK)
        MPI_Abort(MPI_COMM_WORLD, 1);
    test_calls(0);
    if (ranks > 1)
        test_calls(ranks - 1);
    fovea_rope_destroy(rope);
    fovea_context_destroy(ctx);
    free(rows);
    free(out);
    const int status = test_end();
    MPI_Finalize();
    return status;
}

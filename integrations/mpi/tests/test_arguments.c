/* Each argument of each collective function is wrong on one rank, on each in turn: all ranks get the same status, with
 * that rank's sentence, and no rank waits for ever (ctest has a time limit). Then the function serves a good call. Run
 * by mpirun with any number of ranks. */
#include "fovea_mpi_cache.h"
#include "fovea_mpi_group.h"
#include "groups.h"

#include <stdio.h>
#include <string.h>

enum { CHANNELS = 8, ROWS = 3, KEYS = 512, MOST = 1 << 15 };

static float zeros[MOST], outs[MOST];
static int64_t columns, no_bounds[8];
static fovea_context *ctx;
static fovea_mpi_group *group;
static fovea_mpi_cache *cache;
static int64_t sequence;
static fovea_mpi_attention_plan *pass, *gather, *cached;

/* A call that went wrong must make nothing. */
static void check_made(fovea_status status, bool any) {
    check(any == (status == FOVEA_OK), "%s, and %s", fovea_status_name(status), any ? "an object" : "none");
}

/* -------------------------------------------------------------------------------------------------------- plans -- */

static fovea_attention_desc whole(void) {
    fovea_attention_desc d;
    fovea_attention_desc_init(&d);
    d.q_heads = d.kv_heads = 1;
    d.q_len = d.kv_len = (int64_t)KEYS * ranks;
    d.head_dim = d.value_dim = CHANNELS;
    d.causal = FOVEA_CAUSAL_TOP_LEFT;
    return d;
}

static fovea_status make_plan(int bad, fovea_attention_desc d, fovea_mpi_method method, fovea_mpi_queries queries,
                              fovea_mpi_attention_plan **plan) {
    fovea_mpi_costs costs;
    fovea_mpi_costs_init(&costs);
    costs.flops = bad == 4 ? -1 : 0;
    fovea_mpi_attention_desc over;
    fovea_mpi_attention_desc_init(&over);
    over.attention = bad == 3 ? NULL : &d;
    over.costs = &costs;
    over.method = method;
    over.queries = queries;
    over.stripe_segments = 1;
    return fovea_mpi_attention_plan_create(comm, bad == 0 ? NULL : ctx, bad == 1 ? NULL : &over,
                                           bad == 2 ? NULL : plan);
}

static fovea_status plan_create(int bad) {
    fovea_mpi_attention_plan *plan = NULL;
    const fovea_status status = make_plan(bad, whole(), FOVEA_MPI_METHOD_PASS, FOVEA_MPI_QUERIES_DEALT, &plan);
    check_made(status, plan != NULL);
    fovea_mpi_attention_plan_destroy(plan);
    return status;
}

static void drop(int bad, int index, fovea_tensor *t) { t->data = bad == index ? NULL : t->data; }

static fovea_status attend(fovea_mpi_attention_plan *plan, const fovea_mpi_cache *over, int bad) {
    const int64_t lens[] = {bad == 2 ? -1 : KEYS}, queries = fovea_mpi_attention_queries(plan, rank);
    fovea_attention_args a;
    fovea_attention_args_init(&a);
    a.q = fovea_tensor_bhtd(zeros, FOVEA_DTYPE_F32, 1, 1, queries, CHANNELS);
    a.out = fovea_tensor_bhtd(outs, FOVEA_DTYPE_F32, 1, 1, queries, CHANNELS);
    drop(bad, 3, &a.q);
    drop(bad, 4, &a.out);
    const fovea_attention_args *args = bad == 0 ? NULL : &a;
    void *workspace = bad == 1 ? outs : NULL; /* of one byte */
    if (plan == cached) {
        a.cache_sequences = bad == 5 ? NULL : &sequence;
        return fovea_mpi_cache_attention(plan, bad == 6 ? NULL : over, args, workspace, workspace != NULL);
    }
    a.kv_lens = lens;
    a.k = a.v = fovea_tensor_bhtd(zeros, FOVEA_DTYPE_F32, 1, 1, KEYS, CHANNELS);
    drop(bad, 5, &a.k);
    drop(bad, 6, &a.v);
    return fovea_mpi_attention_execute(plan, args, workspace, workspace != NULL);
}

static fovea_status execute_pass(int bad) { return attend(pass, NULL, bad); }
static fovea_status execute_gather(int bad) { return attend(gather, NULL, bad); }
static fovea_status cache_attention(int bad) { return attend(cached, cache, bad == 2 ? 6 : bad); }

/* -------------------------------------------------------------------------------------------------------- caches -- */

static fovea_status make_cache(int bad, fovea_mpi_cache **to) {
    fovea_kv_cache_desc d;
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = 1;
    d.head_dim = d.value_dim = CHANNELS;
    d.max_pages = bad == 4 ? -1 : 100;
    return fovea_mpi_cache_create(comm, bad == 0 ? NULL : ctx, bad == 1 ? NULL : &d, bad == 3 ? 0 : 1,
                                  bad == 2 ? NULL : to);
}

static fovea_status cache_create(int bad) {
    fovea_mpi_cache *c = NULL;
    const fovea_status status = make_cache(bad, &c);
    check_made(status, c != NULL);
    fovea_mpi_cache_destroy(c);
    return status;
}

static fovea_status cache_add(int bad) {
    int64_t added = -1;
    const fovea_status status = fovea_mpi_cache_add(cache, bad == 0 ? NULL : &added);
    check_made(status, added >= 0);
    return status != FOVEA_OK ? status : fovea_mpi_cache_remove(cache, added);
}

static fovea_status cache_fork(int bad) {
    int64_t fork = -1;
    const fovea_status status = fovea_mpi_cache_fork(cache, bad == 0 ? 99 : sequence, bad == 1 ? NULL : &fork);
    check_made(status, fork >= 0);
    return status != FOVEA_OK ? status : fovea_mpi_cache_remove(cache, fork);
}

static fovea_status cache_remove(int bad) {
    int64_t added = -1;
    fovea_mpi_cache_add(cache, &added);
    const fovea_status status = fovea_mpi_cache_remove(cache, bad == 0 ? 99 : added);
    return status == FOVEA_OK || fovea_mpi_cache_remove(cache, added) == FOVEA_OK ? status : FOVEA_ERROR_FULL;
}

static fovea_status cache_truncate(int bad) {
    return fovea_mpi_cache_truncate(cache, bad == 0 ? 99 : sequence, bad == 1 ? -1 : KEYS);
}

static fovea_status cache_evict(int bad) {
    return fovea_mpi_cache_evict(cache, bad == 0 ? 99 : sequence, bad == 1 ? -1 : 3, bad == 2 ? KEYS * 10 : 4);
}

static fovea_status cache_append(int bad) {
    const int64_t twice[] = {sequence, sequence};
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.count = bad == 5 ? -1 : bad == 6 ? 2 : 1;
    a.layer = bad == 4 ? 1 : 0;
    a.sequences = bad == 1 ? NULL : twice;
    a.k = a.v = fovea_tensor_bhtd(zeros, FOVEA_DTYPE_F32, 1, 1, KEYS, CHANNELS);
    drop(bad, 2, &a.k);
    drop(bad, 3, &a.v);
    const fovea_status status = fovea_mpi_cache_append(cache, bad == 0 ? NULL : &a);
    int64_t length = 0;
    fovea_mpi_cache_length(cache, 0, sequence, &length);
    check(length == (status == FOVEA_OK ? 2 * KEYS : KEYS), "a length of %lld", (long long)length);
    return status != FOVEA_OK ? status : fovea_mpi_cache_truncate(cache, sequence, KEYS);
}

/* -------------------------------------------------------------------------------------------------------- groups -- */

static fovea_status group_create(int bad) {
    fovea_mpi_group *g = NULL;
    const fovea_status status = fovea_mpi_group_create(comm, bad == 0 ? NULL : &g);
    check_made(status, g != NULL);
    fovea_mpi_group_destroy(g);
    return status;
}

static fovea_status gather_columns(int bad) {
    int64_t rows = bad == 1 ? -1 : ROWS;
    rows = bad == 7 ? INT32_MAX : rows;
    return fovea_mpi_gather_columns(group, bad == 0 ? FOVEA_ERROR_FULL : FOVEA_OK, rows, bad == 2 ? 0 : columns,
                                    bad == 3 ? 17 : (int64_t)sizeof *zeros, bad == 4 ? no_bounds : NULL,
                                    bad == 5 ? NULL : zeros, bad == 6 ? NULL : outs);
}

/* --------------------------------------------------------------------------------------------------------- table -- */

enum { NONE = FOVEA_ERROR_NULL, RANGE = FOVEA_ERROR_SHAPE, WRONG = FOVEA_ERROR_ARGUMENT };

static const struct {
    const char *name;
    fovea_status (*call)(int bad); /* bad: which of the arguments is wrong here; -1: none */
    struct {
        const char *name;
        int want; /* fovea_status */
    } arguments[8];
} functions[] = {
    {"group_create", group_create, {{"group", NONE}}},
    {"plan_create",
     plan_create,
     {{"ctx", NONE}, {"desc", NONE}, {"plan", NONE}, {"desc.attention", NONE}, {"costs", WRONG}}},
    {"execute",
     execute_pass,
     {{"args", NONE},
      {"workspace", FOVEA_ERROR_WORKSPACE},
      {"kv_lens", RANGE},
      {"q", NONE},
      {"out", NONE},
      {"k", NONE},
      {"v", NONE}}},
    {"execute, GATHER",
     execute_gather,
     {{"args", NONE},
      {"workspace", FOVEA_ERROR_WORKSPACE},
      {"kv_lens", RANGE},
      {"q", NONE},
      {"out", NONE},
      {"k", NONE},
      {"v", NONE}}},
    {"cache_create",
     cache_create,
     {{"ctx", NONE}, {"desc", NONE}, {"cache", NONE}, {"stripe_segments", WRONG}, {"max_pages", WRONG}}},
    {"cache_add", cache_add, {{"sequence", NONE}}},
    {"cache_fork", cache_fork, {{"sequence", WRONG}, {"fork", NONE}}},
    {"cache_remove", cache_remove, {{"sequence", WRONG}}},
    {"cache_truncate", cache_truncate, {{"sequence", WRONG}, {"length", RANGE}}},
    {"cache_evict", cache_evict, {{"sequence", WRONG}, {"begin", RANGE}, {"end", RANGE}}},
    {"cache_append",
     cache_append,
     {{"append", NONE},
      {"sequences", NONE},
      {"k", NONE},
      {"v", NONE},
      {"layer", WRONG},
      {"count", RANGE},
      {"sequence twice", WRONG}}},
    {"cache_attention",
     cache_attention,
     {{"args", NONE},
      {"workspace", FOVEA_ERROR_WORKSPACE},
      {"cache", NONE},
      {"q", NONE},
      {"out", NONE},
      {"cache_sequences", NONE}}},
    {"gather_columns",
     gather_columns,
     {{"mine", FOVEA_ERROR_FULL},
      {"rows", RANGE},
      {"columns", RANGE},
      {"element_bytes", RANGE},
      {"bounds", WRONG},
      {"own", NONE},
      {"whole", NONE},
      {"too many rows", FOVEA_ERROR_UNSUPPORTED}}},
};

/* On more ranks than 3 each argument is wrong on one, on another for each: implementations that spin are slow. */
static void test(void) {
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        for (int bad = 0; bad < 8 && functions[i].arguments[bad].name; bad++)
            for (int n = 0; n < (ranks > 3 ? 1 : ranks); n++) {
                const int guilty = ((int)i + bad + n) % ranks;
                char name[32];
                snprintf(name, sizeof name, "rank %d: ", guilty);
                const fovea_status status = functions[i].call(rank == guilty ? bad : -1);
                check((int)status == functions[i].arguments[bad].want &&
                          strncmp(fovea_mpi_error_detail(), name, strlen(name)) == 0,
                      "%s, %s of rank %d: %s (%s)", functions[i].name, functions[i].arguments[bad].name, guilty,
                      fovea_status_name(status), fovea_mpi_error_detail());
            }
        check(functions[i].call(-1) == FOVEA_OK, "%s: %s", functions[i].name, fovea_mpi_error_detail());
    }
}

static bool open_all(void) {
    fovea_attention_desc pages = whole();
    pages.page_keys = FOVEA_KV_PAGE_KEYS;
    pages.q_len = 1;
    pages.causal = FOVEA_CAUSAL_NONE;
    columns = (int64_t)FOVEA_MPI_COLUMNS * ranks;
    return fovea_mpi_group_create(comm, &group) == FOVEA_OK && make_cache(-1, &cache) == FOVEA_OK &&
           fovea_mpi_cache_add(cache, &sequence) == FOVEA_OK &&
           make_plan(-1, whole(), FOVEA_MPI_METHOD_PASS, FOVEA_MPI_QUERIES_DEALT, &pass) == FOVEA_OK &&
           make_plan(-1, whole(), FOVEA_MPI_METHOD_GATHER, FOVEA_MPI_QUERIES_DEALT, &gather) == FOVEA_OK &&
           make_plan(-1, pages, FOVEA_MPI_METHOD_MODEL, FOVEA_MPI_QUERIES_REPLICATED, &cached) == FOVEA_OK;
}

static bool append_first(void) {
    fovea_kv_append_args a;
    fovea_kv_append_args_init(&a);
    a.count = 1;
    a.sequences = &sequence;
    a.k = a.v = fovea_tensor_bhtd(zeros, FOVEA_DTYPE_F32, 1, 1, KEYS, CHANNELS);
    return fovea_mpi_cache_append(cache, &a) == FOVEA_OK;
}

int main(int argc, char **argv) {
    const bool single = argc > 1 && strcmp(argv[1], "single") == 0;
    group_begin(&argc, &argv, single ? MPI_THREAD_SINGLE : MPI_THREAD_FUNNELED);
    ctx = group_context(FOVEA_ISA_BEST, 1);
    while (group_next()) {
        if (!check(open_all() && append_first(), "%s", fovea_mpi_error_detail()))
            MPI_Abort(MPI_COMM_WORLD, 1);
        test();
        fovea_mpi_attention_plan_destroy(pass);
        fovea_mpi_attention_plan_destroy(gather);
        fovea_mpi_attention_plan_destroy(cached);
        fovea_mpi_cache_destroy(cache);
        fovea_mpi_group_destroy(group);
    }
    fovea_context_destroy(ctx);
    return group_report("arguments");
}

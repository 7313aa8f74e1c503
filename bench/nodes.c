/* fovea-nodes: what nodes of memory (NUMA) cost on this machine, and what placing weights and caches on them gains
 * (docs/nodes.md). Prints the nodes, the speed at which the threads of each read the memory of each, and a linear map
 * and a decoding step with every placement, threads bound to nodes or not. Each placement is made anew in each round,
 * one after another, so that what else happens on the machine meets all of them. Results are compared: their bits must
 * not depend on the placement. */
#include "cli.h"
#include "context/context.h"
#include "core/core.h"
#include "core/memory.h"
#include "fovea/fovea.h"
#include "peak/read_speed.h"
#include "progress.h"
#include "stopwatch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, PASSES = 3, KEY_HEADS = 8, QUERY_HEADS = 32, CHANNELS = 128, FEATURES = 4096, CALLS = 4096 };

typedef struct settings {
    int64_t megabytes;
    double seconds;
    const char *system;
} settings;

static void require(bool ok, const char *sentence) {
    if (ok)
        return;
    fflush(stdout);
    fprintf(stderr, "fovea-nodes: %s\n", sentence);
    exit(1);
}

static void must(fovea_status status) { require(status == FOVEA_OK, fovea_error_detail()); }

static void *must_get(int64_t bytes) {
    void *memory = fv_allocate_pages((size_t)bytes);
    require(memory != NULL, "no memory; --megabytes says how much is read");
    return memory;
}

/* ------------------------------------------------------------------------------------------------- description -- */

/* The first line of a file of a node's folder, or of one that begins so; "": there is none. */
static void read_line(const settings *s, int number, const char *file, const char *word, char line[256]) {
    char path[512];
    line[0] = '\0';
    snprintf(path, sizeof path, "%.400s/node%d/%s", s->system, number, file);
    FILE *from = fopen(path, "r");
    while (from && fgets(line, 256, from) && !strstr(line, word))
        line[0] = '\0';
    if (from)
        fclose(from);
    line[strcspn(line, "\n")] = '\0';
}

static void print_nodes(const settings *s, const fovea_context *ctx) {
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    must(fovea_context_info(ctx, &info));
    printf("fovea %s, %s, %s, %d threads, %d node%s with CPUs of this process\n", fovea_version(), info.cpu,
           fovea_isa_name(info.isa), info.threads, info.node_count, info.node_count == 1 ? "" : "s");
    for (int i = 0; i < ctx->cpu.nodes.count; i++) {
        const fv_node *node = &ctx->cpu.nodes.node[i];
        char line[256];
        read_line(s, node->number, "cpulist", "", line);
        printf("node %d: CPUs %s, %d usable", node->number, line[0] ? line : "none", node->cpus);
        read_line(s, node->number, "meminfo", "MemTotal:", line);
        const char *total = strstr(line, "MemTotal:");
        if (!node->memory)
            printf(", no memory");
        else if (total)
            printf(", %.1f GiB", strtod(total + strlen("MemTotal:"), NULL) / (1 << 20));
        read_line(s, node->number, "distance", "", line);
        printf("%s%s\n", line[0] ? ", distances " : "", line);
    }
    if (!ctx->cpu.nodes.count)
        printf("The system does not describe its nodes.\n");
}

/* ----------------------------------------------------------------------------------------------------- reading -- */

typedef struct reading {
    const fv_nodes *nodes; /* NULL: threads are not bound */
    int node, threads;
    const char *memory;
    int64_t bytes;          /* of a thread */
    pthread_barrier_t step; /* begins and ends a pass */
    atomic_int next;
    _Atomic uint64_t sum; /* reading must have a result */
} reading;

static void *read_share(void *arg) {
    reading *r = arg;
    const int index = atomic_fetch_add(&r->next, 1);
    if (r->nodes)
        (void)fv_node_bind(r->nodes, r->node);
    for (int i = 0; i < PASSES; i++) {
        pthread_barrier_wait(&r->step);
        atomic_fetch_add(&r->sum, peak_read(r->memory + index * r->bytes, r->bytes));
        pthread_barrier_wait(&r->step);
    }
    return NULL;
}

/* Bytes per second, the best of some passes. */
static double read_speed(const fv_nodes *nodes, int node, int threads, const char *memory, int64_t bytes) {
    reading r = {.nodes = nodes, .node = node, .threads = threads, .memory = memory};
    pthread_t *thread = calloc((size_t)threads, sizeof *thread);
    double best = 0;
    require(thread != NULL, "no memory");
    r.bytes = bytes / threads / PEAK_READ_BYTES * PEAK_READ_BYTES;
    pthread_barrier_init(&r.step, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++)
        require(pthread_create(&thread[i], NULL, read_share, &r) == 0, "the system gives no more threads");
    for (int i = 0; i < PASSES; i++) {
        const double begin = stopwatch(CLOCK_MONOTONIC);
        pthread_barrier_wait(&r.step);
        pthread_barrier_wait(&r.step);
        best = fv_max(best, (double)(r.bytes * threads) / (stopwatch(CLOCK_MONOTONIC) - begin));
    }
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    free(thread);
    return best;
}

static void print_reading(const settings *s, const fovea_context *ctx, int threads) {
    const fv_nodes *n = &ctx->cpu.nodes;
    const int64_t bytes = s->megabytes << 20;
    char *memory = must_get(bytes);
    if (fv_context_nodes(ctx) < 2) {
        memset(memory, 1, (size_t)bytes);
        printf("\nreading memory, %d threads: %.1f GB/s\n", threads,
               1e-9 * read_speed(NULL, 0, threads, memory, bytes));
    } else {
        printf("\nreading memory, GB/s, by all usable CPUs of a node\n  memory of  ");
        for (int from = 0; from < n->count; from++)
            if (n->node[from].cpus > 0)
                printf("  by node %-2d", n->node[from].number);
        printf("\n");
        for (int of = 0; of < n->count; of++) {
            const fv_node *node = &n->node[of];
            if (node->cpus == 0 || !node->memory) /* no thread can touch its memory first */
                continue;
            require(fv_node_place(n, of, memory, bytes, 0, 1), "the system does not let threads be bound to nodes");
            printf("  node %-5d  ", node->number);
            for (int from = 0; from < n->count; from++)
                if (n->node[from].cpus > 0)
                    printf("  %10.1f", 1e-9 * read_speed(n, from, n->node[from].cpus, memory, bytes));
            printf("\n");
            fflush(stdout);
        }
    }
    fv_free_pages(memory);
}

/* -------------------------------------------------------------------------------------------------------- work -- */

static const struct {
    const char *name;
    bool bound;
    fovea_placement placement;
} ways[] = {{"default", false, FOVEA_PLACEMENT_DEFAULT}, {"one node", false, FOVEA_PLACEMENT_NODE},
            {"default", true, FOVEA_PLACEMENT_DEFAULT},  {"one node", true, FOVEA_PLACEMENT_NODE},
            {"spread", true, FOVEA_PLACEMENT_SPREAD},    {"copies", true, FOVEA_PLACEMENT_COPIES}};
enum { WAYS = sizeof ways / sizeof ways[0] };

typedef struct timing {
    double seconds[CALLS];
    int64_t count;
} timing;

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(timing *t) {
    qsort(t->seconds, (size_t)t->count, sizeof *t->seconds, by_value);
    return t->seconds[t->count / 2];
}

/* At least two calls, the first of which is not timed. */
static void repeat(timing *t, double seconds, fovea_status (*call)(void *arg), void *arg) {
    must(call(arg));
    const double end = stopwatch(CLOCK_MONOTONIC) + seconds;
    do {
        const double begin = stopwatch(CLOCK_MONOTONIC);
        must(call(arg));
        if (t->count < CALLS)
            t->seconds[t->count++] = stopwatch(CLOCK_MONOTONIC) - begin;
    } while (stopwatch(CLOCK_MONOTONIC) < end);
}

static void fill(float *numbers, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        numbers[i] = (float)(i * 37 % 101 - 50) / 101.0F;
}

typedef struct work {
    const settings *s;
    float *weights, *in, *out, *expected;
    int64_t outputs; /* of out */
    const fovea_context *ctx;
    fovea_linear *linear;
    fovea_linear_args linear_args;
    fovea_attention_plan *plan;
    fovea_attention_args attention_args;
    void *workspace;
    size_t workspace_bytes;
} work;

static fovea_status call_linear(void *arg) {
    const work *w = arg;
    return fovea_linear_apply(w->ctx, w->linear, &w->linear_args, w->workspace, w->workspace_bytes);
}

static fovea_status call_attention(void *arg) {
    const work *w = arg;
    return fovea_attention_execute(w->plan, &w->attention_args, w->workspace, w->workspace_bytes);
}

/* The results of all ways must have the bits of the first. */
static void compare(work *w) {
    const size_t bytes = (size_t)w->outputs * sizeof(float);
    if (!w->expected)
        w->expected = memcpy(must_get((int64_t)bytes), w->out, bytes);
    require(memcmp(w->out, w->expected, bytes) == 0, "results differ by placement: please report this");
}

static void run_linear(work *w, const fovea_context *ctx, fovea_placement placement, int node, timing *t) {
    fovea_linear_desc d;
    fovea_linear_desc_init(&d);
    d.in_features = FEATURES;
    d.part.weight = fovea_matrix_out_in(w->weights, FOVEA_DTYPE_F32, w->outputs, FEATURES);
    d.placement = placement, d.placement_node = node;
    w->ctx = ctx;
    must(fovea_linear_create(ctx, &d, &w->linear));
    const fovea_tensor y = fovea_tensor_bthd(w->out, FOVEA_DTYPE_F32, 1, 1, 1, w->outputs);
    fovea_linear_args_init(&w->linear_args);
    w->linear_args.x = fovea_tensor_bthd(w->in, FOVEA_DTYPE_F32, 1, 1, 1, FEATURES);
    w->linear_args.y = &y;
    repeat(t, w->s->seconds, call_linear, w);
    fovea_linear_destroy(w->linear);
    compare(w);
}

static void run_decode(work *w, const fovea_context *ctx, fovea_placement placement, int node, timing *t) {
    fovea_kv_cache_desc d;
    fovea_kv_append_args append;
    fovea_kv_cache *cache;
    int64_t sequence;
    const int64_t pages = (w->s->megabytes << 20) / ((int64_t)FOVEA_KV_PAGE_KEYS * KEY_HEADS * CHANNELS * 8);
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = KEY_HEADS;
    d.head_dim = d.value_dim = CHANNELS;
    d.max_pages = pages;
    d.placement = placement, d.placement_node = node;
    must(fovea_kv_cache_create(ctx, &d, &cache));
    must(fovea_kv_cache_add(cache, &sequence));
    fovea_kv_append_args_init(&append);
    append.count = 1, append.sequences = &sequence;
    append.k = append.v = fovea_tensor_bthd(w->weights, FOVEA_DTYPE_F32, 1, FOVEA_KV_PAGE_KEYS, KEY_HEADS, CHANNELS);
    for (int64_t page = 0; page < pages; page++)
        must(fovea_kv_cache_append(cache, &append));
    fovea_attention_desc a;
    fovea_attention_desc_init(&a);
    a.q_heads = QUERY_HEADS, a.kv_heads = KEY_HEADS;
    a.q_len = 1, a.kv_len = pages * FOVEA_KV_PAGE_KEYS;
    a.head_dim = a.value_dim = CHANNELS;
    a.page_keys = FOVEA_KV_PAGE_KEYS;
    must(fovea_attention_plan_create(ctx, &a, &w->plan));
    fovea_attention_args_init(&w->attention_args);
    w->attention_args.q = fovea_tensor_bthd(w->in, FOVEA_DTYPE_F32, 1, 1, QUERY_HEADS, CHANNELS);
    w->attention_args.out = fovea_tensor_bthd(w->out, FOVEA_DTYPE_F32, 1, 1, QUERY_HEADS, CHANNELS);
    w->attention_args.cache = cache;
    w->attention_args.cache_sequences = &sequence;
    w->workspace_bytes = fovea_attention_plan_workspace_size(w->plan);
    w->workspace = must_get((int64_t)w->workspace_bytes);
    repeat(t, w->s->seconds, call_attention, w);
    free(w->workspace);
    fovea_attention_plan_destroy(w->plan);
    fovea_kv_cache_destroy(cache);
    compare(w);
}

typedef void run_way(work *w, const fovea_context *ctx, fovea_placement placement, int node, timing *t);

/* caches: without copies. */
static void print_work(const char *title, run_way *run, work *w, fovea_context *const contexts[2], bool caches) {
    timing *times = must_get(WAYS * (int64_t)sizeof *times);
    const int count = fv_context_nodes(contexts[0]) < 2 ? 1 : caches ? WAYS - 1 : WAYS;
    const fv_nodes *n = &contexts[0]->cpu.nodes;
    int first = 0;
    progress p;
    while (n && first + 1 < n->count && (n->node[first].cpus == 0 || !n->node[first].memory))
        first++;
    memset(times, 0, WAYS * sizeof *times);
    progress_begin(&p, title, (int64_t)ROUNDS * count);
    for (int round = 0; round < ROUNDS; round++)
        for (int way = 0; way < count; way++) {
            const bool named = ways[way].placement == FOVEA_PLACEMENT_NODE;
            run(w, contexts[ways[way].bound], ways[way].placement, named ? n->node[first].number : 0, &times[way]);
            progress_show(&p, (int64_t)round * count + way + 1);
        }
    progress_end(&p);
    printf("\n%s of %lld MiB\n  threads    placement  milliseconds    GB/s  speed\n", title,
           (long long)w->s->megabytes);
    double base = 0;
    for (int way = 0; way < count; way++) {
        const double seconds = median(&times[way]);
        base = way == 0 ? seconds : base;
        printf("  %-9s  %-9s  %12.3f  %6.1f  %5.2f\n", ways[way].bound ? "bound" : "not bound", ways[way].name,
               1e3 * seconds, 1e-9 * (double)(w->s->megabytes << 20) / seconds, base / seconds);
    }
    fflush(stdout);
    free(times);
}

static void print_all(const settings *s) {
    fovea_context *contexts[2];
    fv_cpu cpu;
    fv_cpu_detect(&cpu);
    if (s->system)
        fv_nodes_read(s->system, &cpu.nodes);
    for (int bound = 0; bound < 2; bound++) {
        fovea_context_options options;
        fovea_context_options_init(&options);
        options.threads_backend = FOVEA_THREADS_POOL;
        options.threads_bind = bound ? FOVEA_BIND_NODES : FOVEA_BIND_NONE;
        must(fv_context_create_on(&cpu, &options, &contexts[bound]));
    }
    const int64_t floats = (s->megabytes << 20) / (int64_t)sizeof(float);
    work linear = {.s = s, .outputs = floats / FEATURES};
    linear.weights = must_get(floats * 4);
    linear.in = must_get(FEATURES * 4);
    linear.out = must_get((linear.outputs + QUERY_HEADS * CHANNELS) * 4);
    fill(linear.weights, floats), fill(linear.in, FEATURES);
    work decode = linear;
    decode.outputs = QUERY_HEADS * CHANNELS;
    print_nodes(s, contexts[0]);
    print_reading(s, contexts[0], contexts[0]->threads.count);
    print_work("linear map, 1 row, float32 weights", run_linear, &linear, contexts, false);
    print_work("decoding step, float32 keys and values", run_decode, &decode, contexts, true);
    printf(
        fv_context_nodes(contexts[0]) < 2
            ? "\nThis machine has one node, as far as this process may use it. Threads are not bound there, and all "
              "placements\nare the same, so only the speed without them was measured. Binding by other means can be "
              "slower: a bound\nthread cannot leave a CPU that other work keeps busy, and all threads of a call wait "
              "for the last.\n"
            : "\nMedians; speed: compared with the first line. Lines of the same speed say that memory is no limit, "
              "or that one\nnode has the pages of both. Bound threads are slower where other work keeps CPUs of "
              "their node busy, which\nthey cannot leave.\n");
    free(linear.weights), free(linear.in), free(linear.out), free(linear.expected), free(decode.expected);
    fovea_context_destroy(contexts[0]);
    fovea_context_destroy(contexts[1]);
}

int main(int argc, char **argv) {
    static const cli_option table[] = {
        {"--megabytes", "N", "256", cli_read_number, 16, 1 << 20, offsetof(settings, megabytes), 1,
         "MiB that each measurement reads; more than caches hold (default: 512)"},
        {"--seconds", "S", "0.5", cli_read_real, 0, 3600, offsetof(settings, seconds), 1,
         "time for each line of a table, in each of 5 rounds (default: 0.5)"},
        {"--system", "DIR", "@directory " FV_SYSTEM_NODES, cli_read_text, 0, 0, offsetof(settings, system), 1,
         "another description of the nodes, for tests (default: " FV_SYSTEM_NODES ")"},
    };
    static const cli_command command = {"", 1, 0, 0, "", "--megabytes 256", "measure what placement by node gains"};
    const cli program = {.program = "fovea-nodes",
                         .version = fovea_version(),
                         .description = "Prints the nodes of memory (NUMA) of this machine, the speed at which each "
                                        "reads the memory of each, and how fast a linear map and a decoding step are "
                                        "with weights and caches placed on one node, spread over nodes or copied to "
                                        "each, by threads that are bound to nodes or not. Takes a minute, and memory "
                                        "for one more copy of what is read than there are nodes. Best run while "
                                        "nothing else does.",
                         .exit_statuses = "0 success; 1 failure; 2 wrong usage",
                         .examples = "fovea-nodes >nodes.txt",
                         .commands = &command,
                         .command_count = 1,
                         .options = table,
                         .option_count = sizeof table / sizeof table[0]};
    settings s = {.megabytes = 512, .seconds = 0.5, .system = FV_SYSTEM_NODES};
    const cli_command *only;
    const char *words[1];
    int word_count;
    const int status = cli_read(&program, argc, argv, &s, &only, words, &word_count);
    if (status >= 0)
        return status;
    print_all(&s);
    return 0;
}

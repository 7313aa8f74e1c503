/* Work on made-up nodes of memory (nodes_system.h): a thread's own node comes first, and no bit depends on where
 * weights and pages are. */
#define _GNU_SOURCE /* sched_getcpu */
#include "cache_case.h"
#include "linear/linear.h"
#include "linear_case.h"
#include "nodes_system.h"
#include "test.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --------------------------------------------------------------------------------------------------------- order -- */

enum { PAGES = 16, IN = 32 };

/* Pages of an output, in the order in which they are written: forbidden until then. */
static struct {
    char *at;
    size_t page;
    int order[PAGES], count;
    struct sigaction before;
} output;

static void on_fault(int number, siginfo_t *info, void *context) {
    const uintptr_t at = (uintptr_t)info->si_addr - (uintptr_t)output.at;
    (void)number, (void)context;
    if (at >= PAGES * output.page) {
        sigaction(SIGSEGV, &output.before, NULL);
        return;
    }
    output.order[output.count++] = (int)(at / output.page);
    mprotect(output.at + at / output.page * output.page, output.page, PROT_READ | PROT_WRITE);
}

static void begin_output(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    output.page = (size_t)sysconf(_SC_PAGESIZE);
    output.count = 0;
    output.at = mmap(NULL, PAGES * output.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &action, &output.before);
}

/* own[page]: 1: of the node that ran it; 0: of others; -1: of both. */
static void end_output(const int own[PAGES], const char *what) {
    sigaction(SIGSEGV, &output.before, NULL);
    test_check(output.count == PAGES, "%s: %d pages were written", what, output.count);
    bool others = false;
    for (int i = 0; i < output.count; i++) {
        test_check(own[output.order[i]] != 1 || !others, "%s: page %d of the own node came after others", what,
                   output.order[i]);
        others = others || own[output.order[i]] == 0;
    }
    munmap(output.at, PAGES * output.page);
}

typedef struct call {
    const fovea_context *ctx;
    const fovea_linear *linear;
    const fovea_attention_plan *plan;
    const void *args;
    int here; /* the node that it ran on */
} call;

/* By the made-up CPU. */
static int node_here(const fv_nodes *nodes) {
    const int cpu = sched_getcpu();
    int node = 0;
    while (!CPU_ISSET((size_t)cpu, (const cpu_set_t *)(const void *)nodes->node[node].set))
        node++;
    return node;
}

static void run_call(void *arg, int64_t index) {
    call *c = arg;
    if (index > 0)
        return;
    c->here = node_here(&c->ctx->cpu.nodes);
    check_status("execute", fovea_linear_apply(c->ctx, c->linear, c->args, NULL, 0), FOVEA_OK, "");
}

static void run_attention(void *arg, int64_t index) {
    call *c = arg;
    const fovea_attention_args *args = c->args;
    if (index > 0)
        return;
    c->here = node_here(&c->ctx->cpu.nodes);
    check_status("execute", fovea_attention_execute(c->plan, args, NULL, 0), FOVEA_OK, "");
}

static int node_of_column(const fovea_context *ctx, const fovea_linear *l, int64_t column) {
    return fv_node_of(&ctx->threads, column / l->panel, l->panels);
}

/* One row; all of a call on one thread, as in a task. */
static void test_order(const topology *t, int cpu) {
    make_up(t);
    fovea_context *ctx = make_context(FOVEA_BIND_NODES, FOVEA_THREADS_POOL, FOVEA_OK);
    const int64_t out = PAGES * sysconf(_SC_PAGESIZE) / (int64_t)sizeof(float);
    float *w = must_alloc(IN * out, sizeof *w), x[IN];
    int own[PAGES];
    fovea_linear_desc d;
    fovea_linear_args args;
    fovea_linear *l;
    for (int64_t i = 0; i < IN * out; i++)
        w[i] = (float)(i * 37 % 101) / 101.0F;
    memcpy(x, w, sizeof x);
    fovea_linear_desc_init(&d);
    d.in_features = IN;
    d.part.weight = fovea_matrix_in_out(w, FOVEA_DTYPE_F32, IN, out);
    d.placement = FOVEA_PLACEMENT_SPREAD;
    check_status("pack", fovea_linear_create(ctx, &d, &l), FOVEA_OK, "");
    caller_cpu = cpu;
    begin_output();
    fovea_linear_args_init(&args);
    const fovea_tensor y = fovea_tensor_bthd(output.at, FOVEA_DTYPE_F32, 1, 1, 1, out);
    args.x = fovea_tensor_bthd(x, FOVEA_DTYPE_F32, 1, 1, 1, IN);
    args.y = &y;
    call c = {.ctx = ctx, .linear = l, .args = &args};
    check_status("parallel", fovea_parallel(ctx, 2, run_call, &c), FOVEA_OK, "");
    for (int64_t page = 0; page < PAGES; page++) {
        const int first = node_of_column(ctx, l, page * out / PAGES),
                  last = node_of_column(ctx, l, (page + 1) * out / PAGES - 1);
        own[page] = first == c.here && last == c.here ? 1 : first == c.here || last == c.here ? -1 : 0;
    }
    end_output(own, t->name);
    fovea_linear_destroy(l);
    free(w);
    fovea_context_destroy(ctx);
    end_system();
}

/* A head of a cache has a page of the output. */
static void test_order_of_heads(const topology *t, int cpu) {
    make_up(t);
    fovea_context *ctx = make_context(FOVEA_BIND_NODES, FOVEA_THREADS_POOL, FOVEA_OK);
    enum { TOKENS = 300, KEYS = 16 };
    const int64_t values = sysconf(_SC_PAGESIZE) / (int64_t)sizeof(float);
    float *v = must_alloc(PAGES * TOKENS * values, sizeof *v);
    for (int64_t i = 0; i < PAGES * TOKENS * values; i++)
        v[i] = (float)(i * 37 % 101) / 101.0F;
    fovea_kv_cache_desc d;
    fovea_kv_append_args append;
    fovea_kv_cache *cache;
    int64_t sequence;
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = PAGES, d.head_dim = KEYS, d.value_dim = values, d.max_pages = 2;
    d.placement = FOVEA_PLACEMENT_SPREAD;
    check_status("cache", fovea_kv_cache_create(ctx, &d, &cache), FOVEA_OK, "");
    check_status("add", fovea_kv_cache_add(cache, &sequence), FOVEA_OK, "");
    fovea_kv_append_args_init(&append);
    append.count = 1, append.sequences = &sequence;
    append.k = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, PAGES, TOKENS, KEYS);
    append.v = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, PAGES, TOKENS, values);
    check_status("append", fovea_kv_cache_append(cache, &append), FOVEA_OK, "");
    fovea_attention_desc a;
    fovea_attention_args args;
    fovea_attention_plan *plan;
    fovea_attention_desc_init(&a);
    a.q_heads = a.kv_heads = PAGES, a.q_len = 1, a.kv_len = TOKENS, a.head_dim = KEYS, a.value_dim = values;
    a.page_keys = FOVEA_KV_PAGE_KEYS;
    check_status("plan", fovea_attention_plan_create(ctx, &a, &plan), FOVEA_OK, "");
    caller_cpu = cpu;
    begin_output();
    fovea_attention_args_init(&args);
    args.q = fovea_tensor_bhtd(v, FOVEA_DTYPE_F32, 1, PAGES, 1, KEYS);
    args.out = fovea_tensor_bhtd(output.at, FOVEA_DTYPE_F32, 1, PAGES, 1, values);
    args.cache = cache, args.cache_sequences = &sequence;
    call c = {.ctx = ctx, .plan = plan, .args = &args};
    check_status("parallel", fovea_parallel(ctx, 2, run_attention, &c), FOVEA_OK, "");
    int own[PAGES];
    for (int head = 0; head < PAGES; head++)
        own[head] = fv_node_of(&ctx->threads, head, PAGES) == c.here;
    end_output(own, "heads");
    fovea_attention_plan_destroy(plan);
    fovea_kv_cache_destroy(cache);
    free(v);
    fovea_context_destroy(ctx);
    end_system();
}

/* ---------------------------------------------------------------------------------------------------------- bits -- */

static const fovea_placement placements[] = {FOVEA_PLACEMENT_DEFAULT, FOVEA_PLACEMENT_NODE, FOVEA_PLACEMENT_SPREAD,
                                             FOVEA_PLACEMENT_COPIES};

static void test_maps(const fovea_context *plain, const fovea_context *ctx, rng *r, const char *name) {
    for (int64_t i = test_scaled(8); i > 0; i--) {
        const linear_case c = i % 2 ? linear_case_random(r) : linear_case_plain(1, 1 + 9 * i, 40 + i, 700 + 50 * i);
        linear_problem *p = linear_problem_make(&c, r);
        float *want[LINEAR_PARTS] = {NULL};
        if (!linear_problem_run(p, plain))
            continue;
        for (int64_t part = 0; part < c.parts; part++) {
            want[part] = must_alloc(tensor_floats(&p->y[part]), sizeof(float));
            memcpy(want[part], p->y[part].data, (size_t)tensor_floats(&p->y[part]) * sizeof(float));
        }
        const float *const expected[LINEAR_PARTS] = {want[0], want[1], want[2]};
        for (int how = 0; how < 4; how++) {
            p->desc.placement = placements[how];
            if (linear_problem_run(p, ctx))
                linear_problem_same(p, expected, "%s, placement %d", name, how);
        }
        for (int part = 0; part < LINEAR_PARTS; part++)
            free(want[part]);
        linear_problem_free(p);
    }
}

/* Weights in groups have scales next to them. */
static void test_quantized(const fovea_context *plain, const fovea_context *ctx, rng *r, const char *name) {
    enum { CHANNELS = 64, OUT = 700, ROWS = 3, BLOCK = 18 };
    uint8_t *w = must_alloc(OUT * CHANNELS / 32, BLOCK);
    float x[ROWS * CHANNELS], *y[2] = {must_alloc(ROWS * OUT, sizeof(float)), must_alloc(ROWS * OUT, sizeof(float))};
    for (int64_t i = 0; i < OUT * CHANNELS / 32 * BLOCK; i++)
        w[i] = i % BLOCK == 1 ? 0x2c : (uint8_t)rng_below(r, 256);
    for (int i = 0; i < ROWS * CHANNELS; i++)
        x[i] = (float)(i * 37 % 101) / 101.0F;
    for (int how = 0; how < 5; how++) {
        fovea_linear_desc d;
        fovea_linear_args args;
        fovea_linear *l;
        fovea_linear_desc_init(&d);
        d.in_features = CHANNELS;
        d.part.weight = fovea_matrix_out_in(w, FOVEA_DTYPE_Q4_0, OUT, CHANNELS);
        d.placement = how ? placements[how - 1] : FOVEA_PLACEMENT_DEFAULT;
        if (!test_check(fovea_linear_create(how ? ctx : plain, &d, &l) == FOVEA_OK, "%s", fovea_error_detail()))
            continue;
        fovea_linear_args_init(&args);
        const fovea_tensor out = fovea_tensor_bthd(y[how > 0], FOVEA_DTYPE_F32, 1, ROWS, 1, OUT);
        args.x = fovea_tensor_bthd(x, FOVEA_DTYPE_F32, 1, ROWS, 1, CHANNELS);
        args.y = &out;
        for (int other = 0; other < 2; other++) {
            memset(out.data, 0xff, ROWS * OUT * sizeof(float));
            check_status("apply", fovea_linear_apply(other ? plain : ctx, l, &args, NULL, 0), FOVEA_OK, "");
            if (how > 0)
                test_same(y[1], y[0], ROWS * OUT, "%s, q4_0, placement %d%s", name, how - 1, other ? ", unbound" : "");
        }
        fovea_linear_destroy(l);
    }
    free(w), free(y[0]), free(y[1]);
}

/* A layer's weights are placed as its description says. */
static void test_layers(const fovea_context *plain, const fovea_context *ctx, const char *name) {
    enum { FEATURES = 512, HEADS = 8, TOKENS = 3 };
    float *w = must_alloc(FEATURES * FEATURES, sizeof *w), *y[2];
    for (int i = 0; i < FEATURES * FEATURES; i++)
        w[i] = (float)(i * 37 % 101) / 101.0F;
    for (int i = 0; i < 2; i++)
        y[i] = must_alloc(TOKENS * FEATURES, sizeof(float));
    for (int how = 0; how < 5; how++) {
        fovea_attention_desc a;
        fovea_attention_args args;
        fovea_mha_desc d;
        fovea_mha_weights weights;
        fovea_mha *mha;
        const fovea_linear *l;
        int64_t part, in, out;
        fovea_attention_desc_init(&a);
        a.q_heads = a.kv_heads = HEADS, a.q_len = a.kv_len = TOKENS, a.head_dim = a.value_dim = FEATURES / HEADS;
        fovea_mha_desc_init(&d);
        d.attention = &a, d.q_features = d.out_features = FEATURES;
        d.placement = how ? placements[how - 1] : FOVEA_PLACEMENT_DEFAULT;
        fovea_mha_weights_init(&weights);
        weights.q = weights.k = weights.v = weights.o = fovea_matrix_in_out(w, FOVEA_DTYPE_F32, FEATURES, FEATURES);
        if (!test_check(fovea_mha_create(how ? ctx : plain, &d, &weights, &mha) == FOVEA_OK, "%s",
                        fovea_error_detail()))
            continue;
        for (int weight = 0; weight < 4; weight += 3) {
            check_status("linear", fovea_mha_linear(mha, weight, &l, &part, &in, &out), FOVEA_OK, "");
            test_check(l->placement.how == d.placement, "%s, weight %d, placement %d: %d", name, weight, d.placement,
                       l->placement.how);
        }
        fovea_attention_args_init(&args);
        args.q = fovea_tensor_bthd(w, FOVEA_DTYPE_F32, 1, TOKENS, 1, FEATURES);
        args.out = fovea_tensor_bthd(y[how > 0], FOVEA_DTYPE_F32, 1, TOKENS, 1, FEATURES);
        check_status("execute", fovea_mha_execute(mha, &args, NULL, 0), FOVEA_OK, "");
        fovea_mha_destroy(mha);
        if (how > 0)
            test_same(y[1], y[0], TOKENS * FEATURES, "%s, layer, placement %d", name, how - 1);
    }
    free(w), free(y[0]), free(y[1]);
}

/* Forks, and sequences of different lengths. */
static void test_caches(const fovea_context *scalar, const fovea_context *ctx, const char *name) {
    static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_I8};
    for (int i = 0; i < 6; i++) {
        cache_case c = cache_case_make(ctx, scalar);
        const int64_t tokens[] = {600, 30};
        c.k_dtype = c.v_dtype = types[i % 3];
        c.q_dtype = i % 3 == 1 ? FOVEA_DTYPE_BF16 : FOVEA_DTYPE_F32;
        c.placement = i < 3 ? FOVEA_PLACEMENT_SPREAD : FOVEA_PLACEMENT_NODE;
        fovea_kv_cache *cache = cache_make(&c);
        shadow *s[3] = {cache_add(cache), cache_add(cache), NULL};
        check_status("append", cache_append(cache, s, 2, tokens, 1), FOVEA_OK, "");
        s[2] = cache_fork(cache, s[0]);
        check_status("append", cache_append(cache, &s[1], 2, tokens, 5000), FOVEA_OK, "");
        for (int64_t rows = 1; rows <= 3; rows++)
            cache_check(&c, cache, s, 3, rows, name);
        fovea_kv_cache_destroy(cache);
        for (int n = 0; n < 3; n++)
            free(s[n]);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "nodes_work", NULL);
    rng r = rng_stream(test_seed(), "maps");
    const case_contexts x = contexts_make();
    for (int i = 0; i < USABLE; i++) {
        test_order(&topologies[i], 0);
        test_order(&topologies[i], topologies[i].mask - 1);
        test_order_of_heads(&topologies[i], topologies[i].mask - 1);
        make_up(&topologies[i]);
        fovea_context *ctx = make_context(FOVEA_BIND_NODES, FOVEA_THREADS_POOL, FOVEA_OK);
        test_maps(x.scalar, ctx, &r, topologies[i].name);
        test_quantized(x.scalar, ctx, &r, topologies[i].name);
        test_layers(x.scalar, ctx, topologies[i].name);
        test_caches(x.scalar, ctx, topologies[i].name);
        fovea_context_destroy(ctx);
        end_system();
    }
    contexts_free(&x);
    return test_end();
}

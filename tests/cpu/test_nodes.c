/* Nodes of memory (NUMA), made up (nodes_system.h).
 *
 *   description  what is found in it: uneven nodes, those without CPUs or memory or offline, CPUs outside the mask,
 *                garbage
 *   dealing      which node a part belongs to
 *   binding      by options and environment, what is refused, to which nodes the pool's threads are bound
 *   placement    which memory is touched on which node; what is refused */
#define _GNU_SOURCE /* mincore */
#include "attention_case.h"
#include "cache/cache.h"
#include "linear/linear.h"
#include "nodes_system.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void test_description(void) {
    for (int i = 0; i < TOPOLOGIES; i++) {
        const topology *t = &topologies[i];
        char text[1024] = "";
        fv_nodes nodes;
        make_up(t);
        fv_nodes_read(nodes_folder, &nodes);
        for (int n = 0; n < nodes.count; n++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d:%d%s", n ? " " : "", nodes.node[n].number,
                     nodes.node[n].cpus, nodes.node[n].memory ? "" : "m");
        test_check(strncmp(text, t->want, strlen(t->want)) == 0 && (*t->want || !*text), "%s: \"%s\", not \"%s\"",
                   t->name, text, t->want);
        end_system();
    }
}

/* Parts are in order, each node has its threads' share, and one without CPUs has none. */
static void test_dealing(void) {
    for (int i = 0; i < USABLE; i++) {
        make_up(&topologies[i]);
        fovea_context *ctx = make_context(FOVEA_BIND_NODES, FOVEA_THREADS_POOL, FOVEA_OK);
        fv_threads t = ctx->threads;
        for (t.count = 1; t.count <= 2 * topologies[i].mask; t.count++)
            for (int64_t count = 1; count <= 100; count += 1 + count / 8) {
                int last = 0, parts[4] = {0};
                for (int64_t part = 0; part < count; part++) {
                    const int node = fv_node_of(&t, part, count);
                    test_check(node >= last && node < t.nodes->count && t.nodes->node[node].cpus > 0,
                               "%s: part %d of %d is on node %d", topologies[i].name, (int)part, (int)count, node);
                    parts[last = node]++;
                }
                for (int n = 0; n < t.nodes->count && t.count == t.nodes->cpus && count % t.count == 0; n++)
                    test_check(parts[n] == count / t.count * t.nodes->node[n].cpus, "%s: node %d has %d of %d parts",
                               topologies[i].name, n, parts[n], (int)count);
            }
        fovea_context_destroy(ctx);
        end_system();
    }
}

/* ------------------------------------------------------------------------------------------------------- binding -- */

static void nothing(void *arg, int64_t index) { (void)arg, (void)index; }

static void test_threads(const topology *t) {
    make_up(t);
    fovea_context *ctx = make_context(FOVEA_BIND_NODES, FOVEA_THREADS_POOL, FOVEA_OK);
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    check_status("info", fovea_context_info(ctx, &info), FOVEA_OK, "");
    test_check(info.node_count == ctx->cpu.nodes.with_cpus && info.threads_bound && info.threads == t->mask &&
                   strstr(info.nodes, "bound to nodes; node 0: CPUs"),
               "%s: %d threads, %d nodes: %s", t->name, info.threads, info.node_count, info.nodes);
    check_status("parallel", fovea_parallel(ctx, info.threads, nothing, NULL), FOVEA_OK, "");
    const fv_nodes nodes = ctx->cpu.nodes;
    int want[CPU_SETSIZE] = {0};
    for (int i = 1; i < info.threads; i++)
        want[cpu_of_node(ctx, fv_node_of(&ctx->threads, i, info.threads))]++;
    fovea_context_destroy(ctx); /* joins: all are bound */
    for (int cpu = 0; cpu < t->mask; cpu++)
        test_check(binds[cpu] == want[cpu], "%s: %d of %d nodes: %d threads bound from CPU %d on, not %d", t->name,
                   nodes.with_cpus, nodes.count, binds[cpu], cpu, want[cpu]);
    end_system();
}

static void check_info(const char *environment, fovea_threads_backend backend, const char *words) {
    fovea_context_facts info;
    fovea_context_facts_init(&info);
    setenv("FOVEA_THREADS_BIND", environment, 1);
    fovea_context *ctx = make_context(FOVEA_BIND_NONE, backend, FOVEA_OK);
    check_status("info", fovea_context_info(ctx, &info), FOVEA_OK, "");
    test_check(strstr(info.nodes, words) != NULL, "FOVEA_THREADS_BIND=%s: no \"%s\" in \"%s\"", environment, words,
               info.nodes);
    fovea_context_destroy(ctx);
    setenv("FOVEA_THREADS_BIND", "", 1);
}

static void test_binding(void) {
    for (int i = 0; i < USABLE; i++)
        test_threads(&topologies[i]);
    make_up(&topologies[0]);
    make_context(FOVEA_BIND_NODES, FOVEA_THREADS_OPENMP, FOVEA_ERROR_ARGUMENT);
    make_context((fovea_threads_bind)2, FOVEA_THREADS_POOL, FOVEA_ERROR_ARGUMENT);
    setenv("FOVEA_THREADS_BIND", "socket", 1);
    make_context(FOVEA_BIND_NONE, FOVEA_THREADS_POOL, FOVEA_ERROR_ENVIRONMENT);
    check_info("nodes", FOVEA_THREADS_POOL, "threads bound to nodes; node 0: CPUs 4; node 1: CPUs 4");
    check_info("nodes", FOVEA_THREADS_OPENMP, "not bound: no pool");
    check_info("none", FOVEA_THREADS_POOL, "not bound;");
    refuse = true;
    make_context(FOVEA_BIND_NODES, FOVEA_THREADS_POOL, FOVEA_ERROR_UNSUPPORTED);
    refuse = false;
    end_system();
    for (int i = USABLE; i < TOPOLOGIES; i++) {
        make_up(&topologies[i]);
        if (strncmp(topologies[i].want, "0:8", 3) == 0 || !*topologies[i].want)
            check_info("nodes", FOVEA_THREADS_POOL, *topologies[i].want ? "one node; node 0: CPUs 8" : "nodes unknown");
        end_system();
    }
}

/* ----------------------------------------------------------------------------------------------------- placement -- */

/* Panels of several pages on every tier: a page at an end may be shared with another node's panel. */
enum { IN = 1024, OUT = 768 };

static fovea_linear_desc desc_of(const float *w, fovea_placement placement, int node) {
    fovea_linear_desc d;
    fovea_linear_desc_init(&d);
    d.in_features = IN;
    d.part.weight = fovea_matrix_in_out(w, FOVEA_DTYPE_F32, IN, OUT);
    d.placement = placement;
    d.placement_node = node;
    return d;
}

static void test_weights(const fovea_context *ctx, const float *w, const char *name) {
    static const fovea_placement placements[] = {FOVEA_PLACEMENT_NODE, FOVEA_PLACEMENT_SPREAD, FOVEA_PLACEMENT_COPIES};
    for (int i = 0; i < 3; i++) {
        fovea_linear *l;
        const fovea_linear_desc d = desc_of(w, placements[i], 0);
        check_status("pack", fovea_linear_create(ctx, &d, &l), FOVEA_OK, "");
        for (int64_t panel = 0; l && panel < l->panels; panel++) {
            const int node = i == 1 ? fv_node_of(&ctx->threads, panel, l->panels) : 0;
            const char *at = (const char *)l->memory + panel * l->weights.panel * (int64_t)sizeof(float);
            const int middle = cpu_of(at + l->weights.panel * 2);
            test_check(middle == cpu_of_node(ctx, node), "%s, placement %d: panel %d was touched on CPU %d, not %d",
                       name, placements[i], (int)panel, middle, cpu_of_node(ctx, node));
        }
        for (int node = 1; l && i == 2 && node < ctx->cpu.nodes.count; node++) {
            const fv_node *one = &ctx->cpu.nodes.node[node];
            const bool wanted = one->cpus > 0 && one->memory;
            test_check(wanted == (l->copies[node] != NULL), "%s: copy on node %d", name, node);
            if (l->copies[node])
                test_check(cpu_of((char *)l->copies[node]->memory + 4096) == cpu_of_node(ctx, node) &&
                               memcmp(l->copies[node]->memory, l->memory, (size_t)(l->panels * l->weights.panel * 4)) ==
                                   0,
                           "%s: the copy on node %d is not there, or another", name, node);
        }
        fovea_linear_destroy(l);
    }
}

static fovea_kv_cache *make_cache(const fovea_context *ctx, fovea_placement placement, int node, fovea_status want) {
    fovea_kv_cache_desc d;
    fovea_kv_cache *cache;
    fovea_kv_cache_desc_init(&d);
    d.kv_heads = 8;
    d.head_dim = 64;
    d.value_dim = 64;
    d.max_pages = 5;
    d.placement = placement;
    d.placement_node = node;
    check_status("cache", fovea_kv_cache_create(ctx, &d, &cache), want, "");
    return cache;
}

/* The test knows strides from the pages' description. */
static void test_pages(const fovea_context *ctx, const char *name) {
    fovea_kv_cache *cache = make_cache(ctx, FOVEA_PLACEMENT_SPREAD, 0, FOVEA_OK);
    const fv_pages *p = fv_cache_pages(cache);
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    for (int page = 0; page < 5; page++)
        for (int head = 0; head < 8; head++) {
            const char *at = fv_page_at(p, FV_VALUES, page, head, 0);
            const int node = fv_node_of(&ctx->threads, head, 8), want = cpu_of_node(ctx, node);
            unsigned char resident = 0;
            test_check(cpu_of(at) == want, "%s: head %d of page %d is on CPU %d, not %d", name, head, page, cpu_of(at),
                       want);
            test_check(mincore((char *)(uintptr_t)((uintptr_t)at / size * size), size, &resident) == 0 &&
                           (resident & 1),
                       "%s: head %d of page %d was not touched", name, head, page);
        }
    fovea_kv_cache_destroy(cache);
}

static void test_refused(const float *w) {
    static const struct {
        int topology;
        fovea_placement placement;
        int node;
        bool bind;
        fovea_status want;
    } cases[] = {{0, FOVEA_PLACEMENT_NODE, 1, false, FOVEA_OK},
                 {0, FOVEA_PLACEMENT_NODE, 2, true, FOVEA_ERROR_ARGUMENT},
                 {0, FOVEA_PLACEMENT_NODE, -1, true, FOVEA_ERROR_ARGUMENT},
                 {0, FOVEA_PLACEMENT_SPREAD, 1, true, FOVEA_ERROR_ARGUMENT},
                 {0, FOVEA_PLACEMENT_DEFAULT, 1, true, FOVEA_ERROR_ARGUMENT},
                 {0, FOVEA_PLACEMENT_SPREAD, 0, false, FOVEA_ERROR_UNSUPPORTED},
                 {0, FOVEA_PLACEMENT_COPIES, 0, false, FOVEA_ERROR_UNSUPPORTED},
                 {0, (fovea_placement)4, 0, true, FOVEA_ERROR_ARGUMENT},
                 {4, FOVEA_PLACEMENT_NODE, 1, true, FOVEA_ERROR_ARGUMENT}, /* no CPUs */
                 {5, FOVEA_PLACEMENT_NODE, 1, true, FOVEA_ERROR_ARGUMENT}, /* no memory */
                 {6, FOVEA_PLACEMENT_NODE, 2, true, FOVEA_OK},             /* one of the others is offline: */
                 {6, FOVEA_PLACEMENT_NODE, 1, true, FOVEA_ERROR_ARGUMENT},
                 {ONE_NODE, FOVEA_PLACEMENT_NODE, 0, false, FOVEA_OK}, /* one node: */
                 {ONE_NODE, FOVEA_PLACEMENT_NODE, 1, false, FOVEA_ERROR_ARGUMENT},
                 {ONE_NODE, FOVEA_PLACEMENT_SPREAD, 0, false, FOVEA_OK},
                 {ONE_NODE, FOVEA_PLACEMENT_COPIES, 0, false, FOVEA_OK},
                 {NO_DESCRIPTION, FOVEA_PLACEMENT_NODE, 0, true, FOVEA_OK}, /* no description: */
                 {NO_DESCRIPTION, FOVEA_PLACEMENT_NODE, 1, true, FOVEA_ERROR_ARGUMENT},
                 {NO_DESCRIPTION, FOVEA_PLACEMENT_SPREAD, 0, true, FOVEA_OK}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fovea_linear *l;
        make_up(&topologies[cases[i].topology]);
        fovea_context *ctx =
            make_context(cases[i].bind ? FOVEA_BIND_NODES : FOVEA_BIND_NONE, FOVEA_THREADS_POOL, FOVEA_OK);
        const fovea_linear_desc d = desc_of(w, cases[i].placement, cases[i].node);
        char what[64];
        snprintf(what, sizeof what, "case %zu", i);
        check_status(what, fovea_linear_create(ctx, &d, &l), cases[i].want, "");
        fovea_linear_destroy(l);
        const bool copies = cases[i].placement == FOVEA_PLACEMENT_COPIES;
        fovea_kv_cache_destroy(
            make_cache(ctx, cases[i].placement, cases[i].node, copies ? FOVEA_ERROR_UNSUPPORTED : cases[i].want));
        if (i == 0) {
            refuse = true;
            check_status("no binding", fovea_linear_create(ctx, &d, &l), FOVEA_ERROR_UNSUPPORTED, "bound");
            make_cache(ctx, FOVEA_PLACEMENT_NODE, 1, FOVEA_ERROR_UNSUPPORTED);
            refuse = false;
        }
        fovea_context_destroy(ctx);
        end_system();
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "nodes", NULL);
    float *w = must_alloc((int64_t)IN * OUT, sizeof *w);
    for (int64_t i = 0; i < (int64_t)IN * OUT; i++)
        w[i] = (float)(i * 37 % 101) / 101.0F;
    test_description();
    test_dealing();
    test_binding();
    for (int i = 0; i < USABLE; i++) {
        make_up(&topologies[i]);
        fovea_context *ctx = make_context(FOVEA_BIND_NODES, FOVEA_THREADS_POOL, FOVEA_OK);
        test_weights(ctx, w, topologies[i].name);
        test_pages(ctx, topologies[i].name);
        fovea_context_destroy(ctx);
        end_system();
    }
    test_refused(w);
    free(w);
    return test_end();
}

/* Nodes of memory: whether a context binds its threads to them, and where weights and caches may be placed. */
#include "context/context.h"

#include "core/core.h"

#include <stdlib.h>
#include <string.h>

/* The environment is for all contexts of a program: only the options are refused where the threads are not the
 * context's own. */
fovea_status fv_context_select_nodes(fovea_context *ctx, fovea_threads_bind option) {
    const char *word = fv_environment("FOVEA_THREADS_BIND");
    const bool pool = ctx->own_pool != NULL, given = word && *word;
    const bool nodes = given ? strcmp(word, "nodes") == 0 : option == FOVEA_BIND_NODES;
    if (given && !nodes && strcmp(word, "none") != 0)
        return fv_fail(FOVEA_ERROR_ENVIRONMENT, "FOVEA_THREADS_BIND=\"%.40s\" is unknown; known: none, nodes", word);
    if (nodes && !given && !pool)
        return fv_fail(FOVEA_ERROR_ARGUMENT, "threads_bind needs FOVEA_THREADS_POOL");
    ctx->bind = !nodes ? "not bound" : !pool ? "not bound: no pool" : "not bound: one node";
    if (!nodes || !pool || fv_context_nodes(ctx) < 2)
        return FOVEA_OK;
    ctx->threads.nodes = &ctx->cpu.nodes;
    if (!fv_node_place(&ctx->cpu.nodes, fv_node_of(&ctx->threads, 0, 1), NULL, 0, 0, 0)) /* a trial */
        return fv_fail(FOVEA_ERROR_UNSUPPORTED, "the system does not let threads be bound to nodes");
    ctx->bind = "bound to nodes";
    fv_pool_bind(ctx->own_pool, &ctx->threads);
    return FOVEA_OK;
}

void fv_context_nodes_text(const fovea_context *ctx, char *text, size_t size) {
    size_t length = 0;
    fv_text_add(text, size, &length, "threads %s", ctx->bind);
    if (!ctx->cpu.nodes.count)
        fv_text_add(text, size, &length, "; nodes unknown");
    for (int i = 0; i < ctx->cpu.nodes.count; i++) {
        const fv_node *node = &ctx->cpu.nodes.node[i];
        fv_text_add(text, size, &length, "; node %d: CPUs %d%s", node->number, node->cpus,
                    node->memory ? "" : ", no memory");
    }
}

fovea_status fv_placement_apply(const fovea_context *ctx, fv_placement *p, void *memory, int64_t part, int64_t count) {
    int64_t first = 0, end = 0;
    for (int i = 0; p->how != FOVEA_PLACEMENT_DEFAULT && i < ctx->cpu.nodes.count; first = end, i++) {
        while (end < count && i == (p->how == FOVEA_PLACEMENT_SPREAD ? fv_node_of(&ctx->threads, end, count) : p->node))
            end++;
        p->end[i] = end;
        if (first < end && !fv_node_place(&ctx->cpu.nodes, i, memory, part, first, end))
            return fv_fail(FOVEA_ERROR_UNSUPPORTED, "the system does not let threads be bound to nodes");
    }
    return FOVEA_OK;
}

fovea_status fv_placement_select(const fovea_context *ctx, fovea_placement placement, int number, fv_placement *taken) {
    const fovea_status status = fv_enum_check(FV_ENUM_placement, "placement", (int)placement);
    const fv_nodes *n = &ctx->cpu.nodes;
    const bool one = fv_context_nodes(ctx) < 2, named = placement == FOVEA_PLACEMENT_NODE;
    int node = 0;
    while (named && node < n->count && n->node[node].number != number)
        node++;
    if (status != FOVEA_OK)
        return status;
    if (named && n->count ? node == n->count || n->node[node].cpus == 0 || !n->node[node].memory : number != 0)
        return fv_fail(FOVEA_ERROR_ARGUMENT,
                       named ? "placement_node is %d: no node that has memory and CPUs of this process"
                             : "placement_node is %d, but placement is not FOVEA_PLACEMENT_NODE",
                       number);
    if (!one && placement > FOVEA_PLACEMENT_NODE && !ctx->threads.nodes)
        return fv_fail(FOVEA_ERROR_UNSUPPORTED, "%s needs a context with threads_bind FOVEA_BIND_NODES",
                       fv_enum_name(FV_ENUM_placement, (int)placement));
    taken->nodes = n->count;
    taken->how = one ? FOVEA_PLACEMENT_DEFAULT : placement;
    taken->node = one || placement != FOVEA_PLACEMENT_COPIES ? node : fv_node_of(&ctx->threads, 0, 1);
    return FOVEA_OK;
}

/* A backend's life: graphs, aborts, counts. */
#include "backend.h"
#include "backend_operations.h"
#include "backend_options.h"
#include "delegate.h"
#include "elementwise.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

void fg_backend_set_n_threads(ggml_backend_t backend, int threads) {
    ((fg_backend *)backend)->threads = threads > 1 ? threads : 1;
}

/* -------------------------------------------------------------------------------------------------------- graphs -- */

/* Has it no elements? ggml gives such tensors no memory. */
static bool is_empty(const struct ggml_tensor *t) { return !t->ne[0] || !t->ne[1] || !t->ne[2] || !t->ne[3]; }

/* Can it be computed here, rather than by ggml's CPU backend on our behalf? */
static bool is_ours(fg_op op, const struct ggml_tensor *node) {
    return op < FG_OPERATIONS && fg_operations[op].serves(node) && !fg_weights_written(node);
}

static enum ggml_status compute(fg_backend *backend, struct ggml_tensor *node) {
    const fg_op op = fg_op_of(node->op);
    const bool ours = is_ours(op, node);
    if (!ours && !fg_weights_touched(node)) {
        fg_say("%s was given to this backend, which does not support it", fg_ggml.op_name(node->op));
        return GGML_STATUS_FAILED;
    }
    for (int i = 0; i < GGML_MAX_SRC; i++)
        if (node->src[i] && !(ours && fg_weights_multiplied(node, i)) && !fg_weights_bring(node->src[i]))
            return GGML_STATUS_ALLOC_FAILED;
    if (!ours && !fg_weights_bring(node))
        return GGML_STATUS_ALLOC_FAILED;
    const enum ggml_status status =
        ours ? fg_operations[op].compute(backend, node) : fg_delegate_compute(backend, node);
    if (fg_weights_written(node))
        fg_weights_changed(node);
    if (ours && status == GGML_STATUS_SUCCESS)
        backend->calls[op]++;
    return status;
}

/* Is it a part of a graph whose other parts ggml computes? Those have at most a layer's products. */
static bool is_part(struct ggml_cgraph *graph) {
    enum { MOST_PRODUCTS = 8 };
    int products = 0;
    for (int i = fg_ggml.graph_n_nodes(graph); i-- && products <= MOST_PRODUCTS;)
        products += fg_is_product(fg_op_of(fg_ggml.graph_node(graph, i)->op));
    return products <= MOST_PRODUCTS;
}

static enum ggml_status graph_compute(ggml_backend_t ggml, struct ggml_cgraph *graph) {
    fg_backend *backend = (fg_backend *)ggml;
    const int nodes = fg_ggml.graph_n_nodes(graph);
    backend->beside = is_part(graph);
    for (int i = 0; i < nodes; i++) {
        struct ggml_tensor *node = fg_ggml.graph_node(graph, i);
        if (!(node->flags & GGML_TENSOR_FLAG_COMPUTE) || fg_is_view(node->op) || is_empty(node))
            continue;
        if (backend->abort && backend->abort(backend->abort_data))
            return GGML_STATUS_ABORTED;
        const enum ggml_status status = compute(backend, node);
        if (status != GGML_STATUS_SUCCESS)
            return status;
    }
    return GGML_STATUS_SUCCESS;
}

void fg_backend_set_abort_callback(ggml_backend_t ggml, ggml_abort_callback callback, void *data) {
    fg_backend *backend = (fg_backend *)ggml;
    backend->abort = callback;
    backend->abort_data = data;
}

int64_t fg_backend_calls(ggml_backend_t backend, const char *name) {
    for (int i = 0; i < FG_OPERATIONS; i++)
        if (!strcmp(fg_op_names[i], name))
            return ((fg_backend *)backend)->calls[i];
    return -1;
}

/* ---------------------------------------------------------------------------------------------------------- life -- */

static const char *backend_name(ggml_backend_t backend) {
    (void)backend;
    return "Fovea";
}

static void backend_free(ggml_backend_t ggml) {
    fg_backend *backend = (fg_backend *)ggml;
    if (fg_options_debug())
        for (int i = 0; i < FG_OPERATIONS; i++)
            if (backend->calls[i])
                fg_say("%s: %lld computed", fg_op_names[i], (long long)backend->calls[i]);
    fg_backend_teams_free(backend);
    fg_memory *memories[] = {&backend->workspace, &backend->ranges, &backend->bits, &backend->bias, &backend->widened};
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++)
        fg_memory_free(memories[i]);
    fg_ropes_free(backend);
    fg_delegate_free(backend);
    free(backend);
}

ggml_backend_t fg_backend_create(ggml_backend_dev_t device) {
    static ggml_guid guid = {0x66, 0x6f, 0x76, 0x65, 0x61, 0x2d, 0x61, 0x74,
                             0x74, 0x65, 0x6e, 0x74, 0x69, 0x6f, 0x6e, 0x31};
    fg_backend *backend = calloc(1, sizeof *backend);
    if (!backend)
        return NULL;
    backend->ggml = (struct ggml_backend){
        .guid = &guid,
        .iface = {.get_name = backend_name, .free = backend_free, .graph_compute = graph_compute},
        .device = device,
    };
    backend->threads = GGML_DEFAULT_N_THREADS;
    return &backend->ggml;
}

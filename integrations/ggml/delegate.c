/* Operations that ggml's CPU backend computes for us (delegate.h): a graph of one node, whose operands are leaves
 * without buffers, so that it sees memory alone. */
#include "delegate.h"

#include <string.h>

bool fg_delegate_serves(const struct ggml_tensor *op) {
    const ggml_backend_dev_t cpu = fg_ggml.backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    return cpu && fg_ggml.backend_dev_supports_op(cpu, op);
}

static ggml_backend_t cpu_of(fg_backend *backend) {
    if (!backend->cpu)
        backend->cpu = fg_ggml.backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, NULL);
    if (!backend->cpu)
        return NULL;
    ggml_backend_set_n_threads_t set = NULL;
    void *const function = fg_ggml.backend_reg_get_proc_address(
        fg_ggml.backend_dev_backend_reg(fg_ggml.backend_get_device(backend->cpu)), "ggml_backend_set_n_threads");
    memcpy(&set, &function, sizeof set); /* ISO C has no conversion from a pointer to data */
    if (set)
        set(backend->cpu, backend->threads);
    return backend->cpu;
}

enum ggml_status fg_delegate_compute(fg_backend *backend, const struct ggml_tensor *op) {
    struct ggml_tensor node = *op, leaves[GGML_MAX_SRC];
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (!op->src[i])
            continue;
        leaves[i] = *op->src[i];
        leaves[i].op = fg_op_none();
        leaves[i].buffer = NULL;
        memset(leaves[i].src, 0, sizeof leaves[i].src);
        node.src[i] = &leaves[i];
    }
    node.buffer = NULL;
    struct ggml_context *ctx = fg_ggml.init(
        (struct ggml_init_params){.mem_size = fg_ggml.graph_overhead() + fg_ggml.tensor_overhead(), .no_alloc = true});
    const ggml_backend_t cpu = cpu_of(backend);
    enum ggml_status status = GGML_STATUS_ALLOC_FAILED;
    if (ctx && cpu) {
        struct ggml_cgraph *graph = fg_ggml.new_graph(ctx);
        fg_ggml.build_forward_expand(graph, &node);
        status = fg_ggml.backend_graph_compute(cpu, graph);
    }
    if (status != GGML_STATUS_SUCCESS)
        fg_say("%s: ggml's CPU backend failed", fg_ggml.op_name(op->op));
    fg_ggml.free(ctx);
    return status;
}

void fg_delegate_free(fg_backend *backend) {
    if (backend->cpu)
        fg_ggml.backend_free(backend->cpu);
}

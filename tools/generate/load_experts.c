/* Experts of a decoder (load.h): an array is a stack of matrices, one of each expert. */
#include "load.h"

#include <stdlib.h>

enum { GATE, UP, DOWN, STACKS };

/* A stack as a matrix of each expert, and their biases if the file has some. */
static int load_stack(const loading *l, const char *format, int64_t layer, int64_t in, int64_t out,
                      fovea_matrix *matrices, source *from) {
    const int64_t experts = l->m->config.experts.experts, all = experts * out;
    const piece p = {format, all, 0, all, false};
    char name[LOAD_NAME];
    fovea_matrix stack;
    load_name(format, layer, ".weight", name);
    if (load_has(l, name) && weights_stack(l->w, name) != experts)
        return complain(l->to, l->m->path, "%s has matrices of %lld experts, not of %lld", name,
                        (long long)weights_stack(l->w, name), (long long)experts);
    if (load_matrix(l, &p, name, in, &stack, from) != 0)
        return -1;
    stack.out = out;
    for (int64_t e = 0; e < experts; e++) {
        matrices[e] = stack;
        matrices[e].data = (const char *)stack.data + e * out * from->pages.row_bytes;
    }
    load_name(format, layer, ".bias", name);
    if (load_has(l, name) && (from->bias = weights_load(l->m->ctx, l->w, name, experts, out, l->to)) == NULL)
        return -1;
    return 0;
}

/* together: UP has the gate, too. */
static int pack(const loading *l, int64_t layer, bool together, fovea_matrix *const matrices[STACKS],
                const source from[STACKS], fovea_experts **experts) {
    model *m = l->m;
    const config *c = &m->config;
    fovea_experts_desc desc = c->experts;
    fovea_experts_weights given;
    char name[LOAD_NAME];
    bool blocks = false;
    fovea_experts_weights_init(&given);
    given.gate = together ? NULL : matrices[GATE];
    given.up = matrices[UP];
    given.down = matrices[DOWN];
    given.gate_bias = from[GATE].bias;
    given.up_bias = from[UP].bias;
    given.down_bias = from[DOWN].bias;
    for (int i = together ? UP : GATE; i < STACKS; i++)
        blocks = blocks || model_is_blocks(matrices[i]->dtype);
    desc.gate_up = together ? FOVEA_GATE_UP_CONCATENATED : FOVEA_GATE_UP_SEPARATE;
    desc.in_features = c->width;
    desc.dtype = m->options.dtype;
    desc.y_dtype = FOVEA_DTYPE_F32;
    if (m->options.has_arithmetic && blocks)
        desc.arithmetic = m->options.arithmetic;
    load_name(together ? c->names->gate_up : c->names->experts[UP], layer, "", name);
    if (fovea_experts_create(m->ctx, &desc, &given, experts) != FOVEA_OK)
        return model_failed(m, name, l->to);
    m->token_bytes += (int64_t)fovea_experts_weight_bytes(*experts) / desc.experts * c->router.k;
    m->quantized = m->quantized || blocks;
    return 0;
}

int load_experts(const loading *l, int64_t layer, model_layer *to) {
    const config *c = &l->m->config;
    const int64_t count = c->experts.experts, inner = c->experts.intermediate;
    char name[LOAD_NAME];
    load_name(c->names->gate_up, layer, ".weight", name);
    const bool together = load_has(l, name);
    const int64_t in[STACKS] = {c->width, c->width, inner},
                  out[STACKS] = {inner, together ? 2 * inner : inner, c->width};
    const char *const stacks[STACKS] = {c->names->experts[GATE], together ? c->names->gate_up : c->names->experts[UP],
                                        c->names->experts[DOWN]};
    const piece router = {c->names->router, count, 0, count, false}, gate = {c->names->shared_gate, 1, 0, 1, false};
    const map_kind scores = {c->width, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32};
    source from[STACKS] = {0};
    fovea_matrix *memory = malloc((size_t)(STACKS * count) * sizeof *memory);
    if (memory == NULL)
        return load_out_of_memory(l);
    fovea_matrix *const matrices[STACKS] = {memory, memory + count, memory + 2 * count};
    int status = load_map(l, &router, 1, layer, &scores, &to->router);
    if (status == 0 && gate.name != NULL)
        status = load_map(l, &gate, 1, layer, &scores, &to->router);
    for (int i = together ? UP : GATE; status == 0 && i < STACKS; i++)
        status = load_stack(l, stacks[i], layer, in[i], out[i], matrices[i], &from[i]);
    if (status == 0)
        status = pack(l, layer, together, matrices, from, &to->experts);
    for (int i = 0; i < STACKS; i++)
        load_release(&from[i]);
    free(memory);
    return status;
}

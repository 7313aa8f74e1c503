/* config.h. */
#include "config_private.h"

#include <string.h>

int config_read(const weights *w, config *c, complaint to) {
    int64_t columns;
    *c = (config){.word_scale = 1.0};
    fovea_rope_desc_init(&c->rope);
    fovea_rope_desc_init(&c->local_rope);
    fovea_experts_desc_init(&c->experts);
    fovea_router_init(&c->router);
    if ((weights_gguf(w) != NULL ? config_read_gguf(weights_gguf(w), c, to) : config_read_json(w, c, to)) != 0)
        return -1;
    for (int64_t i = 0, states = 0; i < c->layers; i++)
        c->place[i] = c->recurrent[i] ? states++ : c->attention_layers++;
    if (c->kv_heads == 0)
        c->kv_heads = c->heads;
    if (c->head_dim == 0)
        c->head_dim = c->width / c->heads;
    if (c->rope.rotary_dim == 0)
        c->rope.rotary_dim = c->head_dim;
    if (c->local_rope.rotary_dim == 0)
        c->local_rope.rotary_dim = c->rope.rotary_dim;
    if (!weights_shape(w, c->names->words, &c->words, &columns) || columns != c->width || c->words < 1 ||
        c->words > INT32_MAX)
        return complain(to, weights_path(w), "%s is missing, or not of %lld columns", c->names->words,
                        (long long)c->width);
    if (c->head_dim < 1 || c->head_dim > 576 || c->heads % c->kv_heads != 0)
        return complain(to, weights_path(w), "has %lld heads of %lld channels on %lld: no such attention",
                        (long long)c->heads, (long long)c->head_dim, (long long)c->kv_heads);
    if (!c->gpt2 && c->rope.rotary_dim > c->head_dim)
        return complain(to, weights_path(w), "rotates %lld channels of heads that have %lld",
                        (long long)c->rope.rotary_dim, (long long)c->head_dim);
    return 0;
}

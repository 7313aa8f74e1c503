/* config.h. */
#include "config.h"

#include "text_file.h"

#include <math.h>
#include <string.h>

enum { PATH_MOST = 4096, CONFIG_MOST = 1 << 20, LAYERS_MOST = 1 << 12, WIDTH_MOST = 1 << 20, TOKENS_MOST = 1 << 24 };

static const config_names llama_gguf = {
    .words = "token_embd.weight",
    .last = "output_norm",
    .head = "output.weight",
    .attention_norm = "blk.%lld.attn_norm",
    .feed_norm = "blk.%lld.ffn_norm",
    .qkv = {"blk.%lld.attn_q", "blk.%lld.attn_k", "blk.%lld.attn_v"},
    .out = "blk.%lld.attn_output",
    .gate = "blk.%lld.ffn_gate",
    .up = "blk.%lld.ffn_up",
    .down = "blk.%lld.ffn_down",
};

static const config_names llama_safetensors = {
    .words = "model.embed_tokens.weight",
    .last = "model.norm",
    .head = "lm_head.weight",
    .attention_norm = "model.layers.%lld.input_layernorm",
    .feed_norm = "model.layers.%lld.post_attention_layernorm",
    .qkv = {"model.layers.%lld.self_attn.q_proj", "model.layers.%lld.self_attn.k_proj",
            "model.layers.%lld.self_attn.v_proj"},
    .out = "model.layers.%lld.self_attn.o_proj",
    .gate = "model.layers.%lld.mlp.gate_proj",
    .up = "model.layers.%lld.mlp.up_proj",
    .down = "model.layers.%lld.mlp.down_proj",
};

/* As transformers writes them, and as the first publication had them. */
#define GPT2_NAMES(prefix)                                                                                             \
    {                                                                                                                  \
        .words = prefix "wte.weight", .places = prefix "wpe.weight", .last = prefix "ln_f", .head = "lm_head.weight",  \
        .attention_norm = prefix "h.%lld.ln_1", .feed_norm = prefix "h.%lld.ln_2",                                     \
        .qkv = {prefix "h.%lld.attn.c_attn", NULL, NULL}, .out = prefix "h.%lld.attn.c_proj",                          \
        .up = prefix "h.%lld.mlp.c_fc", .down = prefix "h.%lld.mlp.c_proj", .in_out = true,                            \
    }
static const config_names gpt2_names[] = {GPT2_NAMES("transformer."), GPT2_NAMES("")};

/* ------------------------------------------------------------------------------------------------------------ GGUF -- */

/* As llama.cpp reads it: linear unless another type is named, by a factor of either name, or by none. */
static int read_gguf_scaling(const gguf *f, config *c, complaint to) {
    static const char *const types[] = {"linear", "none", NULL}, *const names[] = {"llama.rope.scaling.factor",
                                                                                   "llama.rope.scale_linear"};
    const char *name = names[gguf_find(f, names[0]) == NULL];
    int type = 0;
    double factor = 1.0;
    if (gguf_word(f, "llama.rope.scaling.type", false, types, &type, to) != 0 ||
        gguf_real(f, name, false, &factor, to) != 0)
        return -1;
    if (factor <= 0.0)
        return complain(to, gguf_path(f), "%s is %g, not above 0", name, factor);
    if (type == 0 && factor != 1.0) {
        c->rope.scaling = FOVEA_ROPE_LINEAR;
        c->rope.factor = factor;
    }
    return 0;
}

static int read_gguf(const gguf *f, config *c, complaint to) {
    static const char *const reals[] = {"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base"};
    static const char *const architectures[] = {"llama", NULL}, *const types[] = {"model", NULL};
    int one = 0;
    int64_t value_dim = 0;
    if (gguf_word(f, "general.architecture", true, architectures, &one, to) != 0 ||
        gguf_word(f, "general.type", false, types, &one, to) != 0 || gguf_keys_check(f, to) != 0)
        return -1;
    c->names = &llama_gguf;
    c->kv_heads = c->head_dim = c->rope.rotary_dim = 0;
    if (gguf_integer(f, "llama.block_count", true, 1, LAYERS_MOST, &c->layers, to) != 0 ||
        gguf_integer(f, "llama.embedding_length", true, 1, WIDTH_MOST, &c->width, to) != 0 ||
        gguf_integer(f, "llama.feed_forward_length", true, 1, WIDTH_MOST, &c->inner, to) != 0 ||
        gguf_integer(f, "llama.context_length", true, 1, TOKENS_MOST, &c->most_tokens, to) != 0 ||
        gguf_integer(f, "llama.attention.head_count", true, 1, WIDTH_MOST, &c->heads, to) != 0 ||
        gguf_integer(f, "llama.attention.head_count_kv", false, 1, WIDTH_MOST, &c->kv_heads, to) != 0 ||
        gguf_integer(f, "llama.attention.key_length", false, 1, WIDTH_MOST, &c->head_dim, to) != 0 ||
        gguf_integer(f, "llama.rope.dimension_count", false, 2, 1024, &c->rope.rotary_dim, to) != 0 ||
        gguf_real(f, reals[0], true, &c->eps, to) != 0 || gguf_real(f, reals[1], false, &c->rope.base, to) != 0)
        return -1;
    c->rope.pairing = FOVEA_ROPE_ADJACENT; /* its converter permutes q and k */
    const int64_t key_dim = value_dim = c->head_dim > 0 ? c->head_dim : c->width / c->heads;
    if (gguf_integer(f, "llama.attention.value_length", false, 1, WIDTH_MOST, &value_dim, to) != 0)
        return -1;
    if (value_dim != key_dim)
        return complain(to, gguf_path(f), "llama.attention.value_length is %lld, but keys have %lld channels",
                        (long long)value_dim, (long long)key_dim);
    return read_gguf_scaling(f, c, to);
}

/* ----------------------------------------------------------------------------------------------------- safetensors -- */

typedef struct object {
    const json_t *json;
    const char *path;
    complaint to;
} object;

/* The integer of one of two names; otherwise < 0: it must be there. */
static int integer(const object *o, const char *name, const char *other, int64_t otherwise, int64_t most,
                   int64_t *value) {
    const json_t *v = json_object_get(o->json, name);
    if (v == NULL && other != NULL)
        v = json_object_get(o->json, other);
    *value = otherwise;
    if (v == NULL || json_is_null(v))
        return otherwise >= 0 ? 0 : complain(o->to, o->path, "has no %s", name);
    *value = json_is_integer(v) ? json_integer_value(v) : 0;
    return *value >= 1 && *value <= most
               ? 0
               : complain(o->to, o->path, "%s is not a number from 1 to %lld", name, (long long)most);
}

static int real(const object *o, const json_t *in, const char *name, double *value) {
    const json_t *v = json_object_get(in, name);
    if (v == NULL || json_is_null(v))
        return 0;
    *value = json_number_value(v);
    return json_is_number(v) && isfinite(*value) ? 0 : complain(o->to, o->path, "%s is not a number", name);
}

/* A setting that changes what a model computes must be absent or have the value that is computed here: a word, for which there may be
 * another, or a truth. */
static int need_word(const object *o, const char *name, const char *word, const char *other) {
    const json_t *v = json_object_get(o->json, name);
    const char *found = json_string_value(v);
    if (v == NULL || json_is_null(v) ||
        (found != NULL && (strcmp(found, word) == 0 || (other != NULL && strcmp(found, other) == 0))))
        return 0;
    return complain(o->to, o->path, "%s is %.40s; only %s is computed here", name, found != NULL ? found : "no word",
                    word);
}

static int need_truth(const object *o, const char *name, bool truth) {
    const json_t *v = json_object_get(o->json, name);
    return v == NULL || json_is_null(v) || (json_is_boolean(v) && json_is_true(v) == truth)
               ? 0
               : complain(o->to, o->path, "%s is not %s; no other model is computed here", name,
                          truth ? "true" : "false");
}

/* Rotary settings: rope_theta and rope_scaling, or rope_parameters with both. */
static int read_rope(const object *o, config *c) {
    const json_t *in = json_object_get(o->json, "rope_parameters");
    if (!json_is_object(in))
        in = json_object_get(o->json, "rope_scaling");
    const char *type = json_string_value(json_object_get(in, "rope_type"));
    if (type == NULL)
        type = json_string_value(json_object_get(in, "type"));
    double part = 1.0;
    if (real(o, o->json, "rope_theta", &c->rope.base) != 0 || real(o, in, "rope_theta", &c->rope.base) != 0 ||
        real(o, o->json, "partial_rotary_factor", &part) != 0 || real(o, in, "partial_rotary_factor", &part) != 0)
        return -1;
    if (part != 1.0)
        return complain(o->to, o->path, "rotates only a part of the channels of a head, which is not read here");
    if (type == NULL || strcmp(type, "default") == 0)
        return 0;
    c->rope.scaling = strcmp(type, "linear") == 0 ? FOVEA_ROPE_LINEAR : FOVEA_ROPE_LLAMA3;
    if (c->rope.scaling == FOVEA_ROPE_LLAMA3 && strcmp(type, "llama3") != 0)
        return complain(o->to, o->path, "scales its rotary embedding by %.40s, which is not read here", type);
    return real(o, in, "factor", &c->rope.factor) != 0 || real(o, in, "low_freq_factor", &c->rope.low_frequency) != 0 ||
                   real(o, in, "high_freq_factor", &c->rope.high_frequency) != 0 ||
                   real(o, in, "original_max_position_embeddings", &c->rope.original_positions) != 0
               ? -1
               : 0;
}

static int read_llama(const object *o, const weights *w, config *c) {
    int64_t rows, columns;
    c->names = &llama_safetensors;
    if (integer(o, "num_hidden_layers", NULL, -1, LAYERS_MOST, &c->layers) != 0 ||
        integer(o, "hidden_size", NULL, -1, WIDTH_MOST, &c->width) != 0 ||
        integer(o, "intermediate_size", NULL, -1, WIDTH_MOST, &c->inner) != 0 ||
        integer(o, "num_attention_heads", NULL, -1, WIDTH_MOST, &c->heads) != 0 ||
        integer(o, "num_key_value_heads", NULL, 0, WIDTH_MOST, &c->kv_heads) != 0 ||
        integer(o, "head_dim", NULL, 0, WIDTH_MOST, &c->head_dim) != 0 ||
        integer(o, "max_position_embeddings", NULL, -1, TOKENS_MOST, &c->most_tokens) != 0)
        return -1;
    c->eps = 1e-6;
    if (json_is_false(json_object_get(o->json, "tie_word_embeddings")) &&
        !weights_shape(w, c->names->head, &rows, &columns))
        return complain(o->to, o->path, "has a head of its own, but there is no %s", c->names->head);
    return real(o, o->json, "rms_norm_eps", &c->eps) != 0 || need_word(o, "hidden_act", "silu", NULL) != 0
               ? -1
               : read_rope(o, c);
}

static int read_gpt2(const object *o, const weights *w, config *c) {
    int64_t rows, columns;
    c->gpt2 = true;
    c->names = &gpt2_names[weights_shape(w, gpt2_names[1].words, &rows, &columns)];
    c->eps = 1e-5;
    if (integer(o, "n_layer", "num_hidden_layers", -1, LAYERS_MOST, &c->layers) != 0 ||
        integer(o, "n_embd", "hidden_size", -1, WIDTH_MOST, &c->width) != 0 ||
        integer(o, "n_head", "num_attention_heads", -1, WIDTH_MOST, &c->heads) != 0 ||
        integer(o, "n_inner", NULL, 4 * c->width, WIDTH_MOST, &c->inner) != 0 ||
        integer(o, "n_positions", "max_position_embeddings", -1, TOKENS_MOST, &c->most_tokens) != 0)
        return -1;
    return need_word(o, "activation_function", "gelu_new", "gelu_pytorch_tanh") != 0 ||
                   need_truth(o, "scale_attn_weights", true) != 0 ||
                   need_truth(o, "scale_attn_by_inverse_layer_idx", false) != 0
               ? -1
               : real(o, o->json, "layer_norm_epsilon", &c->eps);
}

static int read_json(const weights *w, config *c, complaint to) {
    char path[PATH_MOST];
    json_t *root;
    if (snprintf(path, sizeof path, "%s/config.json", weights_folder(w)) >= PATH_MOST)
        return complain(to, "config.json", "has too long a name");
    if (text_file_json(path, CONFIG_MOST, &root, to) != 0)
        return -1;
    if (root == NULL)
        return complain(to, path, "does not exist; the model's sizes are in it");
    const object o = {root, path, to};
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const int status =
        type != NULL && strcmp(type, "llama") == 0 ? read_llama(&o, w, c)
        : type != NULL && strcmp(type, "gpt2") == 0
            ? read_gpt2(&o, w, c)
            : complain(to, path, "is of the type %.40s; llama and gpt2 are known", type != NULL ? type : "(none)");
    json_decref(root);
    return status;
}

/* --------------------------------------------------------------------------------------------------------- any model -- */

int config_read(const weights *w, config *c, complaint to) {
    int64_t columns;
    *c = (config){0};
    fovea_rope_desc_init(&c->rope);
    if ((weights_gguf(w) != NULL ? read_gguf(weights_gguf(w), c, to) : read_json(w, c, to)) != 0)
        return -1;
    if (c->kv_heads == 0)
        c->kv_heads = c->heads;
    if (c->head_dim == 0)
        c->head_dim = c->width / c->heads;
    if (c->rope.rotary_dim == 0)
        c->rope.rotary_dim = c->head_dim;
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

/* Decoders in safetensors: config.json and the names that transformers gives arrays (config.h). */
#include "config_private.h"

#include "text_file.h"

#include <math.h>
#include <string.h>

enum { CONFIG_MOST = 1 << 20 };

static const config_names llama_safetensors = {
    .words = "model.embed_tokens.weight",
    .last = "model.norm",
    .head = "lm_head",
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
        .words = prefix "wte.weight", .places = prefix "wpe.weight", .last = prefix "ln_f", .head = "lm_head",         \
        .attention_norm = prefix "h.%lld.ln_1", .feed_norm = prefix "h.%lld.ln_2",                                     \
        .qkv = {prefix "h.%lld.attn.c_attn", NULL, NULL}, .out = prefix "h.%lld.attn.c_proj",                          \
        .up = prefix "h.%lld.mlp.c_fc", .down = prefix "h.%lld.mlp.c_proj", .in_out = true,                            \
    }
static const config_names gpt2_names[] = {GPT2_NAMES("transformer."), GPT2_NAMES("")};

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

/* A setting that changes what a model computes must be absent or have the value that is computed here: a word, for
 * which there may be another, or a truth. */
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
    if (integer(o, "num_hidden_layers", NULL, -1, CONFIG_LAYERS_MOST, &c->layers) != 0 ||
        integer(o, "hidden_size", NULL, -1, WIDTH_MOST, &c->width) != 0 ||
        integer(o, "intermediate_size", NULL, -1, WIDTH_MOST, &c->inner) != 0 ||
        integer(o, "num_attention_heads", NULL, -1, WIDTH_MOST, &c->heads) != 0 ||
        integer(o, "num_key_value_heads", NULL, 0, WIDTH_MOST, &c->kv_heads) != 0 ||
        integer(o, "head_dim", NULL, 0, WIDTH_MOST, &c->head_dim) != 0 ||
        integer(o, "max_position_embeddings", NULL, -1, TOKENS_MOST, &c->most_tokens) != 0)
        return -1;
    c->eps = 1e-6;
    if (json_is_false(json_object_get(o->json, "tie_word_embeddings")) &&
        !weights_shape(w, "lm_head.weight", &rows, &columns))
        return complain(o->to, o->path, "has a head of its own, but there is no lm_head.weight");
    return real(o, o->json, "rms_norm_eps", &c->eps) != 0 || need_word(o, "hidden_act", "silu", NULL) != 0
               ? -1
               : read_rope(o, c);
}

static int read_gpt2(const object *o, const weights *w, config *c) {
    int64_t rows, columns;
    c->gpt2 = true;
    c->names = &gpt2_names[weights_shape(w, gpt2_names[1].words, &rows, &columns)];
    c->eps = 1e-5;
    if (integer(o, "n_layer", "num_hidden_layers", -1, CONFIG_LAYERS_MOST, &c->layers) != 0 ||
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

int config_read_json(const weights *w, config *c, complaint to) {
    char path[PATH_MOST];
    json_t *root;
    if (text_file_json_in(weights_folder(w), "config.json", CONFIG_MOST, path, &root, to) != 0)
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

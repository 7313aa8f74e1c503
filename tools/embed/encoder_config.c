/* encoder_config.h. A model type that the encoder can run is a row of runnable[]; one that it cannot is a row of
 * missing[], with what it lacks. */
#include "encoder_config.h"

#include "text_file.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MOST = 1 << 24, HEADS_MOST = 1 << 16 };

static const encoder_names bert = {
    .words = "embeddings.word_embeddings.weight",
    .places = "embeddings.position_embeddings.weight",
    .type = "embeddings.token_type_embeddings.weight",
    .embedded = "embeddings.LayerNorm",
    .layer = "encoder.layer.",
    .qkv = {"attention.self.query", "attention.self.key", "attention.self.value"},
    .out = "attention.output.dense",
    .attention_norm = "attention.output.LayerNorm",
    .inner = "intermediate.dense",
    .outer = "output.dense",
    .outer_norm = "output.LayerNorm",
};
static const encoder_names distilbert = {
    .words = "embeddings.word_embeddings.weight",
    .places = "embeddings.position_embeddings.weight",
    .embedded = "embeddings.LayerNorm",
    .layer = "transformer.layer.",
    .qkv = {"attention.q_lin", "attention.k_lin", "attention.v_lin"},
    .out = "attention.out_lin",
    .attention_norm = "sa_layer_norm",
    .inner = "ffn.lin1",
    .outer = "ffn.lin2",
    .outer_norm = "output_layer_norm",
};
static const encoder_names mpnet = {
    .words = "embeddings.word_embeddings.weight",
    .places = "embeddings.position_embeddings.weight",
    .embedded = "embeddings.LayerNorm",
    .relative = "encoder.relative_attention_bias.weight",
    .layer = "encoder.layer.",
    .qkv = {"attention.attn.q", "attention.attn.k", "attention.attn.v"},
    .out = "attention.attn.o",
    .attention_norm = "attention.LayerNorm",
    .inner = "intermediate.dense",
    .outer = "output.dense",
    .outer_norm = "output.LayerNorm",
};
static const encoder_names modernbert = {
    .words = "embeddings.tok_embeddings.weight",
    .embedded = "embeddings.norm",
    .layer = "layers.",
    .qkv = {"attn.Wqkv"},
    .out = "attn.Wo",
    .attention_norm = "attn_norm",
    .inner = "mlp.Wi",
    .outer = "mlp.Wo",
    .outer_norm = "mlp_norm",
    .last_norm = "final_norm",
    .norm_first = true,
    .gated = true,
    .no_bias = true,
};
static const encoder_names gpt2 = {
    .words = "wte.weight",
    .places = "wpe.weight",
    .layer = "h.",
    .qkv = {"attn.c_attn"},
    .out = "attn.c_proj",
    .attention_norm = "ln_1",
    .inner = "mlp.c_fc",
    .outer = "mlp.c_proj",
    .outer_norm = "ln_2",
    .last_norm = "ln_f",
    .in_out = true,
    .norm_first = true,
};
static const encoder_names opt = {
    .words = "embed_tokens.weight",
    .places = "embed_positions.weight",
    .layer = "layers.",
    .qkv = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
    .out = "self_attn.out_proj",
    .attention_norm = "self_attn_layer_norm",
    .inner = "fc1",
    .outer = "fc2",
    .outer_norm = "final_layer_norm",
    .last_norm = "final_layer_norm",
    .norm_first = true,
};

enum { AFTER_PADDING = -1 }; /* the first place is the one behind that of padding */

static const struct runnable {
    const char *type;
    const encoder_names *names;
    const char *activation; /* where the file has none */
    double epsilon;
    int64_t first_place;
    bool causal;
    folder_frame frame;
} runnable[] = {
    {"bert", &bert, "gelu", 1e-12, 0, false, FOLDER_NONE},
    {"electra", &bert, "gelu", 1e-12, 0, false, FOLDER_NONE},
    {"distilbert", &distilbert, "gelu", 1e-12, 0, false, FOLDER_NONE},
    {"roberta", &bert, "gelu", 1e-12, AFTER_PADDING, false, FOLDER_BOTH},
    {"camembert", &bert, "gelu", 1e-12, AFTER_PADDING, false, FOLDER_BOTH},
    {"xlm-roberta", &bert, "gelu", 1e-12, AFTER_PADDING, false, FOLDER_BOTH},
    {"mpnet", &mpnet, "gelu", 1e-12, AFTER_PADDING, false, FOLDER_BOTH},
    {"modernbert", &modernbert, "gelu", 1e-5, 0, false, FOLDER_NONE},
    {"gpt2", &gpt2, "gelu_new", 1e-5, 0, true, FOLDER_NONE},
    {"opt", &opt, "relu", 1e-5, 2, true, FOLDER_FIRST},
};

static const char rotary[] = "rotary positions, RMS norm and a gated feed-forward network";
static const struct missing {
    const char *types; /* parted by spaces, one before and behind each */
    const char *what;
} missing[] = {
    {" llama mistral mixtral qwen2 qwen2_moe qwen3 qwen3_moe gemma gemma2 gemma3 gemma3_text phi3 olmo2 granite ",
     rotary},
    {" gpt_neox gptj phi falcon stablelm cohere starcoder2 codegen olmo ", "rotary positions"},
    {" nomic_bert gte new esm roformer ", "rotary positions"},
    {" albert ", "embeddings narrower than the layers, and layers that share weights"},
    {" deberta deberta-v2 ", "disentangled attention to relative positions"},
    {" t5 mt5 umt5 longt5 ", "relative position biases and RMS norm"},
    {" bart mbart pegasus marian whisper m2m_100 blenderbot ", "a decoder that attends to an encoder"},
    {" gpt_neo ", "scores without a scale, and layers with windows"},
    {" bloom mpt ", "ALiBi position biases"},
    {" longformer big_bird ", "sparse patterns of attention"},
    {" xlnet ", "two-stream attention to relative positions"},
    {" vit clip siglip dinov2 clip_vision_model deit beit ", "images in place of sentences"},
};

/* A config.json, and where to complain. */
typedef struct reading {
    const json_t *root;
    const char *path;
    complaint to;
} reading;

/* -------------------------------------------------------------------------------------------------------- values -- */

enum { NAMES = 4 };

/* The text of the first of these names that is there. */
static const char *text_of(const reading *r, const char *const names[NAMES]) {
    for (int i = 0; i < NAMES && names[i] != NULL; i++) {
        const char *value = json_string_value(json_object_get(r->root, names[i]));
        if (value != NULL)
            return value;
    }
    return NULL;
}

static bool is_true(const reading *r, const char *name) { return json_is_true(json_object_get(r->root, name)); }

/* An integer from least to most; otherwise, where it is absent or null. */
static int read_integer(const reading *r, const char *name, int64_t least, int64_t most, int64_t otherwise,
                        int64_t *to) {
    const json_t *value = json_object_get(r->root, name);
    *to = json_is_integer(value) ? json_integer_value(value) : otherwise;
    const bool absent = value == NULL || json_is_null(value);
    return absent || (json_is_integer(value) && *to >= least && *to <= most)
               ? 0
               : complain(r->to, r->path, "%s is not a number from %lld to %lld", name, (long long)least,
                          (long long)most);
}

static int cannot(const reading *r, const char *what) {
    return complain(r->to, r->path, "the model cannot run: it needs %s, which this encoder lacks", what);
}

/* -------------------------------------------------------------------------------------------------------- checks -- */

static int find_type(const reading *r, const char *type, const struct runnable **found) {
    for (size_t i = 0; i < sizeof runnable / sizeof runnable[0]; i++)
        if (strcmp(runnable[i].type, type) == 0)
            return *found = &runnable[i], 0;
    char word[64];
    snprintf(word, sizeof word, " %s ", type);
    for (size_t i = 0; i < sizeof missing / sizeof missing[0]; i++)
        if (strstr(missing[i].types, word) != NULL)
            return cannot(r, missing[i].what);
    return complain(r->to, r->path,
                    "has an unknown model type, %.40s; known are BERT, RoBERTa, ELECTRA, DistilBERT, MPNet, "
                    "ModernBERT, GPT-2 and OPT",
                    type);
}

/* Further settings of a known type. */
static int check_details(const reading *r) {
    const char *const positions[NAMES] = {"position_embedding_type"};
    const char *position = text_of(r, positions);
    int64_t width, embedded;
    const bool width_named = json_is_integer(json_object_get(r->root, "hidden_size"));
    if (position != NULL && strcmp(position, "absolute") != 0)
        return cannot(r, "positions that are not absolute");
    if (is_true(r, "add_cross_attention"))
        return cannot(r, "attention to another model");
    if (is_true(r, "scale_attn_by_inverse_layer_idx"))
        return cannot(r, "another scale in each layer");
    if (json_is_false(json_object_get(r->root, "do_layer_norm_before")))
        return cannot(r, "OPT's norms behind attention");
    if (read_integer(r, "hidden_size", 1, 1 << 24, 1, &width) != 0)
        return -1;
    static const char *const narrow[] = {"embedding_size", "word_embed_proj_dim"};
    for (int i = 0; i < 2; i++) {
        if (read_integer(r, narrow[i], 1, 1 << 24, width, &embedded) != 0)
            return -1;
        if (width_named && embedded != width)
            return cannot(r, "embeddings narrower than the layers");
    }
    return 0;
}

static int read_activation(const reading *r, const struct runnable *type, fovea_activation *activation) {
    static const char *const names[NAMES] = {"hidden_act", "activation_function", "activation", "hidden_activation"};
    static const struct {
        const char *name;
        fovea_activation activation;
    } known[] = {{"gelu", FOVEA_ACTIVATION_GELU},
                 {"gelu_new", FOVEA_ACTIVATION_GELU_TANH},
                 {"gelu_fast", FOVEA_ACTIVATION_GELU_TANH},
                 {"gelu_pytorch_tanh", FOVEA_ACTIVATION_GELU_TANH},
                 {"relu", FOVEA_ACTIVATION_RELU}};
    const char *name = text_of(r, names);
    name = name != NULL ? name : type->activation;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0)
            return *activation = known[i].activation, 0;
    char what[64];
    snprintf(what, sizeof what, "the activation %.40s", name);
    return cannot(r, what);
}

static int read_heads(const reading *r, int64_t *heads) {
    static const char *const names[] = {"num_attention_heads", "n_head", "n_heads"};
    *heads = 0;
    for (int i = 0; *heads == 0 && i < 3; i++)
        if (read_integer(r, names[i], 1, HEADS_MOST, 0, heads) != 0)
            return -1;
    return 0;
}

static int read_epsilon(const reading *r, const struct runnable *type, double *epsilon) {
    static const char *const names[] = {"layer_norm_eps", "layer_norm_epsilon", "norm_eps"};
    *epsilon = type->epsilon;
    for (int i = 0; i < 3; i++) {
        const json_t *value = json_object_get(r->root, names[i]);
        if (json_is_number(value))
            *epsilon = json_number_value(value);
    }
    return *epsilon >= 0.0 && *epsilon < 1.0
               ? 0
               : complain(r->to, r->path, "the epsilon of its layer norms is %g", *epsilon);
}

/* The base of a kind of layers: the newer form of the file has it in rope_parameters. */
static double base_of(const reading *r, const char *old, const char *kind, double otherwise) {
    const json_t *parameters = json_object_get(json_object_get(r->root, "rope_parameters"), kind);
    const json_t *value = json_object_get(parameters, "rope_theta");
    value = value != NULL ? value : json_object_get(r->root, old);
    return json_is_number(value) ? json_number_value(value) : otherwise;
}

/* ModernBERT's rotary embedding and windows. */
static int read_rotary(const reading *r, encoder_config *config) {
    int64_t span;
    static const char *const words[NAMES] = {"position_embedding_type"};
    config->global_base = base_of(r, "global_rope_theta", "full_attention", 160000.0);
    config->local_base = base_of(r, "local_rope_theta", "sliding_attention", 10000.0);
    if (read_integer(r, "max_position_embeddings", 1, 1 << 24, 8192, &config->places) != 0 ||
        read_integer(r, "global_attn_every_n_layers", 1, 1 << 16, 3, &config->every) != 0 ||
        read_integer(r, "local_attention", 2, 1 << 24, 128, &span) != 0)
        return -1;
    config->window = span / 2;
    size_t i;
    json_t *type;
    json_array_foreach(json_object_get(r->root, "layer_types"), i, type) {
        const char *word = json_string_value(type);
        if (word == NULL || strcmp(word, (int64_t)i % config->every == 0 ? "full_attention" : "sliding_attention") != 0)
            return cannot(r, "another order of layers with windows");
    }
    if (text_of(r, words) != NULL && strcmp(text_of(r, words), "absolute") != 0)
        return cannot(r, "positions that are not rotary");
    switch (config->activation) {
    case FOVEA_ACTIVATION_GELU: config->activation = FOVEA_ACTIVATION_GELU_GATED; return 0;
    case FOVEA_ACTIVATION_GELU_TANH: config->activation = FOVEA_ACTIVATION_GELU_TANH_GATED; return 0;
    default: return cannot(r, "a gate that is not GELU");
    }
}

static int read_config(const reading *r, encoder_config *config) {
    static const char *const names[NAMES] = {"model_type"};
    const char *name = text_of(r, names);
    const struct runnable *type = NULL;
    int64_t padding;
    if (find_type(r, name != NULL ? name : "bert", &type) != 0 || check_details(r) != 0 ||
        read_activation(r, type, &config->activation) != 0 || read_heads(r, &config->heads) != 0 ||
        read_epsilon(r, type, &config->epsilon) != 0 || read_integer(r, "pad_token_id", 0, 1 << 24, 1, &padding) != 0)
        return -1;
    config->names = type->names;
    config->first_place = type->first_place == AFTER_PADDING ? padding + 1 : type->first_place;
    config->causal = type->causal || is_true(r, "is_decoder");
    config->frame = type->frame;
    return type->names->gated ? read_rotary(r, config) : 0;
}

encoder_config encoder_config_bert(int64_t heads) {
    return (encoder_config){.names = &bert,
                            .heads = heads,
                            .activation = FOVEA_ACTIVATION_GELU,
                            .epsilon = 1e-12,
                            .frame = FOLDER_NONE,
                            .pooling = FOVEA_POOLING_MEAN,
                            .dtype = FOVEA_DTYPE_F32};
}

int encoder_config_read(const char *folder, encoder_config *config, complaint to) {
    char path[PATH_MOST];
    json_t *root;
    *config = encoder_config_bert(0);
    if (text_file_json_in(folder, "config.json", FILE_MOST, path, &root, to) != 0)
        return -1;
    const reading r = {root, path, to};
    const int status = root != NULL ? read_config(&r, config) : 0;
    json_decref(root);
    return status;
}

/* Decoders in GGUF: settings and names of arrays by architecture (config.h), with the defaults of llama.cpp. */
#include "config_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { KEY_MOST = 128, GEMMA_27B_LAYERS = 62, EXPERTS_MOST = 2048, HEADS_MOST = 1024 };

#define GGUF_NAMES(norm)                                                                                               \
    .words = "token_embd.weight", .last = "output_norm", .head = "output", .attention_norm = "blk.%lld.attn_norm",     \
    .feed_norm = "blk.%lld." norm, .qkv = {"blk.%lld.attn_q", "blk.%lld.attn_k", "blk.%lld.attn_v"},                   \
    .out = "blk.%lld.attn_output"
#define GGUF_FEED .gate = "blk.%lld.ffn_gate", .up = "blk.%lld.ffn_up", .down = "blk.%lld.ffn_down"
#define GGUF_EXPERTS                                                                                                   \
    .router = "blk.%lld.ffn_gate_inp", .gate_up = "blk.%lld.ffn_gate_up_exps",                                         \
    .experts = {"blk.%lld.ffn_gate_exps", "blk.%lld.ffn_up_exps", "blk.%lld.ffn_down_exps"}
#define GGUF_SHARED                                                                                                    \
    GGUF_EXPERTS, .gate = "blk.%lld.ffn_gate_shexp", .up = "blk.%lld.ffn_up_shexp", .down = "blk.%lld.ffn_down_shexp", \
                  .shared_gate = "blk.%lld.ffn_gate_inp_shexp"
#define GGUF_DELTA(...)                                                                                                \
    .delta_in = {"blk.%lld.attn_qkv", "blk.%lld.attn_gate", __VA_ARGS__}, .delta_out = "blk.%lld.ssm_out",             \
    .delta_norm = "blk.%lld.ssm_norm", .delta_conv = "blk.%lld.ssm_conv1d", .delta_dt = "blk.%lld.ssm_dt",             \
    .delta_a = "blk.%lld.ssm_a"
#define GGUF_TILED GGUF_DELTA("blk.%lld.ssm_beta", "blk.%lld.ssm_alpha")
#define GGUF_HEAD_NORMS .q_norm = "blk.%lld.attn_q_norm", .k_norm = "blk.%lld.attn_k_norm"

static const config_names plain_names = {GGUF_NAMES("ffn_norm"), GGUF_FEED},
                          mixtral_names = {GGUF_NAMES("ffn_norm"), GGUF_EXPERTS};
static const config_names qwen3_names = {GGUF_NAMES("ffn_norm"), GGUF_FEED, GGUF_HEAD_NORMS};
static const config_names qwen3moe_names = {GGUF_NAMES("ffn_norm"), GGUF_EXPERTS, GGUF_HEAD_NORMS};
static const config_names gpt_oss_names = {GGUF_NAMES("post_attention_norm"), GGUF_EXPERTS,
                                           .sinks = "blk.%lld.attn_sinks"};
static const config_names qwen35_names = {GGUF_NAMES("post_attention_norm"), GGUF_FEED, GGUF_HEAD_NORMS, GGUF_TILED},
                          qwen35moe_names = {GGUF_NAMES("post_attention_norm"), GGUF_SHARED, GGUF_HEAD_NORMS,
                                             GGUF_TILED},
                          qwen3next_names = {GGUF_NAMES("post_attention_norm"),
                                             GGUF_SHARED,
                                             GGUF_HEAD_NORMS,
                                             GGUF_DELTA("blk.%lld.ssm_ba"),
                                             .delta_in_both = "blk.%lld.ssm_in",
                                             .delta_grouped = true};
static const config_names gemma3_names = {GGUF_NAMES("ffn_norm"), GGUF_FEED, GGUF_HEAD_NORMS,
                                          .attention_after = "blk.%lld.post_attention_norm",
                                          .feed_after = "blk.%lld.post_ffw_norm"};

enum { LLAMA, QWEN2, QWEN3, QWEN3MOE, QWEN3NEXT, QWEN35, QWEN35MOE, GPT_OSS, GEMMA3 };
static const char *const architectures[] = {"llama",  "qwen2",     "qwen3",   "qwen3moe", "qwen3next",
                                            "qwen35", "qwen35moe", "gpt-oss", "gemma3",   NULL};
static const config_names *const names_of[][2] = {/* without and with experts; or NULL */
                                                  [LLAMA] = {&plain_names, &mixtral_names},
                                                  [QWEN2] = {&plain_names},
                                                  [QWEN3] = {&qwen3_names},
                                                  [QWEN3MOE] = {NULL, &qwen3moe_names},
                                                  [QWEN3NEXT] = {NULL, &qwen3next_names},
                                                  [QWEN35] = {&qwen35_names},
                                                  [QWEN35MOE] = {NULL, &qwen35moe_names},
                                                  [GPT_OSS] = {NULL, &gpt_oss_names},
                                                  [GEMMA3] = {&gemma3_names}};

typedef struct source {
    const gguf *f;
    int architecture;
    complaint to;
} source;

static void key_of(const source *s, const char *name, char key[KEY_MOST]) {
    snprintf(key, KEY_MOST, "%s.%s", architectures[s->architecture], name);
}

static const gguf_value *find(const source *s, const char *name) {
    char key[KEY_MOST];
    key_of(s, name, key);
    return gguf_find(s->f, key);
}

static int integer(const source *s, const char *name, bool needed, int64_t least, int64_t most, int64_t *value) {
    char key[KEY_MOST];
    key_of(s, name, key);
    return gguf_integer(s->f, key, needed, least, most, value, s->to);
}

static int real(const source *s, const char *name, bool needed, double *value) {
    char key[KEY_MOST];
    key_of(s, name, key);
    return gguf_real(s->f, key, needed, value, s->to);
}

/* A real number that must be above 0 if it is there. */
static int positive(const source *s, const char *name, double *value) {
    if (real(s, name, false, value) != 0)
        return -1;
    return find(s, name) == NULL || *value > 0.0 ? 0
                                                 : complain(s->to, gguf_path(s->f), "%s.%s is %g, not above 0",
                                                            architectures[s->architecture], name, *value);
}

/* Linear unless another type is named, by a factor of either name. Llama 3's scaling comes as divisors, an array. Of
 * YaRN, cos and sin have the factor of its paper unless the file has another, times attn_factor. */
static int read_scaling(const source *s, config *c) {
    static const char *const types[] = {"linear", "none", "yarn", NULL};
    char key[KEY_MOST];
    int type = 0;
    double factor = 1.0, attention = 1.0, own = 0.0, original = (double)c->most_tokens;
    key_of(s, "rope.scaling.type", key);
    if (gguf_word(s->f, key, false, types, &type, s->to) != 0 ||
        positive(s, find(s, "rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear", &factor) != 0 ||
        positive(s, "rope.scaling.attn_factor", &attention) != 0 ||
        positive(s, "rope.scaling.yarn_attn_factor", &own) != 0 ||
        positive(s, "rope.scaling.original_context_length", &original) != 0 ||
        positive(s, "rope.scaling.yarn_beta_fast", &c->rope.beta_fast) != 0 ||
        positive(s, "rope.scaling.yarn_beta_slow", &c->rope.beta_slow) != 0)
        return -1;
    c->rope.attention_factor = attention;
    if (type == 0 && factor != 1.0)
        c->rope.scaling = FOVEA_ROPE_LINEAR;
    if (type == 2) {
        c->rope.scaling = FOVEA_ROPE_YARN;
        c->rope.original_positions = original;
        c->rope.attention_factor = attention * (own > 0.0 ? own : factor > 1.0 ? 0.1 * log(factor) + 1.0 : 1.0);
    }
    c->rope.factor = type == 1 ? 1.0 : factor;
    return 0;
}

/* A truth for each layer; or a period, of which the last layer is not local. */
static int read_pattern(const source *s, config *c, int64_t period) {
    static const char name[] = "attention.sliding_window_pattern";
    const gguf_value *v = find(s, name);
    if (v != NULL && v->kind == GGUF_ARRAY) {
        const int bytes = v->element == GGUF_BOOL ? 1 : v->element == GGUF_I32 || v->element == GGUF_U32 ? 4 : 0;
        if (bytes == 0 || v->count != c->layers)
            return complain(s->to, gguf_path(s->f), "%s.%s is not a truth for each of %lld layers",
                            architectures[s->architecture], name, (long long)c->layers);
        for (int64_t i = 0; i < c->layers; i++)
            for (int k = 0; k < bytes; k++)
                c->local[i] = c->local[i] || v->data[i * bytes + k] != 0;
        return 0;
    }
    if (integer(s, name, false, 0, CONFIG_LAYERS_MOST, &period) != 0)
        return -1;
    if (period < 0)
        return complain(s->to, gguf_path(s->f), "%s.attention.sliding_window is there, but not %s.%s: which layers?",
                        architectures[s->architecture], architectures[s->architecture], name);
    for (int64_t i = 0; i < c->layers; i++)
        c->local[i] = period == 0 || i % period < period - 1;
    return 0;
}

/* Layers that see a window of keys, the query's own among them: all of LLaMA's (Mistral), five of six of Gemma's. */
static int read_window(const source *s, config *c) {
    static const int64_t periods[] = {[LLAMA] = 0,   [QWEN2] = -1,     [QWEN3] = -1,  [QWEN3MOE] = -1, [QWEN3NEXT] = -1,
                                      [QWEN35] = -1, [QWEN35MOE] = -1, [GPT_OSS] = 2, [GEMMA3] = 6};
    int64_t keys = 0;
    if (integer(s, "attention.sliding_window", false, 0, TOKENS_MOST, &keys) != 0)
        return -1;
    if (keys == 0)
        return 0;
    c->window = keys - 1;
    if (read_pattern(s, c, periods[s->architecture]) != 0)
        return -1;
    for (int64_t i = 0; i < c->layers; i++)
        c->has_local = c->has_local || c->local[i];
    if (s->architecture == GPT_OSS && find(s, "rope.freq_base_swa") != NULL)
        c->local_rope = c->rope; /* but for its base */
    else if (s->architecture != GEMMA3)
        return 0;
    c->local_rotates = c->has_local;
    c->local_rope.rotary_dim = c->rope.rotary_dim;
    c->local_rope.pairing = c->rope.pairing;
    return real(s, "rope.freq_base_swa", false, &c->local_rope.base);
}

/* Experts, whose weights sum up to 1. */
static int read_experts(const source *s, config *c) {
    const char *const word = architectures[s->architecture];
    int64_t *const count = &c->experts.experts, *const used = &c->router.k;
    *used = 0;
    if (integer(s, "expert_count", false, 0, EXPERTS_MOST, count) != 0 ||
        integer(s, "expert_used_count", false, 0, EXPERTS_MOST, used) != 0 ||
        integer(s, "expert_feed_forward_length", false, 1, WIDTH_MOST, &c->experts.intermediate) != 0 ||
        real(s, "expert_weights_scale", false, &c->router.scale) != 0)
        return -1;
    c->names = names_of[s->architecture][*count > 0];
    if (c->names == NULL)
        return complain(s->to, gguf_path(s->f), "%s.expert_count is %lld; only %s is computed here", word,
                        (long long)*count, *count > 0 ? "0" : "a number above 0");
    if (*used > *count || (*used == 0) != (*count == 0))
        return complain(s->to, gguf_path(s->f), "%s.expert_used_count is %lld of %s.expert_count, %lld", word,
                        (long long)*used, word, (long long)*count);
    if (c->router.scale == 0.0)
        c->router.scale = 1.0;
    c->router.denominator = FOVEA_DENOMINATOR_SUM;
    return 0;
}

static int read_sizes(const source *s, config *c) {
    if (integer(s, "block_count", true, 1, CONFIG_LAYERS_MOST, &c->layers) != 0 ||
        integer(s, "embedding_length", true, 1, WIDTH_MOST, &c->width) != 0 ||
        integer(s, "feed_forward_length", c->experts.intermediate == 0, 1, WIDTH_MOST, &c->inner) != 0 ||
        integer(s, "context_length", true, 1, TOKENS_MOST, &c->most_tokens) != 0 ||
        integer(s, "attention.head_count", true, 1, WIDTH_MOST, &c->heads) != 0 ||
        integer(s, "attention.head_count_kv", false, 1, WIDTH_MOST, &c->kv_heads) != 0 ||
        integer(s, "attention.key_length", false, 1, WIDTH_MOST, &c->head_dim) != 0 ||
        integer(s, "rope.dimension_count", false, 2, 1024, &c->rope.rotary_dim) != 0)
        return -1;
    if (c->inner == 0)
        c->inner = c->experts.intermediate;
    if (c->experts.intermediate == 0) /* LLaMA's are as wide as its feed-forward network */
        c->experts.intermediate = s->architecture == LLAMA || c->router.k == 0 ? c->inner : c->inner / c->router.k;
    if (c->names->shared_gate != NULL &&
        integer(s, "expert_shared_feed_forward_length", false, 1, WIDTH_MOST, &c->inner) != 0)
        return -1;
    const int64_t key_dim = c->head_dim > 0 ? c->head_dim : c->width / c->heads;
    int64_t value_dim = key_dim;
    if (integer(s, "attention.value_length", false, 1, WIDTH_MOST, &value_dim) != 0)
        return -1;
    return value_dim == key_dim
               ? 0
               : complain(s->to, gguf_path(s->f), "%s.attention.value_length is %lld, but keys have %lld channels",
                          architectures[s->architecture], (long long)value_dim, (long long)key_dim);
}

/* Layers of the delta rule, and every few layers one of attention. */
static int read_delta(const source *s, config *c) {
    int64_t interval = 4, inner = 0;
    if (integer(s, "ssm.conv_kernel", true, 1, 64, &c->taps) != 0 ||
        integer(s, "ssm.state_size", true, 1, HEADS_MOST, &c->delta_dim) != 0 ||
        integer(s, "ssm.time_step_rank", true, 1, HEADS_MOST, &c->delta_heads) != 0 ||
        integer(s, "ssm.group_count", true, 1, HEADS_MOST, &c->delta_k_heads) != 0 ||
        integer(s, "ssm.inner_size", true, 1, WIDTH_MOST, &inner) != 0 ||
        integer(s, "full_attention_interval", false, 1, c->layers, &interval) != 0)
        return -1;
    for (int64_t i = 0; i < c->layers; i++)
        c->recurrent[i] = (i + 1) % interval != 0;
    if (interval > c->layers)
        return complain(s->to, gguf_path(s->f), "has no layer of attention among %lld", (long long)c->layers);
    return inner == c->delta_dim * c->delta_heads && c->delta_heads % c->delta_k_heads == 0
               ? 0
               : complain(s->to, gguf_path(s->f), "has states of %lld heads on %lld, of %lld channels, %lld in all",
                          (long long)c->delta_heads, (long long)c->delta_k_heads, (long long)c->delta_dim,
                          (long long)inner);
}

static void set_gpt_oss(config *c) {
    c->yarn_unrounded = true;
    c->experts.limit = 7.0;
    c->experts.alpha = 1.702;
    c->experts.up_offset = 1.0;
    c->router.after_top_k = 1;
    c->router.denominator = FOVEA_DENOMINATOR_NONE;
}

static void set_gemma3(config *c) {
    c->gelu = true;
    c->word_scale = (double)sqrtf((float)c->width);
    if (c->layers == GEMMA_27B_LAYERS)
        c->scale = 1.0 / sqrt((double)(c->width / c->heads));
}

int config_read_gguf(const gguf *f, config *c, complaint to) {
    static const char *const types[] = {"model", NULL};
    source s = {.f = f, .to = to};
    int type = 0;
    if (gguf_word(f, "general.architecture", true, architectures, &s.architecture, to) != 0 ||
        gguf_word(f, "general.type", false, types, &type, to) != 0 ||
        gguf_keys_check(f, architectures[s.architecture], to) != 0)
        return -1;
    if (read_experts(&s, c) != 0 || read_sizes(&s, c) != 0 ||
        real(&s, "attention.layer_norm_rms_epsilon", true, &c->eps) != 0 ||
        real(&s, "rope.freq_base", false, &c->rope.base) != 0)
        return -1;
    /* LLaMA's converter permutes q and k */
    c->rope.pairing = s.architecture == LLAMA ? FOVEA_ROPE_ADJACENT : FOVEA_ROPE_HALVES;
    if (s.architecture == GEMMA3)
        set_gemma3(c);
    if (c->names->delta_out != NULL && read_delta(&s, c) != 0)
        return -1;
    if (s.architecture == GPT_OSS)
        set_gpt_oss(c);
    if (read_scaling(&s, c) != 0 || read_window(&s, c) != 0 ||
        real(&s, "final_logit_softcapping", false, &c->final_softcap) != 0)
        return -1;
    if (c->final_softcap < 0.0 || (c->final_softcap > 0.0 && s.architecture != GEMMA3))
        return complain(to, gguf_path(f), "%s.final_logit_softcapping is %g, which is not computed here",
                        architectures[s.architecture], c->final_softcap);
    return 0;
}

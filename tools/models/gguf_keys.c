/* The settings of a decoder in GGUF that are known (gguf_keys_check() of gguf.h). A setting that nobody reads here
 * may change what the model computes or how text becomes tokens, so each one is either read, or without effect, or
 * has the value that is computed anyway; or the file is refused, by the setting's name. What each means is ggml's
 * documentation of GGUF and what llama.cpp does. */
#include "gguf.h"

#include <stdio.h>
#include <string.h>

enum { KEY_MOST = 256 };

typedef enum treatment {
    HONOURED, /* read by config_gguf.c, text.c or gguf*.c */
    HARMLESS, /* changes nothing of what is computed here */
    ONE_VALUE /* may be there with one value, which is what is computed here */
} treatment;

typedef struct known_key {
    const char *key;
    treatment how;
    double value;
} known_key;

/* Behind the architecture's name and a dot. */
static const known_key of_model[] = {
    {"block_count", HONOURED, 0},
    {"embedding_length", HONOURED, 0},
    {"feed_forward_length", HONOURED, 0},
    {"context_length", HONOURED, 0},
    {"attention.head_count", HONOURED, 0},
    {"attention.head_count_kv", HONOURED, 0},
    {"attention.key_length", HONOURED, 0},
    {"attention.value_length", HONOURED, 0},
    {"attention.layer_norm_rms_epsilon", HONOURED, 0},
    {"attention.sliding_window", HONOURED, 0},
    {"attention.sliding_window_pattern", HONOURED, 0},
    {"rope.dimension_count", HONOURED, 0},
    {"rope.freq_base", HONOURED, 0},
    {"rope.freq_base_swa", HONOURED, 0},
    {"rope.scaling.type", HONOURED, 0},
    {"rope.scaling.factor", HONOURED, 0},
    {"rope.scaling.attn_factor", HONOURED, 0},
    {"rope.scaling.original_context_length", HONOURED, 0},
    {"rope.scaling.yarn_attn_factor", HONOURED, 0},
    {"rope.scaling.yarn_beta_fast", HONOURED, 0},
    {"rope.scaling.yarn_beta_slow", HONOURED, 0},
    {"rope.scale_linear", HONOURED, 0},
    {"final_logit_softcapping", HONOURED, 0},
    {"ssm.conv_kernel", HONOURED, 0},
    {"ssm.inner_size", HONOURED, 0},
    {"ssm.state_size", HONOURED, 0},
    {"ssm.time_step_rank", HONOURED, 0},
    {"ssm.group_count", HONOURED, 0},
    {"full_attention_interval", HONOURED, 0},
    {"rope.dimension_sections", HARMLESS, 0}, /* of text, all have one position */
    {"nextn_predict_layers", ONE_VALUE, 0},
    {"expert_count", HONOURED, 0},
    {"expert_used_count", HONOURED, 0},
    {"expert_feed_forward_length", HONOURED, 0},
    {"expert_shared_feed_forward_length", HONOURED, 0},
    {"expert_weights_scale", HONOURED, 0},
    {"expert_shared_count", ONE_VALUE, 0},
    {"expert_group_count", ONE_VALUE, 1},
    {"expert_group_used_count", ONE_VALUE, 1},
    {"vocab_size", HARMLESS, 0}, /* the embedding says it */
    {"rope.scaling.finetuned", HARMLESS, 0},
    {"rope.scaling.yarn_ext_factor", ONE_VALUE, 1},
    {"rope.scaling.yarn_log_multiplier", ONE_VALUE, 0},
    {"attention.causal", ONE_VALUE, 1},
    {"attention.scale", ONE_VALUE, 0}, /* 0: the default */
    {"attention.clamp_kqv", ONE_VALUE, 0},
    {"attention.max_alibi_bias", ONE_VALUE, 0},
    {"attn_logit_softcapping", ONE_VALUE, 0},
    {"logit_scale", ONE_VALUE, 1},
    {"embedding_scale", ONE_VALUE, 1},
    {"residual_scale", ONE_VALUE, 1},
    {"use_parallel_residual", ONE_VALUE, 0},
};

/* A name that ends with a dot stands for all that begin so. */
static const known_key of_all[] = {
    {"tokenizer.ggml.model", HONOURED, 0},
    {"tokenizer.ggml.pre", HONOURED, 0},
    {"tokenizer.ggml.tokens", HONOURED, 0},
    {"tokenizer.ggml.token_type", HONOURED, 0},
    {"tokenizer.ggml.merges", HONOURED, 0},
    {"tokenizer.ggml.add_bos_token", HONOURED, 0},
    {"tokenizer.ggml.bos_token_id", HONOURED, 0},
    {"tokenizer.ggml.eos_token_id", HONOURED, 0},
    {"tokenizer.ggml.eot_token_id", HONOURED, 0},
    {"tokenizer.ggml.eom_token_id", HONOURED, 0},
    {"tokenizer.ggml.fim_pad_token_id", HONOURED, 0},
    {"tokenizer.ggml.fim_rep_token_id", HONOURED, 0},
    {"tokenizer.ggml.fim_sep_token_id", HONOURED, 0},
    {"tokenizer.chat_template", HONOURED, 0},
    {"tokenizer.chat_templates", HARMLESS, 0}, /* names of others, which chats of other kinds use */
    {"tokenizer.chat_template.", HARMLESS, 0},
    {"tokenizer.huggingface.json", HARMLESS, 0}, /* the same tokenizer once more */
    {"tokenizer.ggml.scores", HONOURED, 0},
    {"tokenizer.ggml.add_space_prefix", HONOURED, 0}, /* by SentencePiece; byte-level BPE has none */
    {"tokenizer.ggml.unknown_token_id", HARMLESS, 0},
    {"tokenizer.ggml.padding_token_id", HARMLESS, 0},
    {"tokenizer.ggml.seperator_token_id", HARMLESS, 0}, /* as it is spelt */
    {"tokenizer.ggml.cls_token_id", HARMLESS, 0},
    {"tokenizer.ggml.mask_token_id", HARMLESS, 0},
    {"tokenizer.ggml.fim_pre_token_id", HARMLESS, 0}, /* of filling in the middle, which is not done here */
    {"tokenizer.ggml.fim_suf_token_id", HARMLESS, 0},
    {"tokenizer.ggml.fim_mid_token_id", HARMLESS, 0},
    {"tokenizer.ggml.prefix_token_id", HARMLESS, 0},
    {"tokenizer.ggml.suffix_token_id", HARMLESS, 0},
    {"tokenizer.ggml.middle_token_id", HARMLESS, 0},
    {"tokenizer.ggml.add_eos_token", ONE_VALUE, 0},
    {"tokenizer.ggml.add_sep_token", ONE_VALUE, 0},
    {"tokenizer.ggml.remove_extra_whitespaces", ONE_VALUE, 0},
    {"general.quantization_version", ONE_VALUE, 2},
    {"split.", HONOURED, 0},
};

static bool begins(gguf_text key, const char *text) {
    const size_t length = strlen(text);
    return key.count >= (int64_t)length && memcmp(key.bytes, text, length) == 0;
}

static bool is(gguf_text key, const char *text) {
    const size_t length = strlen(text);
    return begins(key, text) && (key.count == (int64_t)length || text[length - 1] == '.');
}

static const known_key *find_key(const known_key *from, size_t count, gguf_text key) {
    for (size_t i = 0; i < count; i++)
        if (is(key, from[i].key))
            return &from[i];
    return NULL;
}

/* Does a setting have its one value? */
static int check_value(const gguf *f, gguf_text key, double only, complaint to) {
    char name[KEY_MOST + 1];
    double value = 0.0;
    snprintf(name, sizeof name, "%.*s", (int)key.count, key.bytes);
    if (gguf_real(f, name, true, &value, to) != 0)
        return -1;
    return value == only ? 0 : complain(to, gguf_path(f), "%s is %g; only %g is computed here", name, value, only);
}

int gguf_keys_check(const gguf *f, const char *architecture, complaint to) {
    const int64_t prefix = (int64_t)strlen(architecture) + 1;
    for (int64_t i = 0; i < gguf_value_count(f); i++) {
        const gguf_text key = gguf_value_at(f, i)->key;
        const bool models = begins(key, architecture) && key.count >= prefix && key.bytes[prefix - 1] == '.';
        const known_key *known = models ? find_key(of_model, sizeof of_model / sizeof of_model[0],
                                                   (gguf_text){key.bytes + prefix, key.count - prefix})
                                        : find_key(of_all, sizeof of_all / sizeof of_all[0], key);
        if (known == NULL && (models || begins(key, "tokenizer.")))
            return complain(to, gguf_path(f), "has the setting %.*s, which is not known here and may change results",
                            (int)key.count, key.bytes);
        if (known != NULL && known->how == ONE_VALUE && check_value(f, key, known->value, to) != 0)
            return -1;
    }
    return 0;
}

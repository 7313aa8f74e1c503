/* What is known of the settings of a LLaMA in GGUF (gguf_keys_check() of gguf.h). A setting that nobody reads here
 * may change what the model computes or how text becomes tokens, so each one is either read, or without effect, or
 * has the value that is computed anyway; or the file is refused, by the setting's name. What each means is ggml's
 * documentation of GGUF and what llama.cpp does. */
#include "gguf.h"

#include <string.h>

typedef enum treatment {
    HONOURED, /* read by config.c, text.c or gguf.c */
    HARMLESS, /* changes nothing of what is computed here */
    ONE_VALUE /* may be there with one value, which is what is computed here */
} treatment;

/* A name that ends with a dot stands for all that begin so. */
static const struct {
    const char *key;
    treatment how;
    double value;
} known[] = {
    {"llama.block_count", HONOURED, 0},
    {"llama.embedding_length", HONOURED, 0},
    {"llama.feed_forward_length", HONOURED, 0},
    {"llama.context_length", HONOURED, 0},
    {"llama.attention.head_count", HONOURED, 0},
    {"llama.attention.head_count_kv", HONOURED, 0},
    {"llama.attention.key_length", HONOURED, 0},
    {"llama.attention.value_length", HONOURED, 0},
    {"llama.attention.layer_norm_rms_epsilon", HONOURED, 0},
    {"llama.rope.dimension_count", HONOURED, 0},
    {"llama.rope.freq_base", HONOURED, 0},
    {"llama.rope.scaling.type", HONOURED, 0},
    {"llama.rope.scaling.factor", HONOURED, 0},
    {"llama.rope.scale_linear", HONOURED, 0},
    {"llama.vocab_size", HARMLESS, 0},                           /* the embedding says it */
    {"llama.rope.scaling.original_context_length", HARMLESS, 0}, /* of YaRN, which is refused */
    {"llama.rope.scaling.finetuned", HARMLESS, 0},
    {"llama.rope.scaling.attn_factor", ONE_VALUE, 1},
    {"llama.attention.causal", ONE_VALUE, 1},
    {"llama.attention.scale", ONE_VALUE, 0}, /* 0: the default */
    {"llama.attention.sliding_window", ONE_VALUE, 0},
    {"llama.attention.clamp_kqv", ONE_VALUE, 0},
    {"llama.attention.max_alibi_bias", ONE_VALUE, 0},
    {"llama.attn_logit_softcapping", ONE_VALUE, 0},
    {"llama.final_logit_softcapping", ONE_VALUE, 0},
    {"llama.logit_scale", ONE_VALUE, 1},
    {"llama.embedding_scale", ONE_VALUE, 1},
    {"llama.residual_scale", ONE_VALUE, 1},
    {"llama.expert_count", ONE_VALUE, 0},
    {"llama.expert_used_count", ONE_VALUE, 0},
    {"llama.use_parallel_residual", ONE_VALUE, 0},
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
    {"split.count", ONE_VALUE, 1},
};

static bool begins(gguf_text key, const char *text) {
    const size_t length = strlen(text);
    return key.count >= (int64_t)length && memcmp(key.bytes, text, length) == 0;
}

static bool is(gguf_text key, const char *text) {
    const size_t length = strlen(text);
    return begins(key, text) && (key.count == (int64_t)length || text[length - 1] == '.');
}

int gguf_keys_check(const gguf *f, complaint to) {
    for (int64_t i = 0; i < gguf_value_count(f); i++) {
        const gguf_text key = gguf_value_at(f, i)->key;
        double value = 0.0;
        size_t k = 0;
        while (k < sizeof known / sizeof known[0] && !is(key, known[k].key))
            k++;
        if (k == sizeof known / sizeof known[0]) {
            if (begins(key, "llama.") || begins(key, "tokenizer."))
                return complain(to, gguf_path(f),
                                "has the setting %.*s, which is not known here and may change results", (int)key.count,
                                key.bytes);
        } else if (known[k].how == ONE_VALUE) {
            if (gguf_real(f, known[k].key, true, &value, to) != 0)
                return -1;
            if (value != known[k].value)
                return complain(to, gguf_path(f), "%s is %g; only %g is computed here", known[k].key, value,
                                known[k].value);
        }
    }
    return 0;
}

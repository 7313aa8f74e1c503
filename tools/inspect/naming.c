/* naming.h. A family that is missing is a row more here. The first row that fits counts, so modules of two words come
 * before those of one. Names and orders are those of transformers 5.24, of PyTorch and of the models' own code. */
#include "naming.h"

#include <ctype.h>
#include <string.h>

#define Q_K_V(end)                                                                                                     \
    { "q" end, "k" end, "v" end }
#define QUERY_KEY_VALUE(end)                                                                                           \
    { "query" end, "key" end, "value" end }

const naming namings[NAMINGS] = {
    {"BERT, RoBERTa, ELECTRA", NULL, {"attention.self", "crossattention.self"}, QUERY_KEY_VALUE(".weight"), 0, false},
    {"DeBERTa-v2", NULL, {"attention.self"}, QUERY_KEY_VALUE("_proj.weight"), 0, false},
    {"DeBERTa", NULL, {"attention.self"}, {"in_proj.weight"}, NAMING_GROUPED, false},
    {"ViT, DeiT, DINOv2", NULL, {"attention.attention"}, QUERY_KEY_VALUE(".weight"), 0, false},
    {"ALBERT", NULL, {"attention"}, QUERY_KEY_VALUE(".weight"), 0, false},
    {"MPNet", NULL, {"attention.attn"}, Q_K_V(".weight"), 0, false},
    {"DistilBERT", NULL, {"attention"}, Q_K_V("_lin.weight"), 0, false},
    {"T5", NULL, {"layer.0.SelfAttention", "layer.1.EncDecAttention"}, Q_K_V(".weight"), 0, false},
    {"LLaMA, Mistral, Qwen, Gemma, Phi, BART, Whisper, OPT, CLIP",
     NULL,
     {"self_attn", "encoder_attn"},
     Q_K_V("_proj.weight"),
     0,
     false},
    {"Mllama", NULL, {NULL, "cross_attn"}, Q_K_V("_proj.weight"), 0, false},
    {"LLaMA (Meta's names)", NULL, {"attention"}, {"wq.weight", "wk.weight", "wv.weight"}, 0, false},
    {"GPT-Neo", NULL, {"attn.attention"}, Q_K_V("_proj.weight"), 0, false},
    {"Wav2Vec2, HuBERT", NULL, {"attention"}, Q_K_V("_proj.weight"), 0, false},
    {"GPT-J", NULL, {"attn"}, Q_K_V("_proj.weight"), 0, false},
    {"GPT-BigCode", "gpt_bigcode", {"attn"}, {"c_attn.weight"}, NAMING_GROUPED, false},
    {"GPT-2, nanoGPT", NULL, {"attn"}, {"c_attn.weight"}, NAMING_QKV, true},
    {"GPT-2", NULL, {NULL, "crossattention"}, {"q_attn.weight", "c_attn.weight"}, NAMING_Q_KV, true},
    {"Phi-3", NULL, {"self_attn"}, {"qkv_proj.weight"}, NAMING_QKV, false},
    {"Baichuan", NULL, {"self_attn"}, {"W_pack.weight"}, NAMING_QKV, false},
    {"timm", NULL, {"attn"}, {"qkv.weight"}, NAMING_QKV, false},
    {"MPT, DBRX, ModernBERT", NULL, {"attn"}, {"Wqkv.weight"}, NAMING_QKV, false},
    {"GPT-NeoX", NULL, {"attention"}, {"query_key_value.weight"}, NAMING_GROUPED, false},
    {"ChatGLM", "chatglm", {"self_attention"}, {"query_key_value.weight"}, NAMING_QKV, false},
    {"BLOOM, Falcon", NULL, {"self_attention"}, {"query_key_value.weight"}, NAMING_GROUPED, false},
    {"InternLM2", NULL, {"attention"}, {"wqkv.weight"}, NAMING_GROUPED, false},
    {"nn.MultiheadAttention", NULL, {"", "multihead_attn"}, {"in_proj_weight"}, NAMING_QKV, false},
    {"nn.MultiheadAttention", NULL, {"", "multihead_attn"}, Q_K_V("_proj_weight"), 0, false},
};

int naming_arrays(const naming *n) {
    static const int arrays[] = {[NAMING_SEPARATE] = 3, [NAMING_QKV] = 1, [NAMING_GROUPED] = 1, [NAMING_Q_KV] = 2};
    return arrays[n->order];
}

/* ------------------------------------------------------------------------------------------------------ matching -- */

/* Takes ".WORD" off the end of name[*length], or WORD where nothing else is there. */
static bool take_end(const char *name, size_t *length, const char *word) {
    const size_t size = strlen(word);
    if (size == 0)
        return true;
    if (*length < size || memcmp(name + *length - size, word, size) != 0)
        return false;
    if (*length == size)
        return *length = 0, true;
    if (name[*length - size - 1] != '.')
        return false;
    *length -= size + 1;
    return true;
}

/* The last number between points. */
static void find_number(const char *name, naming_match *m) {
    enum { MOST_DIGITS = 9 };
    m->number = 0;
    m->numbered = false;
    m->stack_length = m->middle = m->stem_length;
    for (int end = m->stem_length; end > 0 && !m->numbered;) {
        int begin = end, digits = 0;
        int64_t number = 0;
        while (begin > 0 && name[begin - 1] != '.') {
            begin--;
            digits += isdigit((unsigned char)name[begin]) != 0;
        }
        if (digits > 0 && digits == end - begin && digits <= MOST_DIGITS) {
            for (int i = begin; i < end; i++)
                number = 10 * number + (name[i] - '0');
            m->number = number;
            m->numbered = true;
            m->stack_length = begin > 0 ? begin - 1 : 0;
            m->middle = end;
        }
        end = begin - 1;
    }
}

bool naming_find(const char *name, const char *type, naming_match *m) {
    for (int n = 0; n < NAMINGS; n++) {
        const naming *row = &namings[n];
        if (row->only != NULL && strcmp(row->only, type) != 0)
            continue;
        for (int part = 0; part < naming_arrays(row); part++)
            for (int cross = 1; cross >= 0; cross--) { /* first, as a module of "" is anything */
                size_t length = strlen(name);
                if (row->module[cross] == NULL || length > INT32_MAX || !take_end(name, &length, row->array[part]) ||
                    !take_end(name, &length, row->module[cross]))
                    continue;
                *m = (naming_match){.naming = n, .part = part, .cross = cross != 0, .stem_length = (int)length};
                find_number(name, m);
                return true;
            }
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------------- guesses -- */

static bool is_one_of(const char *word, size_t length, const char *const *words) {
    for (; *words != NULL; words++) {
        size_t i = 0;
        while (i < length && (*words)[i] != '\0' && tolower((unsigned char)word[i]) == (*words)[i])
            i++;
        if (i == length && (*words)[i] == '\0')
            return true;
    }
    return false;
}

static bool has_part(const char *name, const char *const *words) {
    for (size_t length; *name != '\0'; name += length + (name[length] != '\0')) {
        length = strcspn(name, "._-/");
        if (is_one_of(name, length, words))
            return true;
    }
    return false;
}

static bool contains(const char *name, const char *const *words) {
    for (; *name != '\0'; name++)
        for (const char *const *word = words; *word != NULL; word++) {
            size_t i = 0;
            while ((*word)[i] != '\0' && tolower((unsigned char)name[i]) == (*word)[i])
                i++;
            if ((*word)[i] == '\0')
                return true;
        }
    return false;
}

bool naming_looks_alike(const char *name) {
    static const char *const operands[] = {"q",      "k",    "v",   "qk",    "kv",  "qkv",   "wq",      "wk",
                                           "wv",     "wqkv", "wkv", "query", "key", "value", "queries", "keys",
                                           "values", "to",   "in",  "c",     "pos", NULL};
    static const char *const attention[] = {"attn", "attention", "attend", NULL};
    static const char *const direct[] = {"q_proj",          "k_proj",         "v_proj", "qkv",
                                         "query_key_value", "in_proj_weight", NULL};
    static const char *const others[] = {"norm", "embed", "bias", "out_proj", "c_proj", "to_out", NULL};
    return !contains(name, others) &&
           (contains(name, direct) || (contains(name, attention) && has_part(name, operands)));
}

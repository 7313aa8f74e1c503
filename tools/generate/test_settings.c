/* Settings and arrays of GGUF files that say what a model computes and how text becomes tokens: each is honoured,
 * without effect, or refused by its name. A tiny LLaMA (make_gguf.h) is given one after the other; what it computes
 * with them is compared.
 *
 *     test-generate-settings --write FILE [--template TEXT]    writes the tiny LLaMA with a chat template */
#include "make_gguf.h"
#include "model.h"
#include "text.h"

#include "folder.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

enum { EXTRA_MOST = 5, PATH_MOST = 128, TOKENS = 6 };

static char sentence[1024];
static const complaint to = {sentence, sizeof sentence};
static const made_setting none[] = {{NULL, 0, 0, NULL}};

static void write_llama(const char *path, const made_setting *settings) {
    static made_gguf g;
    made_llama(&g, settings);
    FILE *file = fopen(path, "wb");
    const bool written = file != NULL && fwrite(g.bytes, 1, g.size, file) == g.size;
    test_check(file != NULL && fclose(file) == 0 && written, "%s cannot be written", path);
}

/* ---------------------------------------------------------------------------------------------- what is computed -- */

/* The logits of the last of some tokens; false: the model was refused, by the sentence. */
static bool run(const fovea_context *ctx, const made_setting *settings, float logits[MADE_WORDS]) {
    static const int32_t ids[TOKENS] = {0, 3, 8, 1, 9, 2};
    char folder[TEST_FOLDER], path[PATH_MOST];
    model *m = NULL;
    session *s = NULL;
    test_folder_begin(folder);
    snprintf(path, sizeof path, "%s/tiny.gguf", folder);
    write_llama(path, settings);
    sentence[0] = '\0';
    const bool loaded = model_load(ctx, path, &(model_options){.dtype = FOVEA_DTYPE_F32}, &m, to) == 0;
    if (loaded) {
        const cache_types types = {FOVEA_DTYPE_F32, FOVEA_DTYPE_F32};
        test_check(session_create(m, 1, TOKENS, types, &s, to) == 0 && session_run(s, ids, TOKENS, to) == 0 &&
                       session_logits(s, TOKENS - 1, 1, logits, to) == 0,
                   "%s", sentence);
    }
    session_free(s);
    model_free(m);
    test_folder_end(folder);
    return loaded;
}

/* Settings with which the model computes the same as without. */
static const made_setting same[][EXTRA_MOST] = {
    {{"llama.vocab_size", GGUF_U32, 99, NULL}},
    {{"llama.attention.key_length", GGUF_U32, 8, NULL}},
    {{"llama.attention.value_length", GGUF_U32, 8, NULL}},
    {{"llama.attention.causal", GGUF_BOOL, 1, NULL}},
    {{"llama.attention.sliding_window", GGUF_U32, 0, NULL}},
    {{"llama.rope.dimension_count", GGUF_U32, 8, NULL}},
    {{"llama.rope.scaling.type", GGUF_TEXT, 0, "linear"}},
    {{"llama.rope.scaling.type", GGUF_TEXT, 0, "none"}, {"llama.rope.scaling.factor", GGUF_F32, 4, NULL}},
    {{"llama.rope.scale_linear", GGUF_F32, 1, NULL}},
    {{"llama.rope.scaling.original_context_length", GGUF_U32, 32, NULL}},
    {{"llama.rope.scaling.attn_factor", GGUF_F32, 1, NULL}},
    {{"llama.attention.sliding_window", GGUF_U32, 64, NULL}},
    {{"llama.attention.sliding_window_pattern", GGUF_U32, 2, NULL}},
    {{"llama.attention.sliding_window", GGUF_U32, 4, NULL},
     {"llama.attention.sliding_window_pattern", GGUF_U32, 1, NULL}},
    {{"llama.logit_scale", GGUF_F32, 1, NULL}},
    {{"llama.final_logit_softcapping", GGUF_F32, 0, NULL}},
    {{"llama.expert_count", GGUF_U32, 0, NULL}},
    {{"split.count", GGUF_U32, 1, NULL}},
    {{"tokenizer.ggml.add_space_prefix", GGUF_BOOL, 0, NULL}},
    {{"tokenizer.ggml.padding_token_id", GGUF_U32, 2, NULL}},
    {{"tokenizer.chat_template.tool_use", GGUF_TEXT, 0, "{{ tools }}"}},
    {{"general.type", GGUF_TEXT, 0, "model"}},
    {{"general.quantization_version", GGUF_U32, 2, NULL}},
    {{"general.sampling.temp", GGUF_F32, 1, NULL}},
    {{"somebody.note", GGUF_TEXT, 0, "a note"}},
};

/* Settings that change it; those side by side have the same effect. */
static const made_setting other[][2][EXTRA_MOST] = {
    {{{"llama.rope.scaling.factor", GGUF_F32, 4, NULL}}, {{"llama.rope.scale_linear", GGUF_F32, 4, NULL}}},
    {{{"llama.rope.scaling.factor", GGUF_F32, 4, NULL}},
     {{"llama.rope.scaling.type", GGUF_TEXT, 0, "linear"}, {"llama.rope.scaling.factor", GGUF_F32, 4, NULL}}},
    {{{"llama.rope.scaling.factor", GGUF_F32, 4, NULL}},
     {{"llama.rope.scale_linear", GGUF_F32, 2, NULL}, {"llama.rope.scaling.factor", GGUF_F32, 4, NULL}}},
    {{{"llama.rope.scaling.type", GGUF_TEXT, 0, "yarn"},
      {"llama.rope.scaling.factor", GGUF_F32, 4, NULL},
      {"llama.rope.scaling.original_context_length", GGUF_U32, 16, NULL}},
     {{"llama.rope.scaling.type", GGUF_TEXT, 0, "yarn"},
      {"llama.rope.scaling.factor", GGUF_F32, 4, NULL},
      {"llama.rope.scaling.original_context_length", GGUF_F32, 16, NULL},
      {"llama.rope.scaling.yarn_beta_fast", GGUF_F32, 32, NULL}}},
    {{{"llama.rope.scaling.attn_factor", GGUF_F32, 2, NULL}}, /* YaRN of a factor of 1 does nothing */
     {{"llama.rope.scaling.attn_factor", GGUF_F32, 2, NULL}, {"llama.rope.scaling.type", GGUF_TEXT, 0, "yarn"}}},
    {{{"llama.attention.sliding_window", GGUF_U32, 2, NULL}},
     {{"llama.attention.sliding_window", GGUF_U32, 2, NULL},
      {"llama.attention.sliding_window_pattern", GGUF_U32, 3, NULL}}},
    {{{"llama.rope.freq_base", GGUF_F32, 50, NULL}}, {{"llama.rope.freq_base", GGUF_U32, 50, NULL}}},
    {{{"llama.rope.dimension_count", GGUF_U32, 4, NULL}}, {{"llama.rope.dimension_count", GGUF_I32, 4, NULL}}},
    {{{"llama.attention.layer_norm_rms_epsilon", GGUF_F32, 1, NULL}},
     {{"llama.attention.layer_norm_rms_epsilon", GGUF_U32, 1, NULL}}},
};

static const struct {
    made_setting setting;
    const char *words;
} refused[] = {
    {{"general.architecture", GGUF_TEXT, 0, "phi3"},
     "general.architecture is phi3; only llama, qwen2, qwen3, qwen3moe, qwen3next, qwen35, qwen35moe, gpt-oss and "
     "gemma3 can"},
    {{"general.architecture", GGUF_TEXT, 0, "qwen2"}, "has no qwen2.block_count"},
    {{"general.architecture", GGUF_U32, 7, NULL}, "general.architecture is no word"},
    {{"general.type", GGUF_TEXT, 0, "adapter"}, "general.type is adapter"},
    {{"general.quantization_version", GGUF_U32, 1, NULL}, "general.quantization_version is 1; only 2"},
    {{"split.count", GGUF_U32, 3, NULL}, "has no split.no"},
    {{"split.count", GGUF_U32, 3000, NULL}, "split.count is not an integer from 0 to 1024"},
    {{"llama.rope.scaling.type", GGUF_TEXT, 0, "longrope"},
     "llama.rope.scaling.type is longrope; only linear, none and yarn"},
    {{"llama.rope.scaling.attn_factor", GGUF_F32, -1, NULL}, "llama.rope.scaling.attn_factor is -1, not above 0"},
    {{"llama.rope.scaling.yarn_log_multiplier", GGUF_F32, 0.1, NULL}, "llama.rope.scaling.yarn_log_multiplier is 0.1"},
    {{"llama.rope.scaling.factor", GGUF_F32, 0, NULL}, "llama.rope.scaling.factor is 0, not above 0"},
    {{"llama.rope.scaling.factor", GGUF_TEXT, 0, "4"}, "llama.rope.scaling.factor is not a finite number"},
    {{"llama.rope.scaling.yarn_ext_factor", GGUF_F32, 0.5, NULL}, "llama.rope.scaling.yarn_ext_factor is 0.5; only 1"},
    {{"llama.rope.dimension_count", GGUF_U32, 10, NULL}, "rotates 10 channels of heads that have 8"},
    {{"llama.attention.value_length", GGUF_U32, 4, NULL}, "llama.attention.value_length is 4, but keys have 8"},
    {{"llama.attention.causal", GGUF_BOOL, 0, NULL}, "llama.attention.causal is 0; only 1"},
    {{"llama.attention.scale", GGUF_F32, 0.5, NULL}, "llama.attention.scale is 0.5"},
    {{"llama.attention.sliding_window", GGUF_F32, 4, NULL}, "llama.attention.sliding_window is not an integer"},
    {{"llama.attention.clamp_kqv", GGUF_F32, 8, NULL}, "llama.attention.clamp_kqv is 8"},
    {{"llama.attention.max_alibi_bias", GGUF_F32, 8, NULL}, "llama.attention.max_alibi_bias is 8"},
    {{"llama.attention.layer_norm_epsilon", GGUF_F32, 1, NULL}, "llama.attention.layer_norm_epsilon"},
    {{"llama.attn_logit_softcapping", GGUF_F32, 50, NULL}, "llama.attn_logit_softcapping is 50"},
    {{"llama.final_logit_softcapping", GGUF_F32, 30, NULL}, "llama.final_logit_softcapping is 30"},
    {{"llama.logit_scale", GGUF_F32, 8, NULL}, "llama.logit_scale is 8; only 1 is computed here"},
    {{"llama.embedding_scale", GGUF_F32, 12, NULL}, "llama.embedding_scale is 12"},
    {{"llama.residual_scale", GGUF_F32, 0.25, NULL}, "llama.residual_scale is 0.25"},
    {{"llama.expert_count", GGUF_U32, 8, NULL}, "llama.expert_used_count is 0 of llama.expert_count, 8"},
    {{"llama.expert_used_count", GGUF_U32, 2, NULL}, "llama.expert_used_count is 2 of llama.expert_count, 0"},
    {{"llama.use_parallel_residual", GGUF_BOOL, 1, NULL}, "llama.use_parallel_residual is 1"},
    {{"llama.something.new", GGUF_U32, 1, NULL}, "has the setting llama.something.new, which is not known here"},
    {{"blk.0.attn_q_norm.weight", GGUF_ARRAY, 0, NULL}, "has the array blk.0.attn_q_norm.weight, which is not known"},
    {{"tokenizer.ggml.add_eos_token", GGUF_BOOL, 1, NULL}, "tokenizer.ggml.add_eos_token is 1"},
    {{"tokenizer.ggml.add_sep_token", GGUF_BOOL, 1, NULL}, "tokenizer.ggml.add_sep_token is 1"},
    {{"tokenizer.ggml.remove_extra_whitespaces", GGUF_BOOL, 1, NULL}, "tokenizer.ggml.remove_extra_whitespaces is 1"},
    {{"tokenizer.ggml.precompiled_charsmap", GGUF_TEXT, 0, "x"}, "tokenizer.ggml.precompiled_charsmap"},
};

static void test_model(void) {
    fovea_context *ctx = test_context_untuned();
    float plain[MADE_WORDS], got[2][MADE_WORDS];
    test_check(run(ctx, none, plain), "%s", sentence);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (test_check(run(ctx, same[i], got[0]), "%s: %s", same[i][0].key, sentence))
            test_same(got[0], plain, MADE_WORDS, "%s", same[i][0].key);
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (test_check(run(ctx, other[i][0], got[0]) && run(ctx, other[i][1], got[1]), "%s: %s", other[i][0][0].key,
                       sentence)) {
            test_check(memcmp(got[0], plain, sizeof plain) != 0, "%s changes nothing", other[i][0][0].key);
            test_same(got[1], got[0], MADE_WORDS, "%s and %s", other[i][0][0].key, other[i][1][0].key);
        }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        const made_setting settings[] = {refused[i].setting, {NULL, 0, 0, NULL}};
        test_check(!run(ctx, settings, got[0]) && strstr(sentence, refused[i].words) != NULL,
                   "%s: \"%s\" does not say: %s", settings[0].key, sentence, refused[i].words);
    }
    fovea_context_destroy(ctx);
}

/* ----------------------------------------------------------------------------------------------- text and tokens -- */

static bool open_text(const made_setting *settings, text_codec **t) {
    static made_gguf g;
    gguf *f;
    made_llama(&g, settings);
    sentence[0] = '\0';
    *t = NULL;
    if (!test_check(gguf_open_memory(g.bytes, g.size, "made", &f, to) == 0, "%s", sentence))
        return false;
    const bool read = text_from_gguf(f, t, to) == 0;
    gguf_close(f);
    return read;
}

static void test_ends(void) {
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id", "tokenizer.ggml.fim_pad_token_id"};
    text_codec *t;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        made_setting settings[] = {{keys[i], GGUF_U32, 9, NULL}, {NULL, 0, 0, NULL}};
        if (test_check(open_text(settings, &t), "%s: %s", keys[i], sentence))
            test_check(text_ends(t, 9) && text_ends(t, 5) && text_ends(t, 7) && !text_ends(t, 6) && !text_ends(t, -1),
                       "%s: other tokens end an answer", keys[i]);
        text_free(t);
        settings[0].number = MADE_WORDS;
        test_check(!open_text(settings, &t) && strstr(sentence, keys[i]) != NULL, "%s: \"%s\"", keys[i], sentence);
    }
    if (test_check(open_text(none, &t), "%s", sentence))
        test_check(!text_ends(t, 9) && text_first(t) == -1, "without settings, a token ends answers or begins texts");
    text_free(t);
}

static void test_first(void) {
    made_setting settings[] = {{"tokenizer.ggml.add_bos_token", GGUF_BOOL, 1, NULL},
                               {"tokenizer.ggml.bos_token_id", GGUF_U32, 6, NULL},
                               {NULL, 0, 0, NULL}};
    text_codec *t;
    if (test_check(open_text(settings, &t), "%s", sentence))
        test_check(text_first(t) == 6, "token %d begins texts, not 6", (int)text_first(t));
    text_free(t);
    settings[0].number = 0;
    if (test_check(open_text(settings, &t), "%s", sentence))
        test_check(text_first(t) == -1, "token %d begins texts although add_bos_token is false", (int)text_first(t));
    text_free(t);
    settings[0].number = 1;
    settings[1].key = NULL;
    test_check(!open_text(settings, &t) && strstr(sentence, "asks for BOS, but does not say") != NULL, "\"%s\"",
               sentence);
}

#define EACH "{% for message in messages %}"
#define OWN(message)                                                                                                   \
    "{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n" message                          \
    "<|im_end|>\n' }}{% endif %}"
#define REST                                                                                                           \
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"               \
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"

/* Templates, and the first tokens of a chat that says "b"; kept: there are more. */
static const struct {
    const char *template;
    chat_kind kind;
    int count;
    int32_t ids[16];
} templates[] = {
    /* <|im_start|> s u s (of "user", whose other letters are no tokens) ... */
    {EACH REST, CHAT_CHATML, 11, {4, 11, 9, 3, 1, 5, 3, 4, 0, 9, 9}},
    {EACH OWN("ab") REST, CHAT_CHATML, 16, {4, 9, 9, 10, 3, 8, 5, 3, 4, 11, 9, 3, 1, 5, 3, 4}},
    {"{%for message in messages%}{{  '<|im_start|>'+message['role'] +'\\n'+ message['content'] + '<|im_end|>' + "
     "'\\n' }}{% endfor %}{%if add_generation_prompt%}{{'<|im_start|>assistant\\n'}}{% endif %}",
     CHAT_CHATML,
     11,
     {4, 11, 9, 3, 1, 5, 3, 4, 0, 9, 9}},
    {EACH OWN("a{{'b'}}") REST, CHAT_OTHER, 0, {0}},
    {EACH OWN("<|im_end|>") REST, CHAT_OTHER, 0, {0}},
    {EACH REST "x", CHAT_OTHER, 0, {0}},
    {EACH " " REST, CHAT_OTHER, 0, {0}},
    {EACH, CHAT_OTHER, 0, {0}},
    {"", CHAT_OTHER, 0, {0}},
    {"{% for message in messages %}[INST] {{ message['content'] }} [/INST]{% endfor %}", CHAT_OTHER, 0, {0}},
};

static void test_chats(void) {
    int32_t ids[64];
    text_codec *t;
    for (size_t i = 0; i < sizeof templates / sizeof templates[0]; i++) {
        const made_setting settings[] = {{"tokenizer.chat_template", GGUF_TEXT, 0, templates[i].template},
                                         {NULL, 0, 0, NULL}};
        if (test_check(open_text(settings, &t), "%s", sentence)) {
            const int64_t count = text_chat(t, NULL, "b", ids, 64);
            test_check(text_chats(t)->kind == templates[i].kind, "template %d is of kind %d", (int)i,
                       (int)text_chats(t)->kind);
            test_check(templates[i].count == 0
                           ? count == -1
                           : count >= templates[i].count &&
                                 memcmp(ids, templates[i].ids, (size_t)templates[i].count * sizeof ids[0]) == 0,
                       "template %d: %d tokens, the second %d", (int)i, (int)count, (int)ids[1]);
        }
        text_free(t);
    }
    if (test_check(open_text(none, &t), "%s", sentence))
        test_check(text_chats(t)->kind == CHAT_NONE && text_chat(t, NULL, "b", ids, 64) == -1,
                   "chats without a template");
    text_free(t);
    const made_setting first[] = {{"tokenizer.chat_template", GGUF_TEXT, 0, EACH REST},
                                  {"tokenizer.ggml.add_bos_token", GGUF_BOOL, 1, NULL},
                                  {"tokenizer.ggml.bos_token_id", GGUF_U32, 6, NULL},
                                  {NULL, 0, 0, NULL}};
    if (test_check(open_text(first, &t), "%s", sentence))
        test_check(text_chat(t, "ab", "b", ids, 64) > 6 && ids[0] == 6 && ids[1] == 4 && ids[6] == 8,
                   "a chat with a system message begins with %d, %d", (int)ids[0], (int)ids[1]);
    text_free(t);
}

static void test_text_refused(void) {
    static const struct {
        made_setting setting;
        const char *words;
    } wrong[] = {
        {{"tokenizer.ggml.model", GGUF_TEXT, 0, "llama"}, "its vocabulary has no scores"},
        {{"tokenizer.ggml.model", GGUF_TEXT, 0, "bert"}, "the tokenizer bert (word pieces) is not served"},
        {{"tokenizer.ggml.pre", GGUF_TEXT, 0, "deepseek-llm"}, "the pre-tokenizer deepseek-llm is not served"},
        {{"tokenizer.ggml.pre", GGUF_TEXT, 0, "default"}, "the pre-tokenizer default is not served"},
        {{"tokenizer.ggml.pre", GGUF_TEXT, 0, "a\nb"}, "the pre-tokenizer a?b is not served"},
        {{"tokenizer.ggml.add_bos_token", GGUF_TEXT, 0, "yes"}, "tokenizer.ggml.add_bos_token is not an integer"},
        {{"tokenizer.ggml.token_type", GGUF_U32, 4, NULL}, "tokenizer.ggml.token_type comes twice"},
        {{"tokenizer.chat_template", GGUF_U32, 4, NULL}, "tokenizer.chat_template is not a text"},
    };
    static made_gguf g;
    gguf *f;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const made_setting settings[] = {wrong[i].setting, {NULL, 0, 0, NULL}};
        text_codec *t = NULL;
        made_llama(&g, settings);
        sentence[0] = '\0';
        const bool read = gguf_open_memory(g.bytes, g.size, "made", &f, to) == 0 && text_from_gguf(f, &t, to) == 0;
        test_check(!read && strstr(sentence, wrong[i].words) != NULL, "\"%s\" does not say: %s", sentence,
                   wrong[i].words);
        text_free(t);
        gguf_close(f);
    }
}

/* The same rules from files in the folder of safetensors. */
static void test_folder(void) {
    static const struct {
        const char *name, *content; /* in addition to those of the steps before */
        int first, end, not_end;
        chat_kind kind;
        const char *words; /* NULL: it is read */
    } steps[] = {
        {"merges.txt", "#version: 0.2\na b\n", -1, 5, 9, CHAT_NONE, NULL},
        {"config.json", "{\"eos_token_id\": 9}", -1, 9, 7, CHAT_NONE, NULL},
        {"generation_config.json", "{\"eos_token_id\": [7, 8]}", -1, 8, 9, CHAT_NONE, NULL},
        {"tokenizer_config.json", "{\"add_bos_token\": true, \"bos_token\": {\"content\": \"<s>\"}}", 6, 7, 9,
         CHAT_NONE, NULL},
        {"tokenizer_config.json",
         "{\"bos_token\": \"<s>\", \"chat_template\": [{\"name\": \"default\", \"template\": \"{{ messages }}\"}]}", -1,
         7, 9, CHAT_OTHER, NULL},
        {"chat_template.jinja", EACH REST, -1, 7, 9, CHAT_CHATML, NULL},
        {"tokenizer_config.json", "{\"add_bos_token\": true, \"bos_token\": \"<t>\"}", 0, 0, 0, CHAT_CHATML,
         "add_bos_token, but bos_token is no token"},
    };
    char folder[TEST_FOLDER];
    test_folder_begin(folder);
    test_folder_put(
        folder, "vocab.json",
        "{\"a\": 0, \"b\": 1, \"c\": 2, \"\xc4\x8a\": 3, \"<|im_start|>\": 4, \"<|im_end|>\": 5, \"<s>\": 6, "
        "\"</s>\": 7, \"ab\": 8, \"s\": 9}");
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        text_codec *t;
        test_folder_put(folder, steps[i].name, steps[i].content);
        sentence[0] = '\0';
        const bool read = text_from_folder(folder, &t, to) == 0;
        test_check(read == (steps[i].words == NULL) && (read || strstr(sentence, steps[i].words) != NULL), "%s: \"%s\"",
                   steps[i].name, sentence);
        if (read)
            test_check(text_first(t) == steps[i].first && text_ends(t, steps[i].end) &&
                           !text_ends(t, steps[i].not_end) && text_chats(t)->kind == steps[i].kind,
                       "%s: token %d begins texts, the chat is of kind %d, or other tokens end answers", steps[i].name,
                       (int)text_first(t), (int)text_chats(t)->kind);
        text_free(t);
    }
    test_folder_end(folder);
}

int main(int argc, char **argv) {
    test_option options[] = {{"--write", "FILE", "write the tiny model and test nothing", NULL},
                             {"--template", "TEXT", "its chat template (default: ChatML's)", NULL},
                             {NULL, NULL, NULL, NULL}};
    test_begin(argc, argv, "settings", options);
    const char *path = test_option_value(options, "--write"), *chat = test_option_value(options, "--template");
    if (path != NULL) {
        const made_setting settings[] = {{"tokenizer.chat_template", GGUF_TEXT, 0, chat != NULL ? chat : EACH REST},
                                         {"general.sampling.temp", GGUF_F32, 0.6, NULL},
                                         {NULL, 0, 0, NULL}};
        write_llama(path, settings + (chat != NULL && *chat == '\0'));
        return test_end();
    }
    test_model();
    test_ends();
    test_first();
    test_chats();
    test_text_refused();
    test_folder();
    return test_end();
}

/* Models that are refused, each with a sentence: paths that lead to none, indexes that lie, settings of config.json
 * that are not computed, and split GGUF files whose parts do not fit. */
#include "model.h"

#include "folder.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

enum { PATH_MOST = 4096 };

static char sentence[1024];
static const complaint to = {sentence, sizeof sentence};

/* Paths that lead to no model. */
static void test_refused(void) {
    static const struct {
        const char *path, *words;
    } wrong[] = {{FOVEA_GENERATE_TINY "/nowhere", "nowhere"},
                 {FOVEA_GENERATE_TINY, "has several GGUF files: name one"},
                 {FOVEA_GENERATE_TINY "/..", "has no model"},
                 {FOVEA_GENERATE_TINY "/llama.txt", "not a GGUF file"},
                 {FOVEA_GENERATE_TINY "/llama/config.json", "not a GGUF file"}};
    fovea_context *ctx = test_context_untuned();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        model *m;
        test_check(model_load(ctx, wrong[i].path, &(model_options){.dtype = FOVEA_DTYPE_F32}, &m, to) != 0 &&
                       m == NULL && strstr(sentence, wrong[i].words) != NULL,
                   "%s: \"%s\" does not say %s", wrong[i].path, sentence, wrong[i].words);
    }
    fovea_context_destroy(ctx);
}

/* Indexes and settings that lie, or lead elsewhere. */
static void test_hostile(void) {
    static const struct {
        const char *name, *content, *words;
    } wrong[] = {
        {"model.safetensors.index.json", "{}", "has no weight_map"},
        {"model.safetensors.index.json", "{\"weight_map\": {}}", "lists no files"},
        {"model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../b.safetensors\"}}",
         "a is not in a .safetensors file of the same folder"},
        {"model.safetensors.index.json", "{\"weight_map\": {\"a\": \"/b.safetensors\"}}",
         "a is not in a .safetensors file of the same folder"},
        {"model.safetensors.index.json", "{\"weight_map\": {\"a\": 7}}",
         "a is not in a .safetensors file of the same folder"},
        {"model.safetensors.index.json", "{\"weight_map\": {\"a\": \"b.safetensors\"}}", "b.safetensors"},
        {"model.safetensors.index.json", "[", "model.safetensors.index.json"},
        {"model.safetensors", "no model", "model.safetensors"},
        {"model.gguf", "GGUF", "ends within its header"},
        {"model.gguf", "", "ends within its header"},
    };
    fovea_context *ctx = test_context_untuned();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char folder[TEST_FOLDER];
        model *m;
        test_folder_begin(folder);
        test_folder_put(folder, wrong[i].name, wrong[i].content);
        sentence[0] = '\0';
        test_check(model_load(ctx, folder, &(model_options){.dtype = FOVEA_DTYPE_F32}, &m, to) != 0 && m == NULL &&
                       strstr(sentence, wrong[i].words) != NULL,
                   "%s of %s: \"%s\" does not say %s", wrong[i].name, wrong[i].content, sentence, wrong[i].words);
        test_folder_end(folder);
    }
    fovea_context_destroy(ctx);
}

/* Copies a file, with other words in the place of the first ones of their kind; returns whether they were there. */
static bool copy_file(const char *from, const char *to_path, const char *words, const char *others) {
    static char bytes[1 << 16];
    FILE *in = fopen(from, "rb"), *out = fopen(to_path, "wb");
    const size_t count = in != NULL ? fread(bytes, 1, sizeof bytes, in) : 0, length = strlen(words);
    size_t at = 0;
    while (at + length <= count && memcmp(bytes + at, words, length) != 0)
        at++;
    const bool found = at + length <= count;
    bool good = count > 0 && count < sizeof bytes && out != NULL;
    at = found ? at : count;
    good = good && fwrite(bytes, 1, at, out) == at && (!found || fputs(others, out) >= 0) &&
           (!found || fwrite(bytes + at + length, 1, count - at - length, out) == count - at - length);
    if (in != NULL)
        fclose(in);
    test_check(good && fclose(out) == 0, "%s cannot be copied to %s", from, to_path);
    return found;
}

/* Copies of a tiny model with words that are others: one that is not computed is refused, not answered by another
 * model. */
static void test_settings(const char *name, int shards, const char *const (*cases)[3], int count) {
    fovea_context *ctx = test_context_untuned();
    for (int i = 0; i < count; i++) {
        char folder[TEST_FOLDER], file[64], from[PATH_MOST], there[PATH_MOST];
        bool found = false;
        model *m;
        test_folder_begin(folder);
        for (int k = -1; k <= shards; k++) {
            if (k > 0)
                snprintf(file, sizeof file, "model-%05d-of-%05d.safetensors", k, shards);
            else
                snprintf(file, sizeof file, "%s", k == 0 ? "config.json" : "model.safetensors.index.json");
            snprintf(from, sizeof from, "%s/%s/%s", FOVEA_GENERATE_TINY, name, file);
            snprintf(there, sizeof there, "%s/%s", folder, file);
            found = copy_file(from, there, cases[i][0], cases[i][1]) || found;
        }
        sentence[0] = '\0';
        const int status = model_load(ctx, folder, &(model_options){.dtype = FOVEA_DTYPE_F32}, &m, to);
        const char *words = cases[i][2];
        test_check(found && (words == NULL ? status == 0 : status != 0 && strstr(sentence, words) != NULL),
                   "%s: %s for %s: \"%s\" does not say %s", name, cases[i][1], cases[i][0], sentence,
                   words != NULL ? words : "nothing");
        model_free(m);
        test_folder_end(folder);
    }
    fovea_context_destroy(ctx);
}

/* Words of a file, what takes their place, and what is said then; NULL: it is a model. */
static const char *const llama_settings[][3] = {
    {"\"silu\"", "\"silu\"", NULL},
    {"\"silu\"", "\"gelu\"", "hidden_act is gelu; only silu"},
    {"\"silu\"", "7", "hidden_act is no word"},
    {"\"llama3\"", "\"yarn\"", "scales its rotary embedding by yarn"},
    {"\"rope_theta\"", "\"partial_rotary_factor\": 0.5, \"rope_theta\"", "a part of the channels"},
    {"\"llama\"", "\"mistral\"", "is of the type mistral"},
    {"\"num_attention_heads\": 6", "\"num_attention_heads\": 5", "no such attention"},
    {"\"hidden_size\": 48", "\"hidden_size\": 47", "not of 47 columns"},
    {"\"hidden_size\": 48", "\"hidden_size\": 1e30", "hidden_size is not a number"},
    {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", "model.layers.2."},
    {"\"intermediate_size\": 80", "\"intermediate_size\": 81", "not 81 x 48"},
    {"lm_head.weight", "lm_tail.weight", "there is no lm_head.weight"},
};
static const char *const gpt2_settings[][3] = {
    {"\"gelu_new\"", "\"gelu_pytorch_tanh\"", NULL},
    {"\"gelu_new\"", "\"relu\"", "activation_function is relu"},
    {"\"scale_attn_weights\": true", "\"scale_attn_weights\": false", "scale_attn_weights is not true"},
    {"layer_idx\": false", "layer_idx\": true", "inverse_layer_idx is not false"},
};

/* Bytes in place of those at some distances behind a key; a value of 0 ends them. key NULL: none. */
typedef struct patch {
    const char *key;
    struct {
        int skip;
        uint8_t value;
    } bytes[2];
} patch;

static void copy_patched(const char *from, const char *there, const patch *p) {
    static uint8_t bytes[1 << 18];
    FILE *in = fopen(from, "rb"), *out = fopen(there, "wb");
    const size_t count = in != NULL ? fread(bytes, 1, sizeof bytes, in) : 0, length = p->key ? strlen(p->key) : 0;
    bool found = p->key == NULL;
    for (size_t i = 0; i + length + 32 < count && !found; i++)
        if (memcmp(bytes + i, p->key, length) == 0) {
            for (int k = 0; k < 2 && p->bytes[k].value != 0; k++)
                bytes[i + length + (size_t)p->bytes[k].skip] = p->bytes[k].value;
            found = true;
        }
    if (in != NULL)
        fclose(in);
    test_check(found && count > 0 && out != NULL && fwrite(bytes, 1, count, out) == count, "%s cannot be copied", from);
    if (out != NULL)
        fclose(out);
}

/* Files of models with experts or states that say other sizes of them, or lack some. */
static const struct {
    const char *name, *words;
    patch patch;
} broken[] = {
    {"qwen3moe", "has no matrix or vector blk.1.ffn_up_exps.weight", {"blk.1.ffn_up_exp", {{0, 'z'}}}},
    {"qwen3moe", "has no matrix or vector blk.0.ffn_gate_inp.weight", {"blk.0.ffn_gate_in", {{0, 'z'}}}},
    {"qwen3moe", "blk.0.ffn_gate_inp.weight is 6 x 32, not 5 x 32", {"expert_count", {{4, 5}}}},
    {"qwen3moe", "qwen3moe.expert_used_count is 7 of qwen3moe.expert_count, 6", {"expert_used_count", {{4, 7}}}},
    {"qwen3moe", "blk.0.ffn_gate_exps.weight is 144 x 32, not 96 x 32", {"expert_feed_forward_length", {{4, 16}}}},
    {"qwen3moe",
     "blk.0.ffn_up_exps.weight has matrices of 8 experts, not of 6",
     {"blk.0.ffn_up_exps.weight", {{12, 18}, {20, 8}}}},
    {"qwen35moe-fused",
     "blk.0.ffn_gate_up_exps.weight is 96 x 64, not 192 x 32",
     {"blk.0.ffn_gate_up_exps.weight", {{4, 64}, {12, 16}}}},
    {"gptoss", "has no matrix or vector blk.1.attn_sinks.weight", {"blk.1.attn_sink", {{0, 'z'}}}},
    {"gptoss", "blk.0.attn_sinks.weight is 0 x 4, not 0 x 8", {"head_count", {{4, 8}}}},
    {"gptoss", "blk.0.ffn_down_exps.bias is 10 x 16, not 5 x 32", {"blk.0.ffn_down_exps.bias", {{4, 16}, {12, 10}}}},
    {"qwen35", "has states of 6 heads on 2, of 16 channels, 48 in all", {"ssm.state_size", {{4, 16}}}},
    {"qwen35", "blk.0.ssm_conv1d.weight is 80 x 4, not 80 x 3", {"ssm.conv_kernel", {{4, 3}}}},
    {"qwen35", "full_attention_interval is not an integer from 1 to 4", {"full_attention_interval", {{4, 5}}}},
    {"qwen35", "has no matrix or vector blk.0.ssm_dt.bias", {"blk.0.ssm_dt.bia", {{0, 'z'}}}},
    {"qwen35moe", "has no matrix or vector blk.0.ffn_gate_inp_shexp.weight", {"blk.0.ffn_gate_inp_shex", {{0, 'z'}}}},
    {"qwen35moe", "has no matrix or vector blk.1.ffn_up_shexp.weight", {"blk.1.ffn_up_shex", {{0, 'z'}}}},
    {"qwen35moe", "blk.0.ffn_gate_shexp.weight is 24 x 32, not 16 x 32", {"shared_feed_forward_length", {{4, 16}}}},
    {"qwen35moe",
     "blk.0.ffn_down_shexp.weight is 16 x 48, not 32 x 24",
     {"blk.0.ffn_down_shexp.weight", {{4, 48}, {12, 16}}}},
    {"qwen3next", "has no matrix or vector blk.0.attn_qkv.weight", {"blk.0.ssm_i", {{0, 'z'}}}},
    {"qwen3next", "has no matrix or vector blk.2.attn_gate.weight", {"blk.2.attn_gat", {{0, 'z'}}}},
    {"qwen3next", "has no matrix or vector blk.2.ssm_ba.weight", {"blk.2.ssm_b", {{0, 'z'}}}},
    {"qwen3next", "blk.0.ssm_in.weight is 64 x 64, not 128 x 32", {"blk.0.ssm_in.weight", {{4, 64}, {12, 64}}}},
    {"qwen3next", "blk.0.ssm_ba.weight is 6 x 64, not 12 x 32", {"blk.0.ssm_ba.weight", {{4, 64}, {12, 6}}}},
    {"qwen3next", "blk.0.ffn_gate_inp_shexp.weight is 2 x 16, not 1 x 32", {"inp_shexp.weight", {{4, 16}, {12, 2}}}},
    {"qwen35moe", "blk.0.ffn_gate_inp_shexp.weight is 0 x 16, not 1 x 32", {"inp_shexp.weight", {{4, 16}}}},
};

static void test_broken(void) {
    fovea_context *ctx = test_context_untuned();
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char folder[TEST_FOLDER], from[PATH_MOST], there[PATH_MOST];
        model *m;
        test_folder_begin(folder);
        snprintf(from, sizeof from, "%s/%s.gguf", FOVEA_GENERATE_TINY, broken[i].name);
        snprintf(there, sizeof there, "%s/m.gguf", folder);
        copy_patched(from, there, &broken[i].patch);
        sentence[0] = '\0';
        test_check(model_load(ctx, there, &(model_options){.dtype = FOVEA_DTYPE_F32}, &m, to) != 0 && m == NULL &&
                       strstr(sentence, broken[i].words) != NULL,
                   "%s: \"%s\" does not say %s", broken[i].name, sentence, broken[i].words);
        test_folder_end(folder);
    }
    fovea_context_destroy(ctx);
}

/* Models of which no rank could have a part. */
static void test_ranks(void) {
    static const char *const names[] = {"mixtral", "qwen3moe", "gptoss", "qwen35", "qwen35moe", "qwen3next"};
    static const model_ranks ranks = {.ranks = 2};
    fovea_context *ctx = test_context_untuned();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[PATH_MOST];
        model *m;
        snprintf(path, sizeof path, "%s/%s.gguf", FOVEA_GENERATE_TINY, names[i]);
        const model_options options = {.dtype = FOVEA_DTYPE_F32, .ranks = &ranks};
        test_check(model_load(ctx, path, &options, &m, to) != 0 && strstr(sentence, "run it without --mpi") != NULL,
                   "%s on ranks: \"%s\"", names[i], sentence);
    }
    fovea_context_destroy(ctx);
}

/* --------------------------------------------------------------------------------------------------- split files -- */

enum { PARTS = 4 };

/* The parts of a tiny model, one of which has other bytes in place of the value behind a key, or is left out. */
static const struct {
    int part;        /* from 1 on; to open or to break */
    const char *key; /* NULL: it is left out; "": it is opened */
    int skip;        /* bytes from the key's end to the value */
    uint8_t value;
    const char *words; /* NULL: it is a model */
} splits[] = {
    {0, NULL, 0, 0, NULL},
    {2, "", 0, 0, "is part 2 of 4: name the first"},
    {3, NULL, 0, 0, "-00003-of-00004.gguf: cannot be opened"},
    {1, "split.count", 4, 3, "is the first of 3 files, but is not named -00001-of-00003.gguf"},
    {1, "split.count", 4, 1, "has no matrix or vector"},
    {2, "split.count", 4, 3, "says that it is part 2 of 3 (split.no, split.count), not 2 of 4"},
    {3, "split.no", 4, 1, "says that it is part 2 of 4 (split.no, split.count), not 3 of 4"},
    {1, "split.no", 4, 1, "is part 2 of 4: name the first"},
    {1, "split.tensors.count", 4, 9, "split.tensors.count is 9, but its 4 files have"},
    {3, "GGUF", 0, 9, "is of version 9"},
    {3, "blk.1.attn_", 0, 'q', "blk.1.attn_q.weight comes twice"},
    {1, "rope_", 0, 'x', "has the array rope_xreqs.weight, which is not known here"},
};

static void copy_part(const char *folder, int part, size_t at) {
    char from[PATH_MOST], there[PATH_MOST];
    const bool whole = part != splits[at].part || *splits[at].key == '\0';
    snprintf(from, sizeof from, "%s/llama3-%05d-of-%05d.gguf", FOVEA_GENERATE_TINY, part, PARTS);
    snprintf(there, sizeof there, "%s/m-%05d-of-%05d.gguf", folder, part, PARTS);
    copy_patched(from, there, &(patch){whole ? NULL : splits[at].key, {{splits[at].skip, splits[at].value}}});
}
static void test_splits(void) {
    fovea_context *ctx = test_context_untuned();
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        char folder[TEST_FOLDER], path[PATH_MOST];
        const char *key = splits[i].key, *words = splits[i].words;
        model *m;
        test_folder_begin(folder);
        for (int part = 1; part <= PARTS; part++)
            if (key != NULL || part != splits[i].part)
                copy_part(folder, part, i);
        const bool open = key != NULL && *key == '\0';
        snprintf(path, sizeof path, open ? "%s/m-%05d-of-00004.gguf" : "%s", folder, splits[i].part);
        sentence[0] = '\0';
        const int status = model_load(ctx, path, &(model_options){.dtype = FOVEA_DTYPE_F32}, &m, to);
        test_check(words == NULL ? status == 0 : status != 0 && strstr(sentence, words) != NULL,
                   "split %d: \"%s\" does not say: %s", (int)i, sentence, words != NULL ? words : "nothing");
        model_free(m);
        test_folder_end(folder);
    }
    fovea_context_destroy(ctx);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "hostile-models", NULL);
    test_refused();
    test_hostile();
    test_settings("llama", 5, llama_settings, sizeof llama_settings / sizeof llama_settings[0]);
    test_settings("gpt2", 6, gpt2_settings, sizeof gpt2_settings / sizeof gpt2_settings[0]);
    test_splits();
    test_broken();
    test_ranks();
    return test_end();
}

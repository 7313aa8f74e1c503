/* Tiny decoders with random weights (make_tiny.py), in several safetensors files by LLaMA's and GPT-2's names: the logits of transformers in
 * float64, nearly; and the same bits for tokens alone, in chunks and at once, of every tier and number of threads, in every element type. */
#include "model.h"

#include "folder.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 23, WORDS = 61, PATH_MOST = 4096 };

typedef struct reference {
    int32_t ids[TOKENS];
    double logits[TOKENS][WORDS];
} reference;

static char sentence[1024];
static const complaint to = {sentence, sizeof sentence};

static bool read_reference(const char *name, reference *r) {
    char path[PATH_MOST];
    snprintf(path, sizeof path, "%s/%s.txt", FOVEA_GENERATE_TINY, name);
    FILE *file = fopen(path, "r");
    int read = 0;
    for (int i = 0; file != NULL && i < TOKENS; i++)
        read += fscanf(file, "%" SCNd32, &r->ids[i]);
    for (int i = 0; file != NULL && i < TOKENS * WORDS; i++)
        read += fscanf(file, "%lf", &r->logits[i / WORDS][i % WORDS]);
    if (file != NULL)
        fclose(file);
    return test_check(read == TOKENS + TOKENS * WORDS, "%s cannot be read", path);
}

/* Logits of all tokens, which go through the model in chunks. */
static bool run(const model *m, cache_types cache, const int32_t *ids, int64_t chunk, float *logits) {
    session *s;
    if (!test_check(session_create(m, TOKENS, cache, &s, to) == 0, "%s", sentence))
        return false;
    bool good = true;
    for (int64_t at = 0, count; good && at < TOKENS; at += count) {
        count = TOKENS - at < chunk ? TOKENS - at : chunk;
        good = session_run(s, ids + at, count, to) == 0 && session_logits(s, 0, count, logits + at * WORDS, to) == 0;
    }
    test_check(good, "%s", sentence);
    test_check(session_run(s, ids, 1, to) != 0 && strstr(sentence, "there is room for 23") != NULL,
               "a token too many: %s", sentence);
    session_free(s);
    return good;
}

static void check_near(const char *name, const float *logits, const reference *r, double bound) {
    double worst = 0.0;
    for (int i = 0; i < TOKENS * WORDS; i++) {
        const double off = fabs((double)logits[i] - r->logits[i / WORDS][i % WORDS]);
        worst = off > worst ? off : worst;
    }
    test_check(worst <= bound, "%s: a logit is %.3g from transformers' in float64, more than %.3g", name, worst, bound);
}

static void test_model(const char *name, fovea_dtype dtype, cache_types cache, double bound, const reference *r) {
    static float whole[TOKENS * WORDS], other[TOKENS * WORDS];
    static const int64_t chunks[] = {1, 7, 22};
    char path[PATH_MOST];
    snprintf(path, sizeof path, "%s/%s", FOVEA_GENERATE_TINY, name);
    fovea_context_options options;
    fovea_context_options_init(&options);
    for (int i = 0; i < 3; i++) { /* this tier; one thread; portable C */
        fovea_context *ctx;
        model *m = NULL;
        options.threads = i == 1 ? 1 : 0;
        options.isa = i == 2 ? FOVEA_ISA_SCALAR : FOVEA_ISA_BEST;
        test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "%s", fovea_error_detail());
        if (test_check(model_load(ctx, path, (model_types){.dtype = dtype}, &m, to) == 0, "%s", sentence)) {
            if (run(m, cache, r->ids, TOKENS, i == 0 ? whole : other)) {
                if (i == 0)
                    check_near(name, whole, r, bound);
                else
                    test_same(other, whole, TOKENS * WORDS, "%s, type %d, keys %d, context %d", name, (int)dtype,
                              (int)cache.k, i);
            }
            for (int k = 0; k < 3 && i == 0; k++)
                if (run(m, cache, r->ids, chunks[k], other))
                    test_same(other, whole, TOKENS * WORDS, "%s, type %d, keys %d, in chunks of %d", name, (int)dtype,
                              (int)cache.k, (int)chunks[k]);
        }
        model_free(m);
        fovea_context_destroy(ctx);
    }
}

/* Paths that lead to no model. */
static void test_refused(void) {
    static const struct {
        const char *path, *words;
    } wrong[] = {{FOVEA_GENERATE_TINY "/nowhere", "nowhere"},
                 {FOVEA_GENERATE_TINY, "has no model"},
                 {FOVEA_GENERATE_TINY "/llama.txt", "not a GGUF file"},
                 {FOVEA_GENERATE_TINY "/llama/config.json", "not a GGUF file"}};
    fovea_context *ctx = test_context_untuned();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        model *m;
        test_check(model_load(ctx, wrong[i].path, (model_types){.dtype = FOVEA_DTYPE_F32}, &m, to) != 0 && m == NULL &&
                       strstr(sentence, wrong[i].words) != NULL,
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
        {"model.safetensors.index.json", "{\"weight_map\": {}}", "has no weight_map"},
        {"model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../b.safetensors\"}}",
         "names no file beside it for a"},
        {"model.safetensors.index.json", "{\"weight_map\": {\"a\": \"/b.safetensors\"}}",
         "names no file beside it for a"},
        {"model.safetensors.index.json", "{\"weight_map\": {\"a\": 7}}", "names no file beside it for a"},
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
        test_check(model_load(ctx, folder, (model_types){.dtype = FOVEA_DTYPE_F32}, &m, to) != 0 && m == NULL &&
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

/* Copies of a tiny model with words that are others: one that is not computed is refused, not answered by another model. */
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
        const int status = model_load(ctx, folder, (model_types){.dtype = FOVEA_DTYPE_F32}, &m, to);
        const char *words = cases[i][2];
        test_check(found && (words == NULL ? status == 0 : status != 0 && strstr(sentence, words) != NULL),
                   "%s: %s for %s: \"%s\" does not say %s", name, cases[i][1], cases[i][0], sentence,
                   words != NULL ? words : "nothing");
        model_free(m);
        test_folder_end(folder);
    }
    fovea_context_destroy(ctx);
}

/* What is in a file, what takes its place, and what is said of it; NULL: it is a model. */
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

int main(int argc, char **argv) {
    static const char *const names[] = {"llama", "gpt2"};
    static const struct {
        fovea_dtype dtype;
        cache_types cache;
        double bound;
    } kinds[] = {{FOVEA_DTYPE_F32, {FOVEA_DTYPE_F32, FOVEA_DTYPE_F32}, 1e-5},
                 {FOVEA_DTYPE_BF16, {FOVEA_DTYPE_BF16, FOVEA_DTYPE_BF16}, 0.2},
                 {FOVEA_DTYPE_F16, {FOVEA_DTYPE_F16, FOVEA_DTYPE_F16}, 0.02},
                 {FOVEA_DTYPE_F32, {FOVEA_DTYPE_I8, FOVEA_DTYPE_I8}, 0.2},
                 {FOVEA_DTYPE_BF16, {FOVEA_DTYPE_BF16, FOVEA_DTYPE_I8}, 0.2}};
    test_begin(argc, argv, "decoder", NULL);
    for (int i = 0; i < 2; i++) {
        static reference r;
        if (!read_reference(names[i], &r))
            continue;
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
            test_model(names[i], kinds[k].dtype, kinds[k].cache, kinds[k].bound, &r);
    }
    test_refused();
    test_hostile();
    test_settings("llama", 5, llama_settings, sizeof llama_settings / sizeof llama_settings[0]);
    test_settings("gpt2", 6, gpt2_settings, sizeof gpt2_settings / sizeof gpt2_settings[0]);
    return test_end();
}

/* Settings of a GGUF file of each architecture, by a file that has them and its embedding alone:
 * defaults of llama.cpp that tiny models (test_decoder.c) do not have, and settings that are refused. */
#include "config.h"
#include "make_gguf.h"

#include "folder.h"
#include "test.h"

#include <math.h>
#include <stdio.h>

enum { MORE_MOST = 4, WIDTH = 48, WORDS = 4 };

static char sentence[1024];
static const complaint to = {sentence, sizeof sentence};

typedef struct config_case {
    const char *architecture;
    int layers;
    made_setting more[MORE_MOST]; /* names behind the architecture's; GGUF_ARRAY: number truths, the last 0 */
    const char *words;            /* NULL: it is read */
} config_case;

static void put(made_gguf *g, const char *architecture, const made_setting *s) {
    char key[128];
    made_setting named = *s;
    snprintf(key, sizeof key, "%s.%s", architecture, s->key);
    named.key = key;
    if (s->kind != GGUF_ARRAY) {
        made_value(g, &named);
        return;
    }
    made_array(g, key, GGUF_BOOL, (uint64_t)s->number);
    for (int i = 1; i <= (int)s->number; i++)
        made_bits(g, i < (int)s->number, 1);
}

static void write_settings(const config_case *c, const char *path) {
    static made_gguf g;
    const made_setting own[] = {
        {"block_count", GGUF_U32, c->layers, NULL},    {"embedding_length", GGUF_U32, WIDTH, NULL},
        {"feed_forward_length", GGUF_U32, 64, NULL},   {"context_length", GGUF_U32, 128, NULL},
        {"attention.head_count", GGUF_U32, 4, NULL},   {"attention.key_length", GGUF_U32, 8, NULL},
        {"attention.value_length", GGUF_U32, 8, NULL}, {"attention.layer_norm_rms_epsilon", GGUF_F32, 1e-6, NULL}};
    const int count = sizeof own / sizeof own[0];
    int more = 0;
    while (more < MORE_MOST && c->more[more].key != NULL)
        more++;
    made_begin(&g, 1, (uint64_t)(1 + count + more));
    made_word(&g, "general.architecture", c->architecture);
    for (int i = 0; i < count; i++)
        put(&g, c->architecture, &own[i]);
    for (int i = 0; i < more; i++)
        put(&g, c->architecture, &c->more[i]);
    made_tensor(&g, "token_embd.weight", WIDTH, WORDS, GGUF_F32S, 0);
    while (g.size % 32 != 0)
        made_bits(&g, 0, 1);
    for (int i = 0; i < 4 * WIDTH * WORDS; i++)
        made_bits(&g, 0, 1);
    FILE *file = fopen(path, "wb");
    const bool written = file != NULL && fwrite(g.bytes, 1, g.size, file) == g.size;
    test_check(file != NULL && fclose(file) == 0 && written, "%s cannot be written", path);
}

static bool read_settings(const config_case *c, config *read) {
    char folder[TEST_FOLDER], path[2 * TEST_FOLDER];
    weights *w = NULL;
    test_folder_begin(folder);
    snprintf(path, sizeof path, "%s/settings.gguf", folder);
    write_settings(c, path);
    sentence[0] = '\0';
    const bool good = weights_open(path, &w, to) == 0 && config_read(w, read, to) == 0;
    weights_close(w);
    test_folder_end(folder);
    return good;
}

#define WINDOW                                                                                                         \
    { "attention.sliding_window", GGUF_U32, 16, NULL }
#define EXPERTS(count, used)                                                                                           \
    {"expert_count", GGUF_U32, count, NULL}, { "expert_used_count", GGUF_U32, used, NULL }
#define PATTERN "attention.sliding_window_pattern"

static void test_gemma3(void) {
    static const config_case first = {"gemma3", 13, {WINDOW, {"rope.freq_base", GGUF_F32, 1e6, NULL}}, NULL},
                             largest = {"gemma3", 62, {WINDOW}, NULL}, none = {"gemma3", 6, {{NULL, 0, 0, NULL}}, NULL};
    config c;
    if (test_check(read_settings(&first, &c), "%s", sentence)) {
        for (int i = 0; i < 13; i++)
            test_check(c.local[i] == (i % 6 != 5), "layer %d is local, or is not", i);
        test_check(c.has_local && c.window == 15 && c.local_rotates, "local layers see %d keys before", (int)c.window);
        test_check(c.rope.base == 1e6 && c.local_rope.base == 1e4 && c.local_rope.rotary_dim == 8,
                   "bases are %g and %g", c.rope.base, c.local_rope.base);
        test_check(c.gelu && c.word_scale == (double)sqrtf(WIDTH) && c.scale == 0.0, "embeddings have %g",
                   c.word_scale);
    }
    if (test_check(read_settings(&largest, &c), "%s", sentence)) /* of 27 billion weights */
        test_check(fabs(c.scale - 1.0 / sqrt(WIDTH / 4)) < 1e-12, "scores are scaled by %g", c.scale);
    if (test_check(read_settings(&none, &c), "%s", sentence))
        test_check(!c.has_local && !c.local_rotates, "there are local layers without a window");
}

static void test_patterns(void) {
    static const config_case all = {"llama", 3, {WINDOW}, NULL},
                             listed = {"qwen3", 3, {WINDOW, {PATTERN, GGUF_ARRAY, 3, NULL}}, NULL};
    config c;
    if (test_check(read_settings(&all, &c), "%s", sentence))
        test_check(c.local[0] && c.local[2] && !c.local_rotates && !c.gelu && c.word_scale == 1.0,
                   "not all layers of LLaMA are local");
    if (test_check(read_settings(&listed, &c), "%s", sentence))
        test_check(c.local[0] && c.local[1] && !c.local[2] && c.has_local, "layers are not those of the list");
}

static void test_refused(void) {
    static const config_case wrong[] = {
        {"qwen2", 3, {WINDOW}, "qwen2.attention.sliding_window is there, but not qwen2." PATTERN ": which layers?"},
        {"qwen3", 3, {WINDOW, {PATTERN, GGUF_ARRAY, 2, NULL}}, "qwen3." PATTERN " is not a truth for each of 3"},
        {"gemma3", 3, {WINDOW, {PATTERN, GGUF_F32, 2, NULL}}, "gemma3." PATTERN " is not an integer"},
        {"gemma3", 3, {{"attn_logit_softcapping", GGUF_F32, 50, NULL}}, "gemma3.attn_logit_softcapping is 50"},
        {"gemma3", 3, {{"final_logit_softcapping", GGUF_F32, -1, NULL}}, "gemma3.final_logit_softcapping is -1"},
        {"qwen2", 3, {{"final_logit_softcapping", GGUF_F32, 30, NULL}}, "qwen2.final_logit_softcapping is 30"},
        {"qwen3", 3, {{"attention.value_length", GGUF_U32, 8, NULL}}, "qwen3.attention.value_length comes twice"},
        {"phi3",
         3,
         {{NULL, 0, 0, NULL}},
         "general.architecture is phi3; only llama, qwen2, qwen3, qwen3moe, qwen3next, qwen35, qwen35moe, gpt-oss and "
         "gemma3"},
        {"qwen3moe", 3, {{NULL, 0, 0, NULL}}, "qwen3moe.expert_count is 0; only a number above 0 is computed here"},
        {"qwen3moe",
         3,
         {{"expert_count", GGUF_U32, 2049, NULL}},
         "qwen3moe.expert_count is not an integer from 0 to 2048"},
        {"qwen3moe", 3, {EXPERTS(4, 5)}, "qwen3moe.expert_used_count is 5 of qwen3moe.expert_count, 4"},
        {"qwen3moe", 3, {EXPERTS(4, 0)}, "qwen3moe.expert_used_count is 0 of qwen3moe.expert_count, 4"},
        {"qwen3moe", 3, {EXPERTS(4, 2), {"expert_group_count", GGUF_U32, 2, NULL}}, "qwen3moe.expert_group_count is 2"},
        {"qwen35moe", 3, {EXPERTS(4, 2)}, "has no qwen35moe.ssm.conv_kernel"},
        {"qwen35moe",
         3,
         {EXPERTS(4, 2), {"expert_shared_feed_forward_length", GGUF_U32, 0, NULL}},
         "qwen35moe.expert_shared_feed_forward_length is not an integer from 1"},
        {"gemma3", 3, {{"expert_count", GGUF_U32, 4, NULL}}, "gemma3.expert_count is 4; only 0"},
        {"gemma3", 3, {{"altup.num_inputs", GGUF_U32, 4, NULL}}, "has the setting gemma3.altup.num_inputs"},
    };
    config c;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        test_check(!read_settings(&wrong[i], &c) && strstr(sentence, wrong[i].words) != NULL, "\"%s\" does not say: %s",
                   sentence, wrong[i].words);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "config", NULL);
    test_gemma3();
    test_patterns();
    test_refused();
    return test_end();
}

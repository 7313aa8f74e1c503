/* Shapes from a GGUF file's settings and the sizes of its matrices (model.h). Weights are not read. */
#include "model.h"
#include "gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 24, TEXT = 256 };

typedef struct model {
    gguf *file;
    complaint complaint;
    const char *architecture;
    int64_t heads, kv_heads, key_dim, value_dim, context, window;
} model;

static bool setting(const model *m, const char *name, bool needed, int64_t least, int64_t *value) {
    char key[TEXT];
    snprintf(key, sizeof key, "%s.%s", m->architecture, name);
    return gguf_integer(m->file, key, needed, least, MOST, value, m->complaint) == 0;
}

static bool read_settings(model *m) {
    int64_t width;
    if (!setting(m, "embedding_length", true, 1, &width) || !setting(m, "attention.head_count", true, 1, &m->heads))
        return false;
    m->kv_heads = m->heads;
    m->key_dim = width / m->heads;
    m->context = MOST;
    m->window = 0;
    if (!setting(m, "attention.head_count_kv", false, 1, &m->kv_heads) ||
        !setting(m, "attention.key_length", false, 1, &m->key_dim))
        return false;
    m->value_dim = m->key_dim;
    return setting(m, "attention.value_length", false, 1, &m->value_dim) &&
           setting(m, "context_length", false, 1, &m->context) &&
           setting(m, "attention.sliding_window", false, 0, &m->window);
}

/* One row of an attention and, where some layers have a window, the same with it. */
static bool take_attention(const model *m, int64_t queries, int64_t keys, tune_take *take, void *list) {
    char words[TEXT];
    if (keys > m->context)
        return true;
    for (int windowed = 0; windowed <= (m->window > 0 && m->window < keys); windowed++) {
        const int n =
            snprintf(words, sizeof words,
                     "q_heads=%" PRId64 " kv_heads=%" PRId64 " q_len=%" PRId64 " kv_len=%" PRId64 " head_dim=%" PRId64
                     " value_dim=%" PRId64 " causal=bottom_right k_dtype=f16 v_dtype=f16",
                     m->heads, m->kv_heads, queries, keys, m->key_dim, m->value_dim);
        if (windowed)
            snprintf(words + n, sizeof words - (size_t)n, " window_left=%" PRId64, m->window - 1);
        if (!take(list, words, gguf_path(m->file)))
            return false;
    }
    return true;
}

/* A matrix that is multiplied by: not a table of embeddings, unless it is the output's, too. */
static bool multiplies(const model *m, const gguf_tensor *t) {
    const bool embedding = strcmp(t->name, "token_embd.weight") == 0;
    return t->dims == 2 && gguf_dtype(t->type) && (!embedding || !gguf_find_tensor(m->file, "output.weight"));
}

static bool alike(const gguf_tensor *a, const gguf_tensor *b) {
    return a->type == b->type && a->shape[0] == b->shape[0] && a->shape[1] == b->shape[1];
}

/* Is it the first of its size and type? */
static bool is_first(const model *m, int64_t i) {
    const gguf_tensor *t = gguf_tensor_at(m->file, i);
    for (int64_t j = 0; j < i; j++)
        if (multiplies(m, gguf_tensor_at(m->file, j)) && alike(t, gguf_tensor_at(m->file, j)))
            return false;
    return true;
}

static bool take_maps(const model *m, tune_take *take, void *list) {
    static const int rows[] = {1, 4, 32, 512};
    char words[TEXT];
    int64_t others = 0;
    for (int64_t i = 0; i < gguf_tensor_count(m->file); i++) {
        const gguf_tensor *t = gguf_tensor_at(m->file, i);
        const bool head = strcmp(t->name, "token_embd.weight") == 0 || strcmp(t->name, "output.weight") == 0;
        others += t->dims > 1 && !gguf_dtype(t->type);
        for (size_t r = 0; r < (head ? 1 : sizeof rows / sizeof rows[0]) && multiplies(m, t) && is_first(m, i); r++) {
            snprintf(words, sizeof words, "linear rows=%d in=%" PRId64 " out=%" PRId64 " dtype=%s", rows[r],
                     t->shape[0], t->shape[1], fovea_dtype_info(gguf_dtype(t->type))->name);
            if (!take(list, words, gguf_path(m->file)))
                return false;
        }
    }
    if (others > 0)
        fprintf(stderr, "fovea-tune: %s: %" PRId64 " matrices have types that the library does not multiply by\n",
                gguf_path(m->file), others);
    return true;
}

static bool take_all(model *m, tune_take *take, void *list) {
    const gguf_text architecture = gguf_text_of(m->file, "general.architecture");
    char name[64];
    if (!architecture.bytes || architecture.count >= (int64_t)sizeof name) {
        complain(m->complaint, gguf_path(m->file), "general.architecture is missing: this is no model");
        return false;
    }
    snprintf(name, sizeof name, "%.*s", (int)architecture.count, architecture.bytes);
    m->architecture = name;
    return read_settings(m) && take_attention(m, 512, 512, take, list) && take_attention(m, 512, 2048, take, list) &&
           take_attention(m, 1, 700, take, list) && take_attention(m, 1, 3000, take, list) && take_maps(m, take, list);
}

bool tune_model_shapes(const char *path, tune_take *take, void *list) {
    char text[512] = "";
    model m = {.complaint = {text, sizeof text}};
    const bool done = gguf_open(path, &m.file, m.complaint) == 0 && take_all(&m, take, list);
    if (text[0])
        fprintf(stderr, "fovea-tune: %s\n", text);
    gguf_close(m.file);
    return done;
}

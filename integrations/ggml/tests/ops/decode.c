/* decode MODEL.gguf [FTYPE [KEY=VALUE...]]: logits of a prompt and of tokens behind it, with llama.cpp, for 1, 2 and 4
 * threads and ubatches of 1, 64 and 512. Prints "hash: ..." if all have the same bits, else "FAILED: ...", and the
 * operations of a decode step that backends other than Fovea's compute, "left: ...". FTYPE: the model is first written
 * to MODEL.gguf.N, with weights of that number of llama_ftype. KEY=VALUE: settings of the architecture in place of the
 * file's, numbers or lists of them, such as its widths. Weights are then random, in the types of that file. */
#define _POSIX_C_SOURCE 200809L
#include <ggml-backend.h>
#include <ggml.h>
#include <gguf.h>
#include <llama.h>

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPT = 100, TOKENS = PROMPT + 4 };

/* ggml's scheduler prints its nodes: "node #  3 (        OP): name (size) [backend cause] ...". */
static char left[4096];
static bool listening;

static void listen(enum ggml_log_level level, const char *text, void *data) {
    char node[32], backend[32], word[34];
    (void)data;
    if (level == GGML_LOG_LEVEL_ERROR)
        fputs(text, stderr);
    const char *place = strstr(text, ") [");
    if (!listening || !place || sscanf(text, "node #%*d (%31[^)])", node) != 1 ||
        sscanf(place, ") [%31s", backend) != 1 || !strncmp(backend, "Fovea", 5))
        return;
    snprintf(word, sizeof word, " %s ", node + strspn(node, " "));
    if (!strstr(left, word) && strlen(left) + sizeof word < sizeof left)
        strcat(left, word);
}

static uint64_t add(uint64_t hash, const float *logits, int count, bool *useful) {
    float most = 0;
    for (int i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, logits + i, sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
        most = fmaxf(most, fabsf(logits[i]));
    }
    *useful = *useful && isfinite(most) && most > 1e-6f;
    return hash;
}

/* 0: it failed. */
static uint64_t run(struct llama_model *model, int threads, int ubatch) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = 2 * TOKENS;
    params.n_batch = 512;
    params.n_ubatch = (uint32_t)ubatch;
    params.n_threads = params.n_threads_batch = threads;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    struct llama_context *ctx = llama_init_from_model(model, params);
    const int words = llama_vocab_n_tokens(llama_model_get_vocab(model));
    llama_token tokens[TOKENS];
    uint64_t hash = 14695981039346656037u;
    bool useful = ctx != NULL;
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (i * 37 + i / 7) % words;
    for (int at = 0; useful && at < TOKENS;) {
        const int count = at < PROMPT ? PROMPT : 1;
        listening = at >= PROMPT;
        useful = llama_decode(ctx, llama_batch_get_one(tokens + at, count)) == 0;
        at += count;
        if (useful)
            hash = add(hash, llama_get_logits_ith(ctx, -1), words, &useful);
    }
    listening = false;
    llama_free(ctx);
    return useful ? hash : 0;
}

/* -------------------------------------------------------------------------------------- models of other widths -- */

enum { POOL = 1 << 18, LIST = 64 }; /* numbers from which weights are drawn; most numbers of a setting */

static uint64_t random_state;

static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static float uniform(void) { return (float)(draw() >> 40) * 0x1p-23f - 1; }

/* Random numbers of a tensor: blocks of its type, each drawn from a pool. Deviation 0.02; norms are near 1, states
 * decay. */
static void fill(struct ggml_tensor *tensor, void *data) {
    static float numbers[POOL];
    static char pool[POOL * sizeof(float)];
    const size_t block = ggml_type_size(tensor->type), bytes = ggml_nbytes(tensor);
    const size_t blocks = POOL / (size_t)ggml_blck_size(tensor->type);
    const bool norm = strstr(tensor->name, "norm") != NULL, decay = strstr(tensor->name, "ssm_a") != NULL;
    char *all = malloc(bytes);
    (void)data;
    if (!all) {
        fprintf(stderr, "FAILED: no memory for %s\n", tensor->name);
        exit(1);
    }
    random_state = 88172645463325252u;
    for (const char *c = tensor->name; *c; c++)
        random_state = (random_state ^ (unsigned char)*c) * 1099511628211u;
    for (int i = 0; i < POOL; i++) {
        const float x = uniform();
        numbers[i] = decay ? -0.5f - fabsf(x) : norm ? 1 + 0.1f * x : 0.035f * x;
    }
    ggml_quantize_chunk(tensor->type, numbers, pool, 0, POOL / 1024, 1024, NULL);
    for (size_t at = 0; at < bytes; at += block)
        memcpy(all + at, pool + draw() % blocks * block, block);
    ggml_backend_tensor_set(tensor, all, 0, bytes);
    free(all);
}

/* Types of arrays that the file has none of, but a model with the new settings does: stacks of experts. */
static void add_types(struct gguf_context *file, enum ggml_type type) {
    static const char *const names[] = {"gate_exps", "up_exps", "down_exps", "gate_shexp", "up_shexp", "down_shexp"};
    for (int i = 0; i < 2 * (int)(sizeof names / sizeof names[0]); i++) {
        struct ggml_tensor tensor = {.type = type, .ne = {ggml_blck_size(type), 1, 1, 1}};
        tensor.nb[0] = tensor.nb[1] = tensor.nb[2] = tensor.nb[3] = ggml_type_size(type);
        ggml_format_name(&tensor, "blk.%d.ffn_%s.weight", i % 2, names[i / 2]);
        if (gguf_find_tensor(file, tensor.name) < 0)
            gguf_add_tensor(file, &tensor);
    }
}

static bool set(struct gguf_context *file, const char *setting) {
    const int64_t architecture = gguf_find_key(file, "general.architecture");
    const char *value = strchr(setting, '=');
    char key[256];
    uint32_t list[LIST];
    int count = 0;
    if (!value || architecture < 0)
        return false;
    snprintf(key, sizeof key, "%s.%.*s", gguf_get_val_str(file, architecture), (int)(value - setting), setting);
    gguf_remove_key(file, key);
    if (strchr(value, '.')) {
        gguf_set_val_f32(file, key, strtof(value + 1, NULL));
        return true;
    }
    for (char *end; *value && count < LIST; value = end, count++)
        list[count] = (uint32_t)strtoul(value + 1, &end, 10);
    if (count == 1)
        gguf_set_val_u32(file, key, list[0]);
    else
        gguf_set_arr_data(file, key, GGUF_TYPE_UINT32, list, (size_t)count);
    return true;
}

static struct llama_model *widened(const char *path, int count, char **settings) {
    struct gguf_init_params params = {.no_alloc = true};
    struct gguf_context *file = gguf_init_from_file(path, params);
    const int64_t any = file ? gguf_find_tensor(file, "token_embd.weight") : -1;
    if (any < 0)
        return NULL;
    add_types(file, gguf_get_tensor_type(file, any));
    for (int i = 0; i < count; i++)
        if (!set(file, settings[i]))
            return NULL;
    return llama_model_init_from_user(file, fill, NULL, llama_model_default_params());
}

int main(int argc, char **argv) {
    static const int threads[] = {1, 2, 4}, ubatches[] = {64, 1, 512};
    char path[4096];
    ggml_backend_load_all();
    setenv("GGML_SCHED_DEBUG", "2", 1);
    llama_log_set(listen, NULL);
    snprintf(path, sizeof path, "%s%s%s", argv[1], argc > 2 ? "." : "", argc > 2 ? argv[2] : "");
    if (argc > 2) {
        struct llama_model_quantize_params quantize = llama_model_quantize_default_params();
        quantize.ftype = (enum llama_ftype)atoi(argv[2]);
        quantize.pure = true;
        if (llama_model_quantize(argv[1], path, &quantize) != 0)
            return 1;
    }
    struct llama_model *model =
        argc > 3 ? widened(path, argc - 3, argv + 3) : llama_model_load_from_file(path, llama_model_default_params());
    uint64_t first = 0;
    int failed = model == NULL;
    for (int i = 0; model && i < 9; i++) {
        const uint64_t hash = run(model, threads[i % 3], ubatches[i / 3]);
        first = i ? first : hash;
        if (hash && hash == first)
            continue;
        printf("FAILED: %d threads, ubatch %d: %s\n", threads[i % 3], ubatches[i / 3],
               hash ? "another hash" : "no logits");
        failed++;
    }
    if (!failed)
        printf("hash: %016llx\n", (unsigned long long)first);
    printf("left:%s\n", left);
    llama_model_free(model);
    return failed != 0;
}

/* decode MODEL.gguf [FTYPE]: the logits of a prompt and of tokens behind it, with llama.cpp, for 1, 2 and 4 threads and
 * ubatches of 1, 64 and 512: prints "hash: ..." if all have the same bits, else "FAILED: ...", and the operations of a
 * decode step that backends other than Fovea's compute, "left: ...". FTYPE: the model is first written to MODEL.gguf.N,
 * with weights of that number of llama_ftype. */
#define _POSIX_C_SOURCE 200809L
#include <ggml-backend.h>
#include <ggml.h>
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
    struct llama_model *model = llama_model_load_from_file(path, llama_model_default_params());
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

/* Tiny decoders with random weights (make_tiny.py), in several safetensors files by LLaMA's and GPT-2's names, and
 * in GGUF files of each architecture: the logits of transformers in float64, nearly; and the same bits for tokens
 * alone, in chunks, at once and with other sequences, of every tier and number of threads, in every element type.
 * test_hostile_models.c has what is refused. */
#include "model.h"

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

/* The reference of NAME, NAME.gguf or the first file of several. */
static bool read_reference(const char *name, reference *r) {
    char path[PATH_MOST];
    snprintf(path, sizeof path, "%s/%.*s.txt", FOVEA_GENERATE_TINY, (int)strcspn(name, "-."), name);
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
    if (!test_check(session_create(m, 1, TOKENS, cache, &s, to) == 0, "%s", sentence))
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

/* Three sequences in one cache, of which the second goes on where the first was forked, and the third is one token
 * behind; a piece of each runs at a time. */
static void run_together(const model *m, cache_types cache, const int32_t *ids, const float *want) {
    enum { SEQUENCES = 3, SHARED = 5, CHUNK = 4 };
    static float got[SEQUENCES * CHUNK * WORDS];
    int64_t at[SEQUENCES] = {SHARED, SHARED, 0};
    session *s;
    if (!test_check(session_create(m, SEQUENCES, TOKENS, cache, &s, to) == 0, "%s", sentence))
        return;
    bool good = session_run(s, ids, SHARED, to) == 0 && session_fork(s, 0, 1, to) == 0;
    for (int round = 0; good && at[0] < TOKENS; round++) {
        session_piece pieces[SEQUENCES];
        int64_t count = 0, row = 0;
        for (int64_t i = 0; i < SEQUENCES; i++) /* now and then a sequence rests, or has one token */
            if ((round + i) % 4 != 3 && at[i] < TOKENS) {
                const int64_t left = TOKENS - at[i], next = (round + i) % 3 == 0 ? 1 : CHUNK;
                pieces[count++] = (session_piece){i, ids + at[i], left < next ? left : next};
            }
        if (count == 0)
            continue;
        for (int64_t i = 0; i < count; i++)
            row += pieces[i].count;
        good = session_run_pieces(s, pieces, count, to) == 0 && session_logits(s, 0, row, got, to) == 0;
        row = 0;
        for (int64_t i = 0; good && i < count; row += pieces[i++].count) {
            int64_t *place = &at[pieces[i].sequence];
            test_same(got + row * WORDS, want + *place * WORDS, pieces[i].count * WORDS,
                      "sequence %d of %d, from %d on", (int)pieces[i].sequence, (int)count, (int)*place);
            *place += pieces[i].count;
        }
    }
    test_check(good && session_length(s, 0) == TOKENS, "%s", sentence);
    session_free(s);
}

/* Where a router's numbers are rounded, other experts may be chosen, and more changes. */
static double bound_of(const char *name, double bound) {
    static const char *const routed[] = {"moe", "next", "gptoss"};
    bool doubled = false;
    for (int i = 0; i < 3; i++)
        doubled = doubled || (strstr(name, routed[i]) != NULL && bound > 1e-3);
    return doubled ? 2.0 * bound : bound;
}

static void test_model(const char *name, fovea_dtype dtype, cache_types cache, double bound, const reference *r) {
    static float whole[TOKENS * WORDS], other[TOKENS * WORDS];
    static const int64_t chunks[] = {1, 7, 22};
    char path[PATH_MOST];
    snprintf(path, sizeof path, "%s/%s", FOVEA_GENERATE_TINY, name);
    const model_options as = {.dtype = dtype, .has_arithmetic = true, .arithmetic = FOVEA_ARITHMETIC_EXACT};
    fovea_context_options options;
    fovea_context_options_init(&options);
    for (int i = 0; i < 3; i++) { /* this tier; one thread; portable C */
        fovea_context *ctx;
        model *m = NULL;
        options.threads = i == 1 ? 1 : 0;
        options.isa = i == 2 ? FOVEA_ISA_SCALAR : FOVEA_ISA_BEST;
        test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "%s", fovea_error_detail());
        if (test_check(model_load(ctx, path, &as, &m, to) == 0, "%s", sentence)) {
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
            if (i == 0)
                run_together(m, cache, r->ids, whole);
        }
        model_free(m);
        fovea_context_destroy(ctx);
    }
}

int main(int argc, char **argv) {
    static const char *const names[] = {"llama",
                                        "gpt2",
                                        "llama3-00001-of-00004.gguf",
                                        "mistral.gguf",
                                        "qwen2.gguf",
                                        "qwen3.gguf",
                                        "gemma3.gguf",
                                        "mixtral.gguf",
                                        "qwen3moe.gguf",
                                        "gptoss.gguf",
                                        "qwen35.gguf",
                                        "qwen35moe.gguf",
                                        "qwen3next.gguf",
                                        "qwen35moe-fused.gguf"};
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
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        static reference r;
        if (!read_reference(names[i], &r))
            continue;
        const size_t count = strstr(names[i], "fused") != NULL ? 1 : sizeof kinds / sizeof kinds[0];
        for (size_t k = 0; k < count; k++)
            test_model(names[i], kinds[k].dtype, kinds[k].cache, bound_of(names[i], kinds[k].bound), &r);
    }
    return test_end();
}

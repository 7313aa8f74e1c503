/* test-minilm: the whole model, where it was fetched (else skipped), on 50 sentences against reference.safetensors,
 * which make_reference.py computed in float64: the same tokens, and vectors whose cosine is at least 0.999999, in
 * bfloat16 0.9999, in float16 0.99999. */
#include "safetensors.h"
#include "sentences.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SENTENCES = 50,
    WIDTH = 384,
    HEADS = 12,
    LINES_MOST = 1000,
    TEXT_MOST = 1 << 20,
    TOKENS_MOST = 50 * 256,
    MODEL_TOKENS = 256
};

typedef struct reference {
    int32_t lines[SENTENCES], lengths[SENTENCES], tokens[TOKENS_MOST];
    float embeddings[SENTENCES * WIDTH];
} reference;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool slow = true;
#else
static const bool slow = false;
#endif
static char text[512];
static const complaint to = {text, sizeof text};

static bool read_reference(reference *r) {
    static const int64_t counts[] = {SENTENCES}, shape[] = {SENTENCES, WIDTH}, any[] = {-1};
    safetensors *file;
    if (!test_check(safetensors_open(FOVEA_MINILM_REFERENCE, &file, to) == 0, "%s", text))
        return false;
    const safetensors_tensor *lines = safetensors_need(file, "lines", 1, counts, to);
    const safetensors_tensor *lengths = safetensors_need(file, "lengths", 1, counts, to);
    const safetensors_tensor *tokens = safetensors_need(file, "tokens", 1, any, to);
    const safetensors_tensor *embeddings = safetensors_need(file, "embeddings", 2, shape, to);
    const bool good = lines && lengths && tokens && embeddings && tokens->elements <= TOKENS_MOST &&
                      safetensors_read_i32(file, lines, r->lines, to) == 0 &&
                      safetensors_read_i32(file, lengths, r->lengths, to) == 0 &&
                      safetensors_read_i32(file, tokens, r->tokens, to) == 0 &&
                      safetensors_read_f32(file, embeddings, r->embeddings, to) == 0;
    safetensors_close(file);
    return test_check(good, "reference: %s", text);
}

/* The sentences of the reference, from the text. */
static bool read_sentences(char *bytes, const reference *r, const char **sentences) {
    const char *lines[LINES_MOST];
    int count = 0;
    FILE *file = fopen(FOVEA_MINILM_TEXT, "rb");
    if (!test_check(file != NULL, "no text"))
        return false;
    bytes[fread(bytes, 1, TEXT_MOST, file)] = 0;
    fclose(file);
    for (char *line = strtok(bytes, "\n"); line != NULL && count < LINES_MOST; line = strtok(NULL, "\n"))
        lines[count++] = line;
    for (int i = 0; i < SENTENCES; i++)
        if (test_check(r->lines[i] >= 0 && r->lines[i] < count, "line %d", (int)r->lines[i]))
            sentences[i] = lines[r->lines[i]];
        else
            return false;
    return true;
}

static void test_tokens(const tk_tokenizer *t, const reference *r, const char *const *sentences) {
    const int32_t *want = r->tokens;
    for (int i = 0; i < SENTENCES; want += r->lengths[i++]) {
        int32_t ids[MODEL_TOKENS];
        const int64_t n = tk_encode_cut(t, sentences[i], (int64_t)strlen(sentences[i]), ids, MODEL_TOKENS);
        test_check(n == r->lengths[i] && memcmp(ids, want, (size_t)n * sizeof *ids) == 0, "tokens of \"%s\"",
                   sentences[i]);
    }
}

static void test_vectors(const encoder *e, const tk_tokenizer *t, const reference *r, const char *const *sentences,
                         double limit) {
    static float vectors[SENTENCES * WIDTH], alone[WIDTH];
    const int step = slow || test_isa() == FOVEA_ISA_SCALAR ? 10 : 1; /* the bits are those of the other tiers */
    double least = 1.0;
    const char *some[SENTENCES];
    for (int i = 0; i < SENTENCES / step; i++)
        some[i] = sentences[i * step];
    if (!test_check(sentences_encode(e, t, some, SENTENCES / step, vectors, NULL, to) == 0, "%s", text))
        return;
    for (int i = 0; i < SENTENCES / step; i++) {
        double ab = 0.0, aa = 0.0, bb = 0.0;
        for (int c = 0; c < WIDTH; c++) {
            const double a = (double)vectors[i * WIDTH + c], b = (double)r->embeddings[i * step * WIDTH + c];
            ab += a * b;
            aa += a * a;
            bb += b * b;
        }
        const double cosine = ab / sqrt(aa * bb);
        test_check(cosine >= limit, "\"%s\": cosine %.9f", some[i], cosine);
        test_check(fabs(aa - 1.0) < 1e-6, "\"%s\": length %.9f", some[i], sqrt(aa));
        least = cosine < least ? cosine : least;
    }
    printf("least cosine with float64: 1 - %.2g\n", 1.0 - least);
    for (int i = 0; i < SENTENCES / step; i += 17)
        if (test_check(sentences_encode(e, t, some + i, 1, alone, NULL, to) == 0, "%s", text))
            test_same(alone, vectors + i * WIDTH, WIDTH, "\"%s\" alone", some[i]);
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "minilm", NULL);
    FILE *file = fopen(FOVEA_MINILM_MODEL "/model.safetensors", "rb");
    if (file == NULL) {
        test_skip("the model was not fetched (make run)");
        return test_end();
    }
    fclose(file);
    static reference r;
    static char bytes[TEXT_MOST + 1];
    const char *sentences[SENTENCES];
    fovea_context *ctx;
    encoder *e = NULL;
    tk_tokenizer *t = NULL;
    test_check(fovea_context_create(NULL, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail());
    if (read_reference(&r) && read_sentences(bytes, &r, sentences) &&
        test_check(folder_tokenizer(FOVEA_MINILM_MODEL, FOLDER_NONE, &t, to) == 0, "%s", text)) {
        test_tokens(t, &r, sentences);
        for (int i = 0; i < 3; i++) {
            static const fovea_dtype types[] = {FOVEA_DTYPE_F32, FOVEA_DTYPE_BF16, FOVEA_DTYPE_F16};
            static const double limits[] = {0.999999, 0.9999, 0.99999};
            if (test_check(encoder_load(ctx, FOVEA_MINILM_MODEL "/model.safetensors", HEADS, types[i], &e, to) == 0,
                           "%s", text))
                test_vectors(e, t, &r, sentences, limits[i]);
            encoder_free(e);
        }
    }
    tk_free(t);
    fovea_context_destroy(ctx);
    return test_end();
}

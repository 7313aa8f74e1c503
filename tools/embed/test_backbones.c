/* test-minilm-backbones: a tiny model of each backbone (make_tiny.py) gives the vectors that transformers computes in
 * float64; and a sentence the same bytes alone, among others in any order, and with any number of threads. */
#include "encoder.h"
#include "safetensors.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCES = 8, MOST_WIDTH = 32, TOKENS = 40, ALL_TOKENS = 134 };

typedef struct reference {
    int32_t lengths[SENTENCES], ids[ALL_TOKENS];
    float vectors[SENTENCES * MOST_WIDTH];
    int64_t width;
} reference;

static char text[512];
static const complaint to = {text, sizeof text};

static bool read_reference(const char *path, reference *r) {
    static const int64_t counts[] = {SENTENCES}, shape[] = {SENTENCES, -1}, all[] = {ALL_TOKENS};
    safetensors *file;
    if (!test_check(safetensors_open(path, &file, to) == 0, "%s", text))
        return false;
    const safetensors_tensor *lengths = safetensors_need(file, "lengths", 1, counts, to);
    const safetensors_tensor *ids = safetensors_need(file, "ids", 1, all, to);
    const safetensors_tensor *vectors = safetensors_need(file, "vectors", 2, shape, to);
    r->width = vectors != NULL ? vectors->shape[1] : 0;
    const bool good = lengths && ids && r->width > 0 && r->width <= MOST_WIDTH &&
                      safetensors_read_i32(file, lengths, r->lengths, to) == 0 &&
                      safetensors_read_i32(file, ids, r->ids, to) == 0 &&
                      safetensors_read_f32(file, vectors, r->vectors, to) == 0;
    safetensors_close(file);
    return test_check(good, "%s", text);
}

/* The vectors of some sentences, in an order. */
static void encode(const encoder *e, const reference *r, const int *order, int64_t count, float *out) {
    int32_t ids[SENTENCES * TOKENS] = {0};
    int64_t lens[SENTENCES], begins[SENTENCES + 1] = {0};
    encoder_plan *plan;
    for (int i = 0; i < SENTENCES; i++)
        begins[i + 1] = begins[i] + r->lengths[i];
    for (int64_t b = 0; b < count; b++) {
        lens[b] = r->lengths[order[b]];
        memcpy(ids + b * TOKENS, r->ids + begins[order[b]], (size_t)lens[b] * sizeof *ids);
    }
    if (test_check(encoder_plan_create(e, count, TOKENS, &plan, to) == 0, "%s", text))
        test_check(encoder_run(plan, ids, lens, out, NULL, NULL, to) == 0, "%s", text);
    encoder_plan_free(plan);
}

/* dtype FOVEA_DTYPE_Q8_0: float32 with such weights. */
static void test_model(const fovea_context *ctx, const char *name, fovea_dtype dtype, double limit, float *first) {
    static const int all[SENTENCES] = {0, 1, 2, 3, 4, 5, 6, 7}, backwards[SENTENCES] = {7, 6, 5, 4, 3, 2, 1, 0};
    char folder[512], path[600];
    encoder_config config;
    encoder *e;
    reference r;
    float got[SENTENCES * MOST_WIDTH], other[SENTENCES * MOST_WIDTH];
    snprintf(folder, sizeof folder, "%s/%s", FOVEA_MINILM_TINY, name);
    snprintf(path, sizeof path, "%s/reference.safetensors", folder);
    if (!read_reference(path, &r) || !test_check(encoder_config_read(folder, &config, to) == 0, "%s", text))
        return;
    *(dtype == FOVEA_DTYPE_Q8_0 ? &config.weights : &config.dtype) = dtype;
    const int64_t width = r.width;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (!test_check(encoder_load_as(ctx, path, &config, &e, to) == 0, "%s", text))
        return;
    test_check(encoder_sizes(e).most_tokens == TOKENS, "%s takes %lld tokens", name,
               (long long)encoder_sizes(e).most_tokens);
    encode(e, &r, all, SENTENCES, got);
    for (int64_t i = 0; i < SENTENCES * width; i++)
        test_check(fabs((double)got[i] - (double)r.vectors[i]) <= limit,
                   "%s, sentence %d, channel %d: %.8f, float64 %.8f", name, (int)(i / width), (int)(i % width),
                   (double)got[i], (double)r.vectors[i]);
    encode(e, &r, backwards, SENTENCES, other);
    for (int i = 0; i < SENTENCES; i++)
        test_same(other + (SENTENCES - 1 - i) * width, got + i * width, width, "%s, sentence %d, backwards", name, i);
    for (int i = 0; i < SENTENCES; i++) {
        encode(e, &r, all + i, 1, other);
        test_same(other, got + i * width, width, "%s, sentence %d alone", name, i);
    }
    if (first[0] == 0.0f)
        memcpy(first, got, sizeof got);
    test_same(got, first, SENTENCES * width, "%s, other threads", name);
    encoder_free(e);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"bert", "roberta", "xlm-roberta", "mpnet", "distilbert", "modernbert"};
    static const struct {
        fovea_dtype dtype;
        double limit;
    } kinds[] = {{FOVEA_DTYPE_F32, 2e-6}, {FOVEA_DTYPE_F16, 0.02}, {FOVEA_DTYPE_Q8_0, 0.03}};
    enum { NAMES = sizeof names / sizeof names[0], KINDS = sizeof kinds / sizeof kinds[0] };
    test_begin(argc, argv, "backbones", NULL);
    for (int i = 0; i < NAMES; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            const bool last = i == NAMES - 1; /* ModernBERT alone is wide enough for blocks */
            float first[SENTENCES * MOST_WIDTH] = {0};
            for (int threads = 1; threads <= 3 && (last || kinds[kind].dtype != FOVEA_DTYPE_Q8_0); threads += 2) {
                fovea_context_options options;
                fovea_context *ctx;
                fovea_context_options_init(&options);
                options.threads = threads;
                test_check(fovea_context_create(&options, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail());
                test_model(ctx, names[i], kinds[kind].dtype, kinds[kind].limit, first);
                fovea_context_destroy(ctx);
            }
        }
    return test_end();
}

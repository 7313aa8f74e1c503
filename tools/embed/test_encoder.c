/* test-encoder: the encoder with a small model of random weights: types near float32, whose vectors test_backbones.c
 * compares with transformers'; the same bits whatever the batch, padding, threads and tier; what it tells of weights;
 * and models that do not fit together, each with its sentence. */
#include "encoder.h"
#include "test_file.h"
#include "test_model.h"
#include "thread_pool.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 5 };

static test_option options[] = {TEST_FILE_OPTION, {0}};
static char path[4096];

/* Threads of a pool, if there is one: of as many as are asked for, whatever the machine. */
static fovea_context *make_context(fovea_isa isa, int threads, thread_pool *p) {
    fovea_context_options opts;
    fovea_context *ctx;
    fovea_context_options_init(&opts);
    opts.isa = isa;
    opts.threads = threads;
    if (p != NULL) {
        opts.parallel_for = thread_pool_parallel_for;
        opts.pool = p;
    }
    test_check(fovea_context_create(&opts, &ctx) == FOVEA_OK, "context: %s", fovea_error_detail());
    return ctx;
}

static const int64_t lens[BATCH] = {5, TOKENS, 1, 5, 7}; /* two of a length, not next to each other */
static int32_t ids[BATCH * TOKENS];

static void fill_ids(void) {
    rng r = rng_stream(test_seed(), "ids");
    for (int i = 0; i < BATCH * TOKENS; i++)
        ids[i] = (int32_t)rng_below(&r, WORDS);
    for (int b = 0; b < BATCH; b++) /* of padding, nothing is read */
        for (int64_t t = lens[b]; t < TOKENS; t++)
            ids[b * TOKENS + t] = -1;
}

/* Encodes some of the sentences, padded to a number of tokens. */
static bool encode(const encoder *e, int64_t first, int64_t count, int64_t tokens, float *out,
                   const encoder_look *look) {
    char text[512] = "";
    const complaint to = {text, sizeof text};
    int32_t some[BATCH * TOKENS];
    encoder_plan *plan;
    for (int64_t b = 0; b < count; b++)
        memcpy(some + b * tokens, ids + (first + b) * TOKENS, (size_t)tokens * sizeof *some);
    if (!test_check(encoder_plan_create(e, count, tokens, &plan, to) == 0, "plan: %s", text))
        return false;
    double seconds[ENCODER_PARTS] = {0};
    /* Twice, at first with other lengths: nothing may be left over. */
    static const int64_t ones[BATCH] = {1, 1, 1, 1, 1};
    bool good = encoder_run(plan, some, ones, out, NULL, NULL, to) == 0;
    good = test_check(good && encoder_run(plan, some, lens + first, out, seconds, look, to) == 0, "run: %s", text);
    encoder_plan_free(plan);
    return good;
}

/* exact: the vectors in float32, or NULL; unit: of the rounding of its type. */
static void test_values(const encoder *e, const float *exact, double unit, float *out) {
    enum { ROWS = LAYERS * BATCH * HEADS * TOKENS };
    static float weights[ROWS * TOKENS];
    static float entropy[ROWS], part[BATCH * TOKENS * TOKENS];
    static float largest[ROWS], received[ROWS], lse[ROWS], top_weights[ROWS * ENCODER_TOP];
    static int64_t top[ROWS * ENCODER_TOP];
    const encoder_look all = {.layers = LAYERS,
                              .heads = HEADS,
                              .weights = weights,
                              .entropy = entropy,
                              .largest = largest,
                              .received = received,
                              .lse = lse,
                              .top = top,
                              .top_weights = top_weights},
                       one = {.first_layer = LAYERS - 1,
                              .layers = 1,
                              .first_head = HEADS - 1,
                              .heads = 1,
                              .weights = part};
    if (!encode(e, 0, BATCH, TOKENS, out, &one) || !encode(e, 0, BATCH, TOKENS, out, &all))
        return;
    for (int i = 0; exact != NULL && i < BATCH * WIDTH; i++)
        test_check(fabs((double)out[i] - (double)exact[i]) < 32 * unit, "channel %d of sentence %d is %g, not %g",
                   i % WIDTH, i / WIDTH, (double)out[i], (double)exact[i]);
    const float *row = weights;
    for (int i = 0; i < ROWS; i++, row += TOKENS) {
        const int b = i / (HEADS * TOKENS) % BATCH, t = i % TOKENS;
        const float *column = weights + i / TOKENS * TOKENS * TOKENS + t;
        double sum = 0.0, mean = 0.0 /* of -log w */, got = 0.0;
        float most = 0.0f;
        for (int j = 0; j < TOKENS; j++) {
            sum += (double)row[j];
            got += (double)column[j * TOKENS];
            most = row[j] > most ? row[j] : most;
            mean -= row[j] > 0.0f ? (double)row[j] * log((double)row[j]) : 0.0;
        }
        test_check(fabs((double)entropy[i] - mean) < 1e-5, "entropy of row %d of sentence %d: %g, not %g", t, b,
                   (double)entropy[i], mean);
        test_check(largest[i] == most, "largest weight of row %d of sentence %d: %g, not %g", t, b, (double)largest[i],
                   (double)most);
        test_check(fabs((double)received[i] - got) < 1e-5, "token %d of sentence %d gets %g, not %g", t, b,
                   (double)received[i], got);
        for (int j = 0; j < ENCODER_TOP; j++) {
            const int64_t key = top[i * ENCODER_TOP + j];
            const bool there = t < lens[b] && j < lens[b];
            int larger = 0;
            for (int other = 0; there && key >= 0 && other < lens[b]; other++)
                larger += row[other] > row[key] || (row[other] == row[key] && other < key);
            test_check(there ? key >= 0 && larger == j && row[key] == top_weights[i * ENCODER_TOP + j] : key == -1,
                       "top token %d of row %d of sentence %d: %d", j, t, b, (int)key);
        }
        test_check(fabs(sum - (t < lens[b] ? 1.0 : 0.0)) < 1e-6, "weights of row %d of sentence %d: sum %g", t, b, sum);
    }
    for (int b = 0; b < BATCH; b++)
        test_same(part + b * TOKENS * TOKENS,
                  weights + (((LAYERS - 1) * BATCH + b) * HEADS + HEADS - 1) * TOKENS * TOKENS, TOKENS * TOKENS,
                  "the last layer's last head alone, sentence %d", b);
}

static void test_same_bits(const encoder *e, const float *want, const char *what) {
    float out[BATCH * WIDTH];
    if (encode(e, 0, BATCH, TOKENS, out, NULL))
        test_same(out, want, BATCH * WIDTH, "%s, together", what);
    for (int b = 0; b < BATCH; b++) {
        if (encode(e, b, 1, lens[b], out, NULL))
            test_same(out, want + b * WIDTH, WIDTH, "%s, sentence %d alone", what, b);
        if (encode(e, b, 1, TOKENS, out, NULL))
            test_same(out, want + b * WIDTH, WIDTH, "%s, sentence %d alone, padded", what, b);
    }
}

static encoder *load(const fovea_context *ctx, fovea_dtype dtype) {
    char text[512] = "";
    encoder *e;
    test_check(encoder_load(ctx, path, HEADS, dtype, &e, (complaint){text, sizeof text}) == 0, "load: %s", text);
    return e;
}

static void refused(const fovea_context *ctx, int64_t heads, const char *words) {
    char text[512] = "";
    encoder *e;
    test_check(encoder_load(ctx, path, heads, FOVEA_DTYPE_F32, &e, (complaint){text, sizeof text}) == -1 && e == NULL &&
                   strstr(text, words) != NULL,
               "\"%s\", not \"%s\"", text, words);
    encoder_free(e);
}

static void test_damaged(const fovea_context *ctx, const model *m) {
    refused(ctx, 5, "5 heads");
    refused(ctx, 0, "0 heads");
    for (int i = 0; i < m->count; i++) {
        const char *name = m->arrays[i].name;
        /* The layers are counted by this array. */
        const bool last = strcmp(name, "encoder.layer.1.intermediate.dense.weight") == 0;
        char words[128];
        snprintf(words, sizeof words, "has no %s", name);
        model_write(m, path, i, LEFT_OUT);
        if (!last)
            refused(ctx, HEADS, words);
        snprintf(words, sizeof words, "%s is of dtype I32", name);
        model_write(m, path, i, OTHER_DTYPE);
        refused(ctx, HEADS, words);
        model_write(m, path, i, OTHER_SHAPE);
        refused(ctx, HEADS, i == 0 ? "is no such model" : name);
    }
}

static void test_arguments(const encoder *e) {
    static const int64_t zero = 0, two = 2;
    char text[512] = "";
    const complaint to = {text, sizeof text};
    encoder_plan *plan;
    float out[WIDTH];
    test_check(encoder_plan_create(e, 0, 1, &plan, to) == -1 && plan == NULL, "no sentences");
    test_check(encoder_plan_create(e, 1, TOKENS + 1, &plan, to) == -1 && strstr(text, "1 to 9 tokens"), "%s", text);
    if (!test_check(encoder_plan_create(e, 1, 1, &plan, to) == 0, "%s", text))
        return;
    const int32_t wrong[] = {WORDS}, negative[] = {-1};
    const int64_t one = 1;
    test_check(encoder_run(plan, ids, &zero, out, NULL, NULL, to) == -1 && strstr(text, "has 0 tokens"), "%s", text);
    test_check(encoder_run(plan, ids, &two, out, NULL, NULL, to) == -1 && strstr(text, "has 2 tokens"), "%s", text);
    test_check(encoder_run(plan, wrong, &one, out, NULL, NULL, to) == -1 && strstr(text, "token 13"), "%s", text);
    test_check(encoder_run(plan, negative, &one, out, NULL, NULL, to) == -1 && strstr(text, "token -1"), "%s", text);
    encoder_plan_free(plan);
}

/* The model that weights of 8 bits stand for: words and maps rounded, the rest as it is. */
static void round_weights(const fovea_context *ctx, model *m) {
    for (int i = 0; i < m->count; i++) {
        const array *a = &m->arrays[i];
        if (a->dims != 2 || i == 1 || i == 2)
            continue;
        float *values = m->values + (a->values - m->values);
        uint8_t blocks[INNER * WIDTH / 32 * 34];
        const fovea_matrix from = fovea_matrix_out_in(values, FOVEA_DTYPE_F32, a->shape[0], a->shape[1]),
                           to = fovea_matrix_out_in(blocks, FOVEA_DTYPE_Q8_0, a->shape[0], a->shape[1]);
        fovea_quantize_stats error;
        fovea_quantize_stats_init(&error);
        test_check(fovea_quantize(ctx, &from, FOVEA_DTYPE_Q8_0, NULL, blocks, NULL, &error) == FOVEA_OK &&
                       fovea_dequantize(ctx, &to, values) == FOVEA_OK,
                   "%s: %s", a->name, fovea_error_detail());
        test_check(error.relative > 1e-3 && error.relative < 1e-2, "%s is rounded by %g", a->name, error.relative);
    }
}

enum { CONTEXTS = 4 };

/* A model in one type, on all contexts: the first is the best tier on one thread. */
static void test_type(fovea_context *const ctx[CONTEXTS], fovea_dtype dtype, const float *exact, double unit,
                      float want[BATCH * WIDTH]) {
    static const char *const names[CONTEXTS] = {"one thread", "scalar", "two threads", "three threads"};
    float again[BATCH * WIDTH];
    for (int i = 0; i < CONTEXTS; i++) {
        encoder *e = load(ctx[i], dtype);
        if (e == NULL)
            return;
        test_values(e, exact, unit, i == 0 ? want : again);
        if (i > 0)
            test_same(again, want, BATCH * WIDTH, "%s, with weights", names[i]);
        test_same_bits(e, want, names[i]);
        if (i == 0)
            test_arguments(e);
        encoder_free(e);
    }
}

int main(int argc, char **argv) {
    test_begin(argc, argv, "encoder", options);
    char name[64];
    snprintf(name, sizeof name, "test_encoder_%s.tmp", fovea_isa_name(test_isa()));
    snprintf(path, sizeof path, "%s", test_file_path(options, name));
    fill_ids();
    model *m = model_make();
    thread_pool *p = thread_pool_create(3);
    /* The sentences can be dealt evenly to two threads and not to three. */
    fovea_context *const ctx[CONTEXTS] = {make_context(FOVEA_ISA_BEST, 1, NULL),
                                          make_context(FOVEA_ISA_SCALAR, 1, NULL), make_context(FOVEA_ISA_BEST, 2, p),
                                          make_context(FOVEA_ISA_BEST, 3, p)};
    float exact[BATCH * WIDTH], out[BATCH * WIDTH];
    model_write(m, path, -1, LEFT_OUT);
    test_type(ctx, FOVEA_DTYPE_F32, NULL, 0, exact);
    test_type(ctx, FOVEA_DTYPE_BF16, exact, 0x1p-9, out);
    test_type(ctx, FOVEA_DTYPE_F16, exact, 0x1p-12, out);
    model *rounded = malloc(sizeof *rounded);
    *rounded = *m;
    for (int i = 0; i < m->count; i++)
        rounded->arrays[i].values = rounded->values + (m->arrays[i].values - m->values);
    round_weights(ctx[0], rounded);
    model_write(rounded, path, -1, LEFT_OUT);
    test_type(ctx, FOVEA_DTYPE_F32, NULL, 0, exact);
    model_write(m, path, -1, LEFT_OUT);
    test_type(ctx, FOVEA_DTYPE_Q8_0, exact, 0x1p-16, out);
    free(rounded);
    test_damaged(ctx[0], m);
    for (int i = 0; i < CONTEXTS; i++)
        fovea_context_destroy(ctx[i]);
    thread_pool_destroy(p);
    free(m);
    remove(path);
    return test_end();
}

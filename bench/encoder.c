/* fovea-bench: the sentence encoder of tools/embed, all-MiniLM-L6-v2, from token ids to vectors; where the model
 * was fetched (tools/embed/fetch.py). Sentences are as long as those of its reference, from 7 to 66 tokens; one
 * alone is as long as their mean. Before it is timed, the last sentence is encoded again, alone on the scalar tier, and
 * must have the same bits.
 *
 * Flops are those of matrix products and attention, without padding.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "encoder.h"
#include "model_place.h"

enum { MOST = 32, LONGEST = 66, ALONE = 14, HEADS = 12, COMPLAINT_SIZE = 512 };

static const int64_t lengths[MOST] = {44, 7, 66, 14, 12, 30, 21, 53, 14, 12, 15, 34, 33, 42, 28, 8,
                                      26, 8, 34, 40, 41, 21, 66, 17, 24, 32, 18, 48, 13, 13, 32, 27};

typedef struct sentences {
    bench base;
    int64_t count;
    fovea_dtype dtype;
    const int64_t *lens;
    int32_t ids[MOST * LONGEST];
    /* From begin to end. */
    encoder *model;
    encoder_plan *plan;
    float *out;
} sentences;

static char text[COMPLAINT_SIZE];
static model_place place; /* of the model of all cases */
static const complaint to = {text, sizeof text};

static void sentences_end(bench *base) {
    sentences *self = (sentences *)base;
    encoder_plan_free(self->plan);
    encoder_free(self->model);
    fovea_context_destroy(self->base.context);
    free(self->out);
    self->plan = NULL;
    self->model = NULL;
    self->base.context = NULL;
    self->out = NULL;
}

static const char *load(fovea_isa isa, int threads, int64_t count, fovea_dtype dtype, fovea_context **context,
                        encoder **model, encoder_plan **plan) {
    const char *error = bench_context(isa, threads, context);
    if (error != NULL)
        return error;
    return encoder_load(*context, place.file, HEADS, dtype, model, to) != 0 ||
                   encoder_plan_create(*model, count, LONGEST, plan, to) != 0
               ? text
               : NULL;
}

static const char *check(const sentences *self) {
    fovea_context *context = NULL;
    encoder *model = NULL;
    encoder_plan *plan = NULL;
    const int64_t last = self->count - 1, width = encoder_sizes(self->model).width;
    float *alone = bench_alloc(width * (int64_t)sizeof *alone);
    const char *error =
        alone == NULL ? "no memory" : load(FOVEA_ISA_SCALAR, 1, 1, self->dtype, &context, &model, &plan);
    if (error == NULL && encoder_run(plan, self->ids + last * LONGEST, self->lens + last, alone, NULL, NULL, to) != 0)
        error = text;
    if (error == NULL && memcmp(alone, self->out + last * width, (size_t)width * sizeof *alone) != 0)
        error = "WRONG: the last sentence is not what scalar gives";
    encoder_plan_free(plan);
    encoder_free(model);
    fovea_context_destroy(context);
    free(alone);
    return error;
}

static void sentences_run(bench *base) {
    sentences *self = (sentences *)base;
    encoder_run(self->plan, self->ids, self->lens, self->out, NULL, NULL, to);
}

static const char *sentences_begin(bench *base, shim_cost *cost) {
    sentences *self = (sentences *)base;
    const char *error = load(self->base.isa, self->base.threads, self->count, self->dtype, &self->base.context,
                             &self->model, &self->plan);
    if (error != NULL)
        return error;
    const encoder_shape s = encoder_sizes(self->model);
    self->out = bench_alloc(self->count * s.width * (int64_t)sizeof *self->out);
    if (self->out == NULL)
        return "no memory";
    if (encoder_run(self->plan, self->ids, self->lens, self->out, NULL, NULL, to) != 0)
        return text;
    error = self->base.checked ? NULL : check(self);
    self->base.checked = true;
    for (int64_t b = 0; b < self->count; b++) {
        const double tokens = (double)self->lens[b], width = (double)s.width, layers = (double)s.layers;
        cost->flops += layers * tokens * width * (8 * width + 4 * (double)s.inner + 4 * tokens);
    }
    cost->peak = self->base.threads * bench_peak((fv_isa)self->base.isa);
    return error;
}

static bench *sentences_make(const char *words, char error[BENCH_ERROR_SIZE]) {
    int64_t dtype = 0, count = MOST;
    const cli_key keys[] = {{"dtype", fv_dtype_words, 0, 0, &dtype}, {"sentences", NULL, 1, MOST, &count}};
    const bench functions = {.begin = sentences_begin, .run = sentences_run, .end = sentences_end};
    sentences *self = bench_new(sizeof *self, &functions, words, keys, 2, BENCH_TAKES_THREADS, error);
    if (self == NULL)
        return NULL;
    if (model_place_find(NULL, &place, (complaint){error, BENCH_ERROR_SIZE}) != 0) {
        free(self);
        return NULL;
    }
    self->dtype = fv_dtype_of_word[dtype];
    self->count = count;
    self->lens = count > 1 ? lengths : lengths + ALONE;
    uint64_t seed = 1;
    for (int i = 0; i < MOST * LONGEST; i++)
        self->ids[i] = (int32_t)(1000 + bench_random(&seed) % 20000);
    bench_name(&self->base, "encoder/minilm/%s/n%" PRId64, fv_dtype_words[dtype], count);
    bench_name_end(&self->base);
    return &self->base;
}

const bench_kind bench_encoder = {"encoder", sentences_make,
                                  "dtype=f32|bf16|f16 sentences=1..32 (needs the model: tools/embed/fetch.py)\n"
                                  "      isa=best|TIER threads=1"};

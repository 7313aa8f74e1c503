/* Plans and runs of an encoder (encoder.h). Hidden states lie as [sentence][token][width] with padding to the plan's
 * length. The rows of padding are computed as rows of zeros would be, where that is quicker than to leave them out
 * (everywhere but in attention, which never reads them as keys); callers put sentences of about one length together. */
#include "encoder_weights.h"

#include "../stopwatch.h"
#include "rows.h"

#include <stdlib.h>
#include <string.h>

struct encoder_plan {
    const encoder *e;
    int64_t batch, tokens;
    fovea_mha **attention; /* [layers] */
    float *hidden, *sum;   /* [batch][tokens][width] */
    float *inner;          /* [batch][tokens][inner] */
    void *workspace;
    size_t workspace_size;
};

/* ---------------------------------------------------------------------------------------------------------- plan -- */

static void *allocate_rows(const encoder_plan *p, int64_t width) {
    return malloc((size_t)(p->batch * p->tokens * width) * sizeof(float));
}

static int prepare(encoder_plan *p, complaint to) {
    const encoder *e = p->e;
    const encoder_shape *s = &e->shape;
    p->attention = calloc((size_t)s->layers, sizeof(fovea_mha *));
    p->hidden = allocate_rows(p, s->width);
    p->sum = allocate_rows(p, s->width);
    p->inner = allocate_rows(p, s->inner);
    if (p->attention == NULL || p->hidden == NULL || p->sum == NULL || p->inner == NULL)
        return encoder_out_of_memory(e, to);
    for (int64_t i = 0; i < s->layers; i++) {
        if (fovea_mha_reshape(e->layers[i].attention, p->batch, p->tokens, p->tokens, &p->attention[i]) != FOVEA_OK)
            return encoder_failed(e, "attention", to);
        const size_t sizes[] = {fovea_mha_workspace_size(p->attention[i]),
                                fovea_linear_workspace_size(e->layers[i].inner),
                                fovea_linear_workspace_size(e->layers[i].outer)};
        for (int k = 0; k < 3; k++)
            p->workspace_size = sizes[k] > p->workspace_size ? sizes[k] : p->workspace_size;
    }
    p->workspace = malloc(p->workspace_size);
    return p->workspace != NULL ? 0 : encoder_out_of_memory(e, to);
}

int encoder_plan_create(const encoder *e, int64_t batch, int64_t tokens, encoder_plan **plan, complaint to) {
    enum { MOST_BATCH = 1 << 20 }; /* keeps every size far from overflow: widths are those of arrays in a file */
    *plan = NULL;
    if (batch < 1 || batch > MOST_BATCH || tokens < 1 || tokens > e->shape.most_tokens)
        return complain(to, e->path, "takes 1 to %d sentences of 1 to %lld tokens, not %lld of %lld", MOST_BATCH,
                        (long long)e->shape.most_tokens, (long long)batch, (long long)tokens);
    encoder_plan *p = calloc(1, sizeof *p);
    if (p == NULL)
        return encoder_out_of_memory(e, to);
    p->e = e;
    p->batch = batch;
    p->tokens = tokens;
    if (prepare(p, to) != 0) {
        encoder_plan_free(p);
        return -1;
    }
    *plan = p;
    return 0;
}

void encoder_plan_free(encoder_plan *p) {
    if (p == NULL)
        return;
    for (int64_t i = 0; p->attention != NULL && i < p->e->shape.layers; i++)
        fovea_mha_destroy(p->attention[i]);
    free(p->attention);
    free(p->hidden);
    free(p->sum);
    free(p->inner);
    free(p->workspace);
    free(p);
}

/* ----------------------------------------------------------------------------------------------------------- run -- */

/* Adds the time since the last call to a part. */
static void lap(double *seconds, encoder_part part, double *last) {
    if (seconds == NULL)
        return;
    const double now = stopwatch(CLOCK_MONOTONIC);
    seconds[part] += now - *last;
    *last = now;
}

static int check_input(const encoder_plan *p, const int32_t *ids, const int64_t *lens, complaint to) {
    for (int64_t b = 0; b < p->batch; b++) {
        if (lens[b] < 1 || lens[b] > p->tokens)
            return complain(to, p->e->path, "sentence %lld has %lld tokens, not 1 to %lld", (long long)b,
                            (long long)lens[b], (long long)p->tokens);
        for (int64_t t = 0; t < lens[b]; t++)
            if (ids[b * p->tokens + t] < 0 || ids[b * p->tokens + t] >= p->e->shape.words)
                return complain(to, p->e->path, "token %ld is not one of its %lld words", (long)ids[b * p->tokens + t],
                                (long long)p->e->shape.words);
    }
    return 0;
}

static void embed(const encoder_plan *p, const int32_t *ids, const int64_t *lens) {
    const encoder *e = p->e;
    const int64_t width = e->shape.width;
    for (int64_t b = 0; b < p->batch; b++) {
        float *rows = p->hidden + b * p->tokens * width;
        for (int64_t t = 0; t < lens[b]; t++) {
            const float *word = e->words + ids[b * p->tokens + t] * width, *place = e->places + t * width;
            for (int64_t c = 0; c < width; c++)
                rows[t * width + c] = word[c] + e->type[c] + place[c];
        }
        memset(rows + lens[b] * width, 0, (size_t)((p->tokens - lens[b]) * width) * sizeof *rows);
    }
    rows_norm(p->hidden, NULL, p->batch * p->tokens, width, e->embedded.weight, e->embedded.bias);
}

static fovea_tensor tensor_of(const encoder_plan *p, float *rows, int64_t width) {
    return fovea_tensor_bhtd(rows, FOVEA_DTYPE_F32, p->batch, 1, p->tokens, width);
}

static fovea_status attend(const encoder_plan *p, int64_t index, const int64_t *lens, float *weights) {
    const encoder_shape *s = &p->e->shape;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = tensor_of(p, p->hidden, s->width);
    args.out = tensor_of(p, p->sum, s->width);
    for (int64_t b = 0; b < p->batch; b++)
        if (lens[b] < p->tokens)
            args.q_lens = args.kv_lens = lens;
    if (weights != NULL)
        args.weights = fovea_tensor_bhtd(weights + index * p->batch * s->heads * p->tokens * p->tokens, FOVEA_DTYPE_F32,
                                         p->batch, s->heads, p->tokens, p->tokens);
    return fovea_mha_execute(p->attention[index], &args, p->workspace, p->workspace_size);
}

static fovea_status feed_forward(const encoder_plan *p, const encoder_layer *l) {
    const encoder_shape *s = &p->e->shape;
    const fovea_tensor hidden = tensor_of(p, p->hidden, s->width), inner = tensor_of(p, p->inner, s->inner);
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = hidden;
    args.y = &inner;
    const fovea_status status = fovea_linear_execute(l->inner, &args, p->workspace, p->workspace_size);
    if (status != FOVEA_OK)
        return status;
    const fovea_tensor sum = tensor_of(p, p->sum, s->width);
    args.x = inner;
    args.y = &sum;
    args.residual = &hidden;
    return fovea_linear_execute(l->outer, &args, p->workspace, p->workspace_size);
}

static void swap(encoder_plan *p) {
    float *hidden = p->sum;
    p->sum = p->hidden;
    p->hidden = hidden;
}

int encoder_run(encoder_plan *p, const int32_t *ids, const int64_t *lens, float *out, double *seconds, float *weights,
                complaint to) {
    const encoder *e = p->e;
    const int64_t rows = p->batch * p->tokens, width = e->shape.width;
    if (check_input(p, ids, lens, to) != 0)
        return -1;
    double last = stopwatch(CLOCK_MONOTONIC);
    embed(p, ids, lens);
    lap(seconds, ENCODER_EMBEDDINGS, &last);
    for (int64_t i = 0; i < e->shape.layers; i++) {
        const encoder_layer *l = &e->layers[i];
        if (attend(p, i, lens, weights) != FOVEA_OK)
            return encoder_failed(e, "attention", to);
        lap(seconds, ENCODER_ATTENTION, &last);
        rows_norm(p->sum, p->hidden, rows, width, l->after_attention.weight, l->after_attention.bias);
        swap(p);
        lap(seconds, ENCODER_NORM, &last);
        if (feed_forward(p, l) != FOVEA_OK)
            return encoder_failed(e, "feed-forward", to);
        lap(seconds, ENCODER_FEED_FORWARD, &last);
        rows_norm(p->sum, NULL, rows, width, l->after_outer.weight, l->after_outer.bias);
        swap(p);
        lap(seconds, ENCODER_NORM, &last);
    }
    for (int64_t b = 0; b < p->batch; b++)
        rows_mean_direction(p->hidden + b * p->tokens * width, lens[b], width, out + b * width);
    lap(seconds, ENCODER_POOLING, &last);
    return 0;
}

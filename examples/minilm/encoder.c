/* Plans and runs of an encoder (encoder.h). Sentences lie one behind another, the shortest first, without padding:
 * hidden states are [row][width], and a linear map takes the rows of all sentences at once. Queries, keys and values come
 * out of one product as attention reads them, [head][row][channel], where a sentence is a matter of strides: sentences of
 * equal length go through attention together. The sum with a layer's input is made by the linear map before it. */
#include "encoder_weights.h"

#include "../stopwatch.h"
#include "rows.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Attention of some sentences of one length. */
typedef struct attention_slot {
    fovea_attention_plan *plan; /* NULL: none yet */
    int64_t count;              /* sentences it is for */
} attention_slot;

struct encoder_plan {
    const encoder *e;
    int64_t batch, tokens;     /* at most */
    int64_t *order;            /* [batch] sentences by length */
    int64_t *starts;           /* [tokens + 2] of lengths in order, while it is made */
    attention_slot *attention; /* [tokens + 1], by length: kept from one run to the next */
    float *hidden, *sum;       /* [rows][width] */
    float *q, *k, *v;          /* [head][row][channel] */
    float *inner;              /* [rows][inner] */
    void *workspace;
    size_t workspace_size;
};

/* ---------------------------------------------------------------------------------------------------------- plan -- */

static float *allocate_rows(const encoder_plan *p, int64_t width) {
    return malloc((size_t)(p->batch * p->tokens * width) * sizeof(float));
}

static int grow_workspace(encoder_plan *p, size_t size, complaint to) {
    if (size <= p->workspace_size)
        return 0;
    void *larger = malloc(size);
    if (larger == NULL)
        return encoder_out_of_memory(p->e, to);
    free(p->workspace);
    p->workspace = larger;
    p->workspace_size = size;
    return 0;
}

static int prepare(encoder_plan *p, complaint to) {
    const encoder *e = p->e;
    const encoder_shape *s = &e->shape;
    float **const rows[] = {&p->hidden, &p->sum, &p->q, &p->k, &p->v};
    p->order = malloc((size_t)p->batch * sizeof *p->order);
    p->starts = malloc(((size_t)p->tokens + 2) * sizeof *p->starts);
    p->attention = calloc((size_t)p->tokens + 1, sizeof *p->attention);
    p->inner = allocate_rows(p, s->inner);
    bool complete = p->order != NULL && p->starts != NULL && p->attention != NULL && p->inner != NULL;
    for (int i = 0; complete && i < 5; i++)
        complete = (*rows[i] = allocate_rows(p, s->width)) != NULL;
    if (!complete)
        return encoder_out_of_memory(e, to);
    for (int64_t i = 0; i < s->layers; i++) {
        const encoder_layer *l = &e->layers[i];
        const fovea_linear *const maps[] = {l->qkv, l->out, l->inner, l->outer};
        for (int k = 0; k < 4; k++)
            if (grow_workspace(p, fovea_linear_workspace_size(maps[k]), to) != 0)
                return -1;
    }
    return 0;
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
    for (int64_t t = 0; p->attention != NULL && t <= p->tokens; t++)
        fovea_attention_plan_destroy(p->attention[t].plan);
    free(p->attention);
    free(p->order);
    free(p->starts);
    free(p->hidden);
    free(p->sum);
    free(p->q);
    free(p->k);
    free(p->v);
    free(p->inner);
    free(p->workspace);
    free(p);
}

/* Sentences of one length, next to each other in order. */
typedef struct group {
    int64_t first, count, tokens; /* in order; of each */
    int64_t row;                  /* of the first token */
} group;

/* The group that begins where another ends; every sentence alone, if single. */
static group group_after(const encoder_plan *p, const int64_t *lens, const group *before, bool single) {
    group g = {.first = before->first + before->count, .row = before->row + before->count * before->tokens};
    if (g.first == p->batch)
        return g;
    g.tokens = lens[p->order[g.first]];
    do
        g.count++;
    while (!single && g.first + g.count < p->batch && lens[p->order[g.first + g.count]] == g.tokens);
    return g;
}

/* By counting. */
static void sort_by_length(const encoder_plan *p, const int64_t *lens) {
    memset(p->starts, 0, ((size_t)p->tokens + 2) * sizeof *p->starts);
    for (int64_t b = 0; b < p->batch; b++)
        p->starts[lens[b] + 1]++;
    for (int64_t t = 1; t <= p->tokens; t++)
        p->starts[t] += p->starts[t - 1];
    for (int64_t b = 0; b < p->batch; b++)
        p->order[p->starts[lens[b]]++] = b;
}

static int plan_attention(encoder_plan *p, const group *g, complaint to) {
    const encoder_shape *s = &p->e->shape;
    attention_slot *slot = &p->attention[g->tokens];
    if (slot->plan == NULL || slot->count != g->count) {
        fovea_attention_plan_destroy(slot->plan);
        fovea_attention_desc desc;
        fovea_attention_desc_init(&desc);
        desc.batch = slot->count = g->count;
        desc.q_heads = desc.kv_heads = s->heads;
        desc.q_len = desc.kv_len = g->tokens;
        desc.head_dim = desc.value_dim = s->width / s->heads;
        if (fovea_attention_plan_create(p->e->ctx, &desc, &slot->plan) != FOVEA_OK)
            return encoder_failed(p->e, "attention", to);
    }
    return grow_workspace(p, fovea_attention_plan_workspace_size(slot->plan), to);
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
    float *row = p->hidden;
    for (int64_t i = 0; i < p->batch; i++)
        for (int64_t t = 0, b = p->order[i]; t < lens[b]; t++, row += width) {
            const float *word = e->words + ids[b * p->tokens + t] * width, *place = e->places + t * width;
            for (int64_t c = 0; c < width; c++)
                row[c] = word[c] + e->type[c] + place[c];
            rows_norm(row, 1, width, e->embedded.weight, e->embedded.bias);
        }
}

/* Rows of all sentences. */
static fovea_tensor tensor_of(float *values, int64_t rows, int64_t width) {
    return fovea_tensor_bhtd(values, FOVEA_DTYPE_F32, 1, 1, rows, width);
}

static fovea_status linear(const encoder_plan *p, const fovea_linear *map, fovea_tensor x, const fovea_tensor *y,
                           const fovea_tensor *residual) {
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = x;
    args.y = y;
    args.residual = residual;
    return fovea_linear_execute(map, &args, p->workspace, p->workspace_size);
}

/* A group's part of [head][row][channel]. */
static fovea_tensor heads_of(const encoder_plan *p, float *values, const group *g, int64_t rows) {
    const int64_t heads = p->e->shape.heads, channels = p->e->shape.width / heads;
    return (fovea_tensor){.data = values + g->row * channels,
                          .dtype = FOVEA_DTYPE_F32,
                          .shape = {g->count, heads, g->tokens, channels},
                          .stride = {g->tokens * channels, rows * channels, channels, 1}};
}

/* From q, k and v to sum, [row][head][channel]; weights, if wanted, are those of a layer. */
static fovea_status attend(const encoder_plan *p, const int64_t *lens, int64_t rows, float *weights) {
    const encoder_shape *s = &p->e->shape;
    const int64_t square = p->tokens * p->tokens;
    fovea_status status = FOVEA_OK;
    group g = {0};
    while (status == FOVEA_OK && (g = group_after(p, lens, &g, weights != NULL)).count > 0) {
        fovea_attention_args args;
        fovea_attention_args_init(&args);
        args.q = heads_of(p, p->q, &g, rows);
        args.k = heads_of(p, p->k, &g, rows);
        args.v = heads_of(p, p->v, &g, rows);
        args.out = fovea_tensor_bthd(p->sum + g.row * s->width, FOVEA_DTYPE_F32, g.count, s->heads, g.tokens,
                                     s->width / s->heads);
        if (weights != NULL)
            args.weights = (fovea_tensor){.data = weights + p->order[g.first] * s->heads * square,
                                          .dtype = FOVEA_DTYPE_F32,
                                          .shape = {1, s->heads, g.tokens, g.tokens},
                                          .stride = {s->heads * square, square, p->tokens, 1}};
        status = fovea_attention_execute(p->attention[g.tokens].plan, &args, p->workspace, p->workspace_size);
    }
    return status;
}

static fovea_status multi_head(const encoder_plan *p, const encoder_layer *l, const int64_t *lens, int64_t rows,
                               float *weights) {
    const encoder_shape *s = &p->e->shape;
    const fovea_tensor hidden = tensor_of(p->hidden, rows, s->width), heads = tensor_of(p->sum, rows, s->width);
    const group all = {.tokens = rows, .count = 1};
    const fovea_tensor qkv[] = {heads_of(p, p->q, &all, rows), heads_of(p, p->k, &all, rows),
                                heads_of(p, p->v, &all, rows)};
    fovea_status status = linear(p, l->qkv, hidden, qkv, NULL);
    if (status == FOVEA_OK)
        status = attend(p, lens, rows, weights);
    return status == FOVEA_OK ? linear(p, l->out, heads, &hidden, &hidden) : status;
}

static fovea_status feed_forward(const encoder_plan *p, const encoder_layer *l, int64_t rows) {
    const fovea_tensor hidden = tensor_of(p->hidden, rows, p->e->shape.width);
    const fovea_tensor inner = tensor_of(p->inner, rows, p->e->shape.inner);
    const fovea_status status = linear(p, l->inner, hidden, &inner, NULL);
    return status == FOVEA_OK ? linear(p, l->outer, inner, &hidden, &hidden) : status;
}

static int run_layers(const encoder_plan *p, const int64_t *lens, int64_t rows, double *seconds, double *last,
                      float *weights, complaint to) {
    const encoder *e = p->e;
    const int64_t width = e->shape.width, size = p->batch * e->shape.heads * p->tokens * p->tokens;
    for (int64_t i = 0; i < e->shape.layers; i++) {
        const encoder_layer *l = &e->layers[i];
        if (multi_head(p, l, lens, rows, weights != NULL ? weights + i * size : NULL) != FOVEA_OK)
            return encoder_failed(e, "attention", to);
        lap(seconds, ENCODER_ATTENTION, last);
        rows_norm(p->hidden, rows, width, l->after_attention.weight, l->after_attention.bias);
        lap(seconds, ENCODER_NORM, last);
        if (feed_forward(p, l, rows) != FOVEA_OK)
            return encoder_failed(e, "feed-forward", to);
        lap(seconds, ENCODER_FEED_FORWARD, last);
        rows_norm(p->hidden, rows, width, l->after_outer.weight, l->after_outer.bias);
        lap(seconds, ENCODER_NORM, last);
    }
    return 0;
}

int encoder_run(encoder_plan *p, const int32_t *ids, const int64_t *lens, float *out, double *seconds, float *weights,
                complaint to) {
    const encoder_shape *s = &p->e->shape;
    if (check_input(p, ids, lens, to) != 0)
        return -1;
    double last = stopwatch(CLOCK_MONOTONIC);
    sort_by_length(p, lens);
    group g = {0};
    while ((g = group_after(p, lens, &g, weights != NULL)).count > 0)
        if (plan_attention(p, &g, to) != 0)
            return -1;
    const int64_t rows = g.row;
    if (weights != NULL) /* what is past a sentence's length */
        memset(weights, 0, (size_t)(s->layers * p->batch * s->heads * p->tokens * p->tokens) * sizeof *weights);
    embed(p, ids, lens);
    lap(seconds, ENCODER_EMBEDDINGS, &last);
    if (run_layers(p, lens, rows, seconds, &last, weights, to) != 0)
        return -1;
    const float *row = p->hidden;
    for (int64_t i = 0; i < p->batch; row += lens[p->order[i++]] * s->width)
        rows_mean_direction(row, lens[p->order[i]], s->width, out + p->order[i] * s->width);
    lap(seconds, ENCODER_POOLING, &last);
    return 0;
}

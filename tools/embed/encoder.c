/* Runs of an encoder (encoder.h), shard by shard (encoder_plan.h). Hidden states of a shard are [row][width], and a
 * linear map takes all rows of it at once. Queries, keys and values come out of one product as attention reads them,
 * [head][row][channel], where a sentence is a matter of strides. The sum with a layer's input is made by the linear
 * map before it. */
#include "encoder_plan.h"

#include "stopwatch.h"

#include <stdio.h>
#include <string.h>

typedef struct run {
    encoder_plan *p;
    const int32_t *ids;
    const int64_t *lens;
    float *out;
    const encoder_look *look; /* NULL: at nothing */
} run;

/* Adds the time since the last call to a part. */
static void lap(encoder_shard *s, encoder_part part) {
    const double now = stopwatch(CLOCK_MONOTONIC);
    s->seconds[part] += now - s->last;
    s->last = now;
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

/* A shard's part of [row][width]. */
static void *rows_of(const encoder_plan *p, const encoder_shard *s, void *values, int64_t width) {
    return (char *)values + (size_t)(s->row * width) * encoder_element(p->e);
}

static fovea_tensor tensor_of(const encoder_plan *p, const encoder_shard *s, void *values, int64_t width) {
    return fovea_tensor_bhtd(rows_of(p, s, values, width), p->e->config.dtype, 1, 1, s->rows, width);
}

/* Some rows, from float32 or the model's type to the model's type. */
static fovea_status norm(const encoder *e, const encoder_shard *s, const encoder_norm *n, fovea_tensor x,
                         fovea_tensor y) {
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    args.x = x;
    args.y = y;
    args.weight = n->weight;
    args.bias = n->bias;
    args.eps = e->config.epsilon;
    return fovea_norm_layer(e->ctx, &args, s->workspace, s->workspace_size);
}

/* The same in place, if there is such a norm. */
static fovea_status norm_hidden(const run *r, const encoder_shard *s, const encoder_norm *n) {
    const fovea_tensor hidden = tensor_of(r->p, s, r->p->hidden, r->p->e->shape.width);
    return n->weight != NULL ? norm(r->p->e, s, n, hidden, hidden) : FOVEA_OK;
}

/* A sentence's part of a shard's rows. */
static fovea_tensor sentence_of(const run *r, const encoder_shard *s, int64_t row, int64_t tokens) {
    return fovea_tensor_tokens(tensor_of(r->p, s, r->p->hidden, r->p->e->shape.width), row, tokens);
}

/* The words of a sentence: rows of the encoder's table, or, if those are no floats, of the shard's. */
static fovea_status find_words(const run *r, const encoder_shard *s, int64_t tokens, fovea_embedding_table *table) {
    const encoder *e = r->p->e;
    const int64_t width = e->shape.width;
    const size_t row_bytes = encoder_row_bytes(e, width);
    fovea_status status = FOVEA_OK;
    *table = (fovea_embedding_table){e->words, e->config.dtype, e->shape.words, width, s->ids, NULL};
    if (s->words == NULL)
        return FOVEA_OK;
    for (int64_t t = 0; status == FOVEA_OK && t < tokens; t++) {
        const char *word = (const char *)e->words + (size_t)s->ids[t] * row_bytes;
        const fovea_matrix row = fovea_matrix_out_in(word, e->config.weights, 1, width);
        status = fovea_dequantize(e->ctx, &row, s->words + t * width);
    }
    *table = (fovea_embedding_table){s->words, FOVEA_DTYPE_F32, tokens, width, r->p->places, NULL};
    return status;
}

/* Sums of embeddings stay in float32 until they are normed. */
static fovea_status embed(const run *r, const encoder_shard *s) {
    const encoder_plan *p = r->p;
    const encoder *e = p->e;
    const int64_t width = e->shape.width;
    fovea_status status = FOVEA_OK;
    for (int64_t i = s->first, row = 0; status == FOVEA_OK && i < s->first + s->count; i++) {
        const int64_t b = p->order[i], tokens = r->lens[b];
        for (int64_t t = 0; t < tokens; t++)
            s->ids[t] = r->ids[b * p->tokens + t];
        fovea_embedding_table tables[3];
        int64_t count = 1;
        status = find_words(r, s, tokens, &tables[0]);
        if (status != FOVEA_OK)
            return status;
        if (e->type != NULL)
            tables[count++] = (fovea_embedding_table){e->type, FOVEA_DTYPE_F32, 1, width, NULL, NULL};
        if (e->places != NULL)
            tables[count++] = (fovea_embedding_table){e->places + e->config.first_place * width,
                                                      FOVEA_DTYPE_F32,
                                                      e->shape.most_tokens,
                                                      width,
                                                      p->places,
                                                      NULL};
        const fovea_tensor to = sentence_of(r, s, row, tokens);
        fovea_embedding_args args;
        fovea_embedding_args_init(&args);
        args.tables = tables;
        args.table_count = count;
        args.y = e->embedded.weight != NULL ? fovea_tensor_bhtd(s->wide, FOVEA_DTYPE_F32, 1, 1, tokens, width) : to;
        status = fovea_embedding_sum(e->ctx, &args);
        if (status == FOVEA_OK && e->embedded.weight != NULL)
            status = norm(e, s, &e->embedded, args.y, to);
        row += tokens;
    }
    return status;
}

/* A sentence's vector. */
static fovea_status pool(const run *r, const encoder_shard *s) {
    const encoder_plan *p = r->p;
    const encoder *e = p->e;
    const int64_t width = e->shape.width;
    fovea_status status = FOVEA_OK;
    for (int64_t i = s->first, row = 0; status == FOVEA_OK && i < s->first + s->count; i++) {
        const int64_t b = p->order[i], tokens = r->lens[b], none = 0;
        const fovea_tensor y = fovea_tensor_bhtd(r->out + b * width, FOVEA_DTYPE_F32, 1, 1, 1, width);
        fovea_pool_tokens_args args;
        fovea_pool_tokens_args_init(&args);
        args.pooling = e->config.pooling;
        args.x = sentence_of(r, s, row, tokens);
        args.y = y;
        args.begin = &none;
        args.end = &tokens;
        status = fovea_pool_tokens(e->ctx, &args);
        if (status == FOVEA_OK && !e->config.any_length)
            status = fovea_normalize_rows(e->ctx, &y, &y);
        row += tokens;
    }
    return status;
}

static fovea_status linear(const encoder *e, const encoder_shard *s, const fovea_linear *map, fovea_tensor x,
                           const fovea_tensor *y, const fovea_tensor *residual) {
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = x;
    args.y = y;
    args.residual = residual;
    return fovea_linear_apply(e->ctx, map, &args, s->workspace, s->workspace_size);
}

/* A group's part of a shard's [head][row][channel]. */
static fovea_tensor heads_of(const encoder_plan *p, const encoder_shard *s, void *values, const encoder_group *g) {
    const int64_t width = p->e->shape.width, heads = p->e->shape.heads, channels = width / heads;
    return (fovea_tensor){.data = (char *)rows_of(p, s, values, width) +
                                  (size_t)(g->row * channels) * encoder_element(p->e),
                          .dtype = p->e->config.dtype,
                          .shape = {g->count, heads, g->tokens, channels},
                          .stride = {g->tokens * channels, s->rows * channels, channels, 1}};
}

/* An output of sentence b, with columns for each row of each head that is looked at; nothing, if there is no data. */
static fovea_tensor looked_at(const run *r, void *data, fovea_dtype dtype, int64_t layer, int64_t b, int64_t heads,
                              int64_t tokens, int64_t columns, int64_t stride) {
    const encoder_plan *p = r->p;
    const int64_t head = p->tokens * stride, place = (layer - r->look->first_layer) * p->batch + b;
    const size_t element = dtype == FOVEA_DTYPE_I64 ? sizeof(int64_t) : sizeof(float);
    if (data == NULL)
        return (fovea_tensor){0};
    return (fovea_tensor){.data = (char *)data + (size_t)(place * heads * head) * element,
                          .dtype = dtype,
                          .shape = {1, heads, tokens, columns},
                          .stride = {heads * head, head, stride, 1}};
}

/* Statistics of all heads. */
static void ask_statistics(const run *r, const encoder_look *look, int64_t layer, int64_t b, int64_t tokens,
                           fovea_attention_args *args, fovea_attention_summary *summary) {
    const int64_t heads = r->p->e->shape.heads;
    const fovea_dtype f32 = FOVEA_DTYPE_F32;
    fovea_attention_summary_init(summary);
    args->lse = looked_at(r, look->lse, f32, layer, b, heads, tokens, 1, 1);
    summary->entropy = looked_at(r, look->entropy, f32, layer, b, heads, tokens, 1, 1);
    summary->max_weight = looked_at(r, look->largest, f32, layer, b, heads, tokens, 1, 1);
    summary->key_sums = looked_at(r, look->received, f32, layer, b, heads, 1, tokens, 1);
    summary->top_keys = looked_at(r, look->top, FOVEA_DTYPE_I64, layer, b, heads, tokens, ENCODER_TOP, ENCODER_TOP);
    summary->top_weights = looked_at(r, look->top_weights, f32, layer, b, heads, tokens, ENCODER_TOP, ENCODER_TOP);
    args->summary = summary;
}

/* Rotates queries and keys of a group, if the model has rotary embeddings. */
static fovea_status rotate(const encoder_plan *p, const encoder_group *g, const fovea_rope *rope, fovea_tensor x) {
    fovea_status status = FOVEA_OK;
    for (int64_t b = 0; rope != NULL && status == FOVEA_OK && b < g->count; b++) {
        fovea_tensor one = x;
        one.shape[0] = 1;
        one.data = (char *)x.data + (size_t)(b * x.stride[0]) * encoder_element(p->e);
        status = fovea_rope_apply(p->e->ctx, rope, &one, p->places, &one);
    }
    return status;
}

/* From q, k and v to sum, [row][head][channel]. */
static fovea_status attend(const run *r, const encoder_shard *s, int64_t layer) {
    const encoder_plan *p = r->p;
    const encoder_shape *shape = &p->e->shape;
    const encoder_look *look = r->look;
    const bool local = encoder_is_local(p->e, layer);
    const fovea_rope *rope = p->e->rope[local];
    const bool looks = look != NULL && layer >= look->first_layer && layer < look->first_layer + look->layers;
    fovea_status status = FOVEA_OK;
    encoder_group g = encoder_group_after(p, s, r->lens, NULL, look != NULL);
    for (; status == FOVEA_OK && g.count > 0; g = encoder_group_after(p, s, r->lens, &g, look != NULL)) {
        fovea_attention_args args;
        fovea_attention_scores scores;
        fovea_attention_summary summary;
        fovea_attention_args_init(&args);
        args.q = heads_of(p, s, p->q, &g);
        args.k = heads_of(p, s, p->k, &g);
        args.v = heads_of(p, s, p->v, &g);
        args.out = fovea_tensor_tokens(tensor_of(p, s, p->sum, shape->width), g.row, g.count * g.tokens);
        args.out = fovea_tensor_bthd(args.out.data, args.out.dtype, g.count, g.tokens, shape->heads,
                                     shape->width / shape->heads);
        if (looks) {
            const int64_t b = p->order[g.first];
            fovea_attention_scores_init(&scores);
            scores.kind = FOVEA_SCORES_WEIGHTS;
            scores.first_head = look->first_head;
            scores.out =
                looked_at(r, look->weights, FOVEA_DTYPE_F32, layer, b, look->heads, g.tokens, g.tokens, p->tokens);
            args.scores = &scores;
            ask_statistics(r, look, layer, b, g.tokens, &args, &summary);
        }
        if (p->e->relative != NULL)
            args.relative = fovea_tensor_bhtd(p->e->relative, FOVEA_DTYPE_F32, 1, shape->heads, 1, ENCODER_BUCKETS);
        status = rotate(p, &g, rope, args.q);
        if (status == FOVEA_OK)
            status = rotate(p, &g, rope, args.k);
        if (status != FOVEA_OK)
            break;
        status = fovea_attention_execute(s->attention[g.tokens].plan[local], &args, s->workspace, s->workspace_size);
    }
    return status;
}

/* The input of attention or of the feed-forward network: the hidden states, or their norm, in sum, where that comes
 * first. */
static fovea_status input_of(const run *r, encoder_shard *s, const encoder_norm *n, fovea_tensor *input) {
    const encoder_plan *p = r->p;
    const int64_t width = p->e->shape.width;
    *input = tensor_of(p, s, p->hidden, width);
    if (!p->e->config.names->norm_first || n->weight == NULL)
        return FOVEA_OK;
    *input = tensor_of(p, s, p->sum, width);
    const fovea_status status = norm(p->e, s, n, tensor_of(p, s, p->hidden, width), *input);
    lap(s, ENCODER_NORM);
    return status;
}

static fovea_status multi_head(const run *r, encoder_shard *s, int64_t layer) {
    const encoder_plan *p = r->p;
    const encoder_layer *l = &p->e->layers[layer];
    const int64_t width = p->e->shape.width;
    fovea_tensor input;
    fovea_status status = input_of(r, s, &l->attention, &input);
    const fovea_tensor hidden = tensor_of(p, s, p->hidden, width), heads = tensor_of(p, s, p->sum, width);
    const encoder_group all = {.tokens = s->rows, .count = 1};
    const fovea_tensor qkv[] = {heads_of(p, s, p->q, &all), heads_of(p, s, p->k, &all), heads_of(p, s, p->v, &all)};
    if (status == FOVEA_OK)
        status = linear(p->e, s, l->qkv, input, qkv, NULL);
    if (status == FOVEA_OK)
        status = attend(r, s, layer);
    return status == FOVEA_OK ? linear(p->e, s, l->out, heads, &hidden, &hidden) : status;
}

static fovea_status feed_forward(const run *r, encoder_shard *s, const encoder_layer *l) {
    const encoder_plan *p = r->p;
    fovea_tensor input;
    fovea_status status = input_of(r, s, &l->feed_forward, &input);
    const fovea_tensor hidden = tensor_of(p, s, p->hidden, p->e->shape.width);
    const fovea_tensor inner = tensor_of(p, s, p->inner, p->e->shape.inner);
    if (status == FOVEA_OK)
        status = linear(p->e, s, l->inner, input, &inner, NULL);
    return status == FOVEA_OK ? linear(p->e, s, l->outer, inner, &hidden, &hidden) : status;
}

static int run_shard(const run *r, encoder_shard *s, complaint to) {
    const encoder *e = r->p->e;
    const bool norm_last = !e->config.names->norm_first;
    if (encoder_plan_attention(r->p, s, r->lens, r->look != NULL, to) != 0)
        return -1;
    if (embed(r, s) != FOVEA_OK)
        return encoder_failed(e, "embeddings", to);
    lap(s, ENCODER_EMBEDDINGS);
    for (int64_t i = 0; i < e->shape.layers; i++) {
        const encoder_layer *l = &e->layers[i];
        if (multi_head(r, s, i) != FOVEA_OK)
            return encoder_failed(e, "attention", to);
        lap(s, ENCODER_ATTENTION);
        if (norm_last && norm_hidden(r, s, &l->attention) != FOVEA_OK)
            return encoder_failed(e, "norm", to);
        lap(s, ENCODER_NORM);
        if (feed_forward(r, s, l) != FOVEA_OK)
            return encoder_failed(e, "feed-forward", to);
        lap(s, ENCODER_FEED_FORWARD);
        if (norm_last && norm_hidden(r, s, &l->feed_forward) != FOVEA_OK)
            return encoder_failed(e, "norm", to);
        lap(s, ENCODER_NORM);
    }
    if (norm_hidden(r, s, &e->last) != FOVEA_OK || pool(r, s) != FOVEA_OK)
        return encoder_failed(e, "pooling", to);
    lap(s, ENCODER_POOLING);
    return 0;
}

static void shard_task(void *arg, int64_t index) {
    const run *r = arg;
    encoder_shard *s = &r->p->shard[index];
    memset(s->seconds, 0, sizeof s->seconds);
    s->last = stopwatch(CLOCK_MONOTONIC);
    s->status = run_shard(r, s, (complaint){s->text, sizeof s->text});
}

int encoder_run(encoder_plan *p, const int32_t *ids, const int64_t *lens, float *out, double *seconds,
                const encoder_look *look, complaint to) {
    run r = {p, ids, lens, out, look};
    if (check_input(p, ids, lens, to) != 0)
        return -1;
    if (look != NULL) { /* what is past a sentence's length */
        const int64_t rows = look->layers * p->batch * p->tokens, all = rows * p->e->shape.heads;
        float *const statistics[] = {look->entropy, look->largest, look->received, look->lse};
        memset(look->weights, 0, (size_t)(rows * look->heads * p->tokens) * sizeof(float));
        for (size_t i = 0; i < sizeof statistics / sizeof statistics[0]; i++)
            if (statistics[i] != NULL)
                memset(statistics[i], 0, (size_t)all * sizeof(float));
        for (int64_t i = 0; look->top != NULL && i < all * ENCODER_TOP; i++) {
            look->top[i] = -1;
            look->top_weights[i] = 0.0f;
        }
    }
    encoder_plan_deal(p, lens);
    if (fovea_parallel(p->e->ctx, p->shards, shard_task, &r) != FOVEA_OK)
        return encoder_failed(p->e, "threads", to);
    for (int64_t i = 0; i < p->shards; i++) {
        const encoder_shard *s = &p->shard[i];
        if (s->status != 0) {
            if (to.size > 0)
                snprintf(to.text, to.size, "%s", s->text);
            return -1;
        }
        for (int part = 0; seconds != NULL && part < ENCODER_PARTS; part++)
            seconds[part] += s->seconds[part] / (double)p->shards;
    }
    return 0;
}

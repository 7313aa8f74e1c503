/* Running a decoder (model.h). A chunk of tokens goes through each layer as rows: norm, q, k and v in one product, rotation, keys and
 * values into the cache, attention over all of it, and the two products that add to the rows. Nothing is allocated while tokens
 * come. */
#include "model_weights.h"

#include <stdlib.h>
#include <string.h>

struct session {
    const model *m;
    fovea_kv_cache *cache;
    int64_t sequence, length, most, last_count; /* last_count: tokens of the last run */
    fovea_attention_plan *one, *chunk;          /* attention of one query, and of up to SESSION_CHUNK */
    float *rows;                                /* [SESSION_CHUNK][width] */
    void *normed, *q, *k, *v, *heads, *inner;   /* [SESSION_CHUNK][...] of the model's type */
    float *gate, *up;                           /* [SESSION_CHUNK][inner] if a layer has them apart, or NULL */
    int64_t *positions;
    void *workspace;
    size_t workspace_size;
};

static int failed(const session *s, const char *what, complaint to) { return model_failed(s->m, what, to); }

/* -------------------------------------------------------------------------------------------------------- creation -- */

static int make_cache(session *s, cache_types types, complaint to) {
    const config *c = &s->m->config;
    fovea_kv_cache_desc desc;
    fovea_kv_cache_desc_init(&desc);
    desc.layers = c->layers;
    desc.kv_heads = c->kv_heads;
    desc.head_dim = desc.value_dim = c->head_dim;
    desc.k_dtype = types.k;
    desc.v_dtype = types.v;
    desc.max_pages = c->layers * ((s->most + FOVEA_KV_PAGE_KEYS - 1) / FOVEA_KV_PAGE_KEYS);
    desc.rope = s->m->rope;
    if (fovea_kv_cache_create(s->m->ctx, &desc, &s->cache) != FOVEA_OK ||
        fovea_kv_cache_add(s->cache, &s->sequence) != FOVEA_OK)
        return failed(s, "cache", to);
    return 0;
}

static int make_plan(const session *s, int64_t q_len, cache_types types, fovea_attention_plan **plan, complaint to) {
    const config *c = &s->m->config;
    fovea_attention_desc desc;
    fovea_attention_desc_init(&desc);
    desc.dtype = s->m->types.dtype;
    desc.k_dtype = types.k;
    desc.v_dtype = types.v;
    desc.q_heads = c->heads;
    desc.kv_heads = c->kv_heads;
    desc.q_len = q_len;
    desc.kv_len = s->most;
    desc.head_dim = desc.value_dim = c->head_dim;
    desc.causal = FOVEA_CAUSAL_BOTTOM_RIGHT;
    desc.page_keys = FOVEA_KV_PAGE_KEYS;
    return fovea_attention_plan_create(s->m->ctx, &desc, plan) == FOVEA_OK ? 0 : failed(s, "attention", to);
}

static void grow(session *s, size_t size) { s->workspace_size = size > s->workspace_size ? size : s->workspace_size; }

static void grow_for_maps(session *s, const model_maps *maps) {
    for (int i = 0; i < 3 && maps->map[i] != NULL; i++)
        grow(s, fovea_linear_workspace_size(maps->map[i]));
}

static int make_rows(session *s, complaint to) {
    const config *c = &s->m->config;
    const size_t size = (size_t)model_element(s->m->types.dtype) * SESSION_CHUNK;
    const size_t heads = (size_t)(c->heads * c->head_dim) * size, kv = (size_t)(c->kv_heads * c->head_dim) * size;
    s->rows = malloc((size_t)c->width * SESSION_CHUNK * sizeof *s->rows);
    s->normed = malloc((size_t)c->width * size);
    s->q = malloc(heads);
    s->heads = malloc(heads);
    s->k = malloc(kv);
    s->v = malloc(kv);
    s->inner = malloc((size_t)c->inner * size);
    s->positions = malloc(SESSION_CHUNK * sizeof *s->positions);
    grow(s, fovea_attention_plan_workspace_size(s->one));
    grow(s, fovea_attention_plan_workspace_size(s->chunk));
    grow_for_maps(s, &s->m->head);
    bool apart = false;
    for (int64_t i = 0; i < c->layers; i++) {
        const model_layer *l = &s->m->layers[i];
        const model_maps *const maps[] = {&l->qkv, &l->out, &l->up, &l->down};
        for (int k = 0; k < 4; k++)
            grow_for_maps(s, maps[k]);
        apart = apart || model_gate_apart(s->m, l);
    }
    if (apart) {
        s->gate = malloc((size_t)c->inner * SESSION_CHUNK * sizeof *s->gate);
        s->up = malloc((size_t)c->inner * SESSION_CHUNK * sizeof *s->up);
    }
    s->workspace = malloc(s->workspace_size + 1);
    const bool there = (!apart || (s->gate && s->up)) && s->rows && s->normed && s->q && s->heads && s->k && s->v &&
                       s->inner && s->positions && s->workspace;
    return there ? 0 : complain(to, s->m->path, "out of memory");
}

int session_create(const model *m, int64_t tokens, cache_types types, session **out, complaint to) {
    *out = NULL;
    if (tokens < 1 || tokens > m->config.most_tokens)
        return complain(to, m->path, "reads 1 to %lld tokens, not %lld", (long long)m->config.most_tokens,
                        (long long)tokens);
    session *s = calloc(1, sizeof *s);
    if (s == NULL)
        return complain(to, m->path, "out of memory");
    s->m = m;
    s->most = tokens;
    if (make_cache(s, types, to) == 0 && make_plan(s, 1, types, &s->one, to) == 0 &&
        make_plan(s, SESSION_CHUNK, types, &s->chunk, to) == 0 && make_rows(s, to) == 0)
        return *out = s, 0;
    session_free(s);
    return -1;
}

void session_free(session *s) {
    if (s == NULL)
        return;
    fovea_kv_cache_destroy(s->cache);
    fovea_attention_plan_destroy(s->one);
    fovea_attention_plan_destroy(s->chunk);
    free(s->rows);
    free(s->normed);
    free(s->q);
    free(s->k);
    free(s->v);
    free(s->heads);
    free(s->inner);
    free(s->gate);
    free(s->up);
    free(s->positions);
    free(s->workspace);
    free(s);
}

void session_clear(session *s) {
    fovea_kv_cache_truncate(s->cache, s->sequence, 0);
    s->length = s->last_count = 0;
}

int64_t session_length(const session *s) { return s->length; }

int64_t session_cache_bytes(const session *s) {
    fovea_kv_stats stats;
    fovea_kv_stats_init(&stats);
    return fovea_kv_cache_stats(s->cache, &stats) == FOVEA_OK ? stats.used_pages * stats.page_bytes : 0;
}

/* --------------------------------------------------------------------------------------------------------- running -- */

/* count rows of channels; heads of a row side by side. */
static fovea_tensor rows_of(void *data, fovea_dtype dtype, int64_t count, int64_t heads, int64_t channels) {
    return fovea_tensor_bthd(data, dtype, 1, count, heads, channels);
}

static fovea_status normalise(const session *s, const model_norm *n, float *rows, int64_t count) {
    const config *c = &s->m->config;
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    args.x = rows_of(rows, FOVEA_DTYPE_F32, count, 1, c->width);
    args.y = rows_of(s->normed, s->m->types.dtype, count, 1, c->width);
    args.weight = n->weight;
    args.bias = n->bias;
    args.eps = c->eps;
    return (c->gpt2 ? fovea_layer_norm : fovea_rms_norm)(s->m->ctx, &args);
}

/* y = map(x), or y += map(x). */
static fovea_status product(const session *s, const fovea_linear *map, fovea_tensor x, const fovea_tensor *y,
                            bool add) {
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = x;
    args.y = y;
    args.residual = add ? y : NULL;
    return fovea_linear_execute(map, &args, s->workspace, s->workspace_size);
}

/* The same of each map, whose y follow each other. */
static fovea_status products(const session *s, const model_maps *maps, fovea_tensor x, const fovea_tensor *y,
                             bool add) {
    fovea_status status = FOVEA_OK;
    for (int i = 0; status == FOVEA_OK && i < 3 && maps->map[i] != NULL; y += maps->parts[i++])
        status = product(s, maps->map[i], x, y, add);
    return status;
}

/* Gate and up of different types, multiplied as a gated map would do it. */
static fovea_status gate_apart(const session *s, const model_layer *l, fovea_tensor x, int64_t count) {
    const int64_t inner = s->m->config.inner, all = count * inner;
    const fovea_tensor y[] = {rows_of(s->gate, FOVEA_DTYPE_F32, count, 1, inner),
                              rows_of(s->up, FOVEA_DTYPE_F32, count, 1, inner)};
    const fovea_status status = products(s, &l->up, x, y, false);
    for (int64_t i = 0; status == FOVEA_OK && i < all; i++)
        s->gate[i] *= s->up[i];
    return status == FOVEA_OK ? fovea_convert(all, s->gate, FOVEA_DTYPE_F32, s->inner, s->m->types.dtype) : status;
}

static fovea_status append(const session *s, int64_t layer, fovea_tensor k, fovea_tensor v) {
    fovea_kv_append args;
    fovea_kv_append_init(&args);
    args.layer = layer;
    args.count = 1;
    args.sequences = &s->sequence;
    args.k = k;
    args.v = v;
    return fovea_kv_cache_append(s->cache, &args);
}

static fovea_status attend(const session *s, int64_t layer, int64_t count) {
    const config *c = &s->m->config;
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    const int64_t rows = count == 1 ? 1 : SESSION_CHUNK; /* of the plan's tensors: those past count are not touched */
    args.q = rows_of(s->q, s->m->types.dtype, rows, c->heads, c->head_dim);
    args.out = rows_of(s->heads, s->m->types.dtype, rows, c->heads, c->head_dim);
    args.q_lens = count == 1 ? NULL : &count;
    args.cache = s->cache;
    args.cache_layer = layer;
    args.cache_sequences = &s->sequence;
    return fovea_attention_execute(count == 1 ? s->one : s->chunk, &args, s->workspace, s->workspace_size);
}

static fovea_status run_layer(const session *s, int64_t layer, int64_t count) {
    const model_layer *l = &s->m->layers[layer];
    const config *c = &s->m->config;
    const fovea_dtype dtype = s->m->types.dtype;
    const fovea_tensor rows = rows_of(s->rows, FOVEA_DTYPE_F32, count, 1, c->width),
                       normed = rows_of(s->normed, dtype, count, 1, c->width),
                       heads = rows_of(s->heads, dtype, count, c->heads, c->head_dim),
                       inner = rows_of(s->inner, dtype, count, 1, c->inner);
    const fovea_tensor qkv[] = {rows_of(s->q, dtype, count, c->heads, c->head_dim),
                                rows_of(s->k, dtype, count, c->kv_heads, c->head_dim),
                                rows_of(s->v, dtype, count, c->kv_heads, c->head_dim)};
    fovea_status status = normalise(s, &l->attention, s->rows, count);
    if (status == FOVEA_OK)
        status = products(s, &l->qkv, normed, qkv, false);
    if (status == FOVEA_OK && s->m->rope != NULL)
        status = fovea_rope_apply(s->m->ctx, s->m->rope, &qkv[0], s->positions, &qkv[0]);
    if (status == FOVEA_OK)
        status = append(s, layer, qkv[1], qkv[2]);
    if (status == FOVEA_OK)
        status = attend(s, layer, count);
    if (status == FOVEA_OK)
        status = products(s, &l->out, heads, &rows, true);
    if (status == FOVEA_OK)
        status = normalise(s, &l->feed, s->rows, count);
    if (status == FOVEA_OK)
        status =
            model_gate_apart(s->m, l) ? gate_apart(s, l, normed, count) : products(s, &l->up, normed, &inner, false);
    return status == FOVEA_OK ? products(s, &l->down, inner, &rows, true) : status;
}

static fovea_status read_word(const model *m, int64_t id, float *row) {
    const int64_t width = m->config.width;
    if (m->words == NULL) {
        const fovea_matrix word =
            fovea_matrix_out_in(m->blocks.data + id * m->blocks.row_bytes, m->words_type, 1, width);
        return fovea_dequantize(m->ctx, &word, row);
    }
    const char *word = (const char *)m->words + id * width * model_element(m->words_type);
    return fovea_convert(width, word, m->words_type, row, FOVEA_DTYPE_F32);
}

static fovea_status embed(session *s, const int32_t *ids, int64_t count) {
    const config *c = &s->m->config;
    for (int64_t i = 0; i < count; i++) {
        float *row = s->rows + i * c->width;
        const fovea_status status = read_word(s->m, ids[i], row);
        if (status != FOVEA_OK)
            return status;
        const float *place = s->m->places != NULL ? s->m->places + (s->length + i) * c->width : NULL;
        for (int64_t j = 0; place != NULL && j < c->width; j++)
            row[j] += place[j];
        s->positions[i] = s->length + i;
    }
    return FOVEA_OK;
}

int session_run(session *s, const int32_t *ids, int64_t count, complaint to) {
    const config *c = &s->m->config;
    if (count < 1 || count > SESSION_CHUNK || count > s->most - s->length)
        return complain(to, s->m->path, "%lld tokens do not fit behind %lld: there is room for %lld", (long long)count,
                        (long long)s->length, (long long)s->most);
    for (int64_t i = 0; i < count; i++)
        if (ids[i] < 0 || ids[i] >= c->words)
            return complain(to, s->m->path, "has no token %ld", (long)ids[i]);
    fovea_status status = embed(s, ids, count);
    for (int64_t layer = 0; status == FOVEA_OK && layer < c->layers; layer++)
        status = run_layer(s, layer, count);
    if (status != FOVEA_OK)
        return failed(s, "a layer", to);
    s->length += count;
    s->last_count = count;
    return 0;
}

int session_logits(session *s, int64_t first, int64_t rows, float *logits, complaint to) {
    const config *c = &s->m->config;
    if (first < 0 || rows < 1 || first > s->last_count - rows)
        return complain(to, s->m->path, "has no logits of tokens that were not run");
    const fovea_tensor y = rows_of(logits, FOVEA_DTYPE_F32, rows, 1, c->words);
    fovea_status status = normalise(s, &s->m->last, s->rows + first * c->width, rows);
    if (status == FOVEA_OK)
        status = products(s, &s->m->head, rows_of(s->normed, s->m->types.dtype, rows, 1, c->width), &y, false);
    return status == FOVEA_OK ? 0 : failed(s, "the head", to);
}

/* Running a decoder (model.h). Tokens of all pieces go through each layer as rows: norm, q, k and v in one product,
 * rotation, keys and values into the cache, attention of each sequence over all of its own, and the two products
 * that add to the rows. */
#include "session_private.h"

#include <stdlib.h>

fovea_status session_normalize(const session *s, const model_norm *n, fovea_tensor x, fovea_tensor y) {
    fovea_norm_args args;
    fovea_norm_args_init(&args);
    args.x = x;
    args.y = y;
    args.weight = n->weight;
    args.bias = n->bias;
    args.eps = s->m->config.eps;
    return (s->m->config.gpt2 ? fovea_norm_layer : fovea_norm_rms)(s->m->ctx, &args, s->workspace, s->workspace_size);
}

/* In place, if there is such a norm. */
static fovea_status normalize_in_place(const session *s, const model_norm *n, fovea_tensor x) {
    return n->weight != NULL ? session_normalize(s, n, x, x) : FOVEA_OK;
}

/* y = map(x), or y += map(x). */
static fovea_status product(const session *s, const fovea_linear *map, fovea_tensor x, const fovea_tensor *y,
                            bool add) {
    fovea_linear_args args;
    fovea_linear_args_init(&args);
    args.x = x;
    args.y = y;
    args.residual = add ? y : NULL;
    return fovea_linear_apply(s->m->ctx, map, &args, s->workspace, s->workspace_size);
}

fovea_status session_products(const session *s, const model_maps *maps, fovea_tensor x, const fovea_tensor *y,
                              bool add) {
    fovea_status status = FOVEA_OK;
    for (int i = 0; status == FOVEA_OK && i < MODEL_MAPS && maps->map[i] != NULL; y += maps->parts[i++])
        status = product(s, maps->map[i], x, y, add);
    return status;
}

static fovea_status add_rows(const session *s, int64_t count) {
    const int64_t all = count * s->m->config.width;
    for (int64_t i = 0; i < all; i++)
        s->rows[i] += s->branch[i];
    return FOVEA_OK;
}

/* Adds maps of x to the rows, through the norm behind them if there is one. */
static fovea_status add_branch(const session *s, const model_maps *maps, const model_norm *after, fovea_tensor x,
                               int64_t count) {
    const int64_t width = s->m->config.width;
    const model_share *own = &s->m->shares.width;
    const bool apart = after->weight != NULL;
    float *to = apart ? s->branch : s->rows;
    const fovea_tensor y = session_columns(to, FOVEA_DTYPE_F32, count, own);
    fovea_status status = session_products(s, maps, x, &y, !apart);
    status = model_gather(s->m, own, FOVEA_DTYPE_F32, count, to, s->own, status);
    if (!apart)
        return status;
    const fovea_tensor branch = session_rows(s->branch, FOVEA_DTYPE_F32, count, 1, width);
    if (status == FOVEA_OK)
        status = session_normalize(s, after, branch, branch);
    return status == FOVEA_OK ? add_rows(s, count) : status;
}

/* Gate and up in maps of their own, multiplied as a gated map would do it. */
static fovea_status gate_apart(const session *s, const model_layer *l, fovea_tensor x, int64_t count) {
    const model_share *own = &s->m->shares.inner;
    const fovea_dtype dtype = s->m->options.dtype;
    const int64_t inner = own->count, all = count * inner;
    const fovea_tensor y[] = {session_rows(s->gate, FOVEA_DTYPE_F32, count, 1, inner),
                              session_rows(s->up, FOVEA_DTYPE_F32, count, 1, inner)},
                       to = session_columns(s->inner, dtype, count, own);
    fovea_status status = session_products(s, &l->up, x, y, false);
    for (int64_t i = 0; status == FOVEA_OK && i < all; i++)
        s->gate[i] *= s->up[i];
    for (int64_t i = 0; status == FOVEA_OK && i < count; i++)
        status = fovea_convert(inner, s->gate + i * inner, FOVEA_DTYPE_F32,
                               (char *)to.data + i * own->all * model_element(dtype), dtype);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- attention -- */

/* Rotates q, and keys whose rope is not the cache's; keys and values go into the cache. */
static fovea_status append(const session *s, int64_t layer, const fovea_tensor qkv[3]) {
    const model *m = s->m;
    const bool own = m->config.local_rotates && m->config.local[layer];
    const fovea_rope *rope = own ? m->local_rope : m->rope;
    fovea_status status = FOVEA_OK;
    if (rope != NULL)
        status = fovea_rope_apply(m->ctx, rope, &qkv[0], s->positions, &qkv[0]);
    if (status == FOVEA_OK && own)
        status = fovea_rope_apply(m->ctx, rope, &qkv[1], s->positions, &qkv[1]);
    if (status != FOVEA_OK)
        return status;
    fovea_kv_append_args args;
    fovea_kv_append_args_init(&args);
    args.layer = m->config.place[layer];
    args.count = s->pieces;
    args.sequences = s->in_run;
    args.cu_seqlens = s->starts;
    args.k = qkv[1];
    args.v = qkv[2];
    args.rotated = own;
    return fovea_kv_cache_append(s->cache, &args);
}

static fovea_status attend(const session *s, int64_t layer, fovea_tensor q, fovea_tensor out) {
    const bool local = s->m->config.local[layer];
    fovea_attention_args args;
    fovea_attention_args_init(&args);
    args.q = q;
    args.out = out;
    args.q_cu_seqlens = s->starts;
    args.cache = s->cache;
    args.cache_layer = s->m->config.place[layer];
    args.cache_sequences = s->in_run;
    args.sinks = s->m->layers[layer].sinks;
    return fovea_attention_execute(s->longest == 1 ? s->one[local] : s->chunk[local], &args, s->workspace,
                                   s->workspace_size);
}

/* The heads of this process, in rows of all heads. */
static fovea_tensor own_heads(const session *s, int64_t count) {
    const config *c = &s->m->config;
    const model_shares *own = &s->m->shares;
    const fovea_dtype dtype = s->m->options.dtype;
    char *data = (char *)s->heads + own->q_first * c->head_dim * model_element(dtype);
    fovea_tensor t = session_rows(data, dtype, count, own->q_heads, c->head_dim);
    t.stride[2] = c->heads * c->head_dim;
    return t;
}

/* Multiplies heads by the sigmoid of what lies behind each query. */
static fovea_status gate_heads(const session *s, fovea_tensor q, fovea_tensor heads) {
    fovea_activate_args args;
    fovea_activate_args_init(&args);
    args.x = q;
    args.x.data = (char *)q.data + s->m->config.head_dim * model_element(s->m->options.dtype);
    args.up = args.y = heads;
    args.activation = FOVEA_ACTIVATION_SIGMOID;
    return fovea_activate(s->m->ctx, &args);
}

/* From the norm's rows to all heads. */
static fovea_status run_heads(const session *s, int64_t layer, int64_t count, fovea_tensor normed) {
    const model_layer *l = &s->m->layers[layer];
    const model_shares *own = &s->m->shares;
    const fovea_dtype dtype = s->m->options.dtype;
    const int64_t head_dim = s->m->config.head_dim;
    const bool gated = s->m->config.names->delta_out != NULL;
    fovea_tensor qkv[] = {session_rows(s->q, dtype, count, own->q_heads, gated ? 2 * head_dim : head_dim),
                          session_rows(s->k, dtype, count, own->kv_heads, head_dim),
                          session_rows(s->v, dtype, count, own->kv_heads, head_dim)};
    fovea_status status = session_products(s, &l->qkv, normed, qkv, false);
    qkv[0].shape[3] = head_dim; /* without their gates */
    if (status == FOVEA_OK)
        status = normalize_in_place(s, &l->q, qkv[0]);
    if (status == FOVEA_OK)
        status = normalize_in_place(s, &l->k, qkv[1]);
    if (status == FOVEA_OK)
        status = append(s, layer, qkv);
    if (status == FOVEA_OK)
        status = attend(s, layer, qkv[0], own_heads(s, count));
    return status == FOVEA_OK && gated ? gate_heads(s, qkv[0], own_heads(s, count)) : status;
}

/* Adds what the experts of each row make of it. */
static fovea_status add_experts(const session *s, const model_layer *l, int64_t count, fovea_tensor x) {
    const config *c = &s->m->config;
    fovea_experts_args args;
    fovea_experts_args_init(&args);
    args.x = x;
    args.y = session_rows(s->branch, FOVEA_DTYPE_F32, count, 1, c->width);
    args.router = &c->router;
    args.logits = session_rows(s->scores, FOVEA_DTYPE_F32, count, 1, c->experts.experts);
    const fovea_tensor y[] = {args.logits, session_rows(s->shared, FOVEA_DTYPE_F32, count, 1, 1)};
    fovea_status status = session_products(s, &l->router, x, y, false);
    if (status == FOVEA_OK)
        status = fovea_experts_apply(s->m->ctx, l->experts, &args, s->workspace, s->workspace_size);
    return status == FOVEA_OK ? add_rows(s, count) : status;
}

/* Adds what the expert of all rows makes of them, times the sigmoid of each row's gate. */
static fovea_status add_shared(const session *s, const model_layer *l, int64_t count, fovea_tensor inner) {
    const int64_t width = s->m->config.width;
    const fovea_tensor y = session_rows(s->branch, FOVEA_DTYPE_F32, count, 1, width);
    fovea_activate_args gate;
    fovea_activate_args_init(&gate);
    gate.x = gate.y = session_rows(s->shared, FOVEA_DTYPE_F32, count, 1, 1);
    gate.activation = FOVEA_ACTIVATION_SIGMOID;
    fovea_status status = fovea_activate(s->m->ctx, &gate);
    if (status == FOVEA_OK)
        status = session_products(s, &l->down, inner, &y, false);
    for (int64_t i = 0; i < count * width; i++)
        s->branch[i] *= s->shared[i / width];
    return status == FOVEA_OK ? add_rows(s, count) : status;
}

/* From the norm's rows to all channels between up and down. */
static fovea_status run_up(const session *s, const model_layer *l, int64_t count, fovea_tensor normed) {
    const fovea_tensor inner = session_columns(s->inner, s->m->options.dtype, count, &s->m->shares.inner);
    return model_gate_apart(s->m, l) ? gate_apart(s, l, normed, count)
                                     : session_products(s, &l->up, normed, &inner, false);
}

/* Ranks meet where columns are gathered, all of them or none. */
static fovea_status run_layer(const session *s, int64_t layer, int64_t count, fovea_status before) {
    const model *m = s->m;
    const model_layer *l = &m->layers[layer];
    const config *c = &m->config;
    const fovea_dtype dtype = m->options.dtype;
    const fovea_tensor rows = session_rows(s->rows, FOVEA_DTYPE_F32, count, 1, c->width),
                       normed = session_rows(s->normed, dtype, count, 1, c->width),
                       heads = c->recurrent[layer] ? session_rows(s->heads, dtype, count, c->delta_heads, c->delta_dim)
                                                   : session_rows(s->heads, dtype, count, c->heads, c->head_dim),
                       inner = session_rows(s->inner, dtype, count, 1, c->inner);
    fovea_status status = before;
    if (status == FOVEA_OK)
        status = session_normalize(s, &l->attention, rows, normed);
    if (status == FOVEA_OK)
        status = (c->recurrent[layer] ? session_run_delta : run_heads)(s, layer, count, normed);
    status = model_gather(m, &m->shares.heads, dtype, count, s->heads, s->own, status);
    if (status == FOVEA_OK)
        status = add_branch(s, &l->out, &l->attention_after, heads, count);
    if (status == FOVEA_OK)
        status = session_normalize(s, &l->feed, rows, normed);
    if (status == FOVEA_OK && l->experts != NULL)
        status = add_experts(s, l, count, normed);
    if (status != FOVEA_OK || c->names->up == NULL)
        return status;
    status = run_up(s, l, count, normed);
    status = model_gather(m, &m->shares.inner, dtype, count, s->inner, s->own, status);
    if (status == FOVEA_OK && c->names->shared_gate != NULL)
        return add_shared(s, l, count, inner);
    return status == FOVEA_OK ? add_branch(s, &l->down, &l->feed_after, inner, count) : status;
}

/* -------------------------------------------------------------------------------------------------------- tokens -- */

static fovea_status read_word(const model *m, int64_t id, float *row) {
    const int64_t width = m->config.width;
    const char *word = m->words + id * m->word_bytes;
    if (!model_is_blocks(m->words_type))
        return fovea_convert(width, word, m->words_type, row, FOVEA_DTYPE_F32);
    const fovea_matrix blocks = fovea_matrix_out_in(word, m->words_type, 1, width);
    return fovea_dequantize(m->ctx, &blocks, row);
}

/* The row of a token at a position. */
static fovea_status embed(const session *s, int32_t id, int64_t position, float *row) {
    const config *c = &s->m->config;
    const float by = (float)c->word_scale;
    const fovea_status status = read_word(s->m, id, row);
    if (status != FOVEA_OK)
        return status;
    for (int64_t i = 0; by != 1.0f && i < c->width; i++)
        row[i] *= by;
    const float *place = s->m->places != NULL ? s->m->places + position * c->width : NULL;
    for (int64_t i = 0; place != NULL && i < c->width; i++)
        row[i] += place[i];
    return FOVEA_OK;
}

static int check_piece(const session *s, const session_piece *p, int64_t before, complaint to) {
    const int64_t length = session_length(s, p->sequence);
    if (p->count < 1 || p->count > SESSION_CHUNK - before || p->count > s->most - length)
        return complain(to, s->m->path, "%lld tokens do not fit behind %lld: there is room for %lld",
                        (long long)p->count, (long long)length, (long long)s->most);
    for (int64_t i = 0; i < p->count; i++)
        if (p->ids[i] < 0 || p->ids[i] >= s->m->config.words)
            return complain(to, s->m->path, "has no token %ld", (long)p->ids[i]);
    return 0;
}

/* Where pieces are among the rows. Plans are of all sequences: those without a piece have no tokens. */
static int place_pieces(session *s, const session_piece *pieces, int64_t count, complaint to) {
    int64_t at = 0;
    s->pieces = count;
    s->longest = 0;
    for (int64_t i = 0; i < count; i++) {
        if (check_piece(s, &pieces[i], at, to) != 0)
            return -1;
        s->in_run[i] = s->sequence[pieces[i].sequence];
        if (s->states != NULL)
            s->state_run[i] = s->state[pieces[i].sequence];
        s->starts[i] = at;
        at += pieces[i].count;
        s->longest = pieces[i].count > s->longest ? pieces[i].count : s->longest;
    }
    for (int64_t i = count; i <= s->sequences; i++)
        s->starts[i] = at;
    for (int64_t i = count; i < s->sequences; i++)
        s->in_run[i] = s->in_run[0];
    return 0;
}

static int run_failed(const session *s, const char *what, complaint to) {
    const model_ranks *r = s->m->options.ranks;
    return complain(to, s->m->path, "%s: %s", what, r != NULL ? r->detail() : fovea_error_detail());
}

int session_run_pieces(session *s, const session_piece *pieces, int64_t count, complaint to) {
    const config *c = &s->m->config;
    if (place_pieces(s, pieces, count, to) != 0)
        return -1;
    const int64_t all = s->starts[count];
    fovea_status status = FOVEA_OK;
    for (int64_t i = 0; i < count; i++) {
        const int64_t length = session_length(s, pieces[i].sequence);
        for (int64_t k = 0, row = s->starts[i]; status == FOVEA_OK && k < pieces[i].count; k++, row++) {
            s->positions[row] = length + k;
            status = embed(s, pieces[i].ids[k], length + k, s->rows + row * c->width);
        }
    }
    status = run_layer(s, 0, all, status);
    for (int64_t layer = 1; status == FOVEA_OK && layer < c->layers; layer++)
        status = run_layer(s, layer, all, status);
    if (status != FOVEA_OK)
        return run_failed(s, "a layer", to);
    s->last_count = all;
    return 0;
}

int session_run(session *s, const int32_t *ids, int64_t count, complaint to) {
    const session_piece piece = {0, ids, count};
    return session_run_pieces(s, &piece, 1, to);
}

/* cap * tanh(x / cap), by the library's tanh, whose bits are the same everywhere. */
static fovea_status cap_logits(const session *s, fovea_tensor logits, float cap) {
    float *x = logits.data;
    const int64_t count = logits.shape[2] * logits.shape[3];
    fovea_activate_args args;
    fovea_activate_args_init(&args);
    args.x = args.y = logits;
    args.activation = FOVEA_ACTIVATION_TANH;
    for (int64_t i = 0; i < count; i++)
        x[i] /= cap;
    const fovea_status status = fovea_activate(s->m->ctx, &args);
    for (int64_t i = 0; i < count; i++)
        x[i] *= cap;
    return status;
}

int session_logits(session *s, int64_t first, int64_t rows, float *logits, complaint to) {
    const config *c = &s->m->config;
    if (first < 0 || rows < 1 || first > s->last_count - rows)
        return complain(to, s->m->path, "has no logits of tokens that were not run");
    const model_share *own = &s->m->shares.words;
    float *mine = s->m->options.ranks != NULL ? malloc((size_t)(rows * own->count) * sizeof *mine + 1) : NULL;
    const fovea_tensor y = session_columns(logits, FOVEA_DTYPE_F32, rows, own),
                       x = session_rows(s->rows + first * c->width, FOVEA_DTYPE_F32, rows, 1, c->width),
                       normed = session_rows(s->normed, s->m->options.dtype, rows, 1, c->width);
    fovea_status status = session_normalize(s, &s->m->last, x, normed);
    if (status == FOVEA_OK)
        status = session_products(s, &s->m->head, normed, &y, false);
    if (status == FOVEA_OK && s->m->options.ranks != NULL && mine == NULL)
        status = FOVEA_ERROR_OUT_OF_MEMORY;
    status = model_gather(s->m, own, FOVEA_DTYPE_F32, rows, logits, mine, status);
    free(mine);
    if (status == FOVEA_OK && c->final_softcap > 0.0)
        status = cap_logits(s, session_rows(logits, FOVEA_DTYPE_F32, rows, 1, c->words), (float)c->final_softcap);
    return status == FOVEA_OK ? 0 : run_failed(s, "the head", to);
}

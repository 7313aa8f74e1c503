/* Loading a decoder (model.h): every array by the name that its family gives it, of the shape that the sizes ask for.
 * load_maps.c packs the matrices. */
#include "load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

float *load_vector(const loading *l, const char *format, int64_t layer, const char *suffix, int64_t count) {
    char name[LOAD_NAME];
    load_name(format, layer, suffix, name);
    return weights_load(l->m->ctx, l->w, name, 0, count, l->to);
}

/* A norm over that many channels; format NULL: the family has no such norm. GGUF has 1 added to Gemma's weights
 * already. */
int load_norm(const loading *l, const char *format, int64_t layer, int64_t channels, model_norm *n) {
    if (format == NULL)
        return 0;
    n->weight = load_vector(l, format, layer, ".weight", channels);
    if (n->weight != NULL && l->m->config.gpt2)
        n->bias = load_vector(l, format, layer, ".bias", channels);
    return n->weight != NULL && (n->bias != NULL || !l->m->config.gpt2) ? 0 : -1;
}

static int load_norms(const loading *l, int64_t layer, model_layer *to) {
    const config *c = &l->m->config;
    const config_names *n = c->names;
    const bool attention = !c->recurrent[layer];
    return load_norm(l, n->attention_norm, layer, c->width, &to->attention) != 0 ||
                   load_norm(l, n->feed_norm, layer, c->width, &to->feed) != 0 ||
                   load_norm(l, attention ? n->q_norm : NULL, layer, c->head_dim, &to->q) != 0 ||
                   load_norm(l, attention ? n->k_norm : NULL, layer, c->head_dim, &to->k) != 0 ||
                   load_norm(l, n->attention_after, layer, c->width, &to->attention_after) != 0 ||
                   load_norm(l, n->feed_after, layer, c->width, &to->feed_after) != 0
               ? -1
               : 0;
}

/* This process's columns of an array. */
static piece columns_of(const config *c, const char *name, const model_share *s) {
    return (piece){name, s->count, s->first, s->all, c->names->in_out};
}

static int load_qkv(const loading *l, int64_t layer, model_maps *maps) {
    const config *c = &l->m->config;
    const model_shares *s = &l->m->shares;
    const int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, all = q + 2 * kv;
    const int64_t gates = c->names->delta_out != NULL ? 2 : 1; /* each head's query, and its gate if there is one */
    const int64_t own_q = s->q_heads * c->head_dim * gates, own_kv = s->kv_heads * c->head_dim;
    const int64_t q_first = s->q_first * c->head_dim, kv_first = s->kv_first * c->head_dim;
    const char *const *names = c->names->qkv;
    const bool in_out = c->names->in_out;
    const piece apart[3] = {{names[0], own_q, q_first, gates * q, in_out},
                            {names[1], own_kv, kv_first, kv, in_out},
                            {names[2], own_kv, kv_first, kv, in_out}};
    const piece together[3] = {{names[0], own_q, q_first, all, in_out},
                               {names[0], own_kv, q + kv_first, all, in_out},
                               {names[0], own_kv, q + kv + kv_first, all, in_out}};
    const map_kind kind = {.in = c->width};
    return load_map(l, names[1] != NULL ? apart : together, 3, layer, &kind, maps);
}

/* A gate of GELU is multiplied apart: the library's gated maps have SiLU. */
static int load_up(const loading *l, int64_t layer, model_maps *maps) {
    const config *c = &l->m->config;
    const model_share *inner = &l->m->shares.inner;
    const piece up[] = {columns_of(c, c->names->gate, inner), columns_of(c, c->names->up, inner)};
    const map_kind gated = {c->width, FOVEA_ACTIVATION_SILU_GATED, 0},
                   alone = {c->width, FOVEA_ACTIVATION_GELU_TANH, 0},
                   gate = {c->width, FOVEA_ACTIVATION_GELU_TANH, FOVEA_DTYPE_F32},
                   plain = {c->width, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32};
    if (c->names->gate == NULL)
        return load_map(l, up + 1, 1, layer, &alone, maps);
    if (!c->gelu)
        return load_map(l, up, 2, layer, &gated, maps);
    return load_map(l, up, 1, layer, &gate, maps) != 0 ? -1 : load_map(l, up + 1, 1, layer, &plain, maps);
}

static int load_heads(const loading *l, int64_t layer, model_layer *to) {
    const config *c = &l->m->config;
    const piece out = columns_of(c, c->names->out, &l->m->shares.width);
    const map_kind from_heads = {c->heads * c->head_dim, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32};
    if (c->names->sinks != NULL && (to->sinks = load_vector(l, c->names->sinks, layer, ".weight", c->heads)) == NULL)
        return -1;
    return load_qkv(l, layer, &to->qkv) != 0 ? -1 : load_map(l, &out, 1, layer, &from_heads, &to->out);
}

static int load_layer(const loading *l, int64_t layer, model_layer *to) {
    const config *c = &l->m->config;
    const piece down = columns_of(c, c->names->down, &l->m->shares.width);
    const map_kind from_inner = {c->inner, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32};
    if (load_norms(l, layer, to) != 0 ||
        (c->recurrent[layer] ? load_delta(l, layer, to) : load_heads(l, layer, to)) != 0 ||
        (c->names->router != NULL && load_experts(l, layer, to) != 0))
        return -1;
    if (c->names->up == NULL)
        return 0;
    return load_up(l, layer, &to->up) != 0 ? -1 : load_map(l, &down, 1, layer, &from_inner, &to->down);
}

/* Does every row of the blocks stand for numbers? A head is asked by fovea_linear_create(). */
static int check_words(const loading *l) {
    const model *m = l->m;
    float *row = malloc((size_t)m->config.width * sizeof *row);
    fovea_status status = FOVEA_OK;
    for (int64_t i = 0; row != NULL && status == FOVEA_OK && i < m->config.words; i++) {
        const fovea_matrix word = fovea_matrix_out_in(m->words + i * m->word_bytes, m->words_type, 1, m->config.width);
        status = fovea_dequantize(m->ctx, &word, row);
    }
    const bool memory = row != NULL;
    free(row);
    if (!memory)
        return load_out_of_memory(l);
    return status == FOVEA_OK ? 0 : model_failed(m, m->config.names->words, l->to);
}

/* Packing has read every page of the words; of a new mapping only those of tokens that come will be in memory. */
static int map_words_anew(const loading *l) {
    model *m = l->m;
    if (m->own_words != NULL)
        return 0;
    gguf_unmap(&m->words_pages);
    if (weights_map(l->w, m->config.names->words, m->config.words, m->config.width, &m->words_pages, l->to) != 0)
        return -1;
    m->words = (const char *)m->words_pages.data;
    return 0;
}

/* The words, which are also the head unless the file has one. What is stored as it runs stays in the file: few rows
 * of it are read. */
static int load_words(const loading *l) {
    model *m = l->m;
    const config *c = &m->config;
    const piece words = {c->names->words, c->words, 0, c->words, false},
                head = {c->names->head, m->shares.words.count, m->shares.words.first, c->words, false};
    const map_kind kind = {c->width, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32};
    char name[LOAD_NAME];
    fovea_linear_part part = {0};
    source from = {0};
    if (load_matrix(l, &words, words.name, c->width, &part.weight, &from) != 0) {
        load_release(&from);
        return -1;
    }
    m->own_words = from.values;
    m->words_pages = from.pages;
    m->words = part.weight.data;
    m->words_type = part.weight.dtype;
    m->word_bytes = from.pages.row_bytes;
    part.weight.data = m->words + m->shares.words.first * m->word_bytes;
    part.weight.out = m->shares.words.count;
    load_name(head.name, 0, ".weight", name);
    if (!load_has(l, name))
        return load_pack(l, &part, 1, words.name, &kind, &m->head) != 0 ? -1 : map_words_anew(l);
    if (model_is_blocks(m->words_type) && check_words(l) != 0)
        return -1;
    return load_map(l, &head, 1, 0, &kind, &m->head);
}

/* YaRN (rope.h) as divisors of all pairs, whose ramp is not rounded. */
static float *yarn_divisors(const loading *l, const fovea_rope_desc *d) {
    const double turns = d->original_positions / (2.0 * 3.14159265358979323846), dim = (double)d->rotary_dim;
    const double low = fmax(dim * log(turns / d->beta_fast) / (2.0 * log(d->base)), 0.0);
    const double high = fmin(dim * log(turns / d->beta_slow) / (2.0 * log(d->base)), dim - 1.0);
    float *divisors = malloc((size_t)d->rotary_dim * sizeof *divisors);
    if (divisors == NULL)
        load_out_of_memory(l);
    for (int64_t i = 0; divisors != NULL && i < d->rotary_dim / 2; i++) {
        const double t = fmin(fmax(((double)i - low) / fmax(high - low, 0.001), 0.0), 1.0);
        divisors[i] = (float)(1.0 / (t / d->factor + 1.0 - t));
    }
    return divisors;
}

static int load_rope(const loading *l, const fovea_rope_desc *desc, fovea_rope **rope) {
    static const char name[] = "rope_freqs.weight";
    const bool unrounded = desc->scaling == FOVEA_ROPE_YARN && l->m->config.yarn_unrounded;
    fovea_rope_desc own = *desc;
    float *divisors = NULL;
    if (load_has(l, name))
        divisors = weights_load(l->m->ctx, l->w, name, 0, desc->rotary_dim / 2, l->to);
    else if (unrounded)
        divisors = yarn_divisors(l, desc);
    if (divisors == NULL && (load_has(l, name) || unrounded))
        return -1;
    own.divisors = divisors;
    own.scaling = unrounded ? FOVEA_ROPE_UNSCALED : desc->scaling;
    const fovea_status status = fovea_rope_create(&own, rope);
    free(divisors);
    return status == FOVEA_OK ? 0 : model_failed(l->m, "rotary embedding", l->to);
}

static int load_positions(const loading *l) {
    model *m = l->m;
    const config *c = &m->config;
    if (c->gpt2) {
        m->places = weights_load(l->m->ctx, l->w, c->names->places, c->most_tokens, c->width, l->to);
        return m->places != NULL ? 0 : -1;
    }
    return load_rope(l, &c->rope, &m->rope) != 0 ||
                   (c->local_rotates && load_rope(l, &c->local_rope, &m->local_rope) != 0)
               ? -1
               : 0;
}

static void tell(const model *m, int64_t done) {
    if (m->options.progress != NULL)
        m->options.progress(m->options.progress_arg, done, m->config.layers + 1);
}

static int load(loading *l) {
    model *m = l->m;
    if (config_read(l->w, &m->config, l->to) != 0)
        return -1;
    if (m->options.ranks != NULL && (m->config.names->router != NULL || m->config.names->delta_out != NULL))
        return complain(l->to, m->path, "has %s, which are not spread over ranks: run it without --mpi",
                        m->config.names->router != NULL ? "experts" : "recurrent layers");
    if (model_share_out(m) != 0)
        return load_out_of_memory(l);
    if (load_words(l) != 0 || load_positions(l) != 0 ||
        load_norm(l, m->config.names->last, 0, m->config.width, &m->last) != 0)
        return -1;
    m->layers = calloc((size_t)m->config.layers, sizeof *m->layers);
    if (m->layers == NULL)
        return load_out_of_memory(l);
    for (int64_t i = 0; i < m->config.layers; i++) {
        tell(m, i + 1);
        if (load_layer(l, i, &m->layers[i]) != 0)
            return -1;
    }
    tell(m, m->config.layers + 1);
    return weights_all_loaded(l->w, l->to);
}

int model_load(const fovea_context *ctx, const char *path, const model_options *options, model **out, complaint to) {
    loading l = {.to = to};
    *out = NULL;
    if (weights_open(path, &l.w, to) != 0)
        return -1;
    model *m = l.m = calloc(1, sizeof *m);
    int status = -1;
    if (m == NULL || (m->path = malloc(strlen(path) + 1)) == NULL)
        complain(to, path, "out of memory");
    else {
        strcpy(m->path, path);
        m->ctx = ctx;
        m->options = *options;
        status = load(&l);
    }
    weights_close(l.w);
    if (status == 0)
        *out = m;
    else
        model_free(m);
    return status;
}

static void free_maps(model_maps *maps) {
    for (int i = 0; i < MODEL_MAPS; i++)
        fovea_linear_destroy(maps->map[i]);
}

static void free_norm(model_norm *n) {
    free(n->weight);
    free(n->bias);
}

void model_free(model *m) {
    if (m == NULL)
        return;
    for (int64_t i = 0; m->layers != NULL && i < m->config.layers; i++) {
        model_layer *l = &m->layers[i];
        model_norm *const norms[] = {&l->attention,       &l->feed,       &l->q,         &l->k,
                                     &l->attention_after, &l->feed_after, &l->delta_norm};
        model_maps *const maps[] = {&l->qkv, &l->out, &l->up, &l->down, &l->router, &l->delta_in};
        fovea_experts_destroy(l->experts);
        free(l->sinks);
        free(l->conv);
        free(l->dt);
        free(l->a_log);
        for (size_t k = 0; k < sizeof norms / sizeof norms[0]; k++)
            free_norm(norms[k]);
        for (size_t k = 0; k < sizeof maps / sizeof maps[0]; k++)
            free_maps(maps[k]);
    }
    free(m->layers);
    free_norm(&m->last);
    free(m->own_words);
    free(m->places);
    free_maps(&m->head);
    gguf_unmap(&m->words_pages);
    fovea_rope_destroy(m->rope);
    fovea_rope_destroy(m->local_rope);
    model_shares_free(m);
    free(m->path);
    free(m);
}

const config *model_config(const model *m) { return &m->config; }
int64_t model_token_bytes(const model *m) { return m->token_bytes; }
bool model_quantized(const model *m) { return m->quantized; }
bool model_stored(const model *m) { return m->stored; }

/* Loading a decoder (model.h): every array by the name that its family gives it, of the shape that the sizes ask for, to floats; from there
 * to the model's element type and into packed maps. What is packed is freed at once. */
#include "model_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 256, PARTS = 3 };

typedef struct loading {
    weights *w;
    model *m;
    complaint to;
} loading;

/* One matrix of a map: rows [first, first + out) of an array, or columns where matrices are [in, out]. */
typedef struct piece {
    const char *name;
    int64_t out, first, all;
} piece;

static int out_of_memory(const loading *l) { return complain(l->to, l->m->path, "out of memory"); }

static void name_array(const char *format, int64_t layer, const char *suffix, char name[NAME_MOST]) {
    const char *at = strstr(format, "%lld");
    if (at == NULL)
        snprintf(name, NAME_MOST, "%s%s", format, suffix);
    else
        snprintf(name, NAME_MOST, "%.*s%lld%s%s", (int)(at - format), format, (long long)layer, at + 4, suffix);
}

static bool has(const loading *l, const char *name) {
    int64_t rows, columns;
    return weights_shape(l->w, name, &rows, &columns);
}

static float *load_vector(const loading *l, const char *format, int64_t layer, const char *suffix, int64_t count) {
    char name[NAME_MOST];
    name_array(format, layer, suffix, name);
    return weights_load(l->w, name, 0, count, l->to);
}

static int load_norm(const loading *l, const char *format, int64_t layer, model_norm *n) {
    n->weight = load_vector(l, format, layer, ".weight", l->m->config.width);
    if (n->weight != NULL && l->m->config.gpt2)
        n->bias = load_vector(l, format, layer, ".bias", l->m->config.width);
    return n->weight != NULL && (n->bias != NULL || !l->m->config.gpt2) ? 0 : -1;
}

/* Floats become elements of the model's type, in place of the floats. */
static void *typed(const loading *l, float *values, int64_t count) {
    if (l->m->dtype == FOVEA_DTYPE_F32 || values == NULL)
        return values;
    void *to = malloc((size_t)(count * model_element(l->m->dtype)) + 1);
    if (to == NULL)
        out_of_memory(l);
    else if (fovea_convert(count, values, FOVEA_DTYPE_F32, to, l->m->dtype) != FOVEA_OK) {
        model_failed(l->m, "weights", l->to);
        free(to);
        to = NULL;
    }
    free(values);
    return to;
}

/* The type in which a piece is packed as it is stored, or 0. */
static fovea_dtype stored_as(const loading *l, const piece *p, int64_t layer) {
    char name[NAME_MOST];
    name_array(p->name, layer, ".weight", name);
    const bool whole = p->first == 0 && p->out == p->all && !l->m->config.names->in_out;
    return l->m->stored && whole ? weights_quantised(l->w, name) : 0;
}

static int load_bias(const loading *l, const piece *p, int64_t layer, fovea_linear_part *part, void *memory[2]) {
    char name[NAME_MOST];
    name_array(p->name, layer, ".bias", name);
    if (!has(l, name))
        return 0;
    memory[1] = weights_load(l->w, name, 0, p->all, l->to);
    if (memory[1] == NULL)
        return -1;
    part->bias = (float *)memory[1] + p->first;
    part->bias_dtype = FOVEA_DTYPE_F32;
    return 0;
}

/* A matrix and its bias, if the array has one, as a part of a map. What is allocated is in memory[2]. */
static int load_part(const loading *l, const piece *p, int64_t layer, int64_t in, fovea_linear_part *part,
                     void *memory[2]) {
    const bool in_out = l->m->config.names->in_out;
    const fovea_dtype dtype = l->m->dtype;
    char name[NAME_MOST];
    name_array(p->name, layer, ".weight", name);
    const fovea_dtype stored = stored_as(l, p, layer);
    if (stored != 0) {
        memory[0] = weights_load_stored(l->w, name, p->all, in, l->to);
        part->weight = fovea_matrix_out_in(memory[0], stored, p->out, in);
        return memory[0] != NULL ? load_bias(l, p, layer, part, memory) : -1;
    }
    float *values = weights_load(l->w, name, in_out ? in : p->all, in_out ? p->all : in, l->to);
    char *matrix = memory[0] = typed(l, values, in * p->all);
    if (matrix == NULL)
        return -1;
    const int64_t size = model_element(dtype);
    part->weight = in_out ? fovea_matrix_in_out(matrix + p->first * size, dtype, in, p->out)
                          : fovea_matrix_out_in(matrix + p->first * in * size, dtype, p->out, in);
    if (in_out)
        part->weight.in_stride = p->all;
    return load_bias(l, p, layer, part, memory);
}

static fovea_arithmetic arithmetic_of(const loading *l, fovea_dtype weights) {
    const bool floats = weights == FOVEA_DTYPE_F32 || weights == FOVEA_DTYPE_BF16 || weights == FOVEA_DTYPE_F16;
    return floats ? FOVEA_ARITHMETIC_DEFAULT : l->m->arithmetic;
}

/* Packs the pieces, which are stored alike, as one map. y_dtype 0: the model's. */
static int load_map(const loading *l, const piece *pieces, int count, int64_t layer, int64_t in,
                    fovea_activation activation, fovea_dtype y_dtype, fovea_linear **map) {
    fovea_linear_part parts[PARTS] = {0};
    void *memory[PARTS][2] = {{0}};
    int status = 0;
    for (int i = 0; status == 0 && i < count; i++)
        status = load_part(l, &pieces[i], layer, in, &parts[i], memory[i]);
    if (status == 0) {
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        desc.dtype = l->m->dtype;
        desc.y_dtype = y_dtype;
        desc.activation = activation;
        desc.in_features = in;
        desc.part_count = count;
        desc.parts = parts;
        desc.arithmetic = arithmetic_of(l, parts[0].weight.dtype);
        if (fovea_linear_pack(l->m->ctx, &desc, map) != FOVEA_OK)
            status = model_failed(l->m, pieces[0].name, l->to);
        l->m->token_bytes += (int64_t)fovea_linear_weight_bytes(*map);
    }
    for (int i = 0; i < count; i++) {
        free(memory[i][0]);
        free(memory[i][1]);
    }
    return status;
}

static bool alike(const loading *l, const piece *pieces, int count, int64_t layer) {
    for (int i = 1; i < count; i++)
        if (stored_as(l, &pieces[i], layer) != stored_as(l, &pieces[0], layer))
            return false;
    return true;
}

static int load_qkv(const loading *l, int64_t layer, fovea_linear *map[PARTS]) {
    const config *c = &l->m->config;
    const int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim, all = q + 2 * kv;
    const char *const *names = c->names->qkv;
    const piece apart[PARTS] = {{names[0], q, 0, q}, {names[1], kv, 0, kv}, {names[2], kv, 0, kv}};
    const piece together[PARTS] = {{names[0], q, 0, all}, {names[0], kv, q, all}, {names[0], kv, q + kv, all}};
    const piece *pieces = names[1] != NULL ? apart : together;
    if (alike(l, pieces, PARTS, layer))
        return load_map(l, pieces, PARTS, layer, c->width, FOVEA_ACTIVATION_NONE, 0, &map[0]);
    for (int i = 0; i < PARTS; i++)
        if (load_map(l, &pieces[i], 1, layer, c->width, FOVEA_ACTIVATION_NONE, 0, &map[i]) != 0)
            return -1;
    return 0;
}

static int load_layer(const loading *l, int64_t layer, model_layer *to) {
    const config *c = &l->m->config;
    const config_names *n = c->names;
    const int64_t heads = c->heads * c->head_dim;
    const piece out = {n->out, c->width, 0, c->width}, down = {n->down, c->width, 0, c->width};
    const piece up[] = {{n->gate, c->inner, 0, c->inner}, {n->up, c->inner, 0, c->inner}};
    const int gate = n->gate != NULL;
    if (gate && !alike(l, up, 2, layer))
        return complain(l->to, l->m->path, "stores %s in two types, which --weights typed can run", n->up);
    if (load_norm(l, n->attention_norm, layer, &to->attention) != 0 ||
        load_norm(l, n->feed_norm, layer, &to->feed) != 0 || load_qkv(l, layer, to->qkv) != 0 ||
        load_map(l, &out, 1, layer, heads, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32, &to->out) != 0 ||
        load_map(l, gate ? up : up + 1, 1 + gate, layer, c->width,
                 gate ? FOVEA_ACTIVATION_SILU_GATED : FOVEA_ACTIVATION_GELU_TANH, 0, &to->up) != 0)
        return -1;
    return load_map(l, &down, 1, layer, c->inner, FOVEA_ACTIVATION_NONE, FOVEA_DTYPE_F32, &to->down);
}

/* The matrix of words or that of the head: as it is stored, or in the model's type. */
static void *load_rows(const loading *l, const char *name, fovea_dtype *dtype) {
    const config *c = &l->m->config;
    *dtype = l->m->stored ? weights_quantised(l->w, name) : 0;
    if (*dtype != 0)
        return weights_load_stored(l->w, name, c->words, c->width, l->to);
    *dtype = l->m->dtype;
    return typed(l, weights_load(l->w, name, c->words, c->width, l->to), c->words * c->width);
}

/* The words, which are also the head unless the file has one. */
static int load_words(const loading *l) {
    model *m = l->m;
    const config *c = &m->config;
    if ((m->words = load_rows(l, c->names->words, &m->words_dtype)) == NULL)
        return -1;
    m->words_bytes = m->words_dtype == m->dtype ? c->words * c->width * model_element(m->dtype)
                                                : weights_stored_bytes(l->w, c->names->words);
    const bool own = has(l, c->names->head);
    fovea_dtype dtype = m->words_dtype;
    void *rows = own ? load_rows(l, c->names->head, &dtype) : m->words;
    if (rows == NULL)
        return -1;
    fovea_linear_desc desc;
    fovea_linear_desc_init(&desc);
    desc.dtype = m->dtype;
    desc.y_dtype = FOVEA_DTYPE_F32;
    desc.in_features = c->width;
    desc.arithmetic = arithmetic_of(l, dtype);
    desc.part.weight = fovea_matrix_out_in(rows, dtype, c->words, c->width);
    const fovea_status status = fovea_linear_pack(m->ctx, &desc, &m->head);
    m->token_bytes += (int64_t)fovea_linear_weight_bytes(m->head);
    if (own)
        free(rows);
    return status == FOVEA_OK ? 0 : model_failed(m, c->names->head, l->to);
}

static int load_positions(const loading *l) {
    model *m = l->m;
    config *c = &m->config;
    if (c->gpt2) {
        m->places = weights_load(l->w, c->names->places, c->most_tokens, c->width, l->to);
        return m->places != NULL ? 0 : -1;
    }
    float *divisors = NULL;
    if (has(l, "rope_freqs.weight") &&
        (divisors = weights_load(l->w, "rope_freqs.weight", 0, c->rope.rotary_dim / 2, l->to)) == NULL)
        return -1;
    c->rope.divisors = divisors;
    const fovea_status status = fovea_rope_create(&c->rope, &m->rope);
    c->rope.divisors = NULL;
    free(divisors);
    return status == FOVEA_OK ? 0 : model_failed(m, "rotary embedding", l->to);
}

static int load(loading *l) {
    model *m = l->m;
    if (config_read(l->w, &m->config, l->to) != 0 || load_words(l) != 0 || load_positions(l) != 0 ||
        load_norm(l, m->config.names->last, 0, &m->last) != 0)
        return -1;
    m->layers = calloc((size_t)m->config.layers, sizeof *m->layers);
    if (m->layers == NULL)
        return out_of_memory(l);
    for (int64_t i = 0; i < m->config.layers; i++)
        if (load_layer(l, i, &m->layers[i]) != 0)
            return -1;
    return weights_all_loaded(l->w, l->to);
}

int model_load(const fovea_context *ctx, const char *path, model_types types, model **out, complaint to) {
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
        m->dtype = types.dtype;
        m->stored = types.stored;
        m->arithmetic = types.arithmetic;
        status = load(&l);
    }
    weights_close(l.w);
    if (status == 0)
        *out = m;
    else
        model_free(m);
    return status;
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
        free_norm(&l->attention);
        free_norm(&l->feed);
        for (int p = 0; p < PARTS; p++)
            fovea_linear_destroy(l->qkv[p]);
        fovea_linear_destroy(l->out);
        fovea_linear_destroy(l->up);
        fovea_linear_destroy(l->down);
    }
    free(m->layers);
    free_norm(&m->last);
    free(m->words);
    free(m->places);
    fovea_linear_destroy(m->head);
    fovea_rope_destroy(m->rope);
    free(m->path);
    free(m);
}

const config *model_config(const model *m) { return &m->config; }
int64_t model_token_bytes(const model *m) { return m->token_bytes; }

/* Reading an encoder's weights from a file (encoder.h): every array by its name in BertModel, each of the shape that
 * the others ask for. What is packed is freed at once, so that a model is in memory once. */
#include "encoder_weights.h"
#include "safetensors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 128 };

/* A file being loaded, and where to complain. */
typedef struct loading {
    safetensors *file;
    encoder *e;
    complaint to;
} loading;

/* An array of rows x columns floats (rows 0: of columns), allocated; NULL after a complaint. */
static float *load_array(const loading *l, int64_t rows, int64_t columns, const char *name) {
    const int64_t shape[] = {rows, columns}, dims = rows > 0 ? 2 : 1;
    const safetensors_tensor *t = safetensors_need(l->file, name, (int)dims, shape + 2 - dims, l->to);
    if (t == NULL)
        return NULL;
    float *values = malloc((size_t)t->elements * sizeof *values + 1);
    if (values == NULL)
        encoder_out_of_memory(l->e, l->to);
    else if (safetensors_read_f32(l->file, t, values, l->to) == 0)
        return values;
    free(values);
    return NULL;
}

/* The same for PREFIX.SUFFIX; layer >= 0: with the layer's place in the model before it. */
static float *load_part(const loading *l, int64_t index, const char *prefix, const char *suffix, int64_t rows,
                        int64_t columns) {
    char name[NAME_MOST];
    if (index >= 0)
        snprintf(name, sizeof name, "encoder.layer.%lld.%s.%s", (long long)index, prefix, suffix);
    else
        snprintf(name, sizeof name, "%s.%s", prefix, suffix);
    return load_array(l, rows, columns, name);
}

static int load_norm(const loading *l, int64_t index, const char *name, encoder_norm *n) {
    n->weight = load_part(l, index, name, "weight", 0, l->e->shape.width);
    n->bias = n->weight != NULL ? load_part(l, index, name, "bias", 0, l->e->shape.width) : NULL;
    return n->bias != NULL ? 0 : -1;
}

/* y = activation(x W + b), packed. */
static int load_linear(const loading *l, int64_t index, const char *name, int64_t in, int64_t out,
                       fovea_activation activation, fovea_linear **linear) {
    float *weight = load_part(l, index, name, "weight", out, in);
    float *bias = weight != NULL ? load_part(l, index, name, "bias", 0, out) : NULL;
    int status = -1;
    if (bias != NULL) {
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        desc.in_features = in;
        desc.part.weight = fovea_matrix_out_in(weight, FOVEA_DTYPE_F32, out, in);
        desc.part.bias = bias;
        desc.activation = activation;
        status = fovea_linear_pack(l->e->ctx, &desc, linear) == FOVEA_OK ? 0 : encoder_failed(l->e, name, l->to);
    }
    free(weight);
    free(bias);
    return status;
}

/* Queries, keys and values as the parts of one map. */
static int load_qkv(const loading *l, int64_t index, fovea_linear **linear) {
    static const char *const names[] = {"attention.self.query", "attention.self.key", "attention.self.value"};
    const int64_t width = l->e->shape.width;
    float *arrays[6] = {0}; /* weight and bias of each */
    bool complete = true;
    for (int i = 0; complete && i < 6; i++) {
        arrays[i] = load_part(l, index, names[i / 2], i % 2 ? "bias" : "weight", i % 2 ? 0 : width, width);
        complete = arrays[i] != NULL;
    }
    int status = -1;
    if (complete) {
        fovea_linear_part parts[3] = {0};
        for (int i = 0; i < 3; i++) {
            parts[i].weight = fovea_matrix_out_in(arrays[2 * i], FOVEA_DTYPE_F32, width, width);
            parts[i].bias = arrays[2 * i + 1];
        }
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        desc.in_features = width;
        desc.part_count = 3;
        desc.parts = parts;
        status = fovea_linear_pack(l->e->ctx, &desc, linear) == FOVEA_OK ? 0 : encoder_failed(l->e, "attention", l->to);
    }
    for (int i = 0; i < 6; i++)
        free(arrays[i]);
    return status;
}

static int load_layer(const loading *l, int64_t index, encoder_layer *to) {
    const encoder_shape *s = &l->e->shape;
    if (load_qkv(l, index, &to->qkv) != 0 ||
        load_linear(l, index, "attention.output.dense", s->width, s->width, FOVEA_ACTIVATION_NONE, &to->out) != 0 ||
        load_norm(l, index, "attention.output.LayerNorm", &to->after_attention) != 0 ||
        load_linear(l, index, "intermediate.dense", s->width, s->inner, FOVEA_ACTIVATION_GELU, &to->inner) != 0 ||
        load_linear(l, index, "output.dense", s->inner, s->width, FOVEA_ACTIVATION_NONE, &to->outer) != 0)
        return -1;
    return load_norm(l, index, "output.LayerNorm", &to->after_outer);
}

static const char words_name[] = "embeddings.word_embeddings.weight";
static const char places_name[] = "embeddings.position_embeddings.weight";
static const char inner_name[] = "encoder.layer.0.intermediate.dense.weight";

/* The sizes that name all others. */
static int load_shape(const loading *l, int64_t heads) {
    static const int64_t any[] = {-1, -1};
    encoder_shape *s = &l->e->shape;
    const safetensors_tensor *words = safetensors_need(l->file, words_name, 2, any, l->to);
    const safetensors_tensor *places = words ? safetensors_need(l->file, places_name, 2, any, l->to) : NULL;
    const safetensors_tensor *inner = places ? safetensors_need(l->file, inner_name, 2, any, l->to) : NULL;
    if (inner == NULL)
        return -1;
    s->words = words->shape[0];
    s->width = words->shape[1];
    s->most_tokens = places->shape[0];
    s->inner = inner->shape[0];
    s->heads = heads;
    for (const safetensors_tensor *t = inner; t != NULL; s->layers++) {
        char name[NAME_MOST];
        snprintf(name, sizeof name, "encoder.layer.%lld.intermediate.dense.weight", (long long)s->layers + 1);
        t = safetensors_find(l->file, name);
    }
    if (s->words < 1 || s->words > INT32_MAX || s->width < 1 || s->most_tokens < 1 || s->inner < 1 || heads < 1 ||
        s->width % heads != 0)
        return complain(
            l->to, l->e->path, "is no such model: %lld words, %lld tokens, widths %lld and %lld, %lld heads",
            (long long)s->words, (long long)s->most_tokens, (long long)s->width, (long long)s->inner, (long long)heads);
    return 0;
}

static int load_embeddings(const loading *l) {
    encoder *e = l->e;
    const encoder_shape *s = &e->shape;
    if ((e->words = load_array(l, s->words, s->width, words_name)) == NULL ||
        (e->places = load_array(l, s->most_tokens, s->width, places_name)) == NULL ||
        (e->type = load_array(l, 2, s->width, "embeddings.token_type_embeddings.weight")) == NULL)
        return -1;
    return load_norm(l, -1, "embeddings.LayerNorm", &e->embedded);
}

static int load(const loading *l, int64_t heads) {
    encoder *e = l->e;
    if (load_shape(l, heads) != 0 || load_embeddings(l) != 0)
        return -1;
    e->layers = calloc((size_t)e->shape.layers, sizeof *e->layers);
    if (e->layers == NULL)
        return encoder_out_of_memory(e, l->to);
    for (int64_t i = 0; i < e->shape.layers; i++)
        if (load_layer(l, i, &e->layers[i]) != 0)
            return -1;
    return 0;
}

int encoder_load(const fovea_context *ctx, const char *path, int64_t heads, encoder **encoder_out, complaint to) {
    loading l = {.to = to};
    *encoder_out = NULL;
    if (safetensors_open(path, &l.file, to) != 0)
        return -1;
    encoder *e = l.e = calloc(1, sizeof *e);
    int status = -1;
    if (e == NULL || (e->path = malloc(strlen(path) + 1)) == NULL) {
        complain(to, path, "out of memory");
    } else {
        strcpy(e->path, path);
        e->ctx = ctx;
        status = load(&l, heads);
    }
    safetensors_close(l.file);
    if (status == 0)
        *encoder_out = e;
    else
        encoder_free(e);
    return status;
}

static void free_norm(encoder_norm *n) {
    free(n->weight);
    free(n->bias);
}

void encoder_free(encoder *e) {
    if (e == NULL)
        return;
    for (int64_t i = 0; e->layers != NULL && i < e->shape.layers; i++) {
        encoder_layer *l = &e->layers[i];
        fovea_linear_destroy(l->qkv);
        fovea_linear_destroy(l->out);
        fovea_linear_destroy(l->inner);
        fovea_linear_destroy(l->outer);
        free_norm(&l->after_attention);
        free_norm(&l->after_outer);
    }
    free(e->layers);
    free(e->words);
    free(e->places);
    free(e->type);
    free_norm(&e->embedded);
    free(e->path);
    free(e);
}

encoder_shape encoder_sizes(const encoder *e) { return e->shape; }

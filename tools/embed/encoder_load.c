/* Reading an encoder's weights from a file (encoder.h): every array by the name that its family gives it, each of the
 * shape that the others ask for. What is packed is freed at once, so that a model is in memory once. */
#include "encoder_weights.h"
#include "safetensors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 256, PREFIX_MOST = 64 };

/* A file being loaded, and where to complain. */
typedef struct loading {
    safetensors *file;
    encoder *e;
    const encoder_names *names;
    char prefix[PREFIX_MOST + 1]; /* of all names, as "bert." */
    complaint to;
} loading;

/* PREFIX.NAME.SUFFIX; index >= 0: with the layer's place in the model before NAME. SUFFIX may be empty. */
static void name_array(const loading *l, int64_t index, const char *name, const char *suffix, char text[NAME_MOST]) {
    char layer[NAME_MOST / 4] = "";
    if (index >= 0)
        snprintf(layer, sizeof layer, "%s%lld.", l->names->layer, (long long)index);
    snprintf(text, NAME_MOST, "%s%s%s%s%s", l->prefix, layer, name, *suffix ? "." : "", suffix);
}

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

/* Is a map kept [in, out]? */
static bool keeps_in_out(const loading *l) { return l->names->in_out && l->e->config.weights == 0; }

/* Floats of a map or of words as the model keeps them. */
static int put_rows(const loading *l, const float *values, int64_t in, int64_t out, bool in_out, void *rows) {
    const encoder_config *c = &l->e->config;
    const fovea_matrix from = in_out ? fovea_matrix_in_out(values, FOVEA_DTYPE_F32, in, out)
                                     : fovea_matrix_out_in(values, FOVEA_DTYPE_F32, out, in);
    const fovea_status status = c->weights != 0 ? fovea_quantize(l->e->ctx, &from, c->weights, NULL, rows, NULL, NULL)
                                                : fovea_convert(in * out, values, FOVEA_DTYPE_F32, rows, c->dtype);
    return status == FOVEA_OK ? 0 : encoder_failed(l->e, "weights", l->to);
}

static float *load_part(const loading *l, int64_t index, const char *name, const char *suffix, int64_t rows,
                        int64_t columns) {
    char text[NAME_MOST];
    name_array(l, index, name, suffix, text);
    return load_array(l, rows, columns, text);
}

/* A bias, or NULL where there may be none. */
static int load_bias(const loading *l, int64_t index, const char *name, const char *suffix, int64_t count,
                     float **bias) {
    char text[NAME_MOST];
    name_array(l, index, name, suffix, text);
    *bias = NULL;
    if (l->names->no_bias && safetensors_find(l->file, text) == NULL)
        return 0;
    *bias = load_array(l, 0, count, text);
    return *bias != NULL ? 0 : -1;
}

/* Some files have TensorFlow's names: gamma and beta. */
static int load_norm(const loading *l, int64_t index, const char *name, encoder_norm *n) {
    char old[NAME_MOST];
    name_array(l, index, name, "gamma", old);
    const bool is_old = safetensors_find(l->file, old) != NULL;
    n->weight = load_part(l, index, name, is_old ? "gamma" : "weight", 0, l->e->shape.width);
    return n->weight != NULL ? load_bias(l, index, name, is_old ? "beta" : "bias", l->e->shape.width, &n->bias) : -1;
}

/* The weights of a map of in channels to out, of which a part begins at the output channel first. */
static fovea_matrix matrix_of(const loading *l, const void *weight, int64_t in, int64_t all, int64_t first,
                              int64_t out) {
    const encoder_config *c = &l->e->config;
    const fovea_dtype dtype = c->weights != 0 ? c->weights : c->dtype;
    const bool in_out = keeps_in_out(l);
    const char *from =
        (const char *)weight + (size_t)first * (in_out ? encoder_element(l->e) : encoder_row_bytes(l->e, in));
    fovea_matrix m = in_out ? fovea_matrix_in_out(from, dtype, in, out) : fovea_matrix_out_in(from, dtype, out, in);
    if (in_out)
        m.in_stride = all;
    return m;
}

/* A map as the model keeps it, allocated; NULL after a complaint. */
static void *load_weight(const loading *l, int64_t index, const char *name, int64_t in, int64_t out) {
    const bool in_out = l->names->in_out;
    float *values = load_part(l, index, name, "weight", in_out ? in : out, in_out ? out : in);
    void *rows = values != NULL ? malloc((size_t)out * encoder_row_bytes(l->e, in) + 1) : NULL;
    if (values != NULL && rows == NULL)
        encoder_out_of_memory(l->e, l->to);
    else if (rows != NULL && put_rows(l, values, in, out, in_out, rows) != 0) {
        free(rows);
        rows = NULL;
    }
    free(values);
    return rows;
}

/* Words, some rows at a time: as floats they take most of the memory of a model. */
static int load_words(const loading *l) {
    enum { ROWS = 256 };
    encoder *e = l->e;
    const int64_t words = e->shape.words, width = e->shape.width;
    const size_t row_bytes = encoder_row_bytes(e, width);
    char name[NAME_MOST];
    name_array(l, -1, l->names->words, "", name);
    const safetensors_tensor *t = safetensors_find(l->file, name);
    float *some = malloc((size_t)(ROWS * width) * sizeof *some);
    e->words = malloc((size_t)words * row_bytes + 1);
    int status = e->words != NULL && some != NULL ? 0 : encoder_out_of_memory(e, l->to);
    for (int64_t row = 0; status == 0 && row < words; row += ROWS) {
        const int64_t count = words - row < ROWS ? words - row : ROWS;
        status = safetensors_read_part(l->file, t, row * width, count * width, some, l->to);
        if (status == 0)
            status = put_rows(l, some, width, count, false, (char *)e->words + (size_t)row * row_bytes);
    }
    free(some);
    return status;
}

/* y = activation(x W + b), packed; of parts that lie one behind the other in the file. */
static int load_linear(const loading *l, int64_t index, const char *name, int64_t in, int64_t out, int64_t part_count,
                       fovea_activation activation, fovea_linear **linear) {
    const int64_t all = part_count * out;
    void *weight = load_weight(l, index, name, in, all);
    float *bias = NULL;
    int status = -1;
    if (weight != NULL && load_bias(l, index, name, "bias", all, &bias) == 0) {
        fovea_linear_part parts[2] = {0};
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        for (int64_t p = 0; p < part_count; p++) {
            parts[p].weight = matrix_of(l, weight, in, all, p * out, out);
            parts[p].bias = bias != NULL ? bias + p * out : NULL;
            parts[p].bias_dtype = FOVEA_DTYPE_F32;
        }
        desc.dtype = l->e->config.dtype;
        desc.in_features = in;
        desc.part_count = part_count;
        desc.parts = parts;
        desc.activation = activation;
        status = fovea_linear_create(l->e->ctx, &desc, linear) == FOVEA_OK ? 0 : encoder_failed(l->e, name, l->to);
    }
    free(weight);
    free(bias);
    return status;
}

/* Queries, keys and values as the parts of one map, from three arrays or one. */
static int load_qkv(const loading *l, int64_t index, fovea_linear **linear) {
    const int64_t width = l->e->shape.width;
    const bool fused = l->names->qkv[1] == NULL;
    const int arrays = fused ? 1 : 3;
    void *weight[3] = {0};
    float *bias[3] = {0};
    bool complete = true;
    for (int i = 0; complete && i < arrays; i++) {
        weight[i] = load_weight(l, index, l->names->qkv[i], width, fused ? 3 * width : width);
        complete = weight[i] != NULL &&
                   load_bias(l, index, l->names->qkv[i], "bias", fused ? 3 * width : width, &bias[i]) == 0;
    }
    int status = -1;
    if (complete) {
        fovea_linear_part parts[3] = {0};
        for (int i = 0; i < 3; i++) {
            parts[i].weight = fused ? matrix_of(l, weight[0], width, 3 * width, i * width, width)
                                    : matrix_of(l, weight[i], width, width, 0, width);
            parts[i].bias = fused && bias[0] != NULL ? bias[0] + i * width : bias[i];
            parts[i].bias_dtype = FOVEA_DTYPE_F32;
        }
        fovea_linear_desc desc;
        fovea_linear_desc_init(&desc);
        desc.dtype = l->e->config.dtype;
        desc.in_features = width;
        desc.part_count = 3;
        desc.parts = parts;
        status =
            fovea_linear_create(l->e->ctx, &desc, linear) == FOVEA_OK ? 0 : encoder_failed(l->e, "attention", l->to);
    }
    for (int i = 0; i < 3; i++) {
        free(weight[i]);
        free(bias[i]);
    }
    return status;
}

static int load_layer(const loading *l, int64_t index, encoder_layer *to) {
    const encoder_shape *s = &l->e->shape;
    const encoder_names *n = l->names;
    char norm[NAME_MOST];
    name_array(l, index, n->attention_norm, "weight", norm);
    const bool first = n->no_bias && index == 0 && safetensors_find(l->file, norm) == NULL; /* has no such norm */
    if (load_qkv(l, index, &to->qkv) != 0 ||
        load_linear(l, index, n->out, s->width, s->width, 1, FOVEA_ACTIVATION_NONE, &to->out) != 0 ||
        (!first && load_norm(l, index, n->attention_norm, &to->attention) != 0) ||
        load_linear(l, index, n->inner, s->width, s->inner, n->gated ? 2 : 1, l->e->config.activation, &to->inner) !=
            0 ||
        load_linear(l, index, n->outer, s->inner, s->width, 1, FOVEA_ACTIVATION_NONE, &to->outer) != 0)
        return -1;
    return load_norm(l, index, n->outer_norm, &to->feed_forward);
}

/* The prefix of all names: the shortest, where there are several. */
static void find_prefix(loading *l) {
    const size_t length = strlen(l->names->words);
    size_t shortest = PREFIX_MOST + 1;
    for (int64_t i = 0; i < safetensors_count(l->file); i++) {
        const char *name = safetensors_at(l->file, i)->name;
        const size_t all = strlen(name), before = all - length;
        if (all < length || strcmp(name + before, l->names->words) != 0 || (before > 0 && name[before - 1] != '.') ||
            before >= shortest)
            continue;
        shortest = before;
        snprintf(l->prefix, sizeof l->prefix, "%.*s", (int)before, name);
    }
}

/* The array whose name and shape name all others' sizes. */
static const safetensors_tensor *need_matrix(const loading *l, int64_t index, const char *name, const char *suffix) {
    static const int64_t any[] = {-1, -1};
    char text[NAME_MOST];
    name_array(l, index, name, suffix, text);
    return safetensors_need(l->file, text, 2, any, l->to);
}

static int load_shape(const loading *l) {
    encoder_shape *s = &l->e->shape;
    const encoder_config *c = &l->e->config;
    const safetensors_tensor *words = need_matrix(l, -1, l->names->words, "");
    const safetensors_tensor *places = words && l->names->places ? need_matrix(l, -1, l->names->places, "") : NULL;
    const bool placed = places != NULL || l->names->places == NULL;
    const safetensors_tensor *inner = words && placed ? need_matrix(l, 0, l->names->inner, "weight") : NULL;
    if (inner == NULL)
        return -1;
    s->words = words->shape[0];
    s->width = words->shape[1];
    s->most_tokens = places != NULL ? places->shape[0] - c->first_place : c->places;
    s->inner = inner->shape[l->names->in_out] / (l->names->gated ? 2 : 1);
    s->heads = c->heads;
    for (const safetensors_tensor *t = inner; t != NULL; s->layers++) {
        char name[NAME_MOST];
        name_array(l, s->layers + 1, l->names->inner, "weight", name);
        t = safetensors_find(l->file, name);
    }
    if (s->words < 1 || s->words > INT32_MAX || s->width < 1 || s->most_tokens < 1 || s->inner < 1 || s->heads < 1 ||
        s->width % s->heads != 0)
        return complain(l->to, l->e->path,
                        "is no such model: %lld words, %lld tokens, widths %lld and %lld, %lld heads",
                        (long long)s->words, (long long)s->most_tokens, (long long)s->width, (long long)s->inner,
                        (long long)s->heads);
    return 0;
}

/* MPNet's [buckets][heads], as attention takes them. */
static int load_relative(const loading *l) {
    const int64_t heads = l->e->shape.heads;
    float *table = load_part(l, -1, l->names->relative, "", ENCODER_BUCKETS, heads);
    float *turned = table != NULL ? malloc((size_t)(ENCODER_BUCKETS * heads) * sizeof *turned) : NULL;
    for (int64_t i = 0; turned != NULL && i < ENCODER_BUCKETS * heads; i++)
        turned[i % heads * ENCODER_BUCKETS + i / heads] = table[i];
    l->e->relative = turned;
    if (table != NULL && turned == NULL)
        encoder_out_of_memory(l->e, l->to);
    free(table);
    return turned != NULL ? 0 : -1;
}

static int make_ropes(const loading *l) {
    const double bases[2] = {l->e->config.global_base, l->e->config.local_base};
    for (int local = 0; local < 2; local++) {
        fovea_rope_desc desc;
        fovea_rope_desc_init(&desc);
        desc.rotary_dim = l->e->shape.width / l->e->shape.heads;
        desc.base = bases[local];
        if (fovea_rope_create(&desc, &l->e->rope[local]) != FOVEA_OK)
            return encoder_failed(l->e, "rotary embeddings", l->to);
    }
    return 0;
}

static int load_embeddings(const loading *l) {
    encoder *e = l->e;
    const encoder_names *n = l->names;
    const encoder_shape *s = &e->shape;
    const safetensors_tensor *types = n->type != NULL ? need_matrix(l, -1, n->type, "") : NULL;
    if (load_words(l) != 0 ||
        (n->places != NULL &&
         (e->places = load_part(l, -1, n->places, "", s->most_tokens + e->config.first_place, s->width)) == NULL) ||
        (n->type != NULL &&
         (types == NULL || (e->type = load_part(l, -1, n->type, "", types->shape[0], s->width)) == NULL)) ||
        (n->relative != NULL && load_relative(l) != 0) || (e->config.global_base > 0 && make_ropes(l) != 0))
        return -1;
    return n->embedded != NULL ? load_norm(l, -1, n->embedded, &e->embedded) : 0;
}

static int load(loading *l) {
    encoder *e = l->e;
    find_prefix(l);
    if (load_shape(l) != 0 || load_embeddings(l) != 0)
        return -1;
    if (e->config.most_tokens > 0 && e->config.most_tokens < e->shape.most_tokens)
        e->shape.most_tokens = e->config.most_tokens;
    e->layers = calloc((size_t)e->shape.layers, sizeof *e->layers);
    if (e->layers == NULL)
        return encoder_out_of_memory(e, l->to);
    for (int64_t i = 0; i < e->shape.layers; i++)
        if (load_layer(l, i, &e->layers[i]) != 0)
            return -1;
    return l->names->last_norm != NULL ? load_norm(l, -1, l->names->last_norm, &e->last) : 0;
}

int encoder_load_as(const fovea_context *ctx, const char *path, const encoder_config *config, encoder **encoder_out,
                    complaint to) {
    loading l = {.names = config->names, .to = to};
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
        e->config = *config;
        status = load(&l);
    }
    safetensors_close(l.file);
    if (status == 0)
        *encoder_out = e;
    else
        encoder_free(e);
    return status;
}

int encoder_load(const fovea_context *ctx, const char *path, int64_t heads, fovea_dtype dtype, encoder **e,
                 complaint to) {
    encoder_config config = encoder_config_bert(heads);
    if (dtype == FOVEA_DTYPE_Q8_0)
        config.weights = dtype;
    else
        config.dtype = dtype;
    return encoder_load_as(ctx, path, &config, e, to);
}

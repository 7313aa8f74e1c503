/* A safetensors file as compressed-tensors names its parts, and its quantization_config. Of X.weight:
 *
 *   int4   X.weight_packed  I32 [out, in / 8], the first element in the lowest bits, each 8 more than its value
 *          X.weight_scale   F16 [out, groups]
 *          X.weight_shape   I64 [2], out and in
 *   int8   X.weight         I8 [out, in]
 *          X.weight_scale   F32 [out, 1], or F16 [out, groups] */
#include "convert.h"

#include <jansson.h>

#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 1024 };

static bool ends_with_weight(const char *name) {
    const size_t length = strlen(name);
    return length >= 6 && strcmp(name + length - 6, "weight") == 0;
}

static int64_t groups_of(const options *opts, const array *t) {
    const bool four = opts->type == TYPE_INT4;
    const int64_t size = opts->group_size > 0 ? opts->group_size : four ? 32 : t->shape[1];
    return t->shape[1] / size;
}

typedef struct listing {
    json_t *header;
    int64_t place;
    char twice[NAME_MOST]; /* a name that came twice, or "" */
    bool failed;           /* one is not there */
} listing;

static void add(listing *l, const char *name, const char *suffix, const char *type, int dims, const int64_t *shape,
                int64_t bytes) {
    char whole[NAME_MOST];
    json_t *sizes = json_array();
    for (int i = 0; i < dims; i++)
        json_array_append_new(sizes, json_integer(shape[i]));
    snprintf(whole, sizeof whole, "%s%s", name, suffix);
    if (json_object_get(l->header, whole) != NULL)
        strcpy(l->twice, whole);
    json_t *entry = json_pack("{s:s, s:o, s:[I,I]}", "dtype", type, "shape", sizes, "data_offsets",
                              (json_int_t)l->place, (json_int_t)(l->place + bytes));
    l->failed = json_object_set_new(l->header, whole, entry) != 0 || l->failed;
    l->place += bytes;
}

static void add_quantized(const options *opts, listing *l, const array *t) {
    const bool four = opts->type == TYPE_INT4;
    const int64_t packed[] = {t->shape[0], t->shape[1] / 8}, scales[] = {t->shape[0], groups_of(opts, t)}, two = 2;
    const bool wide = !four && opts->group_size == 0;
    if (four)
        add(l, t->name, "_packed", "I32", 2, packed, (int64_t)t->data);
    else
        add(l, t->name, "", "I8", 2, t->shape, (int64_t)t->data);
    add(l, t->name, "_scale", wide ? "F32" : "F16", 2, scales, (int64_t)t->scales);
    if (four)
        add(l, t->name, "_shape", "I64", 1, &two, 16);
}

static int end(whole_file *o, const array *t, complaint to) {
    uint8_t shape[16];
    for (int i = 0; i < 16; i++)
        shape[i] = (uint8_t)((uint64_t)t->shape[i / 8] >> i % 8 * 8);
    return t->type == TYPE_INT4 ? whole_file_write(o, shape, sizeof shape, to) : 0;
}

/* The part of config.json about the weights. */
static json_t *describe(const options *opts, const arrays *a) {
    const bool four = opts->type == TYPE_INT4, groups = four || opts->group_size > 0;
    json_t *ignored = json_array();
    for (int64_t i = 0; i < a->count; i++) {
        const array *t = &a->at[i];
        if (t->dims == 2 && t->type == TYPE_KEEP && ends_with_weight(t->name))
            json_array_append_new(ignored, json_stringn(t->name, strlen(t->name) - strlen(".weight")));
    }
    json_t *size = groups ? json_integer(opts->group_size > 0 ? opts->group_size : 32) : json_null();
    return json_pack("{s:s, s:s, s:s, s:{s:{s:[s], s:{s:i, s:s, s:b, s:b, s:s, s:o}, s:n, s:n}}, s:o, s:n}",
                     "quant_method", "compressed-tensors", "format", four ? "pack-quantized" : "int-quantized",
                     "quantization_status", "compressed", "config_groups", "group_0", "targets", "Linear", "weights",
                     "num_bits", four ? 4 : 8, "type", "int", "symmetric", 1, "dynamic", 0, "strategy",
                     groups ? "group" : "channel", "group_size", size, "input_activations", "output_activations",
                     "ignore", ignored, "kv_cache_scheme");
}

char *write_config(const options *opts, const arrays *a, complaint to) {
    char path[WHOLE_FILE_PATH];
    json_error_t error;
    json_t *root = NULL;
    if (weights_gguf(a->w) == NULL &&
        snprintf(path, sizeof path, "%s/config.json", weights_folder(a->w)) < (int)sizeof path)
        root = json_load_file(path, 0, &error);
    if (!json_is_object(root)) {
        json_decref(root);
        root = json_object();
    }
    json_object_set_new(root, "quantization_config", describe(opts, a));
    char *text = json_dumps(root, JSON_INDENT(2));
    json_decref(root);
    if (text == NULL)
        complain(to, opts->output, "out of memory");
    return text;
}

static int check(const arrays *a, complaint to) {
    for (int64_t i = 0; i < a->count; i++) {
        const array *t = &a->at[i];
        if (strlen(t->name) > NAME_MOST - 16)
            return complain(to, weights_path(a->w), "a tensor has a name of more than %d bytes", NAME_MOST - 16);
        if (t->type == TYPE_KEEP && t->in_gguf != NULL && gguf_quantized(t->in_gguf->type))
            return complain(to, weights_path(a->w), "%s is of type %s, which safetensors has not", t->name, t->stored);
    }
    return 0;
}

int write_safetensors(const options *opts, const arrays *a, whole_file *o, complaint to) {
    if (check(a, to) != 0)
        return -1;
    listing l = {.header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt")};
    for (int64_t i = 0; i < a->count; i++) {
        const array *t = &a->at[i];
        if (t->type != TYPE_KEEP)
            add_quantized(opts, &l, t);
        else
            add(&l, t->name, "", t->stored, t->dims, t->shape, t->bytes);
    }
    char *text = l.failed ? NULL : json_dumps(l.header, JSON_COMPACT);
    json_decref(l.header);
    if (l.twice[0] != '\0') {
        free(text);
        return complain(to, weights_path(a->w),
                        "two tensors would be named %s: --keep the weight whose scale, integers or shape that is",
                        l.twice);
    }
    if (text == NULL)
        return complain(to, o->path, "a name is no UTF-8, or there is no memory");
    const int64_t length = (int64_t)strlen(text), padded = (length + 7) / 8 * 8;
    uint8_t prefix[8];
    for (int i = 0; i < 8; i++)
        prefix[i] = (uint8_t)((uint64_t)padded >> 8 * i);
    const int status = whole_file_write(o, prefix, 8, to) == 0 && whole_file_write(o, text, length, to) == 0 &&
                               whole_file_write(o, "       ", padded - length, to) == 0
                           ? 0
                           : -1;
    free(text);
    return status == 0 ? convert(opts, a, o, end, to) : -1;
}
